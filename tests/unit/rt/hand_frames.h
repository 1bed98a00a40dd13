/* SPDX-License-Identifier: Apache-2.0 */
/* Frames written by hand: hex text, blanks ignored, and what decoding them gives. */
#ifndef DSR_TEST_HAND_FRAMES_H
#define DSR_TEST_HAND_FRAMES_H

#include <errno.h>

struct hand_frame {
	const char *hex;
	int want;
	const char *what;
};

static const struct hand_frame hand_frames[] = {
	{"96 01 18 05 06 07 91 92 01 02", 0, "two leases"},
	{"96 01 18 05 06 07 91 90", 0, "no lease"},
	{"96 01 18 05 06 07 91 91 cf ffffffffffffffff", 0, "the greatest number"},
	{"96 01 18 05 06 07 91 91 d3 0000000000000005", 0, "a positive signed number"},
	{"96 01 18 05 06 07 91 91 ff", -EBADMSG, "a negative lease"},
	{"96 01 18 05 06 07 91 91 ca 3f800000", -EBADMSG, "a float"},
	{"96 01 18 05 06 07 91 91 c0", -EBADMSG, "nil"},
	{"96 01 18 05 06 07 91 91 91 01", -EBADMSG, "an array in the list"},
	{"96 01 18 05 06 07 91 91 90", -EBADMSG, "an empty array in the list"},
	{"96 01 18 05 06 07 91 01", -EBADMSG, "a number where a list is wanted"},
	{"96 01 18 05 06 07 91 c4 00", -EBADMSG, "bytes where a list is wanted"},
	{"96 01 18 05 06 07 91 dd ffffffff", -EBADMSG, "a list longer than the frame"},
	{"96 01 18 05 06 07 91 dc 00ff 01", -EBADMSG, "a list longer than the frame"},
	{"96 01 18 05 06 07 91 df ffffffff", -EBADMSG, "a map"},
	{"96 01 18 05 06 07 90", -EBADMSG, "a missing field"},
	{"96 01 18 05 06 07 92 90 01", 0, "a field more"},
	{"96 01 18 05 06 07 94 90 c0 c3 cb 0000000000000000", 0, "fields of other types"},
	{"96 01 18 05 06 07 92 90 92 a1 61 c4 01 00", 0, "a list more, of anything"},
	{"96 01 18 05 06 07 92 90 91 91 00", -EBADMSG, "a deeper list more"},
	{"96 01 18 05 06 07 92 90 80", -EBADMSG, "a map more"},
	{"96 01 18 05 06 07 92 90 d4 01 00", 0, "an extension more"},
	{"96 01 18 05 06 07 92 90 c9 ffffffff 00", -EBADMSG, "an extension that overflows"},
	{"96 01 18 05 06 07 91 90 00", -EBADMSG, "a byte behind the frame"},
	{"96 01 18 05 06 07 91 90 96", -EBADMSG, "a frame behind the frame"},
	{"95 01 18 05 06 07", -EBADMSG, "no body"},
	{"97 01 18 05 06 07 91 90 00", -EBADMSG, "an item more in the envelope"},
	{"96 01 18 05 06 07 07", -EBADMSG, "a body that is a number"},
	{"96 01 91 05 06 07 91 90", -EBADMSG, "a list as a type"},
	{"96 01 18 ff 06 07 91 90", -EBADMSG, "a negative sender"},
	{"96 01 18 a1 61 06 07 91 90", -EBADMSG, "a text as the sender"},
	{"96 01 cf 0000000100000018 05 06 07 91 90", -EBADMSG, "a type of 33 bits"},
	{"96 01 03 05 06 07 91 90", -EPROTO, "a number without a message"},
	{"96 01 cd ffff 05 06 07 91 90", -EPROTO, "a number without a message"},
	{"96 02 18 05 06 07 91 90", -EPROTONOSUPPORT, "another major version"},
	{"95 02 18 05 06 07", -EPROTONOSUPPORT, "another major, another envelope"},
	{"96 00 18 05 06 07 91 90", -EPROTONOSUPPORT, "major version 0"},
	{"94 02 18 05 06", -EBADMSG, "too short for any version"},
	{"90", -EBADMSG, "an empty list"},
	{"c1", -EBADMSG, "a byte that msgpack does not use"},
	{"a1 61", -EBADMSG, "a text"},
	/* [1, 1 (HELLO), ...]: text fields */
	{"96 01 01 05 00 07 97 01 00 01 a0 01 01 a1 61", 0, "HELLO"},
	{"96 01 01 05 00 07 97 01 00 01 a2 c3a4 01 01 a1 61", 0, "an umlaut"},
	{"96 01 01 05 00 07 97 01 00 01 a1 ff 01 01 a1 61", -EBADMSG, "not UTF-8"},
	{"96 01 01 05 00 07 97 01 00 01 a2 c080 01 01 a1 61", -EBADMSG, "overlong UTF-8"},
	{"96 01 01 05 00 07 97 01 00 01 a3 eda080 01 01 a1 61", -EBADMSG, "a surrogate"},
	{"96 01 01 05 00 07 97 01 00 01 a1 00 01 01 a1 61", -EBADMSG, "a NUL"},
	{"96 01 01 05 00 07 97 01 00 01 c4 01 61 01 01 a1 61", -EBADMSG, "bytes as text"},
	{"96 01 01 05 00 07 97 01 00 01 a0 d2 80000000 01 a1 61", 0, "the least i32"},
	{"96 01 01 05 00 07 97 01 00 01 a0 ce 80000000 01 a1 61", -EBADMSG, "2^31 as i32"},
	{"96 01 01 05 00 07 97 cf 0000000100000000 00 01 a0 01 01 a1 61", -EBADMSG, "2^32 as u32"},
	/* [1, 20 (LOOKUP), ...]: keys */
	{"96 01 14 05 06 07 91 c4 00", 0, "no key"},
	{"96 01 14 05 06 07 91 c4 01 00", -EBADMSG, "part of a key"},
	{"96 01 14 05 06 07 91 a0", -EBADMSG, "a text as keys"},
	/* [1, 64 (CANCEL), ...]: refs */
	{"96 01 40 05 06 07 92 01 94 01 02 03 04", 0, "a reference"},
	{"96 01 40 05 06 07 92 01 93 01 02 03", -EBADMSG, "part of a reference"},
	{"96 01 40 05 06 07 92 01 94 01 02 cf 0000000100000000 04", -EBADMSG,
         "an entry of 33 bits"},
};

#endif

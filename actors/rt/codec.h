/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as structs, made from include/messages.def; msgpack on the wire. */
#ifndef DSR_RT_CODEC_H
#define DSR_RT_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"

/* Borrowed slices: on unpack they point into the frame or into the arena. */
struct dsr_str {
	const char *p; /* not NUL-terminated on unpack */
	uint32_t n;
};
struct dsr_bin {
	const uint8_t *p;
	uint32_t n;
};
struct dsr_keys {
	const struct dsr_key *v;
	uint32_t n;
};
struct dsr_refs {
	const struct dsr_ref *v;
	uint32_t n;
};
struct dsr_u64s {
	const uint64_t *v;
	uint32_t n;
};
struct dsr_i32s {
	const int32_t *v;
	uint32_t n;
};

enum dsr_msg_kind { DSR_KIND_REQUEST, DSR_KIND_REPLY, DSR_KIND_EVENT };

enum dsr_msg_type {
#define DSR_MESSAGE(NAME, name, number, KIND, receiver, meaning, fields) DSR_MSG_##NAME = (number),
#include "messages.def"
#undef DSR_MESSAGE
	DSR_MSG_LIMIT = 128
};

#define DSR_F_U32(name, doc) uint32_t name;
#define DSR_F_U64(name, doc) uint64_t name;
#define DSR_F_I32(name, doc) int32_t name;
#define DSR_F_STR(name, doc) struct dsr_str name;
#define DSR_F_BIN(name, doc) struct dsr_bin name;
#define DSR_F_KEYS(name, doc) struct dsr_keys name;
#define DSR_F_REFS(name, doc) struct dsr_refs name;
#define DSR_F_U64S(name, doc) struct dsr_u64s name;
#define DSR_F_I32S(name, doc) struct dsr_i32s name;
#define DSR_MESSAGE(NAME, name, number, KIND, receiver, meaning, fields)                           \
	struct dsr_msg_##name {                                                                    \
		fields                                                                             \
	};
#include "messages.def"
#undef DSR_MESSAGE
#undef DSR_F_U32
#undef DSR_F_U64
#undef DSR_F_I32
#undef DSR_F_STR
#undef DSR_F_BIN
#undef DSR_F_KEYS
#undef DSR_F_REFS
#undef DSR_F_U64S
#undef DSR_F_I32S

/* Any message; the type is beside it. */
union dsr_msg {
#define DSR_MESSAGE(NAME, name, number, KIND, receiver, meaning, fields) struct dsr_msg_##name name;
#include "messages.def"
#undef DSR_MESSAGE
};

struct dsr_env {
	uint32_t major;
	uint32_t type;
	uint64_t from;
	uint64_t to;
	uint64_t req;
};

#define DSR_FRAME_MAX (4u << 20) /* longer ones are refused unread */

/* Reusable memory of one sender or receiver; grows to its high-water mark and stays there. */
struct dsr_codec;
int dsr_codec_new(struct dsr_codec **ret_codec);
void dsr_codec_free(struct dsr_codec **codec);

/* The frame is the codec's, valid until its next use. `msg` is the struct of env->type (taken as
 * its first member of union dsr_msg). -EINVAL: unknown type; -E2BIG: above DSR_FRAME_MAX; -ENOMEM.
 */
int dsr_codec_pack(struct dsr_codec *codec, const struct dsr_env *env, const void *msg,
                   const void **ret_frame, size_t *ret_bytes);
/* Envelope and body of a frame. Slices of *ret_msg point into frame and codec, valid until either
 * changes. -EBADMSG: not exactly one well-formed message; -EPROTONOSUPPORT: another major, -EPROTO:
 * no message of that number (with these two ret_env is still set); -E2BIG; -ENOMEM. Whatever the
 * bytes are, nothing is read outside the frame. */
int dsr_codec_unpack(struct dsr_codec *codec, const void *frame, size_t bytes,
                     struct dsr_env *ret_env, union dsr_msg *ret_msg);

/* Static description of each message and its fields, for docs, daserctl send and tap. */
enum dsr_field_kind {
	DSR_FIELD_U32,
	DSR_FIELD_U64,
	DSR_FIELD_I32,
	DSR_FIELD_STR,
	DSR_FIELD_BIN,
	DSR_FIELD_KEYS,
	DSR_FIELD_REFS,
	DSR_FIELD_U64S,
	DSR_FIELD_I32S
};
struct dsr_field_info {
	const char *name;
	const char *type; /* "u32", "u64", "i32", "str", "bin", "keys", "refs", "u64s", "i32s" */
	const char *doc;
	size_t offset; /* in its struct */
	enum dsr_field_kind kind;
};
#define DSR_MSG_FIELDS_MAX 32
struct dsr_msg_info {
	uint32_t type;
	enum dsr_msg_kind kind;
	const char *name; /* "lookup_reply" */
	const char *receiver;
	const char *meaning;
	const struct dsr_field_info *fields;
	uint32_t field_count;
	size_t size; /* of its struct */
};
const struct dsr_msg_info *dsr_msg_info(uint32_t type); /* NULL: none such */
const struct dsr_msg_info *dsr_msg_by_name(const char *name);
const struct dsr_msg_info *dsr_msg_at(unsigned index); /* in .def order; NULL past the end */

#endif

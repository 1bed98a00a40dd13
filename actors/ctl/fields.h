/* SPDX-License-Identifier: Apache-2.0 */
/* Messages by hand: FIELD=VALUE words into the structs of messages.def, and back into text. */
#ifndef DSR_CTL_FIELDS_H
#define DSR_CTL_FIELDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "codec.h"

/* A message made from words. */
struct dsr_fields {
	const struct dsr_msg_info *info;
	union dsr_msg msg;
	void *arrays[DSR_MSG_FIELDS_MAX]; /* owned: what slices of msg point to, by field */
};

/* Values: integers in decimal or 0x..., text as it is, bin as hex, keys as hex (at most 64 digits
 * each, zero padded) separated by commas, refs as GENERATION:SLOT_SEQ:ENTRY:SLOT separated by
 * commas, u64s and i32s as integers separated by commas. Fields that are not named are 0 or empty.
 * -ENOENT: no such message; -EINVAL: bad word; -ENOMEM; each with one line in ret_why. Only text
 * values are borrowed from words. */
int dsr_fields_parse(const char *message, char *const *words, int count,
                     struct dsr_fields *ret_fields, char *ret_why, size_t why_bytes);
void dsr_fields_done(struct dsr_fields *fields);

/* The fields of a message as an object, in the form that dsr_fields_parse takes, lists as arrays.
 * New reference, NULL without memory. */
json_t *dsr_fields_json(const struct dsr_msg_info *info, const void *msg);
/* That object on one line: "err -2 (ENOENT), hits 0"; of a long list the first values. */
void dsr_fields_print(const json_t *fields, FILE *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Small additions to jansson: what shared memory and messages hold, as JSON.
 *
 * Want of memory travels upwards by itself: a value that could not be made is NULL, an object or
 * array that should have taken it becomes NULL, and dsr_json_write refuses that in the end. */
#ifndef DSR_CTL_JSON_H
#define DSR_CTL_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* {"schema":1}; the caller's. */
json_t *dsr_json_new(void);
/* Sets a key, in the order of calls; takes the reference of value. */
void dsr_json_set(json_t **object, const char *key, json_t *value);
/* Appends; takes the reference of value. */
void dsr_json_append(json_t **array, json_t *value);
/* Writes one line and takes the reference. -ENOMEM when it is NULL, -EIO. */
int dsr_json_write(json_t *object, FILE *out);

/* The functions below return the caller's new reference. */

/* An integer; above 2^63 - 1, which jansson cannot hold, its decimal digits as a string. */
json_t *dsr_json_u64(uint64_t value);
/* Bytes as lower-case hex. */
json_t *dsr_json_hex(const void *bytes, size_t count);
/* Foreign text of at most `length` bytes, ending at a NUL: what is not UTF-8 becomes '?'. */
json_t *dsr_json_text(const char *text, size_t length);

/* Readers of what was built: 0, "" or false where there is none such. */
uint64_t dsr_json_get_u64(const json_t *object, const char *key);
const char *dsr_json_get_text(const json_t *object, const char *key);
int dsr_json_get_bool(const json_t *object, const char *key);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for libdaser without any service: an infinite cache in the ranks' own memory. It keeps
 * the contract of include/daser/ unless FAKE_DASER names a breach (words separated by commas). */
#ifndef FAKE_DASER_H
#define FAKE_DASER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frames.h"

struct fake_key {
	uint8_t b[32];
};

/* A map from keys to values of one size. */
struct fake_node;
struct fake_map {
	struct fake_node *buckets[4096];
};
/* The value of `key`, made of `bytes` zero bytes when there is none; NULL when !make. */
void *fake_map_get(struct fake_map *map, const struct fake_key *key, size_t bytes, bool make);
void fake_map_clear(struct fake_map *map);

/* True when the environment variable FAKE_DASER has this word. */
bool fake_is(const char *word);

/* Metadata and output are lists of these, each followed by count ids and count keys. */
enum { FAKE_LOAD = 1, FAKE_SAVE = 2, FAKE_END = 3 };
void fake_put_op(struct replay_buf *buf, uint32_t op, const char *name, uint32_t count);
struct fake_op {
	uint32_t op, count;
	const char *name;
	const uint8_t *ids, *keys;
};
/* False at the end. */
bool fake_get_op(struct replay_view *view, struct fake_op *ret_op);

#endif

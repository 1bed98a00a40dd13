/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the engine: requests in order of arrival, with the identity of their tokens.
 *
 * Tokens are named in spans of `span_tokens`: equal ids at equal places, after equal ids, mean
 * equal tokens. A trace has spans of 512 tokens; generators use spans of one block.
 */
#ifndef REPLAY_WORKLOAD_H
#define REPLAY_WORKLOAD_H

#include <stdint.h>
#include <stdio.h>

#include "settings.h"

#define REPLAY_NONE UINT32_MAX
#define REPLAY_INPUT_MAX 16777216 /* tokens of one prompt: bounds all sizes made from it */

struct replay_item {
	uint64_t timestamp_ms;
	uint64_t first_id; /* index into workload.ids */
	uint32_t id_count; /* spans; the last one may be partial */
	uint32_t input_length;
	uint32_t output_length;
	uint32_t after; /* request that must have ended before this one comes, or REPLAY_NONE */
};

struct replay_workload {
	struct replay_item *items; /* owned */
	uint32_t count;
	uint32_t capacity;
	uint64_t *ids; /* owned */
	uint64_t id_count;
	uint64_t id_capacity;
	uint32_t span_tokens;
};

/* Identity of a block: a hash over the spans of it and of all before it. */
struct replay_key {
	uint64_t lo, hi;
};

void replay_workload_init(struct replay_workload *workload, uint32_t span_tokens);
void replay_workload_done(struct replay_workload *workload);
/* Appends a copy; item->first_id and id_count are set here. -EINVAL (sizes), -ENOMEM. */
int replay_workload_append(struct replay_workload *workload, const struct replay_item *item,
                           const uint64_t *ids, uint32_t id_count);
/* Each of `users` users asks `turns` times; a turn's prompt is the one before and turn_tokens more.
 * At most `requests` (0: all). -ENOMEM, -EINVAL when a prompt gets too long. */
int replay_workload_multiturn(struct replay_workload *workload,
                              const struct replay_settings *settings);
/* `requests` prompts (0: 64), each one of `prefixes` prefixes, chosen by the seed, and a suffix of
 * its own. */
int replay_workload_prefix(struct replay_workload *workload,
                           const struct replay_settings *settings);

/* Blocks of a prompt that are full. */
static inline uint32_t replay_full_blocks(const struct replay_item *item, uint32_t block_tokens)
{
	return item->input_length / block_tokens;
}

/* Keys of the full blocks of request `index` into ret_keys[full blocks]. */
void replay_workload_keys(const struct replay_workload *workload, uint32_t index,
                          uint32_t block_tokens, struct replay_key *ret_keys);
/* Writes it as a trace. Negative errno of the write. */
int replay_workload_write(const struct replay_workload *workload, FILE *file);

#endif

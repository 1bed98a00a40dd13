/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "rng.h"

#define PREFIX_REQUESTS 64 /* of --workload prefix without --requests */

void replay_workload_init(struct replay_workload *workload, uint32_t span_tokens)
{
	*workload = (struct replay_workload){.span_tokens = span_tokens};
}

void replay_workload_done(struct replay_workload *workload)
{
	free(workload->items);
	free(workload->ids);
	*workload = (struct replay_workload){.span_tokens = workload->span_tokens};
}

static int grow(struct replay_workload *w, uint32_t more_ids)
{
	if (w->count == w->capacity) {
		uint32_t capacity = w->capacity ? w->capacity * 2 : 256;
		struct replay_item *items = reallocarray(w->items, capacity, sizeof(*items));

		if (!items)
			return -ENOMEM;
		w->items = items;
		w->capacity = capacity;
	}
	if (w->id_count + more_ids > w->id_capacity) {
		uint64_t capacity = w->id_capacity ? w->id_capacity * 2 : 4096;

		while (capacity < w->id_count + more_ids)
			capacity *= 2;
		uint64_t *ids = reallocarray(w->ids, capacity, sizeof(*ids));

		if (!ids)
			return -ENOMEM;
		w->ids = ids;
		w->id_capacity = capacity;
	}
	return 0;
}

int replay_workload_append(struct replay_workload *workload, const struct replay_item *item,
                           const uint64_t *ids, uint32_t id_count)
{
	if (item->input_length == 0 || item->input_length > REPLAY_INPUT_MAX ||
	    item->output_length > REPLAY_INPUT_MAX ||
	    id_count < item->input_length / workload->span_tokens ||
	    (item->after != REPLAY_NONE && item->after >= workload->count))
		return -EINVAL;
	int r = grow(workload, id_count);
	if (r < 0)
		return r;
	struct replay_item *copy = &workload->items[workload->count++];

	*copy = *item;
	copy->first_id = workload->id_count;
	copy->id_count = id_count;
	for (uint32_t i = 0; i < id_count; i++)
		workload->ids[workload->id_count + i] = ids[i];
	workload->id_count += id_count;
	return 0;
}

static uint64_t made_id(uint64_t seed, uint64_t kind, uint64_t who, uint64_t index)
{
	return replay_mix(replay_mix(replay_mix(seed ^ kind) + who) + index) >> 1;
}

int replay_workload_multiturn(struct replay_workload *workload,
                              const struct replay_settings *settings)
{
	uint64_t longest = settings->turns * settings->turn_tokens;
	uint32_t users = (uint32_t)settings->users;
	uint64_t total = settings->users * settings->turns;
	uint32_t span = workload->span_tokens;

	if (longest > REPLAY_INPUT_MAX)
		return -EINVAL;
	if (settings->requests != 0 && settings->requests < total)
		total = settings->requests;
	uint64_t *ids = calloc(longest / span + 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	int r = 0;

	for (uint64_t n = 0; r == 0 && n < total; n++) {
		uint32_t user = (uint32_t)(n % users);
		struct replay_item item = {
			.timestamp_ms = n,
			.input_length = (uint32_t)((n / users + 1) * settings->turn_tokens),
			.output_length = (uint32_t)settings->output_tokens,
			.after = n < users ? REPLAY_NONE : (uint32_t)n - users,
		};
		uint32_t count = (item.input_length + span - 1) / span;

		for (uint32_t i = 0; i < count; i++)
			ids[i] = made_id(settings->seed, 1, user, i);
		r = replay_workload_append(workload, &item, ids, count);
	}
	free(ids);
	return r;
}

int replay_workload_prefix(struct replay_workload *workload, const struct replay_settings *settings)
{
	uint64_t length = settings->prefix_tokens + settings->suffix_tokens;
	uint64_t total = settings->requests ? settings->requests : PREFIX_REQUESTS;
	struct replay_rng rng = {.state = settings->seed};
	uint32_t span = workload->span_tokens;

	if (length > REPLAY_INPUT_MAX)
		return -EINVAL;
	uint64_t *ids = calloc(length / span + 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	int r = 0;

	for (uint64_t n = 0; r == 0 && n < total; n++) {
		uint64_t prefix = replay_rng_below(&rng, (uint32_t)settings->prefixes);
		struct replay_item item = {
			.timestamp_ms = n,
			.input_length = (uint32_t)length,
			.output_length = (uint32_t)settings->output_tokens,
			.after = REPLAY_NONE,
		};
		uint32_t shared = (uint32_t)(settings->prefix_tokens / span);
		uint32_t count = (item.input_length + span - 1) / span;

		for (uint32_t i = 0; i < count; i++)
			ids[i] = i < shared ? made_id(settings->seed, 2, prefix, i)
			                    : made_id(settings->seed, 3, n, i);
		r = replay_workload_append(workload, &item, ids, count);
	}
	free(ids);
	return r;
}

static struct replay_key chain(struct replay_key before, uint64_t id, uint64_t part)
{
	uint64_t words[4] = {before.lo, before.hi, id, part};
	XXH128_hash_t hash = XXH3_128bits(words, sizeof(words));

	return (struct replay_key){.lo = hash.low64, .hi = hash.high64};
}

void replay_workload_keys(const struct replay_workload *workload, uint32_t index,
                          uint32_t block_tokens, struct replay_key *ret_keys)
{
	const struct replay_item *item = &workload->items[index];
	const uint64_t *ids = workload->ids + item->first_id;
	uint32_t span = workload->span_tokens;
	uint32_t full = replay_full_blocks(item, block_tokens);
	struct replay_key key = {0};

	for (uint32_t i = 0; i < full; i++) {
		if (block_tokens <= span) {
			uint32_t parts = span / block_tokens;

			key = chain(key, ids[i / parts], i % parts);
		} else {
			uint32_t spans = block_tokens / span;

			for (uint32_t j = 0; j < spans; j++)
				key = chain(key, ids[i * spans + j], j);
		}
		ret_keys[i] = key;
	}
}

int replay_workload_write(const struct replay_workload *workload, FILE *file)
{
	for (uint32_t n = 0; n < workload->count; n++) {
		const struct replay_item *item = &workload->items[n];

		(void)fprintf(file,
		              "{\"timestamp\": %" PRIu64 ", \"input_length\": %" PRIu32
		              ", \"output_length\": %" PRIu32 ", \"hash_ids\": [",
		              item->timestamp_ms, item->input_length, item->output_length);
		for (uint32_t i = 0; i < item->id_count; i++)
			(void)fprintf(file, "%s%" PRIu64, i ? ", " : "",
			              workload->ids[item->first_id + i]);
		(void)fputs("]}\n", file);
	}
	return fflush(file) == 0 && !ferror(file) ? 0 : -EIO;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "digest.h"

int dsr_blocks_init(struct dsr_blocks *blocks, const struct dsr_meta_job *job, uint32_t lane)
{
	size_t n = job->count;
	struct dsr_key key;
	uint8_t *memory;

	memory = calloc(1, n * (2 * sizeof(uint64_t) + sizeof(struct dsr_ref) + sizeof(uint32_t) +
	                        2 * sizeof(uint8_t)) +
	                           job->request.n + 1);
	if (memory == NULL)
		return -ENOMEM;
	/* In falling order of alignment. */
	*blocks = (struct dsr_blocks){.memory = memory, .count = job->count};
	blocks->seeds = (uint64_t *)(void *)memory;
	blocks->digests = blocks->seeds + n;
	blocks->refs = (struct dsr_ref *)(void *)(blocks->digests + n);
	blocks->ids = (uint32_t *)(void *)(blocks->refs + n);
	blocks->states = (uint8_t *)(blocks->ids + n);
	blocks->results = blocks->states + n;
	blocks->name = (char *)(blocks->results + n);
	memcpy(blocks->name, job->request.p, job->request.n);
	blocks->name_hash = dsr_name_hash(blocks->name, job->request.n);
	for (uint32_t i = 0; i < job->count; i++) {
		dsr_meta_key(job->keys, i, &key);
		blocks->seeds[i] = dsr_digest_seed(&key, lane);
		dsr_meta_ref(job->refs, i, &blocks->refs[i]);
		blocks->ids[i] = dsr_meta_id(job->ids, i);
	}
	return 0;
}

void dsr_blocks_done(struct dsr_blocks *blocks)
{
	free(blocks->memory);
	*blocks = (struct dsr_blocks){0};
}

uint64_t dsr_name_hash(const char *name, size_t bytes)
{
	return XXH3_64bits(name, bytes);
}

bool dsr_blocks_named(const struct dsr_blocks *blocks, const char *name, uint64_t name_hash)
{
	return blocks->name_hash == name_hash && strcmp(blocks->name, name) == 0;
}

/* At most what is left, which gets less by it. */
static uint64_t take(uint64_t *left, uint64_t wanted)
{
	uint64_t taken = wanted < *left ? wanted : *left;

	*left -= taken;
	return taken;
}

void dsr_times_record(const struct dsr_times *times, uint64_t end_ns, struct dsr_record *record)
{
	uint64_t left = end_ns - times->queued_ns;

	record->total_ns = left;
	record->open_ns =
		take(&left, times->opened_ns == 0 ? left : times->opened_ns - times->queued_ns);
	record->sync_ns = take(&left, times->sync_ns);
	record->kv_ns = take(&left, times->kv_ns);
	record->copy_ns = take(&left, times->copy_ns);
	record->wait_ns = take(&left, times->wait_ns);
	record->ipc_ns = left;
	record->copies = times->copies;
	record->copy_runs = times->runs;
	record->segments = times->segments;
}

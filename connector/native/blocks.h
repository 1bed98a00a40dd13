/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of one load or save of a worker, unpacked from step metadata into one allocation. */
#ifndef DSR_NATIVE_BLOCKS_H
#define DSR_NATIVE_BLOCKS_H

#include "device.h"
#include "layout.h"
#include "meta.h"

struct dsr_blocks {
	void *memory;         /* owned: all the arrays and the name */
	char *name;           /* of the request, NUL-terminated */
	uint64_t name_hash;   /* compare it first */
	uint32_t count;       /* elements of each array: */
	uint64_t *seeds;      /* of the digests */
	uint64_t *digests;    /* of what was gathered or scattered */
	struct dsr_ref *refs; /* where they lie in L1 */
	uint32_t *ids;        /* block ids of the KV cache */
	uint8_t *states;      /* for the pipeline */
	uint8_t *results;     /* for the pipeline */
};

/* -ENOMEM. Digests are seeded with the lane. */
int dsr_blocks_init(struct dsr_blocks *blocks, const struct dsr_meta_job *job, uint32_t lane);
void dsr_blocks_done(struct dsr_blocks *blocks);

uint64_t dsr_name_hash(const char *name, size_t bytes);
bool dsr_blocks_named(const struct dsr_blocks *blocks, const char *name, uint64_t name_hash);

/* When a transfer came to its points, in CLOCK_MONOTONIC ns, and what it waited for. */
struct dsr_times {
	uint64_t queued_ns;
	uint64_t opened_ns; /* first staging buffer taken; 0 = none was */
	uint64_t wait_ns, copy_ns, kv_ns, sync_ns;
	uint32_t copies, runs, segments;
};

/* Fills the times of a record so that they add up to `end_ns - queued_ns`: parts that overlap are
 * cut, messages get what is left. */
void dsr_times_record(const struct dsr_times *times, uint64_t end_ns, struct dsr_record *record);

#endif

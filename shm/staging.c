/* SPDX-License-Identifier: Apache-2.0 */
#include "staging.h"

#include <errno.h>
#include <inttypes.h>

#include "why.h"

#define STAGING_MIB (UINT64_C(1) << 20)
#define STAGING_RESERVE (1024 * STAGING_MIB) /* device memory that is never taken */

#define STAGING_CLASSIC_MIN (64 * STAGING_MIB)
#define STAGING_CLASSIC_MAX (1536 * STAGING_MIB)
#define STAGING_CLASSIC_STORES 2

#define STAGING_LEAN_BUFFER (16 * STAGING_MIB)
#define STAGING_LEAN_DEPTH 8 /* 4 load and 4 store */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* -E2BIG when not two buffers fit. */
static int staging_classic(uint64_t slot, uint64_t total, uint64_t free, uint64_t budget,
                           struct dsr_staging_plan *ret_plan)
{
	uint64_t share = min_u64(total / 50, free / 10);
	uint64_t buffer =
		max_u64(slot, min_u64(STAGING_CLASSIC_MAX, max_u64(STAGING_CLASSIC_MIN, share)));
	uint64_t depth = min_u64(budget / buffer, UINT32_MAX);
	uint64_t stores = min_u64(STAGING_CLASSIC_STORES, depth / 2);

	if (depth < 2)
		return -E2BIG;
	*ret_plan = (struct dsr_staging_plan){
		.buffer_bytes = buffer,
		.load_buffers = (uint32_t)(depth - stores),
		.store_buffers = (uint32_t)stores,
		.mode = DSR_STAGING_CLASSIC,
	};
	return 0;
}

/* The depth shrinks from 4 + 4 by turns, a store buffer first: 4+3, 3+3, 3+2, 2+2, 2+1, 1+1. A load
 * waits for its buffer, a save may be given up. */
static int staging_lean(uint64_t slot, uint64_t budget, struct dsr_staging_plan *ret_plan)
{
	uint64_t buffer = max_u64(slot, STAGING_LEAN_BUFFER);
	uint32_t depth = (uint32_t)min_u64(budget / buffer, STAGING_LEAN_DEPTH);

	if (depth < 2)
		return -E2BIG;
	*ret_plan = (struct dsr_staging_plan){
		.buffer_bytes = buffer,
		.load_buffers = depth - depth / 2,
		.store_buffers = depth / 2,
		.mode = DSR_STAGING_LEAN,
	};
	return 0;
}

int dsr_staging_plan(enum dsr_staging_mode mode, uint64_t slot_bytes, uint64_t total_bytes,
                     uint64_t free_bytes, uint64_t ceiling_bytes, struct dsr_staging_plan *ret_plan,
                     char *ret_why, size_t why_bytes)
{
	uint64_t usable = free_bytes > STAGING_RESERVE ? free_bytes - STAGING_RESERVE : 0;
	uint64_t budget = min_u64(ceiling_bytes, usable);
	int r = -E2BIG;

	if (mode != DSR_STAGING_LEAN && mode != DSR_STAGING_CLASSIC) {
		dsr_why(ret_why, why_bytes, "staging mode %d, expected %d (lean) or %d (classic)",
		        (int)mode, DSR_STAGING_LEAN, DSR_STAGING_CLASSIC);
		return -EINVAL;
	}
	if (slot_bytes == 0) {
		dsr_why(ret_why, why_bytes, "slot of 0 bytes, expected at least 1");
		return -EINVAL;
	}
	/* Two buffers hold at least two slots: this also refuses a slot above half the budget. */
	if (mode == DSR_STAGING_CLASSIC)
		r = staging_classic(slot_bytes, total_bytes, free_bytes, budget, ret_plan);
	if (r < 0)
		r = staging_lean(slot_bytes, budget, ret_plan);
	if (r < 0)
		dsr_why(ret_why, why_bytes,
		        "staging of two buffers of %" PRIu64 " bytes for slots of %" PRIu64
		        " does not fit %" PRIu64 " bytes: ceiling %" PRIu64 ", free %" PRIu64
		        " less %" PRIu64,
		        max_u64(slot_bytes, STAGING_LEAN_BUFFER), slot_bytes, budget, ceiling_bytes,
		        free_bytes, STAGING_RESERVE);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How much staging a worker takes: arithmetic only. Section 4 of docs/architecture.md. */
#ifndef DSR_SHM_STAGING_H
#define DSR_SHM_STAGING_H

#include <stddef.h>
#include <stdint.h>

enum dsr_staging_mode { DSR_STAGING_LEAN = 0, DSR_STAGING_CLASSIC = 1 };

struct dsr_staging_plan {
	uint64_t buffer_bytes; /* of each buffer, both pools */
	uint32_t load_buffers;
	uint32_t store_buffers;
	enum dsr_staging_mode mode; /* classic may have become lean */
};

/* classic: buffer = max(slot, min(1536 MiB, max(64 MiB, min(total / 50, free / 10)))),
 * depth = ceiling / buffer, store = min(2, depth / 2), load = the rest.
 * lean: 4 x 16 MiB load and 4 x 16 MiB store; a slot above 16 MiB makes the buffers as large as
 * the slot.
 * Both: never more than min(ceiling, free - 1 GiB): first the depth shrinks, then classic becomes
 * lean, then -E2BIG. A slot above half the budget is -E2BIG; at least one buffer each way.
 * ret_why (may be NULL) then gets the numbers. -EINVAL: slot 0 or mode unknown. */
int dsr_staging_plan(enum dsr_staging_mode mode, uint64_t slot_bytes, uint64_t total_bytes,
                     uint64_t free_bytes, uint64_t ceiling_bytes, struct dsr_staging_plan *ret_plan,
                     char *ret_why, size_t why_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The L1 pool: lanes of slots with their sequences and digests. */
#ifndef DSR_SHM_POOL_H
#define DSR_SHM_POOL_H

#include "segment.h"

struct dsr_pool {
	struct dsr_segment segment; /* owned */
	const struct dsr_pool_geometry *geometry;
	_Atomic uint64_t *slot_seqs; /* [slots] */
	_Atomic uint64_t *digests;   /* [lanes][slots rounded up to 8]: see dsr_pool_digest */
	uint64_t epoch;
};

/* What the caller knows before: fingerprint, slot_bytes, lanes, block_tokens, payload. */
struct dsr_pool_request {
	const uint8_t *fingerprint; /* DSR_NAMESPACE_BYTES */
	uint64_t slot_bytes;
	uint64_t budget_bytes; /* l1.size: tables and lanes together fit in it */
	uint64_t epoch;
	uint32_t lanes;
	uint32_t block_tokens;
	uint32_t max_slots; /* entries of the control segment */
	enum dsr_hugepages hugepages;
};

/* Pure: the geometry and total size for a request. -EINVAL (0 or more than DSR_LANES_MAX lanes,
 * slot_bytes 0 or above 1 TiB), -ENOSPC when not one slot fits, the numbers in ret_why. */
int dsr_pool_plan(const struct dsr_pool_request *request, struct dsr_pool_geometry *ret_geometry,
                  uint64_t *ret_bytes, char *ret_why, size_t why_bytes);
/* Creates, fills and publishes; returns the descriptor (caller's) or negative errno. */
int dsr_pool_create(const struct dsr_pool_request *request, char *ret_why, size_t why_bytes);
/* Maps and checks header and geometry against the mapping. */
int dsr_pool_attach(int fd, struct dsr_pool *ret_pool, char *ret_why, size_t why_bytes);
void dsr_pool_detach(struct dsr_pool *pool);

/* Address of a slot in a lane; NULL when out of range. */
void *dsr_pool_slot(const struct dsr_pool *pool, uint32_t lane, uint32_t slot);
_Atomic uint64_t *dsr_pool_digest(const struct dsr_pool *pool, uint32_t lane, uint32_t slot);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: named runs of pinned blocks with a time to live. Together they pin at most half of L1. A
 * run is remembered by its last entry and its length, since each block's parent is the block before
 * it: bounded memory, whatever the length. Times are CLOCK_MONOTONIC, given by the caller. */
#ifndef DSR_SCHEDULER_LEASES_H
#define DSR_SCHEDULER_LEASES_H

#include "cache.h"

#define DSR_LEASES_MAX 16384

struct dsr_leases;

/* cache and counters (may be NULL) are borrowed. -ENOMEM. */
int dsr_leases_new(struct dsr_cache *cache, uint32_t max, struct dsr_counters_page *counters,
                   struct dsr_leases **ret_leases);
/* Ends no lease: the cache goes as well. */
void dsr_leases_free(struct dsr_leases **leases);

struct dsr_lease_request {
	uint64_t owner; /* incarnation of the engine process */
	uint64_t id;
	const struct dsr_key *keys;
	uint32_t count;
	const struct dsr_key *parent; /* key of the block before the first; NULL: none or unknown */
	uint64_t ttl_ns;
};

/* Pins the leading readable blocks of the request, as many as the limit leaves, and marks them and
 * their ancestors used. refs has room for `count`; *ret_count of them are set; 0: there is no
 * lease. A repeat (same owner and id) gets the same answer and a new time to live. -EAGAIN: the
 * limit left not one, or too many leases (counted); -EINVAL: a repeat with other keys.
 */
int dsr_leases_grant(struct dsr_leases *leases, const struct dsr_lease_request *request,
                     uint64_t now_ns, struct dsr_ref *ret_refs, uint32_t *ret_count);
/* False when there is none such. */
bool dsr_leases_release(struct dsr_leases *leases, uint64_t owner, uint64_t id);
/* All of one owner; returns how many. */
uint32_t dsr_leases_release_owner(struct dsr_leases *leases, uint64_t owner);
/* Ends those whose time is over; returns how many. */
uint32_t dsr_leases_expire(struct dsr_leases *leases, uint64_t now_ns);
uint32_t dsr_leases_count(const struct dsr_leases *leases);

#endif

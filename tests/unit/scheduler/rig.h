/* SPDX-License-Identifier: Apache-2.0 */
/* Cache, leases and reservations over private memory, with a clock and store actors of the test's.
 */
#ifndef DSR_TEST_SCHEDULER_RIG_H
#define DSR_TEST_SCHEDULER_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache.h"
#include "leases.h"
#include "reservations.h"

#define RIG_KEYS 512u
#define RIG_CANCELS 4096
#define RIG_OWNER 1 /* number of the engine that tests use by default; its incarnation: below */
#define RIG_INCARNATION 1001

struct rig_cancel {
	uint32_t device;
	uint64_t cookie;
	uint32_t count;
	struct dsr_ref refs[64]; /* the first ones */
};

struct rig {
	uint32_t entry_count, slots, lanes;
	struct dsr_entry *entries;   /* owned */
	void *seq_memory;            /* owned */
	_Atomic uint64_t *slot_seqs; /* in seq_memory */
	struct dsr_scheduler_state state;
	struct dsr_counters_page page;
	struct dsr_cache *cache;
	struct dsr_leases *leases;
	struct dsr_reservations *reservations;
	struct rig_cancel cancels[RIG_CANCELS]; /* sent and not answered */
	uint32_t cancel_count;
	uint32_t dead;   /* devices without store actor */
	uint32_t refuse; /* devices that take no message now */
	uint64_t now_ns;
	struct dsr_ref refs[RIG_KEYS]; /* of the last reserve or lease */
	int32_t status[RIG_KEYS];
	uint32_t got;
};

/* entries = slots. */
void rig_open(struct rig *rig, uint32_t slots, uint32_t lanes);
void rig_open_tables(struct rig *rig); /* over the entry table and slots that it has */
void rig_close_tables(struct rig *rig);
void rig_close(struct rig *rig);
uint64_t rig_counter(const struct rig *rig, enum dsr_counter counter);

struct dsr_key rig_key(uint64_t number);
/* keys[i] = key of first + i. */
void rig_chain(struct dsr_key *ret_keys, uint64_t first, uint32_t count);

/* Owner RIG_OWNER on device bit mask `devices`; results in rig->status, refs, got. */
int rig_reserve(struct rig *rig, uint64_t id, const struct dsr_key *keys, uint32_t count,
                const struct dsr_key *parent, uint32_t depth, uint32_t devices);
/* Commits rig->refs[first .. first+count) for one lane; returns how many became visible. */
uint32_t rig_commit(struct rig *rig, uint64_t id, uint32_t lane, uint32_t first, uint32_t count);
/* Reserves a chain of `count` new keys and commits it in all lanes. */
void rig_store(struct rig *rig, uint64_t id, uint64_t first, uint32_t count);
int rig_lease(struct rig *rig, uint64_t id, const struct dsr_key *keys, uint32_t count);
/* Answers one CANCEL that was sent to this device, oldest first; false when there is none. */
bool rig_answer(struct rig *rig, uint32_t device);
enum dsr_entry_state rig_state(const struct rig *rig, uint64_t number);
struct dsr_cache_counts rig_counts(const struct rig *rig);
/* No slot is lost and none is owned twice; the shared table says what the cache says. */
void rig_check(const struct rig *rig);

/* DSR_TEST_SEED or the clock; printed. */
uint64_t rig_seed(void);
uint64_t rig_random(uint64_t *seed);

#endif

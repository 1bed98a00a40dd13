/* SPDX-License-Identifier: Apache-2.0 */
/* A small scheduler, load or store actor in a process of its own: the test program run again. All
 * that outlives it stands in memory that it shares with the test. */
#ifndef DSR_TEST_NATIVE_FAKE_ACTOR_H
#define DSR_TEST_NATIVE_FAKE_ACTOR_H

#include <stdint.h>

#include "key.h"

#define FAKE_SLOTS_MAX 256
#define FAKE_DEVICE "host:0"
#define FAKE_POOL_EPOCH 3
#define FAKE_ACTOR_ARG "--fake-actor"

/* Words of one writer at a time; tests read them. */
struct fake_shared {
	/* what the test wants */
	_Atomic int refusal; /* of ENGINE and REGISTER */
	char reason[64];     /* set before refusal */
	_Atomic int drain_err;
	_Atomic uint64_t drain_left;
	_Atomic uint32_t holds_loads, holds_stores;
	/* the cache */
	_Atomic uint32_t slots_used;
	struct dsr_key keys[FAKE_SLOTS_MAX]; /* by slot */
	_Atomic uint32_t is_cached[FAKE_SLOTS_MAX];
	/* what was asked for */
	_Atomic uint32_t engines, registers, readies, lookups, leases, releases, reserves, abandons;
	_Atomic uint32_t mismatches, attaches, detaches, loads, stores, drops, drains;
	_Atomic uint64_t ready_load, ready_store; /* of the last WORKER_READY */
	_Atomic uint32_t ready_canary;
	_Atomic uint32_t first_drained; /* role that was asked first */
};

/* argv: FAKE_ACTOR_ARG ROLE RUN_DIR SHARED_FD WAKE_FD READY_FD. Runs until it is killed. To be
 * called first in main; returns when the program is not to be an actor. */
void fake_actor_main(int argc, char **argv);

#endif

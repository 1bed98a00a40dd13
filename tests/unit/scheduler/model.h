/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler promises, written down a second time as plainly as possible: a few dozen keys
 * of a forest, every rule a loop over all of them. Shares no code with actors/scheduler/. */
#ifndef DSR_TEST_SCHEDULER_MODEL_H
#define DSR_TEST_SCHEDULER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define MODEL_KEYS 64
#define MODEL_NONE (-1)
#define MODEL_OWNERS 2
#define MODEL_LEASES 256
#define MODEL_RESERVATIONS 512

enum model_state { MODEL_FREE, MODEL_RESERVED, MODEL_VISIBLE, MODEL_ABORTING };

struct model_block {
	enum model_state state;
	uint64_t lanes;
	uint64_t use;    /* clock of the last use */
	uint32_t pins;   /* leases */
	uint32_t need;   /* devices that must still say that they do not write it */
	int reservation; /* row of reservations */
	bool is_linked;  /* to its parent in the forest */
	bool is_mismatched;
};

struct model_lease {
	bool is_live;
	int owner;
	uint64_t id, end_ns;
	int path[MODEL_KEYS], asked; /* keys asked for */
	int granted;
};

struct model_reservation {
	bool is_live; /* has blocks that are not visible or freed */
	int owner;    /* MODEL_NONE: its process is dead */
	uint64_t id;
	uint32_t devices;
	int path[MODEL_KEYS], count;
	int parent;
	int status[MODEL_KEYS];
};

struct model {
	int keys, slots, lanes;
	int parent[MODEL_KEYS]; /* the forest; MODEL_NONE: a root */
	struct model_block blocks[MODEL_KEYS];
	struct model_lease leases[MODEL_LEASES];
	struct model_reservation reservations[MODEL_RESERVATIONS];
	uint64_t clock;
	uint64_t evict_from_ns;
	int quarantined; /* slots */
};

bool model_is_readable(const struct model *m, int key);
int model_lookup(const struct model *m, const int *path, int count);
int model_free_slots(const struct model *m);
/* Returns the granted length, or -EAGAIN. `lease` is a free row whose path is filled in. */
int model_lease(struct model *m, struct model_lease *lease, int before);
void model_lease_end(struct model *m, struct model_lease *lease);
/* Fills in status; returns the number reserved. The row's path, parent, owner and devices are. */
int model_reserve(struct model *m, int row, uint64_t now_ns);
/* True when the block became visible. */
bool model_commit(struct model *m, int row, int key, int lane);
/* The block and what is reserved below it; `except`: devices that need not answer for the block
 * itself. Returns how many. */
int model_abort(struct model *m, int key, uint32_t except);
/* Aborts the reserved blocks of a reservation that lack one of these lanes. */
int model_abort_lacking(struct model *m, int row, uint64_t lanes, uint32_t except);
void model_device_answered(struct model *m, int key, int device);
void model_device_dead(struct model *m, int device);
void model_freed(struct model *m, int key);
bool model_mismatch(struct model *m, int key);
int model_forget(struct model *m);
void model_restart(struct model *m, uint64_t evict_from_ns);
/* Reservations without blocks are over. */
void model_settle(struct model *m);

#endif

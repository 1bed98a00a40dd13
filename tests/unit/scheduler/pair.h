/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's tables and the model side by side. */
#ifndef DSR_TEST_SCHEDULER_PAIR_H
#define DSR_TEST_SCHEDULER_PAIR_H

#include "model.h"
#include "rig.h"

struct pair {
	struct rig rig;
	struct model model;
	uint64_t seed;
	uint64_t next_id[MODEL_OWNERS]; /* of reservations */
	uint64_t lease_id;
	uint64_t incarnations[MODEL_OWNERS];
	struct dsr_ref refs[MODEL_RESERVATIONS][MODEL_KEYS]; /* of each key of a reservation */
	struct dsr_ref lease_refs[MODEL_LEASES][MODEL_KEYS];
	int next_row;
	uint64_t step;
};

/* A random number below `count`. */
int pair_pick(struct pair *p, int count);
/* A part of the path from a root to a random key. Returns its length; *ret_first: keys before it in
 * the path, *ret_before: the last of these or MODEL_NONE. */
int pair_pick_path(struct pair *p, int *ret_path, int *ret_first, int *ret_before);
void pair_path_keys(const int *path, int count, struct dsr_key *ret_keys);
/* Fails unless both say the same of every key. */
void pair_compare(struct pair *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The L1 pool as a load or store actor has it: one epoch at a time, its lanes made fit for the
 * device's copies, and the check of a reference before and after a copy. */
#ifndef DSR_MOVER_L1_H
#define DSR_MOVER_L1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker.h"
#include "control.h"
#include "device.h"
#include "pool.h"

/* Zeroed: not attached. */
struct dsr_l1 {
	struct dsr_device *device;         /* borrowed */
	const struct dsr_control *control; /* borrowed */
	struct dsr_pool pool;              /* owned */
	struct dsr_pool_geometry geometry; /* as it was checked when the pool was attached */
	bool is_attached;
	uint64_t lanes; /* bit for each lane that is registered with the device */
};

/* Fetches and maps pool/<epoch>. Nothing to do when it is that epoch already. -ESTALE: the
 * scheduler serves another epoch, or there is none; -EBUSY: another epoch is attached still.
 * ret_why (at least 128 bytes) tells. Blocks as dsr_broker_get. */
int dsr_l1_attach(struct dsr_l1 *l1, struct dsr_broker *broker, uint64_t epoch, char *ret_why,
                  size_t why_bytes);
/* No copy may be under way. */
void dsr_l1_detach(struct dsr_l1 *l1);

/* Makes a lane fit for copies: once, it stays so until detach. -EINVAL: no such lane. */
int dsr_l1_use_lane(struct dsr_l1 *l1, uint32_t lane);
/* Slot 0 of a lane in use. */
uint8_t *dsr_l1_lane(const struct dsr_l1 *l1, uint32_t lane);

/* True when entry and slot are numbers of this control segment and pool. */
bool dsr_l1_in_range(const struct dsr_l1 *l1, const struct dsr_ref *ref);
/* Whether `ref` names what table and pool hold now, in state `state`: 0; -ESTALE: it does not;
 * -ECANCELED: it does, but is being aborted; -EAGAIN: the entry is being written (a dead writer
 * leaves it so). */
int dsr_l1_check(const struct dsr_l1 *l1, const struct dsr_ref *ref, uint32_t state);

#endif

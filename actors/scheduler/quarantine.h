/* SPDX-License-Identifier: Apache-2.0 */
/* After a restart of the scheduler: which store actors may still be writing for a reservation of an
 * earlier one. Each must answer a CANCEL, be replaced or be confirmed dead before the slots of
 * those reservations are free. */
#ifndef DSR_SCHEDULER_QUARANTINE_H
#define DSR_SCHEDULER_QUARANTINE_H

#include <stdbool.h>

#include "layout.h"

struct dsr_quarantine_writer {
	uint64_t incarnation; /* 0: over */
	uint64_t start_ticks;
	int32_t pid;
	char device[DSR_DEVICE_NAME_MAX];
};

struct dsr_quarantine {
	struct dsr_quarantine_writer writers[DSR_ACTOR_ROWS];
	uint32_t left;
};

/* Takes down every store actor of the actor table whose process may live. To be called after the
 * rows of the entry table were written: an actor that starts later finds nothing to write. Returns
 * how many. */
uint32_t dsr_quarantine_begin(struct dsr_quarantine *quarantine, const struct dsr_actor_row *rows);
/* The number of a writer that a connected store actor is, to whom CANCEL must be sent;
 * DSR_ACTOR_ROWS when it is none. A newer incarnation of a writer ends it. */
uint32_t dsr_quarantine_meet(struct dsr_quarantine *quarantine, const char *device,
                             uint64_t incarnation);
/* This writer answered or is confirmed dead. */
void dsr_quarantine_end(struct dsr_quarantine *quarantine, uint32_t writer);
/* Ends writers whose process is dead; now and then. */
void dsr_quarantine_sweep(struct dsr_quarantine *quarantine);

#endif

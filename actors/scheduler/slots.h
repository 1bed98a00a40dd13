/* SPDX-License-Identifier: Apache-2.0 */
/* Which slots of L1 are free: a bitmap with a next-fit cursor, so that slots taken one after the
 * other lie one after the other and their copies coalesce. A slot is free, used or quarantined
 * (used until somebody's last write is known to be over). */
#ifndef DSR_SCHEDULER_SLOTS_H
#define DSR_SCHEDULER_SLOTS_H

#include <stdbool.h>

#include "layout.h"

struct dsr_slots;

/* All free. -EINVAL (count 0), -ENOMEM. */
int dsr_slots_new(uint32_t count, struct dsr_slots **ret_slots);
void dsr_slots_free(struct dsr_slots **slots);

/* The next free slot behind the one taken last, from the start again after the end; DSR_SLOT_NONE
 * when none is free. */
uint32_t dsr_slots_take(struct dsr_slots *slots);
/* Takes this very slot; false when it is not free. */
bool dsr_slots_take_one(struct dsr_slots *slots, uint32_t slot);
/* A used slot is free again. */
void dsr_slots_put(struct dsr_slots *slots, uint32_t slot);
/* A free slot is quarantined; false when it is not free. */
bool dsr_slots_quarantine(struct dsr_slots *slots, uint32_t slot);
/* All quarantined slots are free again; returns how many. */
uint32_t dsr_slots_end_quarantine(struct dsr_slots *slots);

uint32_t dsr_slots_left(const struct dsr_slots *slots); /* free ones */
uint32_t dsr_slots_quarantined(const struct dsr_slots *slots);

#endif

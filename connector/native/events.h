/* SPDX-License-Identifier: Apache-2.0 */
/* Block fates, until the caller takes them. */
#ifndef DSR_NATIVE_EVENTS_H
#define DSR_NATIVE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daser/scheduler.h"
#include "key.h"

#define DSR_EVENTS_MAX 65536u

struct dsr_events {
	struct daser_block_event *v; /* owned, [DSR_EVENTS_MAX] */
	uint64_t head, tail;         /* ever put, ever taken */
};

/* -ENOMEM. */
int dsr_events_init(struct dsr_events *events);
void dsr_events_done(struct dsr_events *events);

/* False when it is full: the event is lost. */
bool dsr_events_put(struct dsr_events *events, const struct dsr_key *hash,
                    enum daser_block_fate fate, unsigned reason);
/* Takes at most `max`, oldest first; returns how many. */
uint32_t dsr_events_take(struct dsr_events *events, struct daser_block_event *ret_events,
                         uint32_t max);

#endif

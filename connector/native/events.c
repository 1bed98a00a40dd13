/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert((DSR_EVENTS_MAX & (DSR_EVENTS_MAX - 1)) == 0, "places are taken modulo the size");
static_assert(DASER_HASH_MAX == DSR_KEY_BYTES, "an event holds a whole hash");

int dsr_events_init(struct dsr_events *events)
{
	*events = (struct dsr_events){0};
	events->v = calloc(DSR_EVENTS_MAX, sizeof(*events->v));
	return events->v == NULL ? -ENOMEM : 0;
}

void dsr_events_done(struct dsr_events *events)
{
	free(events->v);
	*events = (struct dsr_events){0};
}

bool dsr_events_put(struct dsr_events *events, const struct dsr_key *hash,
                    enum daser_block_fate fate, unsigned reason)
{
	struct daser_block_event *event;

	if (events->head - events->tail == DSR_EVENTS_MAX)
		return false;
	event = &events->v[events->head++ % DSR_EVENTS_MAX];
	memcpy(event->hash, hash->b, sizeof(event->hash));
	event->fate = (uint32_t)fate;
	event->reason = reason;
	return true;
}

uint32_t dsr_events_take(struct dsr_events *events, struct daser_block_event *ret_events,
                         uint32_t max)
{
	uint32_t n = 0;

	while (n < max && events->tail != events->head)
		ret_events[n++] = events->v[events->tail++ % DSR_EVENTS_MAX];
	return n;
}

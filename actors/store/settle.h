/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler must still be told: COMMITs and ABORTs of this actor's lanes, in order, many
 * blocks a message, repeated until answered.
 *
 * Room is promised before a STORE is accepted, so what was copied can always be told. */
#ifndef DSR_STORE_SETTLE_H
#define DSR_STORE_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "faults.h"
#include "link.h"
#include "loop.h"

/* Blocks promised or not yet answered. More than one frame can name, so a single STORE always fits
 * into an empty one. */
#define DSR_SETTLE_BLOCKS (1u << 17)

struct dsr_settle;

/* Whose blocks. */
struct dsr_settle_lane {
	uint64_t engine, reservation;
	uint32_t lane;
	uint16_t drains; /* bits handed to `settled` */
};

struct dsr_settle_options {
	struct dsr_loop *loop;     /* borrowed */
	struct dsr_link *link;     /* borrowed; connected to the scheduler */
	struct dsr_faults *faults; /* borrowed */
	/* `count` blocks with these bits are answered or need no answer any more. */
	void (*settled)(void *self, uint16_t drains, uint32_t count);
	void *self;
};

int dsr_settle_new(const struct dsr_settle_options *options, struct dsr_settle **ret_settle);
void dsr_settle_free(struct dsr_settle **settle);

/* Room for `count` blocks, each to be given back by one of the three below. -EAGAIN: there is none.
 */
int dsr_settle_promise(struct dsr_settle *settle, uint32_t count);
void dsr_settle_release(struct dsr_settle *settle, uint16_t drains, uint32_t count);
void dsr_settle_commit(struct dsr_settle *settle, const struct dsr_settle_lane *lane,
                       const struct dsr_ref *ref);
void dsr_settle_abort(struct dsr_settle *settle, const struct dsr_settle_lane *lane,
                      const struct dsr_ref *ref, enum dsr_reason reason);
/* Sends what is there. */
void dsr_settle_flush(struct dsr_settle *settle);

/* Handlers: COMMIT_REPLY and ABORT_REPLY with dsr_link_cookie, and request_failed of both. */
void dsr_settle_on_reply(struct dsr_settle *settle, uint64_t cookie);
void dsr_settle_on_failed(struct dsr_settle *settle, uint64_t cookie);
/* The scheduler is dead: what it was to be told is void, the next one gives those blocks up. */
void dsr_settle_forget(struct dsr_settle *settle);

uint32_t dsr_settle_left(const struct dsr_settle *settle); /* blocks not answered */
/* Sets a bit on all of them; returns how many. */
uint32_t dsr_settle_mark(struct dsr_settle *settle, uint16_t drain);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Actors that stand still. Counted in looks of one second and not by the clock alone: when the
 * whole machine, or this process, was stopped for a while, nobody is blamed for it. */
#ifndef DSR_SCHEDULER_WATCH_H
#define DSR_SCHEDULER_WATCH_H

#include <stddef.h>

#include "layout.h"

#define DSR_WATCH_LOOKS 10 /* seconds without progress, or with a dead peer's handles */
#define DSR_WATCH_NS (DSR_WATCH_LOOKS * UINT64_C(1000000000))

struct dsr_watch_row {
	uint64_t incarnation;
	uint64_t progress_ns;
	uint32_t still;   /* looks in a row without progress */
	uint32_t handles; /* looks in a row with handles of dead peers */
	uint32_t is_told; /* its death was asked for */
};

struct dsr_watch {
	struct dsr_watch_row rows[DSR_ACTOR_ROWS];
};

/* One look, once a second. Calls kill for each actor that is READY, was started by the supervisor
 * and has made no progress, or kept a dead peer's handles, for ten looks; once an incarnation.
 * `own`: our own incarnation, passed over. */
void dsr_watch_look(struct dsr_watch *watch, const struct dsr_actor_row *rows, uint64_t own,
                    uint64_t now_ns,
                    void (*kill)(void *self, const struct dsr_actor_row *row, uint64_t incarnation,
                                 const char *why),
                    void *self);

#endif

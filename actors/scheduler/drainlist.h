/* SPDX-License-Identifier: Apache-2.0 */
/* DRAIN requests that wait for the reservations made before them. */
#ifndef DSR_SCHEDULER_DRAINLIST_H
#define DSR_SCHEDULER_DRAINLIST_H

#include <stdbool.h>
#include <stdint.h>

#define DSR_DRAINS_MAX 64

struct dsr_drain {
	void *peer;    /* borrowed: who asked; NULL: this row is free */
	uint64_t req;  /* of the request, for the reply */
	uint64_t upto; /* serial of the last reservation that counts */
	uint64_t end_ns;
};

struct dsr_drainlist {
	struct dsr_drain rows[DSR_DRAINS_MAX];
	uint32_t count;
};

/* -EAGAIN when too many wait. */
int dsr_drainlist_add(struct dsr_drainlist *drains, const struct dsr_drain *drain);
/* Takes out one that is over: `oldest` live reservation is younger (*ret_err 0), or its time is
 * over
 * (-ETIMEDOUT). False when there is none. */
bool dsr_drainlist_next(struct dsr_drainlist *drains, uint64_t oldest, uint64_t now_ns,
                        struct dsr_drain *ret_drain, int *ret_err);
/* The peer is gone, nobody waits for its answers. */
void dsr_drainlist_forget(struct dsr_drainlist *drains, const void *peer);

#endif

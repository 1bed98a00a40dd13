/* SPDX-License-Identifier: Apache-2.0 */
/* The state that mover.c and workers.c share. Of this folder alone. */
#ifndef DSR_MOVER_STATE_H
#define DSR_MOVER_STATE_H

#include "mover.h"

/* Beside the attached ones there is at most one of each worker whose copies still end. */
#define DSR_MOVER_SLOTS (2 * DSR_MOVER_WORKERS)

struct dsr_mover {
	struct dsr_rt *rt;               /* borrowed */
	const struct dsr_mover_ops *ops; /* borrowed */
	void *self;                      /* borrowed: first argument of ops */
	struct dsr_device *device;       /* owned */
	struct dsr_copier *copier;       /* owned */
	struct dsr_timer *tidy;          /* owned */
	struct dsr_copier_ops copier_ops;
	struct dsr_l1 l1; /* owned */
	struct dsr_attachment slots[DSR_MOVER_SLOTS];
	uint32_t used; /* slots from here on were never used */
	uint32_t live; /* jobs accepted and not yet answered */
	bool is_draining;
};

/* Tells the worker what is due of a job, and frees the job when that was its reply. */
void dsr_mover_report(struct dsr_mover *mover, struct dsr_job *job);
/* fn(arg, job) for each job of an attachment that is not answered yet. */
void dsr_mover_each_of(struct dsr_attachment *attachment,
                       void (*fn)(void *arg, struct dsr_job *job), void *arg);

#endif

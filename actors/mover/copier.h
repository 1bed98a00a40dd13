/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of one actor: takes jobs in turn, a segment of blocks at a time, keeps two segments
 * under way, and checks every reference before and after its copy.
 *
 * Runs in the loop's thread; completion comes through dsr_device_fd. A block's result is written
 * once; blocks of a job end in order of position. */
#ifndef DSR_MOVER_COPIER_H
#define DSR_MOVER_COPIER_H

#include "counters.h"
#include "device.h"
#include "faults.h"
#include "jobs.h"
#include "l1.h"
#include "loop.h"

#define DSR_COPIER_DEPTH 2 /* segments under way: hides the turn between two */

struct dsr_copier_ops {
	bool to_staging;      /* else to L1 */
	uint32_t entry_state; /* that an entry must have, enum dsr_entry_state */
	enum dsr_fault fault_before, fault_after;
	/* errs of positions [first, first + count) are there. Must not submit or drop. */
	void (*segment_done)(void *self, struct dsr_job *job, uint32_t first, uint32_t count);
	/* The job is over: every block has a result, no copy runs, it is in no line. */
	void (*job_done)(void *self, struct dsr_job *job);
	/* At the end of each turn in which something may have ended. */
	void (*turned)(void *self);
};

struct dsr_copier_options {
	struct dsr_loop *loop;              /* borrowed */
	struct dsr_device *device;          /* borrowed */
	const struct dsr_l1 *l1;            /* borrowed */
	struct dsr_faults *faults;          /* borrowed */
	struct dsr_counters_page *counters; /* borrowed; may be NULL */
	uint32_t job_limit;
	const struct dsr_copier_ops *ops; /* borrowed */
	void *self;                       /* first argument of all ops */
};

struct dsr_copier;

int dsr_copier_new(const struct dsr_copier_options *options, struct dsr_copier **ret_copier);
/* Waits for the copies that run; nothing is told any more. */
void dsr_copier_free(struct dsr_copier **copier);

/* Queues a job whose line, places, refs, count and segment_blocks are set, progress fields zero.
 * -EAGAIN: full. Copies may begin at once; the ops are called later. */
int dsr_copier_submit(struct dsr_copier *copier, struct dsr_job *job);
/* Blocks of the job that were not submitted get `err`. job_done comes when its running copies have
 * ended, at once when it has none. Nothing for a job that is not queued. */
void dsr_copier_drop(struct dsr_copier *copier, struct dsr_job *job, int err);

/* Copies from device memory to `dst`, behind everything that was submitted. -EAGAIN: full. */
int dsr_copier_read(struct dsr_copier *copier, void *dst, const void *src, uint64_t bytes);
/* An event behind everything that was submitted. -EAGAIN: full, ask again. */
int dsr_copier_mark(struct dsr_copier *copier, struct dsr_event *ret_event);

/* Calls `turned` after a while, as often as it is asked for. */
void dsr_copier_again(struct dsr_copier *copier);

/* Segments submitted ever; and of these, ended. */
uint64_t dsr_copier_submitted(const struct dsr_copier *copier);
uint64_t dsr_copier_ended(const struct dsr_copier *copier);
/* A segment was submitted more than `age_ns` ago and has not ended. */
bool dsr_copier_is_stuck(const struct dsr_copier *copier, uint64_t age_ns);
/* First error of the device since start, or 0: the stream is of no use any more. */
int dsr_copier_error(const struct dsr_copier *copier);

#endif

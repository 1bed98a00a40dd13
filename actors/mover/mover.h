/* SPDX-License-Identifier: Apache-2.0 */
/* What load and store actors have in common: workers attach their staging, lend its buffers with
 * LOAD or STORE, the copies run, and each request gets its one reply. The role says which way the
 * bytes go and what a reply is. Everything in the loop's thread. */
#ifndef DSR_MOVER_MOVER_H
#define DSR_MOVER_MOVER_H

#include "actor.h"
#include "attachment.h"
#include "copier.h"

#define DSR_MOVER_WORKERS 64 /* attached at a time */
#define DSR_MOVER_JOBS 256   /* queued at a time, all workers together */

struct dsr_mover_ops {
	bool to_staging;
	uint32_t entry_state;
	enum dsr_fault fault_before, fault_after;
	/* Results of positions [first, first + count) of a job are there, in order of position;
	 * those that were dropped come last, together. May be NULL. */
	void (*settle)(void *self, struct dsr_job *job, uint32_t first, uint32_t count);
	/* Sends what the worker is to know of the job by now; when job->is_ended, its reply as the
	 * last. -EAGAIN: call again later; everything else: done with it. */
	int (*report)(void *self, struct dsr_peer *peer, struct dsr_job *job);
	/* Something may have ended. May be NULL. */
	void (*turned)(void *self);
};

struct dsr_mover;

/* Opens the device of rt. */
int dsr_mover_new(struct dsr_rt *rt, const struct dsr_mover_ops *ops, void *self,
                  struct dsr_mover **ret_mover);
/* Waits for running copies, then closes everything; no op is called. */
void dsr_mover_free(struct dsr_mover **mover);

/* A LOAD or STORE: checks it and copies its refs into the buffer's job, which dsr_mover_submit or
 * dsr_mover_refuse must follow. -ECANCELED: draining; -ENOENT: not attached or no such buffer;
 * -ESTALE, -EINVAL: the lending (dsr_attachment_lend); -EINVAL: none or more blocks than fit, or a
 * reference out of range; -ENOMEM. */
int dsr_mover_accept(struct dsr_mover *mover, struct dsr_peer *peer, const struct dsr_env *env,
                     uint32_t buffer, uint64_t lend, struct dsr_refs refs,
                     struct dsr_job **ret_job);
/* -EAGAIN: DSR_MOVER_JOBS are queued; the job is given back. */
int dsr_mover_submit(struct dsr_mover *mover, struct dsr_job *job);
void dsr_mover_refuse(struct dsr_mover *mover, struct dsr_job *job);

/* fn(arg, job) for each job that is not answered yet; fn may drop it. */
void dsr_mover_each(struct dsr_mover *mover, void (*fn)(void *arg, struct dsr_job *job), void *arg);
/* Blocks that were not submitted are given up with `err`; what was goes on. */
void dsr_mover_drop(struct dsr_mover *mover, struct dsr_job *job, int err);

/* Calls `turned` again after a while. */
void dsr_mover_again(struct dsr_mover *mover);

const struct dsr_l1 *dsr_mover_l1(const struct dsr_mover *mover);
const struct dsr_copier *dsr_mover_copier(const struct dsr_mover *mover);

/* Takes no new work from now on; what was accepted goes on. */
void dsr_mover_drain(struct dsr_mover *mover);
bool dsr_mover_is_idle(const struct dsr_mover *mover); /* no job is left */
bool dsr_mover_is_stuck(const struct dsr_mover *mover);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* LOADs and STOREs of workers, waiting for their copies: a line for each worker, taken in turn.
 *
 * A job belongs to a staging buffer: a buffer has at most one, so a worker's jobs are as many as
 * its buffers and their memory grows to its high-water mark and stays. */
#ifndef DSR_MOVER_JOBS_H
#define DSR_MOVER_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "key.h"

struct dsr_attachment;

struct dsr_job {
	struct dsr_attachment *attachment; /* borrowed: it owns this job */
	struct dsr_job_line *line;         /* borrowed: its worker's */
	struct dsr_job *next;              /* borrowed: behind it in its line */
	bool is_live;                      /* accepted and not yet answered */
	bool is_queued;                    /* in its line: some blocks are not submitted */
	bool is_ended;                     /* every block has its result */
	bool is_blocked;                   /* the worker takes no message for now */
	uint32_t buffer;
	uint64_t lend;
	uint64_t req;       /* of the request, for its reply */
	uint8_t *staging;   /* borrowed: its buffer */
	uint8_t *lane_base; /* borrowed: slot 0 of its worker's lane */
	uint32_t lane;

	struct dsr_ref *refs; /* owned, [capacity] */
	int32_t *errs;        /* owned, [capacity]: the blocks' results */
	uint64_t *digests;    /* owned, [capacity]; of a STORE */
	uint32_t capacity;
	uint32_t count;          /* blocks */
	uint32_t segment_blocks; /* blocks of one submission */
	uint32_t next_block;     /* the first that was not submitted */
	uint32_t done;           /* the first that has no result yet */
	uint32_t begun;          /* blocks before it were submitted, later ones dropped */
	uint32_t reported;       /* the first that was not told to the worker (LOAD) */
	uint32_t running;        /* segments under way */
	uint64_t odd_since_ns;   /* an entry of it is being written since then; 0: none */
	uint32_t copied;         /* blocks whose copy ran */
	uint32_t runs;           /* copies that they made */
	uint64_t queued_ns, started_ns, ended_ns;

	/* of a STORE; its owner is the store actor */
	uint64_t reservation, scheduler, engine;
	uint32_t tail_reason; /* enum dsr_reason: why blocks from `begun` on were dropped */
	uint32_t settled;     /* blocks before it are settled or waiting for that */
	bool is_cancelled;    /* by a CANCEL, or its scheduler is dead: nobody is to be told */
	uint16_t drains;      /* bit for each DRAIN that waits for it */
};

/* One worker's jobs in order. Zeroed: empty. */
struct dsr_job_line {
	struct dsr_job *first, *last; /* borrowed */
	struct dsr_job_line *next;    /* borrowed: in the circle of lines that have jobs */
};

struct dsr_jobs {
	struct dsr_job_line *last; /* borrowed: its next one's turn it is; NULL: no job */
	uint32_t lines;            /* in the circle */
	uint32_t count;            /* jobs queued */
	uint32_t limit;
};

/* Room for `count` blocks; content is not kept. -ENOMEM: unchanged. */
int dsr_job_reserve(struct dsr_job *job, uint32_t count);
void dsr_job_done(struct dsr_job *job); /* frees what it owns, zeroes it */

/* Puts a job at the end of job->line. -EAGAIN: `limit` jobs are queued already. */
int dsr_jobs_add(struct dsr_jobs *jobs, struct dsr_job *job);
/* The job whose turn it is, or NULL; the next call gives another line's. It stays in its line. */
struct dsr_job *dsr_jobs_turn(struct dsr_jobs *jobs);
/* Takes it out of its line; nothing when it is in none. */
void dsr_jobs_remove(struct dsr_jobs *jobs, struct dsr_job *job);

#endif

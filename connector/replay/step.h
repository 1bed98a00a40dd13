/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine tells its ranks and what they answer. Requests and answers alternate, but for
 * WAKE, which ends the wait of an idle step early and has no answer of its own. */
#ifndef REPLAY_STEP_H
#define REPLAY_STEP_H

#include "daser/worker.h"
#include "frames.h"

enum replay_frame {
	REPLAY_FRAME_SETUP = 1,    /* settings of the rank -> READY */
	REPLAY_FRAME_READY = 2,    /* error, reason, geometry */
	REPLAY_FRAME_ATTACH = 3,   /* wait for the service -> ATTACHED */
	REPLAY_FRAME_ATTACHED = 4, /* error, reason */
	REPLAY_FRAME_STEP = 5,     /* -> DONE */
	REPLAY_FRAME_DONE = 6,
	REPLAY_FRAME_WAKE = 7,
	REPLAY_FRAME_STATS = 8, /* -> STATS_ARE */
	REPLAY_FRAME_STATS_ARE = 9,
	REPLAY_FRAME_STOP = 10, /* the rank closes and exits */
};

/* All that a rank must know before it can begin. Texts are borrowed. */
struct replay_setup {
	const char *run_dir, *engine, *fingerprint_text, *device, *staging_mode;
	uint64_t block_bytes, staging_ceiling;
	uint32_t rank, world, lane, lanes, writer;
	uint32_t block_tokens, blocks, layers;
	uint32_t load_deadline_ms, save_deadline_ms;
};

void replay_setup_put(struct replay_buf *buf, const struct replay_setup *setup);
/* -EBADMSG. Texts borrow from the view's bytes. */
int replay_setup_get(struct replay_view view, struct replay_setup *ret_setup);

/* Blocks [first, first + count) of a request, with the seeds of their contents. */
struct replay_run {
	const char *name;     /* of the request */
	uint32_t request;     /* its index in the workload */
	uint32_t first;       /* block of the request */
	uint32_t from;        /* first token, in the first block */
	uint32_t to;          /* token after the last one, in the last block */
	uint32_t count;       /* blocks */
	const uint8_t *ids;   /* u32 each, unaligned */
	const uint8_t *seeds; /* u64 each, unaligned */
};

int replay_run_get(struct replay_view *view, struct replay_run *ret_run);

/* A step being composed by the engine: lists, in the order in which a rank carries them out. */
struct replay_step {
	struct replay_buf finished; /* texts */
	struct replay_buf poison;   /* u32: blocks that were newly allocated */
	struct replay_buf loads;    /* runs */
	struct replay_buf fills;    /* runs: what the forward pass computes */
	struct replay_buf checks;   /* runs: what the forward pass reads */
	uint32_t finished_count, poison_count, load_count, fill_count, check_count;
};

void replay_step_done(struct replay_step *step);
void replay_step_clear(struct replay_step *step);
/* Frame body: wait_ns is how long an idle rank may wait for news. */
void replay_step_put(struct replay_buf *buf, const struct replay_step *step, uint64_t wait_ns,
                     const void *meta, size_t meta_length);

/* A step as a rank reads it; lists are read with replay_get_* and replay_run_get in this order. */
struct replay_step_view {
	uint64_t wait_ns;
	const void *meta; /* borrowed, as the views */
	size_t meta_length;
	uint32_t finished_count, poison_count, load_count, fill_count, check_count;
	struct replay_view lists;
};
int replay_step_get(struct replay_view view, struct replay_step_view *ret_step);

/* Where content was wrong. */
struct replay_mismatch {
	uint32_t request, block, id; /* block: of the request */
	uint32_t after_load;         /* 1: seen right after the load, 0: when it was read */
	uint64_t bytes, first;       /* how many differ, offset of the first */
};
#define REPLAY_MISMATCHES_MAX 8 /* of one step in full; the bytes of the rest are added up */

/* A rank's answer to a step. Texts are borrowed from the answer's bytes. */
struct replay_done {
	int32_t error;      /* errno of a libdaser call that failed, or 0 */
	const char *reason; /* which */
	const void *bytes;  /* for daser_scheduler_update */
	size_t length;
	uint64_t wrong_bytes;
	uint32_t sending_count, recving_count, failed_count, mismatch_count, sample_count;
	struct replay_view sending, recving; /* texts */
	struct replay_view mismatches;
	const uint8_t *failed;  /* u32 each, unaligned: block ids */
	const uint8_t *samples; /* u64 each, unaligned: ns from a load's start to its report */
};
int replay_done_get(struct replay_view view, struct replay_done *ret_done);
int replay_mismatch_get(struct replay_view *view, struct replay_mismatch *ret_mismatch);
void replay_mismatch_put(struct replay_buf *buf, const struct replay_mismatch *mismatch);

void replay_stats_put(struct replay_buf *buf, const struct daser_worker_stats *stats,
                      bool is_null_block_clean);
int replay_stats_get(struct replay_view view, struct daser_worker_stats *ret_stats,
                     bool *ret_is_null_block_clean);

#endif

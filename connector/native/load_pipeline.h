/* SPDX-License-Identifier: Apache-2.0 */
/* LoadPipeline: blocks from L1 through load staging into the KV cache, on a stream of its own.
 *
 * A load is bound, started, sent in batches of one buffer, and scattered segment by segment as the
 * load actor tells that they are there; the digest of what was written decides each block. It ends
 * once, when every block has its result, no reply can launch a scatter any more, and none that was
 * launched still runs. A buffer that is out at the deadline stays in quarantine until its actor
 * answered or is confirmed dead; the load does not wait for it.
 *
 * The caller serialises all calls. pump, and what an actor answered, belong to the thread of the
 * stream; bind, start and cancel may come from another. */
#ifndef DSR_NATIVE_LOAD_PIPELINE_H
#define DSR_NATIVE_LOAD_PIPELINE_H

#include "blocks.h"
#include "buffers.h"
#include "codec.h"
#include "roles.h"
#include "stats.h"

struct dsr_load {
	struct dsr_blocks blocks; /* owned */
	uint64_t id;
	uint64_t engine;              /* incarnation of the scheduler object that asked */
	struct dsr_load *next, *prev; /* borrowed: among the bound or the started ones */
	struct dsr_load *turn;        /* borrowed: next of those with blocks to send */
	bool has_turn;
	struct dsr_event after; /* scatters come after it */
	bool is_ordered;        /* the stream was told so */
	uint64_t deadline_ns;
	uint32_t unsent;  /* first block that was not sent */
	uint32_t left;    /* blocks without a result */
	uint32_t failed;  /* blocks */
	uint32_t reasons; /* bit for each enum dsr_reason */
	uint32_t lends;   /* buffers at the actor */
	uint32_t pending; /* scatters that were not skipped and have not ended */
	struct dsr_times times;
};

struct dsr_load_port {
	/* To the load actor. -EAGAIN: not now; anything else negative: it is not there. */
	int (*load)(void *self, const struct dsr_msg_load *msg, uint64_t cookie);
	/* Whether that is the digest of what was stored: 0; -ESTALE: the slot is another block's
	 * now; -EBADMSG: it is not. */
	int (*check)(void *self, const struct dsr_ref *ref, uint64_t digest);
	/* These blocks hold other bytes than were stored. */
	void (*mismatch)(void *self, const struct dsr_ref *refs, uint32_t count);
	/* It is over: the receiver's. */
	void (*ended)(void *self, struct dsr_load *load);
	uint64_t (*now_ns)(void *self);
};

struct dsr_load_options {
	struct dsr_stream *stream;          /* borrowed */
	const struct dsr_kv_layout *layout; /* borrowed */
	uint8_t *staging;                   /* borrowed: buffers * buffer_bytes */
	uint64_t buffer_bytes;
	uint32_t buffers;
	const struct dsr_load_port *port; /* borrowed */
	void *self;                       /* first argument of the port's functions */
};

/* Blocks that lie together in a buffer and go into the KV cache by one scatter. */
struct dsr_scatter {
	struct dsr_load *load;     /* borrowed; NULL: skipped */
	struct dsr_buffer *buffer; /* borrowed: counts it as a reader */
	uint32_t first, count;     /* blocks of the load */
	bool is_enqueued;
	struct dsr_event event;
	uint64_t launched_ns;
};

struct dsr_load_list {
	struct dsr_load *first, *last; /* borrowed */
	uint32_t count;
};

struct dsr_load_pipeline {
	struct dsr_load_options options;
	struct dsr_buffers buffers;
	uint32_t batch_blocks;        /* of one buffer */
	bool is_attached;             /* there is a load actor */
	bool is_blocked;              /* the actor's queue was full: pump again soon */
	struct dsr_load_list bound;   /* owned loads */
	struct dsr_load_list started; /* owned loads */
	struct dsr_load *turn_first, *turn_last;
	struct dsr_scatter *ring; /* owned, [ring_size] */
	uint32_t ring_size;
	uint64_t ring_put, ring_launched, ring_reaped; /* ever */
	uint64_t last_done_ns;                         /* of any scatter */
	struct dsr_ref *bad;                           /* owned, [batch_blocks] */
	struct dsr_busy busy;
};

int dsr_load_pipeline_init(struct dsr_load_pipeline *p, const struct dsr_load_options *options);
/* Frees what is left, without telling. */
void dsr_load_pipeline_done(struct dsr_load_pipeline *p);

/* -ENOMEM. */
int dsr_load_new(const struct dsr_meta_job *job, uint64_t engine, uint32_t lane,
                 struct dsr_load **ret_load);
void dsr_load_free(struct dsr_load **load);
/* Of a load that has ended; blocks.results then has the reason. */
bool dsr_load_block_failed(const struct dsr_load *load, uint32_t index);

/* Takes the load over. */
void dsr_load_pipeline_bind(struct dsr_load_pipeline *p, struct dsr_load *load);
/* Starts all that are bound; without an actor they end at once. */
void dsr_load_pipeline_start(struct dsr_load_pipeline *p, struct dsr_event after,
                             uint64_t deadline_ns);
/* Sends, launches, collects, and ends what is past its deadline. */
void dsr_load_pipeline_pump(struct dsr_load_pipeline *p);
void dsr_load_pipeline_on_segment(struct dsr_load_pipeline *p, const struct dsr_msg_segment *msg);
void dsr_load_pipeline_on_reply(struct dsr_load_pipeline *p, uint64_t cookie,
                                const struct dsr_msg_load_reply *reply);
/* -EOWNERDEAD: the buffer is ours again. Anything else: it stays out. */
void dsr_load_pipeline_on_failed(struct dsr_load_pipeline *p, uint64_t cookie, int err);

void dsr_load_pipeline_attach(struct dsr_load_pipeline *p);
/* The actor is gone: what was not sent fails. */
void dsr_load_pipeline_detach(struct dsr_load_pipeline *p, enum dsr_reason reason);
/* Nothing new is sent; what has not arrived fails; buffers that are out are not waited for. */
void dsr_load_pipeline_cancel(struct dsr_load_pipeline *p);

/* When the next load is to be given up; UINT64_MAX: none. */
uint64_t dsr_load_pipeline_deadline(const struct dsr_load_pipeline *p);
/* No copy of an actor and no scatter may run. */
bool dsr_load_pipeline_is_idle(const struct dsr_load_pipeline *p);

#endif

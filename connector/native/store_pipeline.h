/* SPDX-License-Identifier: Apache-2.0 */
/* StorePipeline: blocks from the KV cache through store staging to L1, on a stream of its own.
 *
 * A save is bound, submitted with the event that its blocks are computed behind, and waits in a
 * bounded queue. With a buffer it goes batch after batch: gather (with digests), STORE once the
 * gather has ended, the buffer back with the reply. As many saves as there are buffers are under
 * way at once. The KV cache is read by gathers alone: once those of a save have ended, its blocks
 * may go. What is dropped before its gather was launched is told to the store actor (DROP), and
 * where that cannot be, to the scheduler object by the result DSR_RESULT_UNTOLD.
 *
 * The caller serialises all calls. pump, and what an actor answered, belong to the thread of the
 * stream; the others may come from another. */
#ifndef DSR_NATIVE_STORE_PIPELINE_H
#define DSR_NATIVE_STORE_PIPELINE_H

#include "blocks.h"
#include "buffers.h"
#include "codec.h"
#include "roles.h"
#include "stats.h"

enum dsr_store_phase {
	DSR_STORE_BOUND,     /* its event is not known yet */
	DSR_STORE_QUEUED,    /* no buffer yet */
	DSR_STORE_GATHERING, /* reads the KV cache */
	DSR_STORE_GATHERED,  /* STORE not sent yet */
	DSR_STORE_STORING,   /* the actor has the buffer */
	DSR_STORE_CLOSING,   /* nothing is left but the answer to a DROP */
};

enum dsr_drop_state { DSR_DROP_NONE, DSR_DROP_WANTED, DSR_DROP_SENT, DSR_DROP_ANSWERED };

struct dsr_store {
	struct dsr_blocks blocks;      /* owned; results as in the worker's output */
	uint64_t id;                   /* reservation */
	uint64_t scheduler;            /* incarnation that made it */
	uint64_t engine;               /* incarnation of the scheduler object that chose its id */
	uint64_t serial;               /* cookie of its DROP */
	struct dsr_store *next, *prev; /* borrowed: in order of arrival */
	enum dsr_store_phase phase;
	struct dsr_event after; /* gathers come after it */
	bool is_ordered;        /* the stream was told so */
	bool has_deadline;
	uint64_t deadline_ns;      /* what is not gathered by then is dropped */
	uint32_t unlaunched;       /* first block whose gather was not launched */
	uint32_t left;             /* blocks without a result */
	uint32_t dropped;          /* blocks */
	uint32_t reasons;          /* bit for each enum dsr_reason */
	struct dsr_buffer *buffer; /* borrowed: holds the batch; NULL: none */
	struct dsr_event event;    /* behind the batch's gather */
	uint64_t launched_ns;
	enum dsr_drop_state drop;
	uint32_t drop_first, drop_count, drop_reason;
	struct dsr_times times;
};

struct dsr_store_port {
	/* To the store actor. -EAGAIN: not now; anything else negative: it is not there. */
	int (*store)(void *self, const struct dsr_msg_store *msg, uint64_t cookie);
	int (*drop)(void *self, const struct dsr_msg_drop *msg, uint64_t cookie);
	/* It is over, with a result for each block: the receiver's. */
	void (*ended)(void *self, struct dsr_store *store);
	/* Some blocks of the KV cache are not read any more. */
	void (*released)(void *self);
	uint64_t (*now_ns)(void *self);
};

struct dsr_store_options {
	struct dsr_stream *stream;          /* borrowed */
	const struct dsr_kv_layout *layout; /* borrowed */
	uint8_t *staging;                   /* borrowed: buffers * buffer_bytes */
	uint64_t buffer_bytes;
	uint32_t buffers;
	uint32_t queue_blocks;             /* blocks that wait at most */
	const struct dsr_store_port *port; /* borrowed */
	void *self;                        /* first argument of the port's functions */
};

struct dsr_store_pipeline {
	struct dsr_store_options options;
	struct dsr_buffers buffers;
	uint32_t batch_blocks; /* of one buffer */
	bool is_attached;      /* there is a store actor */
	bool is_blocked;       /* the actor's queue was full: pump again soon */
	uint64_t last_serial;
	uint32_t queued;                /* blocks whose gather was not launched */
	struct dsr_store *first, *last; /* owned */
	uint32_t count;
	uint64_t last_done_ns; /* of any gather */
	struct dsr_busy busy;  /* saves between their first gather and their end */
};

int dsr_store_pipeline_init(struct dsr_store_pipeline *p, const struct dsr_store_options *options);
/* Frees what is left, without telling. */
void dsr_store_pipeline_done(struct dsr_store_pipeline *p);

/* -ENOMEM. */
int dsr_store_new(const struct dsr_meta_job *job, uint64_t engine, uint32_t lane,
                  struct dsr_store **ret_store);
void dsr_store_free(struct dsr_store **store);

/* Takes the save over; one that does not fit the queue is dropped. */
void dsr_store_pipeline_bind(struct dsr_store_pipeline *p, struct dsr_store *store);
/* Submits all that are bound. */
void dsr_store_pipeline_submit(struct dsr_store_pipeline *p, struct dsr_event after);
/* Gathers, sends, drops, and drops what is past its deadline. */
void dsr_store_pipeline_pump(struct dsr_store_pipeline *p);
void dsr_store_pipeline_on_reply(struct dsr_store_pipeline *p, uint64_t cookie,
                                 const struct dsr_msg_store_reply *reply);
/* Of a STORE. -EOWNERDEAD: the buffer is ours again. Anything else: it stays out. */
void dsr_store_pipeline_on_failed(struct dsr_store_pipeline *p, uint64_t cookie, int err);
/* The answer to a DROP, or its failure. */
void dsr_store_pipeline_on_dropped(struct dsr_store_pipeline *p, uint64_t cookie, int err);

void dsr_store_pipeline_attach(struct dsr_store_pipeline *p);
/* The actor is gone, and with it every reservation that it did not commit. */
void dsr_store_pipeline_detach(struct dsr_store_pipeline *p, enum dsr_reason reason);
/* Drops what was not launched; what was goes on to its end. */
void dsr_store_pipeline_cancel(struct dsr_store_pipeline *p);

/* Drops the blocks whose gather was not launched, of every save that `is_meant` says. Gathers of
 * these that run are appended to events (at least `buffers` of them fit). */
typedef bool dsr_store_predicate(void *self, const struct dsr_store *store);
void dsr_store_pipeline_drop(struct dsr_store_pipeline *p, dsr_store_predicate *is_meant,
                             void *self, enum dsr_reason reason, struct dsr_event *events,
                             uint32_t *event_count);
/* The request ended: what is not gathered by then is dropped. */
void dsr_store_pipeline_finish(struct dsr_store_pipeline *p, const char *name, uint64_t name_hash,
                               uint64_t deadline_ns);
/* Blocks of the request may still be read. */
bool dsr_store_pipeline_reads(const struct dsr_store_pipeline *p, const char *name,
                              uint64_t name_hash);

uint64_t dsr_store_pipeline_deadline(const struct dsr_store_pipeline *p);
/* Every save is over and no buffer is out. */
bool dsr_store_pipeline_is_idle(const struct dsr_store_pipeline *p);

#endif

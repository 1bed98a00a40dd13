/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker object share: worker.c (life), worker_steps.c (the engine's calls),
 * outputs.c (what has ended), runtime.c (service thread: registration and messages), movers.c
 * (attaching to the load and the store actor). */
#ifndef DSR_NATIVE_RUNTIME_H
#define DSR_NATIVE_RUNTIME_H

#include "client.h"
#include "daser/worker.h"
#include "load_pipeline.h"
#include "pool.h"
#include "staging.h"
#include "store_pipeline.h"

#define DSR_CANARY_BYTES 4096
#define DSR_STAGING_BUFFERS_MAX 256 /* of one kind; what actors have room for */

/* Options, copied and checked. */
struct dsr_worker_config {
	char engine[128];
	uint8_t fingerprint[DSR_NAMESPACE_BYTES];
	char device[DSR_DEVICE_NAME_MAX];
	uint32_t rank, world, lane, lanes;
	bool is_writer;
	uint32_t block_tokens;
	enum dsr_staging_mode staging_mode;
	uint64_t staging_ceiling, device_total, device_free;
	uint32_t load_deadline_ms, save_deadline_ms, store_queue;
};

enum dsr_mover_state {
	DSR_MOVER_ABSENT,  /* no such actor is connected */
	DSR_MOVER_WANTED,  /* to be attached to, once the first buffer is free */
	DSR_MOVER_WRITING, /* the pattern is under way to the first buffer */
	DSR_MOVER_ASKED,   /* ATTACH is sent */
	DSR_MOVER_ATTACHED,
	DSR_MOVER_LEAVING, /* DETACH is sent */
};

/* The worker's side of its load or its store actor. */
struct dsr_mover_side {
	enum dsr_role role;
	enum dsr_mover_state state;
	struct dsr_peer *peer;                  /* borrowed from the link until its death */
	struct dsr_buffers *buffers;            /* borrowed: of its pipeline */
	struct dsr_stream *stream;              /* borrowed: of its pipeline */
	const struct dsr_device_memory *memory; /* borrowed: its staging */
	struct dsr_buffer *buffer;              /* borrowed: held for the pattern; NULL: none */
	struct dsr_event written;               /* the pattern is in the buffer */
	uint64_t retry_ns;                      /* not before */
	char reason[DSR_REASON_TEXT];           /* why not; "" = no reason yet */
};

/* A request whose saves are awaited before it may be reported. */
struct dsr_sending {
	struct dsr_sending *next;
	uint64_t name_hash;
	uint64_t deadline_ns; /* saves of it that are not gathered by then are dropped */
	char name[];
};

struct daser_worker {
	struct dsr_client client;
	struct dsr_worker_config config;
	char reason[DSR_REASON_TEXT]; /* what the caller was given */
	int output_fd;                /* owned: eventfd */
	struct dsr_device *device;    /* owned */
	bool is_registered;           /* all below was made */
	struct dsr_kv_layout layout;  /* owned */
	struct dsr_staging_plan plan;
	struct dsr_device_memory load_memory, store_memory; /* owned */
	struct dsr_stream *load_stream, *store_stream;      /* owned */
	uint8_t pattern[DSR_CANARY_BYTES];
	uint32_t *takers;            /* owned, [layout.blocks]: 0, or the taker's place + 1 */
	struct dsr_str *taker_names; /* owned */
	uint32_t taker_capacity;

	/* under the lock */
	struct dsr_load_pipeline loads;
	struct dsr_store_pipeline stores;
	uint64_t meta_incarnation, meta_step; /* of the metadata bound last */
	uint32_t meta_deadline_ms;
	bool is_closing;

	/* of the service thread, written under the lock */
	bool is_accepted; /* REGISTER went through at the present scheduler */
	uint64_t pool_epoch;
	struct dsr_pool pool; /* owned when has_pool */
	bool has_pool;
	bool is_connecting; /* the link looks for the actors */
	struct dsr_mover_side load_side, store_side;
	struct dsr_worker_ready { /* what the scheduler was told last */
		uint64_t load, store;
		uint32_t canary;
	} ready;
	struct dsr_timer *register_timer; /* owned by the loop */
	struct dsr_timer *turn_timer;     /* owned by the loop */

	/* outputs, under the lock */
	struct dsr_load *ended_loads, **ended_loads_end;    /* owned list */
	struct dsr_store *ended_stores, **ended_stores_end; /* owned list */
	struct dsr_sending *sending;                        /* owned list */
	uint64_t *waiting; /* owned: hashes of ended requests whose saves may still come */
	uint32_t waiting_count, waiting_capacity;
	uint32_t ended_load_count, ended_store_count;
	/* of the caller, until its next output */
	struct dsr_load *given_loads;      /* owned list: their names were given */
	struct dsr_sending *given_sending; /* owned list */
	const char **names;                /* owned: sending, then receiving */
	size_t name_capacity;
	uint32_t *failed; /* owned */
	size_t failed_capacity;
	struct dsr_pack *pack; /* owned */
	struct daser_worker_stats stats;
	struct dsr_histogram load_ns;
};

/* ---- runtime.c ---- */
extern const struct dsr_client_ops dsr_worker_client_ops;
extern const struct dsr_load_port dsr_worker_load_port;
extern const struct dsr_store_port dsr_worker_store_port;

/* Service thread, with the lock, which it gives up: lets everything go on that can, tells the
 * scheduler what changed. */
void dsr_worker_turn(struct daser_worker *w);

/* ---- movers.c; service thread, with the lock ---- */
void dsr_mover_ready(struct daser_worker *w, struct dsr_mover_side *side, struct dsr_peer *peer);
void dsr_mover_dead(struct daser_worker *w, struct dsr_mover_side *side);
/* The pool is another one: what is attached is attached anew. */
void dsr_mover_renew(struct daser_worker *w, struct dsr_mover_side *side);
/* Goes on with attaching, or detaching, as far as it can. */
void dsr_mover_turn(struct daser_worker *w, struct dsr_mover_side *side);
void dsr_mover_on_attach(struct daser_worker *w, struct dsr_mover_side *side,
                         const struct dsr_msg_attach_reply *reply);
/* ATTACH or DETACH got no answer. */
void dsr_mover_on_failed(struct dsr_mover_side *side, uint32_t type);
struct dsr_mover_side *dsr_mover_of(struct daser_worker *w, enum dsr_role role);
/* Next time that something is to be tried again; UINT64_MAX: none. */
uint64_t dsr_mover_deadline(const struct daser_worker *w, const struct dsr_mover_side *side);

/* ---- outputs.c; with the lock ---- */
void dsr_outputs_init(struct daser_worker *w);
void dsr_outputs_done(struct daser_worker *w);
void dsr_outputs_load(void *self, struct dsr_load *load);    /* port: ended */
void dsr_outputs_store(void *self, struct dsr_store *store); /* port: ended */
void dsr_outputs_released(void *self);                       /* port: released */
/* A save of a rank that does not write: others store these blocks, it has nothing against it. */
void dsr_outputs_spared(struct daser_worker *w, struct dsr_store *store);

#endif

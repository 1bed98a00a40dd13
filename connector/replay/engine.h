/* SPDX-License-Identifier: Apache-2.0 */
/* The engine stand-in: schedules requests over a paged KV cache as vLLM's scheduler does, and calls
 * libdaser's scheduler side in the order of its contract.
 *
 * engine_open.c opens all of it, engine.c runs phases and steps. One step: arrivals and injected
 * faults (inject.c), the schedule (schedule.c), the ranks' work (ranks.c), their outputs
 * (outputs.c). Whatever vLLM asserts of a connector is checked here: a breach ends the run with
 * -EPROTO and a text. The structs are shared by these files alone.
 */
#ifndef REPLAY_ENGINE_H
#define REPLAY_ENGINE_H

#include <sys/queue.h>

#include "daser/scheduler.h"
#include "kvcache.h"
#include "ledger.h"
#include "phase.h"
#include "progress.h"
#include "ranks.h"
#include "rng.h"
#include "settings.h"

/* Where a request is; each but NEW and DONE has a list, in the order in which it is served. */
enum replay_state {
	REPLAY_NEW,     /* not arrived */
	REPLAY_WAITING, /* arrived or preempted: holds no blocks */
	REPLAY_LOADING, /* parked until every rank reported its load */
	REPLAY_READY,   /* its load is over: served before those that wait */
	REPLAY_RUNNING,
	REPLAY_HELD,    /* finished; its blocks are kept until every rank reported its saves */
	REPLAY_LEAVING, /* aborted while loading; the same until every rank reported its load */
	REPLAY_GONE,
	REPLAY_STATES
};

/* When an injected abort comes. */
enum replay_abort {
	REPLAY_ABORT_NEVER,
	REPLAY_ABORT_ARRIVAL,  /* before it was considered */
	REPLAY_ABORT_PROMISED, /* after a match was promised, before blocks were allocated */
	REPLAY_ABORT_LOADING,
	REPLAY_ABORT_PREFILL,
	REPLAY_ABORT_ENDING, /* its last step was computed, its output not yet taken */
	REPLAY_ABORT_KINDS
};

struct replay_request {
	TAILQ_ENTRY(replay_request) link;
	struct replay_key *keys; /* owned: [full] */
	uint32_t *table;         /* owned: ids of its blocks, [table_capacity] */
	char name[24];           /* p<phase>.<index> */
	uint32_t index;
	enum replay_state state;
	uint32_t full;     /* full blocks of its prompt */
	uint32_t tokens;   /* prompt and what was generated */
	uint32_t computed; /* tokens whose KV is there */
	uint32_t now;      /* tokens of the present step */
	uint32_t generated, target;
	uint32_t table_count, table_capacity;
	uint32_t cached;   /* leading blocks that were given to the prefix cache */
	bool must_check;   /* its whole KV is checked when it is read next */
	bool has_computed; /* hits are settled: a later admission does not count */
	bool is_told;      /* the ranks know that it finished */
	bool is_aborted, is_load_failed;
	uint32_t again;  /* times that match said: ask again, since it last waited */
	uint64_t ticket; /* in order of arrival, over all phases */
	uint64_t lookup_ns;
	/* of its load */
	uint32_t load_first, load_count;
	uint32_t first_bad;      /* block of the request, or REPLAY_NONE */
	uint64_t received, sent; /* ranks that reported, a bit each */
	/* injected */
	enum replay_abort abort;
	uint32_t abort_at; /* steps or tokens, by kind */
	bool is_abort_due;
	uint32_t forced; /* preemptions */
	/* for the log */
	uint32_t preemptions;
	uint32_t engine_hits, l1_hits; /* blocks */
	uint32_t seen;                 /* leading blocks that were asked for before */
	uint32_t missing;              /* first full block that was no hit, or REPLAY_NONE */
	enum replay_cause cause;       /* why */
};

TAILQ_HEAD(replay_list, replay_request);

struct replay_engine {
	const struct replay_settings *settings; /* borrowed */
	const struct replay_workload *workload; /* borrowed */
	struct daser_scheduler *scheduler;      /* owned */
	struct replay_ranks *ranks;             /* owned */
	struct replay_kvcache *cache;           /* owned */
	struct replay_ledger *ledger;           /* owned */
	FILE *log;                              /* owned, or NULL */
	struct replay_rng rng;
	struct replay_progress progress;
	uint32_t block_tokens, kv_blocks, world;
	bool is_attached; /* the service served all when it was opened */
	/* the present phase */
	struct replay_phase *phase;      /* borrowed */
	struct replay_request *requests; /* owned: [workload->count] */
	struct replay_list lists[REPLAY_STATES];
	uint32_t counts[REPLAY_STATES];
	uint32_t phase_number;
	uint64_t tickets;
	uint32_t next;  /* request that arrives next */
	uint32_t ended; /* requests that ended for their client */
	uint64_t start_ns;
	struct replay_samples load_ns;
	/* the present step */
	struct replay_step step;
	struct replay_buf frame;
	struct replay_done *done; /* owned: [world] */
	const void **outputs;     /* owned array of borrowed bytes */
	size_t *lengths;          /* owned */
	uint32_t budget;          /* tokens left */
	uint32_t computed;        /* tokens scheduled */
	bool has_preempted, is_again;
	/* progress, for the wait of an idle step and the hang detector */
	uint64_t progress_ns;
	uint32_t idle_steps;
	uint64_t mismatches_said;
	uint64_t drained_blocks; /* blocks that were reserved before the last drain */
	char error[512];         /* why the run ended */
};

/* Opens libdaser's scheduler side, starts the ranks and waits until all are served; when the
 * service is not there or refuses, standard error says why and the engine runs without it. On
 * failure ret_why says why. */
int replay_engine_open(const struct replay_settings *settings,
                       const struct replay_workload *workload, struct replay_engine **ret_engine,
                       char *ret_why, size_t why_bytes);
/* -EIO with ret_why when a rank ended badly. Takes NULL. */
int replay_engine_close(struct replay_engine **engine, char *ret_why, size_t why_bytes);

/* Runs the workload with an empty local cache. phase->name is set; the rest is filled in, also on
 * failure. -EPROTO: the contract was broken; -ETIMEDOUT: hung; engine->error says more. */
int replay_engine_run(struct replay_engine *engine, struct replay_phase *phase);
/* Steps until no save is outstanding, then waits until the service has committed all. */
int replay_engine_drain(struct replay_engine *engine, struct replay_phase *phase);

/* ---- for the engine's own files ---- */

/* One engine step. */
int replay_engine_step(struct replay_engine *engine);
/* Records why the run ends; returns `error`. */
__attribute__((format(printf, 3, 4))) int replay_engine_fail(struct replay_engine *engine,
                                                             int error, const char *format, ...);
void replay_engine_progress(struct replay_engine *engine);

/* Requests (request.c). */
int replay_request_begin(struct replay_engine *engine, struct replay_request *request);
void replay_request_move(struct replay_engine *engine, struct replay_request *request,
                         enum replay_state state);
/* To the head of those that wait. */
void replay_request_retreat(struct replay_engine *engine, struct replay_request *request);
/* NULL when no request of this phase has that name. */
struct replay_request *replay_request_find(struct replay_engine *engine, const char *name);
uint64_t replay_request_seed(const struct replay_engine *engine,
                             const struct replay_request *request, uint32_t block);
/* Why block `missing` of it is not there, noted once for the admission that counts. */
void replay_request_note(struct replay_engine *engine, struct replay_request *request,
                         uint32_t missing);
/* Gives its blocks back. */
void replay_request_put_blocks(struct replay_engine *engine, struct replay_request *request);
/* It ended, however: tells libdaser; holds its blocks as long as the contract says. */
int replay_request_finish(struct replay_engine *engine, struct replay_request *request);
/* Nobody uses its blocks any more: they return, its line is logged, it is GONE. */
void replay_request_release(struct replay_engine *engine, struct replay_request *request);
void replay_request_free(struct replay_request *request);
const char *replay_state_name(enum replay_state state);

/* The schedule of one step (schedule.c). */
int replay_schedule(struct replay_engine *engine);
int replay_schedule_preempt(struct replay_engine *engine, struct replay_request *request);
/* Outputs of one step (outputs.c). */
int replay_outputs_take(struct replay_engine *engine);
int replay_outputs_events(struct replay_engine *engine);
/* Injected aborts and preemptions (inject.c). */
void replay_inject_plan(struct replay_engine *engine, struct replay_request *request);
int replay_inject_before(struct replay_engine *engine);
int replay_inject_after(struct replay_engine *engine);

#endif

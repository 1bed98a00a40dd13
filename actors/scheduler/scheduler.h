/* SPDX-License-Identifier: Apache-2.0 */
/* daser-scheduler: one hit decision for all ranks. Inside of the role: its state, and the handlers,
 * which are spread over on_*.c by who sends: check, act, reply. */
#ifndef DSR_SCHEDULER_SCHEDULER_H
#define DSR_SCHEDULER_SCHEDULER_H

#include "actor.h"
#include "cache.h"
#include "drainlist.h"
#include "engines.h"
#include "leases.h"
#include "pool.h"
#include "quarantine.h"
#include "reservations.h"
#include "watch.h"

#define SCHEDULER_TICK_NS UINT64_C(100000000)
#define SCHEDULER_LOOK_TICKS 10                  /* ticks from one look at the actors to the next */
#define SCHEDULER_GRACE_NS UINT64_C(10000000000) /* for processes to come back after a restart */
#define SCHEDULER_CANCEL_MS 2000                 /* deadline of a CANCEL, then it is repeated */
#define SCHEDULER_TTL_MAX_MS 3600000u            /* the most that lease.ttl_ms accepts */
#define SCHEDULER_COOKIE_QUARANTINE                                                                \
	(UINT64_C(1) << 63) /* CANCELs after a restart; below: a writer */
#define SCHEDULER_WHY_BYTES 256

struct scheduler {
	struct dsr_rt *rt;                     /* borrowed: the runtime's */
	struct dsr_pool pool;                  /* owned; segment.base NULL: no geometry yet */
	struct dsr_pool_geometry geometry;     /* copy of the pool's */
	struct dsr_cache *cache;               /* owned */
	struct dsr_leases *leases;             /* owned */
	struct dsr_reservations *reservations; /* owned */
	struct dsr_timer *tick;                /* owned */
	struct dsr_ref *refs;                  /* owned: scratch, DSR_RESERVATION_KEYS of them */
	struct dsr_peer
		*stores[DSR_ACTOR_ROWS]; /* borrowed until peer_dead: connected store actors */
	struct dsr_engines engines;
	struct dsr_quarantine quarantine;
	bool is_asked[DSR_ACTOR_ROWS]; /* CANCEL to this writer of the quarantine is under way */
	struct dsr_drainlist drains;
	struct dsr_watch watch;
	struct dsr_cache_rebuilt rebuilt; /* what was taken over, for logs and tests */
	uint64_t opened_ns;
	uint32_t ticks;
	bool is_rebuilt;  /* took over from a dead scheduler */
	bool is_settled;  /* the grace after that is over */
	bool is_draining; /* stopping: promises nothing any more */
};

extern const struct dsr_actor_ops dsr_scheduler_ops;

/* ---- scheduler.c ---- */
/* After whatever changed reservations or leases: sends CANCELs, frees, answers DRAINs, publishes
 * the counts. */
void dsr_scheduler_settle(struct scheduler *s);
static inline bool scheduler_has_pool(const struct scheduler *s)
{
	return s->pool.segment.base != NULL;
}
/* NULL without a pool. */
static inline const struct dsr_pool_geometry *scheduler_geometry(const struct scheduler *s)
{
	return scheduler_has_pool(s) ? &s->geometry : NULL;
}

/* ---- pool_setup.c ---- */
/* First of all: a fresh control segment gets its first epoch, else is_rebuilt is set. */
void dsr_scheduler_start_epochs(struct scheduler *s);
/* Whether a pool for this worker could be made: 0, -ENOSPC with the numbers. */
int dsr_scheduler_plan_pool(struct scheduler *s, const struct dsr_rank_request *request,
                            char *ret_why, size_t why_bytes);
/* Makes the pool, gives it to the broker and announces its epoch. */
int dsr_scheduler_make_pool(struct scheduler *s, const struct dsr_rank_request *request,
                            char *ret_why, size_t why_bytes);
/* Takes over the pool of a dead scheduler, if it had one. */
int dsr_scheduler_find_pool(struct scheduler *s);
/* Forgets every block and the geometry. Nothing may be leased or reserved. */
void dsr_scheduler_drop_pool(struct scheduler *s);

/* ---- handlers ---- */
void dsr_scheduler_on_engine(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                             const struct dsr_msg_engine *m);
void dsr_scheduler_on_register(struct scheduler *s, struct dsr_peer *peer,
                               const struct dsr_env *env, const struct dsr_msg_register_worker *m);
void dsr_scheduler_on_worker_ready(struct scheduler *s, struct dsr_peer *peer,
                                   const struct dsr_env *env, const struct dsr_msg_worker_ready *m);
void dsr_scheduler_on_lookup(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                             const struct dsr_msg_lookup *m);
void dsr_scheduler_on_lease(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_lease *m);
void dsr_scheduler_on_release(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                              const struct dsr_msg_release *m);
void dsr_scheduler_on_reserve(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                              const struct dsr_msg_reserve *m);
void dsr_scheduler_on_abandon(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                              const struct dsr_msg_abandon *m);
void dsr_scheduler_on_mismatch(struct scheduler *s, struct dsr_peer *peer,
                               const struct dsr_env *env, const struct dsr_msg_mismatch *m);
void dsr_scheduler_on_commit(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                             const struct dsr_msg_commit *m);
void dsr_scheduler_on_abort(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_abort *m);
void dsr_scheduler_on_cancel_reply(struct scheduler *s, struct dsr_peer *peer,
                                   const struct dsr_env *env, const struct dsr_msg_cancel_reply *m);
void dsr_scheduler_on_drain(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_drain *m);
void dsr_scheduler_on_reset(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_reset *m);

/* ---- on_peer.c ---- */
void dsr_scheduler_peer_ready(void *self, struct dsr_peer *peer);
void dsr_scheduler_peer_dead(void *self, struct dsr_peer *peer);
/* The store actor of a device became known or connected: they are matched by name. */
void dsr_scheduler_meet_store(struct scheduler *s, uint32_t device);
/* Asks the broker to stop the actors of devices on which nobody runs any more. */
void dsr_scheduler_retire_devices(struct scheduler *s);

/* ---- on_store.c ---- */
void dsr_scheduler_request_failed(void *self, struct dsr_peer *peer, uint32_t type, uint64_t cookie,
                                  int err);
/* For the reservations: see dsr_reservations_options.cancel. */
int dsr_scheduler_send_cancel(void *self, uint32_t device, uint64_t cookie,
                              const struct dsr_ref *refs, uint32_t count);
/* Sends CANCEL to the connected store actors that an earlier scheduler may have left writing. */
void dsr_scheduler_ask_writers(struct scheduler *s);
/* Frees the quarantined slots once nobody may be writing there. */
void dsr_scheduler_end_quarantine(struct scheduler *s);

#endif

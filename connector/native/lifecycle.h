/* SPDX-License-Identifier: Apache-2.0 */
/* RequestLifecycle: what the scheduler object decides, without threads and sockets.
 *
 * Messages leave through an outbox: functions that the engine calls put entries in and wake the
 * service; dsr_lifecycle_flush, called there, sends them. Answers come in by dsr_lifecycle_on_*.
 * The caller serialises all calls; the port's wait lets others in meanwhile.
 *
 * Rooms: lifecycle.c (requests, attaching), leases.c (lookups, match, leases, loads), saves.c
 * (reservations and their reports), outbox.c (sending), steps.c (metadata and outputs). */
#ifndef DSR_NATIVE_LIFECYCLE_H
#define DSR_NATIVE_LIFECYCLE_H

#include "codec.h"
#include "daser/scheduler.h"
#include "events.h"
#include "meta.h"
#include "requests.h"
#include "roles.h"
#include "stats.h"

struct dsr_lifecycle_port {
	/* Sends a request to the scheduler actor; its answer, or its failure, names the cookie.
	 * -EAGAIN: not now, keep it. Anything else negative: it will not be sent. */
	int (*send)(void *self, uint32_t type, const void *msg, uint64_t cookie);
	/* The outbox is no longer empty. */
	void (*wake)(void *self);
	/* Lets answers in until one came (true) or `deadline_ns` passed (false). */
	bool (*wait)(void *self, uint64_t deadline_ns);
	void (*count)(void *self, enum dsr_counter counter, uint64_t n);
	uint64_t (*now_ns)(void *self);
};

struct dsr_lifecycle_options {
	const char *engine;         /* copied */
	const uint8_t *fingerprint; /* copied */
	uint64_t incarnation;       /* of the scheduler object */
	uint32_t world;
	uint32_t lookup_wait_us;
	uint32_t lease_ttl_ms; /* 0: as the service has it */
	uint32_t load_deadline_ms;
	uint32_t max_requests;
	const struct dsr_lifecycle_port *port; /* borrowed */
	void *self;                            /* first argument of the port's functions */
};

/* One message to be sent. Those of requests and saves are built when they are sent, and not sent
 * when their id is no longer wanted. */
enum dsr_out_kind {
	DSR_OUT_LOOKUP,
	DSR_OUT_LEASE,
	DSR_OUT_RELEASE,
	DSR_OUT_RESERVE,
	DSR_OUT_ABANDON,
};

/* Blocks of a reservation that are given up; repeated until answered. */
struct dsr_abandon {
	struct dsr_abandon *next; /* borrowed: of those that were sent */
	uint64_t cookie;
	uint64_t reservation;
	uint64_t scheduler;
	uint32_t reason;
	uint32_t count; /* 0: all of it */
	struct dsr_ref refs[];
};

struct dsr_out {
	enum dsr_out_kind kind;
	uint64_t id;
	struct dsr_abandon *abandon; /* owned */
};

struct dsr_outbox {
	struct dsr_out *v; /* owned ring, [capacity], a power of two */
	uint32_t capacity, head, count;
	struct dsr_abandon *sent; /* owned list: not answered yet */
};

struct dsr_save_list {
	struct dsr_save *first, *last; /* borrowed: the lifecycle's places own them */
	uint32_t count;
};

/* Names and block ids that the next metadata tells. */
enum dsr_note_kind { DSR_NOTE_PREEMPTED, DSR_NOTE_FREED, DSR_NOTE_WAITING, DSR_NOTE_TAKEN };

struct dsr_note {
	int kind;    /* enum dsr_note_kind */
	size_t name; /* place in text */
	uint32_t name_bytes;
	size_t first_id; /* place in ids */
	uint32_t id_count;
};

struct dsr_notes {
	char *text; /* owned: names */
	size_t text_bytes, text_capacity;
	struct dsr_note *v; /* owned */
	size_t count, capacity;
	uint32_t *ids; /* owned */
	size_t id_count, id_capacity;
	uint32_t kinds[DSR_NOTE_TAKEN + 1]; /* notes of each kind */
};

struct dsr_lifecycle {
	struct dsr_lifecycle_options options;
	char *engine; /* owned */
	uint8_t fingerprint[DSR_NAMESPACE_BYTES];
	uint64_t weight_epoch;
	uint64_t last_id;
	uint64_t step;
	bool is_attached;
	bool is_gone; /* the scheduler actor of `scheduler` is dead, and all that it held with it */
	uint64_t scheduler; /* incarnation of the present or last scheduler actor */
	struct dsr_requests requests;
	struct dsr_save **save_places; /* owned array, [DSR_PLACES]; holes are NULL */
	uint32_t save_next;            /* place to try first */
	struct dsr_save_list asked, granted, issued;
	struct dsr_engine_request *
		*load_queue; /* owned array, each a use: loads of the next metadata */
	uint32_t load_count, load_capacity;
	struct dsr_outbox outbox;
	struct dsr_notes notes;
	struct dsr_events events;
	struct dsr_pack *pack; /* owned: the step's metadata */
	struct dsr_histogram lookup_ns;
	struct daser_scheduler_stats stats;
};

int dsr_lifecycle_init(struct dsr_lifecycle *lc, const struct dsr_lifecycle_options *options);
void dsr_lifecycle_done(struct dsr_lifecycle *lc);

/* The engine was accepted by a scheduler actor; that one is dead; that one lives and does nothing:
 * what is to be given back to it waits. */
void dsr_lifecycle_attached(struct dsr_lifecycle *lc, uint64_t scheduler);
void dsr_lifecycle_detached(struct dsr_lifecycle *lc);
void dsr_lifecycle_stalled(struct dsr_lifecycle *lc);
/* Twice a second or so: renews the leases of loads that take long. */
void dsr_lifecycle_tick(struct dsr_lifecycle *lc);
/* Gives up what no rank was told of, releases leases. The outbox may hold messages after it. */
void dsr_lifecycle_shut(struct dsr_lifecycle *lc);

/* What daser_scheduler_* of the same name do, checks of arguments included. */
int dsr_lifecycle_new_request(struct dsr_lifecycle *lc, const char *name, const void *hashes,
                              uint32_t count, uint32_t hash_bytes, const struct dsr_bin *variant,
                              uint32_t flags);
int dsr_lifecycle_extend(struct dsr_lifecycle *lc, const char *name, const void *hashes,
                         uint32_t count, uint32_t hash_bytes);
int dsr_lifecycle_match(struct dsr_lifecycle *lc, const char *name, uint32_t computed,
                        uint32_t *ret_blocks);
int dsr_lifecycle_allocated(struct dsr_lifecycle *lc, const char *name, const uint32_t *ids,
                            uint32_t count, uint32_t computed, uint32_t external);
int dsr_lifecycle_scheduled(struct dsr_lifecycle *lc, const char *name, const uint32_t *ids,
                            uint32_t count, uint32_t storable);
int dsr_lifecycle_preempted(struct dsr_lifecycle *lc, const char *name);
int dsr_lifecycle_finished(struct dsr_lifecycle *lc, const char *name, int *ret_delay);
int dsr_lifecycle_build_meta(struct dsr_lifecycle *lc, const void **ret_bytes, size_t *ret_length);
int dsr_lifecycle_update(struct dsr_lifecycle *lc, const void *const *outputs,
                         const size_t *lengths, uint32_t ranks);
int dsr_lifecycle_reset_cache(struct dsr_lifecycle *lc, uint64_t weight_epoch);
int dsr_lifecycle_pending(const struct dsr_lifecycle *lc);
void dsr_lifecycle_stats(const struct dsr_lifecycle *lc, struct daser_scheduler_stats *ret_stats);

/* ---- outbox.c ---- */

/* Sends what can be sent. True: something is left, call again soon. */
bool dsr_lifecycle_flush(struct dsr_lifecycle *lc);
/* -EAGAIN: full. An abandon is taken over, or freed on failure. */
int dsr_outbox_put(struct dsr_lifecycle *lc, enum dsr_out_kind kind, uint64_t id,
                   struct dsr_abandon *abandon);
void dsr_outbox_done(struct dsr_outbox *outbox);
/* Everything in it is dropped; requests and saves learn so. What gives something back is kept for a
 * scheduler actor that is not dead. */
void dsr_outbox_fail(struct dsr_lifecycle *lc);
/* Gives up reserved blocks of a save at the scheduler actor. */
void dsr_abandon_put(struct dsr_lifecycle *lc, const struct dsr_save *save,
                     const struct dsr_ref *refs, uint32_t count, uint32_t reason);

/* ---- answers ---- */

void dsr_lifecycle_on_lookup(struct dsr_lifecycle *lc, uint64_t cookie,
                             const struct dsr_msg_lookup_reply *reply);
void dsr_lifecycle_on_lease(struct dsr_lifecycle *lc, uint64_t cookie,
                            const struct dsr_msg_lease_reply *reply);
void dsr_lifecycle_on_reserve(struct dsr_lifecycle *lc, uint64_t cookie,
                              const struct dsr_msg_reserve_reply *reply);
void dsr_lifecycle_on_abandon(struct dsr_lifecycle *lc, uint64_t cookie);
/* A request of ours got no answer: as dsr_link_ops.request_failed. */
void dsr_lifecycle_on_failed(struct dsr_lifecycle *lc, uint32_t type, uint64_t cookie, int err);

/* ---- leases.c ---- */

void dsr_lookup_ask(struct dsr_lifecycle *lc, struct dsr_engine_request *request);
void dsr_lookup_answer(struct dsr_lifecycle *lc, struct dsr_engine_request *request, int err,
                       uint32_t hits);
void dsr_lease_ask(struct dsr_lifecycle *lc, struct dsr_engine_request *request, uint32_t first,
                   uint32_t count);
/* Ends a lease at the service, if there may be one. */
void dsr_lease_release(struct dsr_lifecycle *lc, struct dsr_engine_request *request);
/* Turns the promise [first, first + external) into a load. */
int dsr_load_begin(struct dsr_lifecycle *lc, struct dsr_engine_request *request, uint32_t external);
/* One rank's report. */
void dsr_load_report(struct dsr_lifecycle *lc, uint32_t rank, const struct dsr_output_load *load);

/* ---- saves.c ---- */

/* Reserves blocks [request->cursor, storable), whose ids are in the table, and moves the cursor. */
void dsr_saves_reserve(struct dsr_lifecycle *lc, struct dsr_engine_request *request,
                       uint32_t storable);
struct dsr_save *dsr_saves_at(const struct dsr_lifecycle *lc, uint64_t id);
void dsr_saves_sent(struct dsr_lifecycle *lc, struct dsr_save *save);
/* Its RESERVE was never carried out, or nobody knows. */
void dsr_saves_fail(struct dsr_lifecycle *lc, struct dsr_save *save, uint32_t reason,
                    bool may_exist);
/* Gives up what no rank was told of: of one request, or of all when NULL. Returns the first block
 * of the request that is given up, UINT32_MAX when none. */
uint32_t dsr_saves_give_up(struct dsr_lifecycle *lc, const struct dsr_engine_request *request,
                           uint32_t reason);
/* Before a step's metadata is written: notes the requests that have ended while a RESERVE of theirs
 * is not answered yet, so that the workers wait for its saves; gives them up 1 s after the end. */
void dsr_saves_wait_ended(struct dsr_lifecycle *lc);
/* GRANTED -> ISSUED: it was written into the metadata. */
void dsr_saves_issued(struct dsr_lifecycle *lc, struct dsr_save *save);
/* One rank's report. */
void dsr_saves_report(struct dsr_lifecycle *lc, uint32_t rank,
                      const struct dsr_output_save *report);
void dsr_saves_done(struct dsr_lifecycle *lc);

/* ---- shared ---- */

/* A block of the request was not stored: counted, here and in the counters page. */
void dsr_block_dropped(struct dsr_lifecycle *lc, const struct dsr_engine_request *request,
                       uint32_t block, uint32_t reason);
void dsr_block_event(struct dsr_lifecycle *lc, const struct dsr_engine_request *request,
                     uint32_t block, enum daser_block_fate fate, uint32_t reason);
uint64_t dsr_lifecycle_now(const struct dsr_lifecycle *lc);
/* Notes for the next metadata; -ENOMEM. */
int dsr_notes_add(struct dsr_notes *notes, int kind, const struct dsr_engine_request *request,
                  const uint32_t *ids, uint32_t count);
void dsr_notes_clear(struct dsr_notes *notes);
void dsr_notes_done(struct dsr_notes *notes);

#endif

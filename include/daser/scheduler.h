/* SPDX-License-Identifier: Apache-2.0 */
/* libdaser, scheduler side: RequestLifecycle. One object in the engine's scheduling process.
 *
 * Order of calls, as vLLM's scheduler makes them:
 *   new_request  once, when the request arrives: the lookup goes out
 *   match        each time the scheduler considers the waiting request
 *   allocated    after allocation, with the whole block table; starts the load when external > 0
 *   scheduled    each step that computes tokens of it (after the schedule is made)
 *   preempted    in the step that takes its blocks away
 *   build_meta   once a step, also empty ones: the bytes for every worker
 *   update       once for each step's output, all ranks together
 *   finished     once, however it ends
 * Blocks are counted in units of `block_tokens`; block ids are the engine's.
 *
 * Every function returns at once but match, which waits at most `lookup_wait_us`.
 */
#ifndef DASER_SCHEDULER_H
#define DASER_SCHEDULER_H

#include "daser.h"

struct daser_scheduler;

struct daser_scheduler_options {
	size_t size;         /* sizeof(struct daser_scheduler_options): versioning */
	const char *run_dir; /* NULL or "": DASER_RUN_DIR or the default */
	const char *engine;  /* name of this engine, the same in its workers; unique per start */
	const uint8_t *fingerprint; /* DASER_NAMESPACE_BYTES */
	uint32_t world;             /* ranks */
	uint32_t block_tokens;
	uint32_t lookup_wait_us;   /* 0: never wait */
	uint32_t lease_ttl_ms;     /* 0: as configured */
	uint32_t load_deadline_ms; /* 0: 10000; a parked load is failed by its worker then */
	uint32_t max_requests;     /* live requests at most; 0: 4096 */
};

/* Where the tokens of a request came from, and why blocks were not stored. */
struct daser_scheduler_stats {
	size_t size;
	uint64_t lookups, lookup_blocks, lookup_hit_blocks;
	uint64_t loads, load_blocks, load_failed_blocks;
	uint64_t l1_hits, l1_misses, l2_reads;
	uint64_t reserved_blocks, stored_blocks;
	uint64_t lookup_p50_ns, lookup_p99_ns; /* LOOKUP round trips */
	uint64_t drops[32];                    /* by enum dsr_reason, logical blocks */
	uint64_t errors;                       /* answered by a safe default */
};

/* Creates the object and starts looking for the service in a thread of its own. -EINVAL with
 * nothing created when an option is out of range (stderr says which), -ENOMEM. Does not block. */
DASER_API int daser_scheduler_open(const struct daser_scheduler_options *options,
                                   struct daser_scheduler **ret_scheduler);
/* Releases leases, abandons reservations, ends the thread. Waits at most 1 s. NULL is fine. */
DASER_API void daser_scheduler_close(struct daser_scheduler **scheduler);

DASER_API enum daser_state daser_scheduler_state(struct daser_scheduler *scheduler);
/* Why it is not attached, for a log line; "" when it is. Valid until the next call. */
DASER_API const char *daser_scheduler_reason(struct daser_scheduler *scheduler);

/* A request of `count` full blocks: hashes is count * hash_bytes bytes (hash_bytes <= 32), variant
 * is what else must tell its KV apart (LoRA version, weight epoch; may be empty). flags:
 * DASER_SKIP_LOAD, DASER_SKIP_SAVE. Sends the LOOKUP. -EEXIST, -EINVAL, -EAGAIN (max_requests). */
#define DASER_SKIP_LOAD 1u
#define DASER_SKIP_SAVE 2u
DASER_API int daser_scheduler_new_request(struct daser_scheduler *scheduler, const char *request,
                                          const void *hashes, uint32_t count, uint32_t hash_bytes,
                                          const void *variant, uint32_t variant_bytes,
                                          uint32_t flags);
/* More full blocks became known (decode). */
DASER_API int daser_scheduler_extend(struct daser_scheduler *scheduler, const char *request,
                                     const void *hashes, uint32_t count, uint32_t hash_bytes);
/* Blocks beyond `computed` leading ones that can be loaded now; they are leased, so the answer may
 * be promised. *ret_blocks = 0: none. -EAGAIN: ask again next step (at most 3 times for one
 * request). Idempotent. After a failed load of the request the failed blocks are not promised
 * again. */
DASER_API int daser_scheduler_match(struct daser_scheduler *scheduler, const char *request,
                                    uint32_t computed, uint32_t *ret_blocks);
/* The request got the block table `ids` (count entries, from its first block); blocks
 * [computed, computed + external) of it are to be loaded; external may be less than promised, 0
 * too. The load goes into the next build_meta. */
DASER_API int daser_scheduler_allocated(struct daser_scheduler *scheduler, const char *request,
                                        const uint32_t *ids, uint32_t count, uint32_t computed,
                                        uint32_t external);
/* After this step the first `storable` blocks of the request hold valid KV; `ids` is its block
 * table (at least `storable` entries). Reserves slots for the new ones; they are stored from the
 * step on in which the answer is there. */
DASER_API int daser_scheduler_scheduled(struct daser_scheduler *scheduler, const char *request,
                                        const uint32_t *ids, uint32_t count, uint32_t storable);
/* The request lost its blocks in this step: saves not yet launched are dropped. */
DASER_API int daser_scheduler_preempted(struct daser_scheduler *scheduler, const char *request);
/* Metadata of this step, to be given to every worker. *ret_bytes is the object's, valid until the
 * next build_meta. */
DASER_API int daser_scheduler_build_meta(struct daser_scheduler *scheduler, const void **ret_bytes,
                                         size_t *ret_length);
/* Output of one step: `outputs[i]` from rank i (NULL or length 0: none), as daser_worker_output
 * gave it: failed blocks, stored and dropped saves, ended loads. An id counts as ended when every
 * rank reported it. -EBADMSG: that output is ignored, the others are taken. */
DASER_API int daser_scheduler_update(struct daser_scheduler *scheduler, const void *const *outputs,
                                     const size_t *lengths, uint32_t ranks);
/* The request ended. *ret_delay is 1 when its blocks must be kept until all ranks reported
 * finished_sending for it (exactly once), else 0. */
DASER_API int daser_scheduler_finished(struct daser_scheduler *scheduler, const char *request,
                                       int *ret_delay);
/* Weights changed or the cache is to be forgotten: nothing stored before is matched again by this
 * engine (the weight epoch is mixed into each key from now on). */
DASER_API int daser_scheduler_reset_cache(struct daser_scheduler *scheduler, uint64_t weight_epoch);
/* 1 while a save or a report is outstanding and the engine should keep stepping, else 0. */
DASER_API int daser_scheduler_pending(struct daser_scheduler *scheduler);
DASER_API int daser_scheduler_get_stats(struct daser_scheduler *scheduler,
                                        struct daser_scheduler_stats *ret_stats);

/* What became of blocks that this engine wanted stored, in the order it was learned. */
enum daser_block_fate {
	DASER_BLOCK_RESERVED = 1, /* slots are reserved, its save is under way */
	DASER_BLOCK_STORED =
		2, /* every writing rank handed it over; it is visible or about to be */
	DASER_BLOCK_DROPPED = 3, /* not stored, see reason */
};
struct daser_block_event {
	uint8_t hash[DASER_HASH_MAX]; /* as given, zero padded */
	uint32_t fate;                /* enum daser_block_fate */
	uint32_t reason;              /* enum dsr_reason (include/reasons.def) when dropped */
};
/* Takes at most `max` events; *ret_count is how many. Events beyond 65,536 untaken ones are lost
 * and counted in stats.errors. */
DASER_API int daser_scheduler_take_events(struct daser_scheduler *scheduler,
                                          struct daser_block_event *events, uint32_t max,
                                          uint32_t *ret_count);

#endif

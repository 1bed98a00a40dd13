/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations: blocks that an engine is storing. Each lane's store actor commits or aborts; what
 * is aborted is freed only when every store actor that may write it has answered a CANCEL or is
 * confirmed dead.
 *
 *   a block of a reservation:  open --commit of the last lane--> visible (not ours any more)
 *                                \--abort--> pending --CANCEL sent--> flying --all answered-->
 * freed
 *
 * A reservation is live while it has open, pending or flying blocks, and done then; its answer is
 * kept for repeats until 1024 later ones of its engine are done or the ring of answers went round.
 * Owners (engine processes) and devices (store actors) are numbers that the caller gives. */
#ifndef DSR_SCHEDULER_RESERVATIONS_H
#define DSR_SCHEDULER_RESERVATIONS_H

#include "cache.h"

#define DSR_RESERVATIONS_MAX 16384   /* live ones */
#define DSR_RESERVATIONS_KEPT 1024   /* done ones of each owner */
#define DSR_RESERVATION_KEYS 131072u /* keys of one message: what DSR_FRAME_MAX holds */
#define DSR_RESERVATION_OWNERS 32
#define DSR_RESERVATION_ANSWERS (16u << 20) /* bytes: some 1.8 million blocks */

struct dsr_reservations;

struct dsr_reservations_options {
	struct dsr_cache *cache;            /* borrowed */
	struct dsr_counters_page *counters; /* borrowed; may be NULL */
	uint32_t live_max;
	uint32_t kept;
	size_t answer_bytes;
	/* Sends CANCEL to the store actor of a device; its answer comes by
	 * dsr_reservations_answered or _unanswered with the cookie (below 2^63), not from within.
	 * -EOWNERDEAD: there is none, which counts as its answer; any other error: tried again by
	 * dsr_reservations_retry. */
	int (*cancel)(void *self, uint32_t device, uint64_t cookie, const struct dsr_ref *refs,
	              uint32_t count);
	void *self;
};

int dsr_reservations_new(const struct dsr_reservations_options *options,
                         struct dsr_reservations **ret_reservations);
/* Aborts nothing: the cache goes as well. */
void dsr_reservations_free(struct dsr_reservations **reservations);

/* An engine process begins and ends. End aborts what it has and forgets what is done; the number
 * may be used again. */
void dsr_reservations_owner_begin(struct dsr_reservations *reservations, uint32_t owner,
                                  uint64_t incarnation);
void dsr_reservations_owner_end(struct dsr_reservations *reservations, uint32_t owner);

struct dsr_reserve_request {
	uint32_t owner;
	uint64_t id;
	const struct dsr_key *keys;
	uint32_t count;
	const struct dsr_key *parent; /* key of the block before the first; NULL: none */
	uint32_t depth;               /* of the first block */
	uint32_t devices;             /* bit per device whose store actor may write */
};
/* Slices are the reservations', valid until the next call. */
struct dsr_reserve_answer {
	const int32_t *status; /* one a key */
	const struct dsr_ref *refs;
	uint32_t reserved; /* refs */
};
/* Reserves what is absent, evicting where it must. 0: the answer, of a repeat the same again.
 * -ESTALE: the id is older than what is remembered; -EINVAL: a repeat with other keys, or too many
 * keys; -EAGAIN: too many live reservations (counted). */
int dsr_reservations_reserve(struct dsr_reservations *reservations,
                             const struct dsr_reserve_request *request, uint64_t now_ns,
                             struct dsr_reserve_answer *ret_answer);

/* What a store actor tells of one lane. Blocks that are not open blocks of this reservation are
 * stale and passed over. */
struct dsr_lane_report {
	uint64_t owner; /* incarnation of the engine process */
	uint64_t id;
	uint32_t lane;
	const struct dsr_ref *refs;
	uint32_t count;
};
/* ret_committed: lanes newly set; ret_visible: blocks that became visible. */
void dsr_reservations_commit(struct dsr_reservations *reservations,
                             const struct dsr_lane_report *report, uint32_t *ret_committed,
                             uint32_t *ret_visible);
/* except: devices that need no CANCEL, since this is their own report and they write no other lane.
 * Returns how many blocks were aborted, reserved children of them included. */
uint32_t dsr_reservations_abort(struct dsr_reservations *reservations,
                                const struct dsr_lane_report *report, uint32_t except);
/* The engine gives up blocks of its reservation; count 0: all of it. -ENOENT: no such reservation.
 */
int dsr_reservations_abandon(struct dsr_reservations *reservations, uint32_t owner, uint64_t id,
                             const struct dsr_ref *refs, uint32_t count);
/* The workers that write these lanes of an owner are dead: what lacks them is aborted. Their store
 * actors may still be copying. */
uint32_t dsr_reservations_lanes_dead(struct dsr_reservations *reservations, uint32_t owner,
                                     uint64_t lanes);
/* The store actor of a device is confirmed dead. lanes[owner]: which lanes of that owner it wrote;
 * what lacks one of them is aborted, and its answers are not waited for any more. */
uint32_t dsr_reservations_device_dead(struct dsr_reservations *reservations, uint32_t device,
                                      const uint64_t lanes[DSR_RESERVATION_OWNERS]);

/* The store actor of a device answered a CANCEL, or did not. */
void dsr_reservations_answered(struct dsr_reservations *reservations, uint64_t cookie,
                               uint32_t device);
void dsr_reservations_unanswered(struct dsr_reservations *reservations, uint64_t cookie,
                                 uint32_t device);
/* Sends again what was not sent or not answered. Now and then. */
void dsr_reservations_retry(struct dsr_reservations *reservations);
/* After any of the above: sends CANCELs, frees, and finishes what is over. */
void dsr_reservations_flush(struct dsr_reservations *reservations);

uint32_t dsr_reservations_live(const struct dsr_reservations *reservations);
/* Reservations are counted from 1: the newest ever, and the oldest live one (UINT64_MAX: none). */
uint64_t dsr_reservations_newest(const struct dsr_reservations *reservations);
uint64_t dsr_reservations_oldest(const struct dsr_reservations *reservations);
/* Blocks not yet visible or freed, of reservations up to `serial`. */
uint64_t dsr_reservations_left(const struct dsr_reservations *reservations, uint64_t serial);

#endif

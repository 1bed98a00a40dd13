/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler object knows of each request, and of each reservation. */
#ifndef DSR_NATIVE_REQUESTS_H
#define DSR_NATIVE_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"

/* Ids of everything that is answered (lookups, leases, loads, reservations) hold the place of its
 * request or save in their low bits and a counter above: unique, and ever greater. */
#define DSR_PLACE_BITS 16
#define DSR_PLACES (1u << DSR_PLACE_BITS)

enum dsr_ask {
	DSR_ASK_NONE,
	DSR_ASK_ASKED, /* queued or sent */
	DSR_ASK_DONE,
};

struct dsr_lookup {
	uint64_t id;
	enum dsr_ask state;
	uint32_t hits;
	uint64_t asked_ns, answered_ns;
};

enum dsr_lease_state {
	DSR_LEASE_NONE,
	DSR_LEASE_ASKED,
	DSR_LEASE_LIVE,
	DSR_LEASE_LOST, /* its scheduler is gone: may be loaded by, not promised */
};

struct dsr_lease {
	uint64_t id;
	enum dsr_lease_state state;
	uint64_t scheduler; /* incarnation that granted it */
	uint64_t asked_ns, expires_ns, ttl_ns;
	int err;        /* why the last one was not granted */
	uint32_t first; /* block */
	uint32_t asked;
	uint32_t granted;
	uint32_t capacity;
	struct dsr_ref *refs; /* owned */
};

enum dsr_load_state {
	DSR_LOAD_NONE,
	DSR_LOAD_QUEUED, /* goes into the next metadata */
	DSR_LOAD_ISSUED, /* ranks work on it */
};

struct dsr_request_load {
	uint64_t id;
	enum dsr_load_state state;
	uint32_t first, count;
	uint32_t ended;    /* ranks that reported */
	uint64_t *ranks;   /* owned: bit for each of them */
	uint8_t *failed;   /* owned: 1 for each block that some rank could not load */
	uint32_t failures; /* blocks that are set */
};

struct dsr_engine_request {
	char *name; /* owned */
	uint32_t name_bytes;
	uint32_t place;
	struct dsr_engine_request *chain; /* borrowed: next of its bucket */
	uint32_t users;       /* 1 while it lives, and 1 for its load and for each save */
	bool is_live;         /* known by name: not finished */
	uint64_t ended_ns;    /* when it was finished */
	uint64_t waited_step; /* the step whose metadata says that it waits */
	bool skips_load, skips_save;
	uint8_t *variant; /* owned: what else tells its KV apart */
	uint32_t variant_bytes;
	struct dsr_key mask;  /* key = hash XOR mask */
	struct dsr_key *keys; /* owned */
	uint32_t count, capacity;
	uint32_t *table; /* owned: block ids, as far as they were told */
	uint32_t table_count, table_capacity;
	struct dsr_lookup lookup;
	struct dsr_lease lease;
	struct dsr_request_load load;
	uint32_t tries;  /* -EAGAIN given */
	uint32_t limit;  /* blocks from here on failed to load: never promised again */
	uint32_t cursor; /* blocks that need no reservation any more */
	uint32_t lost;   /* the first of them that nobody was there to reserve */
	uint32_t saves;  /* reservations that are not over */
	uint32_t issued; /* of these, the ones that ranks work on */
	uint32_t given_up;
};

enum dsr_save_state {
	DSR_SAVE_ASKED,   /* RESERVE queued or sent */
	DSR_SAVE_GRANTED, /* goes into the next metadata */
	DSR_SAVE_ISSUED,  /* ranks work on it */
	DSR_SAVE_GIVEN_UP /* when the answer comes, its blocks are abandoned */
};

#define DSR_FATE_DROPPED 1u   /* some rank did not store it */
#define DSR_FATE_ABANDONED 2u /* the scheduler actor was told so by us */

/* One reservation. */
struct dsr_save {
	uint64_t id;
	enum dsr_save_state state;
	bool is_sent;
	struct dsr_engine_request *request; /* a use of it */
	struct dsr_save *next, *prev;       /* borrowed: in the list of its state */
	uint64_t scheduler;                 /* incarnation that was asked */
	uint32_t reason;                    /* enum dsr_reason, when given up */
	uint32_t first, count;              /* blocks that were asked for */
	uint32_t reserved;
	uint32_t *positions;  /* owned, [reserved]: which blocks */
	struct dsr_ref *refs; /* owned, [reserved] */
	uint8_t *fates;       /* owned, [reserved]: DSR_FATE_* */
	uint64_t *ranks;      /* owned: bit for each rank that reported */
	uint32_t ended;
};

struct dsr_requests {
	struct dsr_engine_request **places; /* owned array, [place_count]; holes are NULL */
	uint32_t place_count, place_capacity, place_next;
	struct dsr_engine_request **buckets; /* owned array */
	uint32_t bucket_mask;
	uint32_t live, live_max;
	uint64_t *last_id; /* borrowed: the counter of all ids */
	uint32_t world_words;
};

/* -ENOMEM. */
int dsr_requests_init(struct dsr_requests *requests, uint32_t live_max, uint32_t world,
                      uint64_t *last_id);
void dsr_requests_done(struct dsr_requests *requests);

struct dsr_engine_request *dsr_requests_find(const struct dsr_requests *requests, const char *name);
/* A live request without keys. -EEXIST, -EAGAIN (live_max, or too many that are not over),
 * -ENOMEM. */
int dsr_requests_add(struct dsr_requests *requests, const char *name,
                     struct dsr_engine_request **ret_request);
/* Forgets the name and gives up the use that living is. */
void dsr_requests_remove(struct dsr_requests *requests, struct dsr_engine_request *request);
/* Gives up a use; the last one frees it. */
void dsr_requests_put(struct dsr_requests *requests, struct dsr_engine_request *request);
/* The request at the place of an id; NULL: none. The caller compares the id. */
struct dsr_engine_request *dsr_requests_at(const struct dsr_requests *requests, uint64_t id);
uint64_t dsr_requests_next_id(struct dsr_requests *requests,
                              const struct dsr_engine_request *request);

/* -ENOMEM: unchanged. */
int dsr_request_add_hashes(struct dsr_engine_request *request, const uint8_t *hashes,
                           uint32_t count, uint32_t hash_bytes);
/* table[from..to) = ids[from..to). */
int dsr_request_set_table(struct dsr_engine_request *request, const uint32_t *ids, uint32_t from,
                          uint32_t to);
/* Key of a block, or nothing when it is the first: for fields named parent. */
const struct dsr_key *dsr_request_parent(const struct dsr_engine_request *request, uint32_t block);

/* Sets the bit; false when it was set. */
bool dsr_bits_set(uint64_t *bits, uint32_t bit);

#endif

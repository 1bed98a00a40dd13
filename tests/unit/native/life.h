/* SPDX-License-Identifier: Apache-2.0 */
/* A lifecycle whose service is the test: it sees what is sent and says what is answered. */
#ifndef DSR_TEST_NATIVE_LIFE_H
#define DSR_TEST_NATIVE_LIFE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lifecycle.h"

#define LIFE_SENT_MAX 4096
#define LIFE_SCHEDULER 77 /* incarnation of the first scheduler actor */
#define LIFE_TTL_MS 1000

/* What is remembered of a message. */
struct life_sent {
	uint32_t type;
	uint64_t cookie;
	uint64_t id; /* lease, first released lease, reservation */
	uint32_t keys, refs, depth, reason;
	struct dsr_key first_key, parent;
	bool has_parent;
};

struct life {
	struct dsr_lifecycle lc;
	uint64_t now_ns;
	uint64_t waited_until_ns; /* deadline of the last wait */
	uint32_t waits;
	int send_error; /* what send answers instead of 0 */
	struct life_sent sent[LIFE_SENT_MAX];
	uint32_t sent_count, answered;
	uint64_t counters[DSR_COUNTER_COUNT];
	struct dsr_pack *pack;
	/* Called in wait: answers something and returns true, or lets the time pass. */
	bool (*on_wait)(struct life *life);
	uint32_t hits, grant; /* what life_answer_all answers */
};

int life_open_world(void **state, uint32_t world);
int life_open(void **state);     /* world 1 */
int life_open_two(void **state); /* world 2 */
int life_close(void **state);

/* Waits are answered: lookups with life->hits, leases with as many as asked, life->grant at most.
 */
bool life_answer_all(struct life *life);

/* A request of `count` blocks; block i of equal names has equal hashes. */
void life_new(struct life *life, const char *name, uint32_t count);
/* The key of its block under no variant and epoch 0. */
struct dsr_key life_key(const struct life *life, const char *name, uint32_t block);
/* Sends what is in the outbox; the last message of that type, which must be there. */
struct life_sent *life_last(struct life *life, uint32_t type);
uint32_t life_sent_of(struct life *life, uint32_t type); /* how many */

void life_lookup(struct life *life, uint32_t hits);
void life_lease(struct life *life, uint32_t granted);
/* Answers the last RESERVE; statuses has one for each key. */
void life_reserve(struct life *life, const int32_t *statuses);
/* The same, all reserved. */
void life_reserve_all(struct life *life);

/* The next metadata, parsed. */
struct dsr_meta life_meta(struct life *life);
/* A promise of blocks [first, hits) and its load, in the metadata: its id. */
uint64_t life_load(struct life *life, const char *name, uint32_t first, uint32_t hits);
/* Computes the first `blocks` blocks of a request and has them reserved: the save in the metadata.
 */
struct dsr_meta_job life_save(struct life *life, const char *name, uint32_t blocks);

/* Outputs of one rank. */
int life_report_load(struct life *life, uint32_t rank, uint64_t id, uint32_t count,
                     const uint32_t *failed, uint32_t failed_count);
int life_report_save(struct life *life, uint32_t rank, uint64_t id, const uint8_t *results,
                     uint32_t count);
/* Stored, all of it. */
int life_report_stored(struct life *life, uint32_t rank, uint64_t id, uint32_t count);

/* Takes all events and counts those of a fate (and reason, when dropped). */
uint32_t life_events(struct life *life, enum daser_block_fate fate, uint32_t reason);

#endif

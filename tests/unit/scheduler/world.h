/* SPDX-License-Identifier: Apache-2.0 */
/* The whole scheduler without sockets: its handlers are called as the link would, with a clock, a
 * supervisor and peers of the test's. What it sends is recorded. */
#ifndef DSR_TEST_SCHEDULER_WORLD_H
#define DSR_TEST_SCHEDULER_WORLD_H

#include "rig.h"
#include "scheduler.h"

#define WORLD_SLOTS_MAX 4096
#define WORLD_SENT 64
#define SECOND UINT64_C(1000000000)

/* A message that the scheduler sent, with its slices copied. */
struct world_sent {
	struct dsr_peer *peer;
	uint32_t type;
	uint64_t req;    /* of a reply */
	uint64_t cookie; /* of a request */
	union dsr_msg msg;
	char text[256];
	struct dsr_ref refs[64];
	int32_t status[64];
};

struct world {
	struct dsr_rt rt;
	struct scheduler *self; /* owned */
	struct dsr_peer engine, workers[2], loads[2], stores[2], ctl;
	uint64_t reservation; /* last id */
	struct world_sent sent[WORLD_SENT];
	uint32_t sent_count;
	uint64_t req;
	uint64_t cookie; /* of the reply being dispatched */
	uint64_t now_ns;
	int request_err; /* what dsr_peer_request answers */
	struct {
		char name[64];
		int fd; /* owned */
	} objects[8];
	char calls[512]; /* what the supervisor was asked: "spawn host:0;retire host:1;" */
	int spawn_err, put_err;
	bool has_fault;
};

extern struct world world;

/* A scheduler with a fresh control segment; 6 MiB of L1. For cmocka. */
int world_setup(void **state);
int world_teardown(void **state);
/* The process dies and another takes over; peers must come back by themselves. */
void world_restart(void);
/* Calls the handler of a message; the reply is world_reply() then. */
void world_call(struct dsr_peer *peer, uint32_t type, const void *msg);
/* The last message sent; fails when it is not of this type. */
const union dsr_msg *world_last(uint32_t type);
uint32_t world_count(uint32_t type);
void world_forget_sent(void);
void world_tick(uint32_t seconds);

/* One message each, from the default peers; return err of the reply. */
int world_engine(void);
int world_register(uint32_t rank);
int world_ready(uint32_t rank);
uint32_t world_lookup(uint64_t first, uint32_t count, int *ret_err);
/* refs of the answer are in the last reply. */
int world_reserve(uint64_t first, uint32_t count, const struct dsr_key *parent, uint32_t depth);
int world_lease(uint64_t id, uint64_t first, uint32_t count);
/* Commit of the blocks of the last RESERVE by the store actor of a rank. */
void world_commit(uint32_t rank, uint32_t first, uint32_t count);
/* All ranks, engine and actors there and served. */
void world_serve(void);
/* Reserves and commits a chain. */
void world_store(uint64_t first, uint32_t count);
void world_answer_cancels(int err);
/* Of the last RESERVE or LEASE. */
extern struct dsr_ref world_refs[64];
extern uint32_t world_ref_count;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One load or store actor without its processes: real control segment, pool, device and loop; the
 * link and the supervisor's broker are stood in for by --wrap, so that a test is the worker, the
 * scheduler and the clock. Everything is in one thread: what was submitted ends only in
 * world_step. */
#ifndef DSR_TEST_WORLD_H
#define DSR_TEST_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actor.h"
#include "device.h"
#include "pool.h"

#define WORLD_EPOCH 7
#define WORLD_SLOTS_MAX 4096
#define WORLD_CANARY 256

/* A message that the actor sent: its struct with copies of its arrays. */
struct world_message {
	struct dsr_peer *peer;
	uint32_t type;
	uint64_t req;    /* of a reply */
	uint64_t cookie; /* of a request */
	union dsr_msg body;
	void *array; /* owned: refs or errs of the body */
	char text[256];
};

struct world_staging {
	char name[64];
	struct dsr_device_memory memory; /* owned: the worker's */
	uint64_t buffer_bytes;
	uint32_t buffers;
};

struct world {
	struct dsr_rt rt;
	const struct dsr_actor_ops *ops;
	void *self; /* the actor's state */
	int control_fd, pool_fd;
	struct dsr_pool pool; /* the scheduler's mapping */
	struct dsr_device *device;
	struct world_staging stagings[80];
	uint32_t staging_count;
	struct dsr_peer scheduler, ctl, workers[80];
	struct dsr_peer *present_scheduler; /* what dsr_link_peer gives */
	struct world_message *messages;     /* owned */
	size_t message_count, message_capacity;
	size_t taken; /* messages that a test has looked at */
	uint64_t next_req, cookie;
	int send_error;               /* for the peer below */
	struct dsr_peer *unreachable; /* sends to it give send_error */
	uint32_t sends_left;          /* sends to it that still go through */
	size_t fds_before, maps_before;
};

/* slot_bytes of each block, in `lanes` lanes of at least `slots` slots. */
struct world *world_new(const struct dsr_actor_ops *ops, uint64_t slot_bytes, uint32_t lanes,
                        uint32_t slots);
/* As cmocka's teardown: also checks that descriptors and mappings are back where they were. */
void world_free(struct world *w);

/* ---- being the worker ---- */
/* Allocates staging for worker i and fills in an ATTACH of it. */
struct dsr_msg_attach world_staging(struct world *w, uint32_t i, uint64_t buffer_bytes,
                                    uint32_t buffers, uint32_t lane);
/* ATTACH, expected to go well. */
void world_attach(struct world *w, uint32_t i, uint64_t buffer_bytes, uint32_t buffers,
                  uint32_t lane);
uint8_t *world_buffer(struct world *w, uint32_t i, uint32_t buffer);
/* Hands a message to the actor; returns its req. */
uint64_t world_tell(struct world *w, struct dsr_peer *from, uint32_t type, const void *msg);
/* A reply to a request of the actor. */
void world_answer(struct world *w, struct dsr_peer *from, const struct world_message *request,
                  const void *msg);

/* ---- being the scheduler ---- */
/* Binds entry i to slot i in state `state`; returns its reference. */
struct dsr_ref world_bind(struct world *w, uint32_t i, uint32_t slot, uint32_t state);
void world_set_state(struct world *w, const struct dsr_ref *ref, uint32_t state);
/* The slot's sequence moves, as when it is bound to another block. */
void world_rebind(struct world *w, const struct dsr_ref *ref);
uint8_t *world_slot(struct world *w, uint32_t lane, uint32_t slot);

/* ---- being the clock ---- */
void world_step(struct world *w);
/* Turns until a message of this type is there that was not taken; takes it. Fails after 10 s. */
struct world_message *world_expect(struct world *w, uint32_t type);
/* The next untaken message of this type that is there already, or NULL; takes it. */
struct world_message *world_next(struct world *w, uint32_t type);
uint32_t world_count(struct world *w, uint32_t type); /* untaken ones that are there */
/* Turns until `done` says so. Fails after 10 s. */
void world_until(struct world *w, bool (*done)(struct world *w));

/* Arms a fault point. */
void world_arm(struct world *w, const char *spec);
uint64_t world_counter(struct world *w, enum dsr_counter counter);
/* The byte at `at` of the content that tests give to block `block`. */
uint8_t world_byte(uint64_t block, uint64_t at);
void world_fill(uint8_t *dst, uint64_t block, uint64_t bytes);
bool world_is_filled(const uint8_t *bytes, uint64_t block, uint64_t count);

#endif

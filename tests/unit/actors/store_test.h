/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the store actor share. */
#ifndef DSR_TEST_STORE_H
#define DSR_TEST_STORE_H

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "entry_table.h"
#include "mover.h"
#include "settle.h"
#include "store.h"
#include "world.h"

#define SLOT (UINT64_C(1) << 20) /* a segment is 8 of these */
#define SEGMENT 8
#define SLOTS 96
#define LANES 2

static inline int set_up(void **state)
{
	*state = world_new(&dsr_store_ops, SLOT, LANES, SLOTS);
	return 0;
}

static inline int tear_down(void **state)
{
	world_free(*state);
	return 0;
}

static inline uint64_t digest_of(uint32_t slot)
{
	return UINT64_C(0xd1935700000000) + slot;
}

/* Entries and slots first .. first + count - 1, reserved; the worker's buffer holds their bytes. */
static inline void reserve(struct world *w, struct dsr_ref *refs, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		refs[i] = world_bind(w, first + i, first + i, DSR_ENTRY_RESERVED);
}

/* Only the ends of each block are filled: filling whole ones would be most of the test's time. */
static inline void fill(struct world *w, uint32_t worker, uint32_t buffer,
                        const struct dsr_ref *refs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *block = world_buffer(w, worker, buffer) + i * SLOT;

		world_fill(block, refs[i].slot, 64);
		world_fill(block + SLOT - 64, refs[i].slot + 1000, 64);
	}
}

static inline bool is_in_slot(struct world *w, uint32_t lane, uint32_t slot)
{
	const uint8_t *bytes = world_slot(w, lane, slot);

	return world_is_filled(bytes, slot, 64) &&
	       world_is_filled(bytes + SLOT - 64, slot + 1000, 64);
}

struct stored {
	uint64_t digests[SLOTS];
	struct dsr_msg_store m;
};

static inline struct dsr_msg_store *store_of(struct stored *s, struct world *w,
                                             const struct dsr_ref *refs, uint32_t count,
                                             uint32_t buffer, uint64_t lend)
{
	for (uint32_t i = 0; i < count; i++)
		s->digests[i] = digest_of(refs[i].slot);
	s->m = (struct dsr_msg_store){
		.buffer = buffer,
		.lend = lend,
		.reservation = 40,
		.scheduler = w->scheduler.incarnation,
		.engine = 4000,
		.refs = {.v = refs, .n = count},
		.digests = {.v = s->digests, .n = count},
	};
	return &s->m;
}

static inline uint64_t store(struct world *w, uint32_t worker, const struct dsr_ref *refs,
                             uint32_t count, uint32_t buffer, uint64_t lend)
{
	struct stored s;

	fill(w, worker, buffer, refs, count);
	return world_tell(w, &w->workers[worker], DSR_MSG_STORE,
	                  store_of(&s, w, refs, count, buffer, lend));
}

static inline struct world_message *expect_reply(struct world *w, uint64_t req)
{
	struct world_message *m = world_expect(w, DSR_MSG_STORE_REPLY);

	assert_int_equal(m->req, req);
	return m;
}

/* Answers every COMMIT and ABORT that is there; returns the blocks committed. */
static inline uint32_t answer_all(struct world *w)
{
	struct dsr_msg_commit_reply committed = {0};
	struct dsr_msg_abort_reply aborted = {0};
	struct world_message *m;
	uint32_t blocks = 0;

	while ((m = world_next(w, DSR_MSG_COMMIT)) != NULL) {
		blocks += m->body.commit.refs.n;
		world_answer(w, &w->scheduler, m, &committed);
	}
	while ((m = world_next(w, DSR_MSG_ABORT)) != NULL)
		world_answer(w, &w->scheduler, m, &aborted);
	return blocks;
}

static inline bool is_drained(struct world *w)
{
	(void)answer_all(w);
	return dsr_store_ops.is_drained(w->self);
}

static inline void assert_refused(struct world *w, struct dsr_msg_store *m, int err)
{
	struct world_message *reply =
		expect_reply(w, world_tell(w, &w->workers[0], DSR_MSG_STORE, m));

	assert_int_equal(reply->body.store_reply.err, err);
	assert_int_equal(reply->body.store_reply.lend, m->lend);
	assert_int_equal(reply->body.store_reply.errs.n, 0);
}

#endif

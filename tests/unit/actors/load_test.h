/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the load actor share. */
#ifndef DSR_TEST_LOAD_H
#define DSR_TEST_LOAD_H

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "entry_table.h"
#include "load.h"
#include "mover.h"
#include "world.h"

#define SLOT 4096 /* dense: slots without padding */
#define SLOTS 512
#define LANES 2

static inline int set_up(void **state)
{
	*state = world_new(&dsr_load_ops, SLOT, LANES, SLOTS);
	return 0;
}

static inline int tear_down(void **state)
{
	world_free(*state);
	return 0;
}

/* Entry i in slot i, visible, filled in both lanes. */
static inline struct dsr_ref put(struct world *w, uint32_t i)
{
	world_fill(world_slot(w, 0, i), i, SLOT);
	world_fill(world_slot(w, 1, i), i + 10000, SLOT);
	return world_bind(w, i, i, DSR_ENTRY_VISIBLE);
}

static inline void put_all(struct world *w, struct dsr_ref *refs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		refs[i] = put(w, i);
}

static inline struct dsr_msg_load load_of(const struct dsr_ref *refs, uint32_t count,
                                          uint32_t buffer, uint64_t lend, uint32_t segment)
{
	return (struct dsr_msg_load){.buffer = buffer,
	                             .lend = lend,
	                             .segment_blocks = segment,
	                             .refs = {.v = refs, .n = count}};
}

static inline uint64_t load(struct world *w, uint32_t worker, const struct dsr_ref *refs,
                            uint32_t count, uint32_t buffer, uint64_t lend, uint32_t segment)
{
	struct dsr_msg_load m = load_of(refs, count, buffer, lend, segment);

	return world_tell(w, &w->workers[worker], DSR_MSG_LOAD, &m);
}

static inline struct dsr_msg_load_reply expect_reply(struct world *w, uint64_t req)
{
	struct world_message *m = world_expect(w, DSR_MSG_LOAD_REPLY);

	assert_int_equal(m->req, req);
	return m->body.load_reply;
}

#endif

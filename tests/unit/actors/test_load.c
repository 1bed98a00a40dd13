/* SPDX-License-Identifier: Apache-2.0 */
#include "load_test.h"

/* ---- loading ---- */

static void blocks_come_in_staging_order(void **state)
{
	struct world *w = *state;
	const uint32_t order[] = {9, 3, 4, 5, 200};
	struct dsr_ref refs[5];
	struct dsr_msg_load_reply reply;
	struct world_message *m;
	uint64_t req;

	for (uint32_t i = 0; i < 5; i++)
		refs[i] = put(w, order[i]);
	world_attach(w, 0, 16 * SLOT, 4, 0);
	req = load(w, 0, refs, 5, 2, 1, 16);
	m = world_expect(w, DSR_MSG_SEGMENT);
	assert_ptr_equal(m->peer, &w->workers[0]);
	assert_int_equal(m->body.segment.buffer, 2);
	assert_int_equal(m->body.segment.lend, 1);
	assert_int_equal(m->body.segment.first, 0);
	assert_int_equal(m->body.segment.errs.n, 5);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(m->body.segment.errs.v[i], 0);
		assert_true(world_is_filled(world_buffer(w, 0, 2) + i * SLOT, order[i], SLOT));
	}
	reply = expect_reply(w, req);
	assert_int_equal(reply.err, 0);
	assert_int_equal(reply.lend, 1);
	assert_int_equal(reply.copies, 5);
	assert_int_equal(reply.runs, 3);
	assert_true(reply.copy_ns > 0);
	assert_int_equal(world_counter(w, DSR_COUNTER_COPIES), 5);
	assert_int_equal(world_counter(w, DSR_COUNTER_COPY_RUNS), 3);
}

static void each_worker_gets_its_own_lane(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref = put(w, 7);

	world_attach(w, 0, 4 * SLOT, 1, 0);
	world_attach(w, 1, 4 * SLOT, 1, 1);
	(void)expect_reply(w, load(w, 0, &ref, 1, 0, 1, 1));
	(void)expect_reply(w, load(w, 1, &ref, 1, 0, 1, 1));
	assert_true(world_is_filled(world_buffer(w, 0, 0), 7, SLOT));
	assert_true(world_is_filled(world_buffer(w, 1, 0), 10007, SLOT));
}

static void padded_slots_are_loaded_whole(void **state)
{
	struct world *w = world_new(&dsr_load_ops, 1000, 1, 64);
	struct dsr_ref refs[3];

	for (uint32_t i = 0; i < 3; i++) {
		refs[i] = world_bind(w, i, i, DSR_ENTRY_VISIBLE);
		world_fill(world_slot(w, 0, i), i, 1000);
	}
	world_attach(w, 0, 4096, 1, 0);
	assert_int_equal(expect_reply(w, load(w, 0, refs, 3, 0, 1, 2)).runs, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(world_is_filled(world_buffer(w, 0, 0) + i * 1000, i, 1000));
	world_free(w);
	(void)state;
}

static void segments_come_in_order_before_the_reply(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[100];
	uint32_t next = 0;
	uint64_t req;

	put_all(w, refs, 100);
	world_attach(w, 0, 128 * SLOT, 1, 0);
	req = load(w, 0, refs, 100, 0, 1, 16);
	(void)expect_reply(w, req);
	for (struct world_message *m; (m = world_next(w, DSR_MSG_SEGMENT)) != NULL;) {
		assert_int_equal(m->body.segment.first, next);
		assert_int_equal(m->body.segment.errs.n, next == 96 ? 4 : 16);
		next += m->body.segment.errs.n;
	}
	assert_int_equal(next, 100);
	for (uint32_t i = 0; i < 100; i++)
		assert_true(world_is_filled(world_buffer(w, 0, 0) + i * SLOT, i, SLOT));
}

static void only_the_evicted_block_fails(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[4];
	struct world_message *m;

	put_all(w, refs, 4);
	world_rebind(w, &refs[2]);
	world_attach(w, 0, 4 * SLOT, 2, 0);
	memset(world_buffer(w, 0, 0), 0xee, 4 * SLOT);
	(void)load(w, 0, refs, 4, 0, 1, 4);
	m = world_expect(w, DSR_MSG_SEGMENT);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(m->body.segment.errs.v[i], i == 2 ? -ESTALE : 0);
		assert_int_equal(world_is_filled(world_buffer(w, 0, 0) + i * SLOT, i, SLOT),
		                 i != 2);
	}
	assert_int_equal(world_expect(w, DSR_MSG_LOAD_REPLY)->body.load_reply.copies, 3);
}

/* The slot is bound anew after the copy was submitted: only the check behind it can see that. */
static void a_block_evicted_during_its_copy_fails(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[2];
	struct world_message *m;

	put_all(w, refs, 2);
	world_attach(w, 0, 4 * SLOT, 1, 0);
	(void)load(w, 0, refs, 2, 0, 1, 2);
	world_rebind(w, &refs[1]);
	m = world_expect(w, DSR_MSG_SEGMENT);
	assert_int_equal(m->body.segment.errs.v[0], 0);
	assert_int_equal(m->body.segment.errs.v[1], -ESTALE);
}

static void each_part_of_a_reference_is_checked(void **state)
{
	struct world *w = *state;
	const struct dsr_ref good = put(w, 1);
	struct dsr_ref refs[5] = {good, good, good, good, good};
	struct world_message *m;

	(void)put(w, 2);
	refs[1].generation++;
	refs[2].slot_seq++;
	refs[3].entry = 2;
	refs[4].slot = 2;
	world_attach(w, 0, 8 * SLOT, 1, 0);
	(void)load(w, 0, refs, 5, 0, 1, 8);
	m = world_expect(w, DSR_MSG_SEGMENT);
	assert_int_equal(m->body.segment.errs.v[0], 0);
	for (uint32_t i = 1; i < 5; i++)
		assert_int_equal(m->body.segment.errs.v[i], -ESTALE);
}

static void only_visible_blocks_are_loaded(void **state)
{
	static const uint32_t states[] = {DSR_ENTRY_FREE, DSR_ENTRY_RESERVED, DSR_ENTRY_ABORTING};
	struct world *w = *state;
	struct dsr_ref refs[3];
	struct world_message *m;

	for (uint32_t i = 0; i < 3; i++) {
		refs[i] = put(w, i);
		world_set_state(w, &refs[i], states[i]);
	}
	world_attach(w, 0, 8 * SLOT, 1, 0);
	(void)load(w, 0, refs, 3, 0, 1, 8);
	m = world_expect(w, DSR_MSG_SEGMENT);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(m->body.segment.errs.v[i] < 0);
	assert_int_equal(world_expect(w, DSR_MSG_LOAD_REPLY)->body.load_reply.copies, 0);
}

/* The table's own sequence of a slot changes first, before the entry is written. */
static void the_slot_sequence_of_the_pool_counts_too(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref = put(w, 0);

	atomic_fetch_add(&w->pool.slot_seqs[0], 1);
	world_attach(w, 0, 8 * SLOT, 1, 0);
	(void)load(w, 0, &ref, 1, 0, 1, 8);
	assert_int_equal(world_expect(w, DSR_MSG_SEGMENT)->body.segment.errs.v[0], -ESTALE);
}

static void a_load_waits_for_an_entry_that_is_being_written(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref = put(w, 0);

	world_attach(w, 0, 8 * SLOT, 1, 0);
	dsr_entry_write_begin(&w->rt.control.entries[0]);
	(void)load(w, 0, &ref, 1, 0, 1, 8);
	for (int i = 0; i < 3; i++)
		world_step(w);
	assert_int_equal(world_count(w, DSR_MSG_SEGMENT), 0);
	dsr_entry_write_end(&w->rt.control.entries[0]);
	assert_int_equal(world_expect(w, DSR_MSG_SEGMENT)->body.segment.errs.v[0], 0);
}

static void an_entry_left_half_written_makes_its_block_unreadable(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[2];
	struct world_message *m;

	put_all(w, refs, 2);
	world_attach(w, 0, 8 * SLOT, 1, 0);
	dsr_entry_write_begin(&w->rt.control.entries[0]);
	(void)load(w, 0, refs, 2, 0, 1, 8);
	m = world_expect(w, DSR_MSG_SEGMENT);
	assert_int_equal(m->body.segment.errs.v[0], -EIO);
	assert_int_equal(m->body.segment.errs.v[1], 0);
}

/* ---- refusing ---- */

static void bad_loads_are_refused_and_told_why(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[5], far[2];

	put_all(w, refs, 5);
	far[0] = far[1] = refs[0];
	far[0].slot = SLOTS;
	far[1].entry = WORLD_SLOTS_MAX;
	assert_int_equal(expect_reply(w, load(w, 0, refs, 1, 0, 1, 1)).err, -ENOENT);
	world_attach(w, 0, 4 * SLOT, 1, 0);
	assert_int_equal(expect_reply(w, load(w, 0, refs, 1, 1, 1, 1)).err, -ENOENT);
	assert_int_equal(expect_reply(w, load(w, 0, refs, 1, 0, 0, 1)).err, -ESTALE);
	assert_int_equal(expect_reply(w, load(w, 0, refs, 5, 0, 1, 1)).err, -EINVAL);
	assert_int_equal(expect_reply(w, load(w, 0, refs, 0, 0, 2, 1)).err, -EINVAL);
	assert_int_equal(expect_reply(w, load(w, 0, refs, 1, 0, 3, 0)).err, -EINVAL);
	assert_int_equal(expect_reply(w, load(w, 0, &far[0], 1, 0, 4, 1)).err, -EINVAL);
	assert_int_equal(expect_reply(w, load(w, 0, &far[1], 1, 0, 5, 1)).err, -EINVAL);
	assert_int_equal(world_count(w, DSR_MSG_SEGMENT), 0);
	assert_int_equal(expect_reply(w, load(w, 0, refs, 4, 0, 6, 4)).err, 0);
	/* The same message again: a repeat never runs. */
	assert_int_equal(expect_reply(w, load(w, 0, refs, 4, 0, 6, 4)).err, -ESTALE);
}

static void a_buffer_in_use_is_not_lent_again(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref = put(w, 0);
	uint64_t first, second;

	world_attach(w, 0, 4 * SLOT, 1, 0);
	first = load(w, 0, &ref, 1, 0, 1, 1);
	second = load(w, 0, &ref, 1, 0, 2, 1);
	assert_int_equal(expect_reply(w, second).err, -EINVAL);
	assert_int_equal(expect_reply(w, first).err, 0);
}

static void a_full_queue_refuses_and_counts(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref = put(w, 0);
	uint32_t refused = 0, sent = 0;

	/* Nothing ends in this loop: the first DSR_COPIER_DEPTH jobs are submitted whole. */
	for (uint32_t i = 0; i < 2; i++) {
		world_attach(w, i, SLOT, 200, 0);
	}
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t b = 0; b < 200; b++, sent++)
			(void)load(w, i, &ref, 1, b, 1, 1);
	for (struct world_message *m; (m = world_next(w, DSR_MSG_LOAD_REPLY)) != NULL; refused++)
		assert_int_equal(m->body.load_reply.err, -EAGAIN);
	assert_int_equal(sent - refused, DSR_MOVER_JOBS + DSR_COPIER_DEPTH);
	assert_int_equal(world_counter(w, DSR_COUNTER_REFUSED_LOADS), refused);
	for (uint32_t i = 0; i < sent - refused; i++)
		assert_int_equal(world_expect(w, DSR_MSG_LOAD_REPLY)->body.load_reply.err, 0);
}

#if DSR_WITH_FAULTS
/* ---- faults ---- */

static void a_failing_segment_fails_its_own_blocks(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[6];
	struct world_message *m;

	put_all(w, refs, 6);
	world_attach(w, 0, 8 * SLOT, 1, 0);
	world_arm(w, "load_before_copy:nth=2:fail=EIO");
	(void)load(w, 0, refs, 4, 0, 1, 2);
	m = world_expect(w, DSR_MSG_SEGMENT);
	assert_int_equal(m->body.segment.errs.v[0], 0);
	assert_int_equal(m->body.segment.errs.v[1], 0);
	m = world_expect(w, DSR_MSG_SEGMENT);
	assert_int_equal(m->body.segment.errs.v[0], -EIO);
	assert_int_equal(m->body.segment.errs.v[1], -EIO);
	assert_int_equal(world_expect(w, DSR_MSG_LOAD_REPLY)->body.load_reply.copies, 2);
}

static void a_fault_after_the_copy_fails_its_segment(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref = put(w, 0);

	world_attach(w, 0, 8 * SLOT, 1, 0);
	world_arm(w, "load_after_copy:fail=EIO");
	(void)load(w, 0, &ref, 1, 0, 1, 2);
	assert_int_equal(world_expect(w, DSR_MSG_SEGMENT)->body.segment.errs.v[0], -EIO);
}

static void a_corrupting_fault_changes_one_byte_in_staging(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[3];
	uint8_t *buffer;

	put_all(w, refs, 3);
	world_rebind(w, &refs[0]);
	world_attach(w, 0, 8 * SLOT, 1, 0);
	world_arm(w, "load_after_copy:corrupt");
	(void)load(w, 0, refs, 3, 0, 1, 8);
	(void)world_expect(w, DSR_MSG_LOAD_REPLY);
	buffer = world_buffer(w, 0, 0);
	assert_int_equal(buffer[SLOT], (uint8_t)~world_byte(1, 0));
	buffer[SLOT] = world_byte(1, 0);
	assert_true(world_is_filled(buffer + SLOT, 1, SLOT));
	assert_true(world_is_filled(buffer + 2 * SLOT, 2, SLOT));
	assert_true(world_is_filled(world_slot(w, 0, 1), 1, SLOT));
}

#endif /* DSR_WITH_FAULTS */

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_come_in_staging_order),
		TEST(each_worker_gets_its_own_lane),
		cmocka_unit_test(padded_slots_are_loaded_whole),
		TEST(segments_come_in_order_before_the_reply),
		TEST(only_the_evicted_block_fails),
		TEST(a_block_evicted_during_its_copy_fails),
		TEST(each_part_of_a_reference_is_checked),
		TEST(only_visible_blocks_are_loaded),
		TEST(the_slot_sequence_of_the_pool_counts_too),
		TEST(a_load_waits_for_an_entry_that_is_being_written),
		TEST(an_entry_left_half_written_makes_its_block_unreadable),
		TEST(bad_loads_are_refused_and_told_why),
		TEST(a_buffer_in_use_is_not_lent_again),
		TEST(a_full_queue_refuses_and_counts),
#if DSR_WITH_FAULTS
		TEST(a_failing_segment_fails_its_own_blocks),
		TEST(a_fault_after_the_copy_fails_its_segment),
		TEST(a_corrupting_fault_changes_one_byte_in_staging),
#endif
	};

	return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "store_test.h"

/* ---- storing ---- */

static void blocks_are_copied_then_committed(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[5];
	struct world_message *m;
	uint64_t req;

	reserve(w, refs, 10, 5);
	world_attach(w, 0, 16 * SLOT, 2, 1);
	req = store(w, 0, refs, 5, 1, 1);
	m = expect_reply(w, req);
	assert_int_equal(m->body.store_reply.err, 0);
	assert_int_equal(m->body.store_reply.lend, 1);
	assert_int_equal(m->body.store_reply.errs.n, 5);
	assert_int_equal(m->body.store_reply.runs, 1);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(m->body.store_reply.errs.v[i], 0);
		assert_true(is_in_slot(w, 1, 10 + i));
		assert_int_equal(atomic_load(dsr_pool_digest(&w->pool, 1, 10 + i)),
		                 digest_of(10 + i));
		assert_int_equal(atomic_load(dsr_pool_digest(&w->pool, 0, 10 + i)), 0);
	}
	m = world_expect(w, DSR_MSG_COMMIT);
	assert_ptr_equal(m->peer, &w->scheduler);
	assert_int_equal(m->body.commit.engine, 4000);
	assert_int_equal(m->body.commit.reservation, 40);
	assert_int_equal(m->body.commit.lane, 1);
	assert_int_equal(m->body.commit.refs.n, 5);
	assert_memory_equal(m->body.commit.refs.v, refs, sizeof(refs));
	assert_int_equal(world_counter(w, DSR_COUNTER_COPIES), 5);
	assert_int_equal(world_counter(w, DSR_COUNTER_COPY_RUNS), 1);
}

static void digests_are_there_before_the_commit(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[2 * SEGMENT];
	struct world_message *m;

	reserve(w, refs, 0, 2 * SEGMENT);
	world_attach(w, 0, 2 * SEGMENT * SLOT, 1, 0);
	(void)store(w, 0, refs, 2 * SEGMENT, 0, 1);
	for (uint32_t told = 0; told < 2 * SEGMENT; told += m->body.commit.refs.n) {
		m = world_expect(w, DSR_MSG_COMMIT);
		for (uint32_t i = 0; i < m->body.commit.refs.n; i++) {
			uint32_t slot = m->body.commit.refs.v[i].slot;

			assert_int_equal(atomic_load(dsr_pool_digest(&w->pool, 0, slot)),
			                 digest_of(slot));
		}
	}
}

static void only_reserved_blocks_are_written(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[4];
	struct world_message *m;

	reserve(w, refs, 0, 4);
	world_set_state(w, &refs[1], DSR_ENTRY_ABORTING);
	world_set_state(w, &refs[2], DSR_ENTRY_VISIBLE);
	world_rebind(w, &refs[3]);
	world_attach(w, 0, 4 * SLOT, 1, 0);
	m = expect_reply(w, store(w, 0, refs, 4, 0, 1));
	assert_int_equal(m->body.store_reply.errs.v[0], 0);
	assert_int_equal(m->body.store_reply.errs.v[1], -ECANCELED);
	assert_int_equal(m->body.store_reply.errs.v[2], -ESTALE);
	assert_int_equal(m->body.store_reply.errs.v[3], -ESTALE);
	assert_int_equal(world_expect(w, DSR_MSG_COMMIT)->body.commit.refs.n, 1);
	assert_true(is_in_slot(w, 0, 0));
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(world_slot(w, 0, i)[SLOT - 1], 0);
}

static void a_block_given_up_during_its_copy_is_not_committed(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[2];
	struct world_message *m;

	reserve(w, refs, 0, 2);
	world_attach(w, 0, 4 * SLOT, 1, 0);
	(void)store(w, 0, refs, 2, 0, 1);
	world_set_state(w, &refs[0], DSR_ENTRY_ABORTING);
	m = world_expect(w, DSR_MSG_STORE_REPLY);
	assert_int_equal(m->body.store_reply.errs.v[0], -ECANCELED);
	assert_int_equal(m->body.store_reply.errs.v[1], 0);
	m = world_expect(w, DSR_MSG_COMMIT);
	assert_int_equal(m->body.commit.refs.n, 1);
	assert_int_equal(m->body.commit.refs.v[0].slot, 1);
	assert_int_equal(atomic_load(dsr_pool_digest(&w->pool, 0, 0)), 0);
}

/* ---- refusing ---- */

static void bad_stores_are_refused_and_told_why(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[5];
	struct stored s;

	reserve(w, refs, 0, 5);
	assert_refused(w, store_of(&s, w, refs, 1, 0, 1), -ENOENT);
	world_attach(w, 0, 4 * SLOT, 1, 0);
	(void)store_of(&s, w, refs, 1, 0, 1);
	s.m.scheduler = w->scheduler.incarnation - 1;
	assert_refused(w, &s.m, -ESTALE);
	(void)store_of(&s, w, refs, 2, 0, 2);
	s.m.digests.n = 1;
	assert_refused(w, &s.m, -EINVAL);
	assert_refused(w, store_of(&s, w, refs, 5, 0, 3), -EINVAL);
	assert_refused(w, store_of(&s, w, refs, 1, 1, 1), -ENOENT);
	assert_refused(w, store_of(&s, w, refs, 1, 0, 3), -ESTALE);
	w->present_scheduler = NULL;
	assert_refused(w, store_of(&s, w, refs, 1, 0, 4), -ESTALE);
	s.m.scheduler = 0;
	assert_refused(w, &s.m, -ESTALE);
	assert_int_equal(world_count(w, DSR_MSG_COMMIT) + world_count(w, DSR_MSG_ABORT), 0);
	assert_true(dsr_store_ops.is_drained(w->self));
}

static void a_full_queue_refuses_and_counts(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref;
	uint32_t refused = 0;
	struct stored s;

	reserve(w, &ref, 0, 1);
	for (uint32_t i = 0; i < 2; i++)
		world_attach(w, i, SLOT, 200, 0);
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t b = 0; b < 200; b++)
			(void)world_tell(w, &w->workers[i], DSR_MSG_STORE,
			                 store_of(&s, w, &ref, 1, b, 1));
	for (struct world_message *m; (m = world_next(w, DSR_MSG_STORE_REPLY)) != NULL; refused++)
		assert_int_equal(m->body.store_reply.err, -EAGAIN);
	assert_int_equal(400 - refused, DSR_MOVER_JOBS + DSR_COPIER_DEPTH);
	assert_int_equal(world_counter(w, DSR_COUNTER_REFUSED_STORES), refused);
	/* What was promised for the refused ones is given back. */
	world_until(w, is_drained);
	assert_int_equal(dsr_store_ops.is_stuck(w->self), false);
}

/* ---- telling the scheduler ---- */

static bool has_commit(struct world *w)
{
	return world_count(w, DSR_MSG_COMMIT) > 0;
}

static void a_commit_is_repeated_until_it_is_answered(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref;
	struct dsr_msg_commit_reply reply = {.committed = 1};

	reserve(w, &ref, 0, 1);
	world_attach(w, 0, SLOT, 1, 0);
	(void)store(w, 0, &ref, 1, 0, 1);
	for (int i = 0; i < 3; i++) {
		struct world_message m = *world_expect(w, DSR_MSG_COMMIT);

		assert_int_equal(m.body.commit.refs.n, 1);
		assert_false(dsr_store_ops.is_drained(w->self));
		dsr_store_ops.link->request_failed(w->self, m.peer, m.type, m.cookie, -ETIMEDOUT);
	}
	world_answer(w, &w->scheduler, world_expect(w, DSR_MSG_COMMIT), &reply);
	assert_true(dsr_store_ops.is_drained(w->self));
}

/* The answer of a link that does not know our connection: nothing was carried out. */
static void a_commit_that_was_not_carried_out_is_repeated(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref;
	struct dsr_msg_commit_reply refused = {.err = -EPROTO};
	struct dsr_msg_commit_reply reply = {.committed = 1};

	reserve(w, &ref, 0, 1);
	world_attach(w, 0, SLOT, 1, 0);
	(void)store(w, 0, &ref, 1, 0, 1);
	world_answer(w, &w->scheduler, world_expect(w, DSR_MSG_COMMIT), &refused);
	assert_false(dsr_store_ops.is_drained(w->self));
	world_answer(w, &w->scheduler, world_expect(w, DSR_MSG_COMMIT), &reply);
	assert_true(dsr_store_ops.is_drained(w->self));
}

static bool has_store_reply(struct world *w)
{
	return world_count(w, DSR_MSG_STORE_REPLY) > 0;
}

static void a_reply_goes_out_when_its_worker_can_be_reached_again(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref;

	reserve(w, &ref, 0, 1);
	world_attach(w, 0, SLOT, 1, 0);
	w->unreachable = &w->workers[0];
	w->send_error = -EHOSTUNREACH;
	(void)store(w, 0, &ref, 1, 0, 1);
	(void)world_expect(w, DSR_MSG_COMMIT);
	w->unreachable = NULL;
	world_until(w, has_store_reply);
}

static void a_commit_that_cannot_be_sent_is_sent_later(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref;

	reserve(w, &ref, 0, 1);
	world_attach(w, 0, SLOT, 1, 0);
	w->unreachable = &w->scheduler;
	w->send_error = -EAGAIN;
	(void)expect_reply(w, store(w, 0, &ref, 1, 0, 1));
	w->unreachable = NULL;
	world_until(w, has_commit);
}

/* While answers are missing, what comes meanwhile goes together. */
static void commits_of_one_reservation_go_together(void **state)
{
	struct world *w = *state;
	struct dsr_msg_commit_reply reply = {0};
	struct dsr_ref refs[SLOTS];
	uint32_t messages = 0, blocks = 0;

	reserve(w, refs, 0, SLOTS);
	world_attach(w, 0, SLOT, SLOTS, 0);
	for (uint32_t b = 0; b < SLOTS; b++)
		(void)store(w, 0, &refs[b], 1, b, 1);
	for (uint32_t b = 0; b < SLOTS; b++)
		(void)world_expect(w, DSR_MSG_STORE_REPLY);
	assert_true(world_count(w, DSR_MSG_COMMIT) < SLOTS);
	for (struct world_message *m; (m = world_next(w, DSR_MSG_COMMIT)) != NULL; messages++) {
		blocks += m->body.commit.refs.n;
		world_answer(w, &w->scheduler, m, &reply);
	}
	assert_int_equal(blocks, SLOTS);
	assert_true(messages < SLOTS);
	assert_true(dsr_store_ops.is_drained(w->self));
}

static void a_dead_scheduler_is_told_nothing(void **state)
{
	struct world *w = *state;
	struct dsr_peer next = {.role = DSR_ROLE_SCHEDULER, .incarnation = 1001, .is_ours = true};
	struct dsr_ref refs[4 * SEGMENT];
	struct world_message *m;
	uint64_t cookie;

	reserve(w, refs, 0, 4 * SEGMENT);
	world_attach(w, 0, 4 * SEGMENT * SLOT, 1, 0);
	(void)store(w, 0, refs, 4 * SEGMENT, 0, 1);
	cookie = world_expect(w, DSR_MSG_COMMIT)->cookie;
	dsr_store_ops.link->request_failed(w->self, &w->scheduler, DSR_MSG_COMMIT, cookie,
	                                   -EOWNERDEAD);
	dsr_store_ops.link->peer_dead(w->self, &w->scheduler);
	w->present_scheduler = &next;
	dsr_store_ops.link->peer_ready(w->self, &next);
	m = world_expect(w, DSR_MSG_STORE_REPLY);
	assert_int_equal(m->body.store_reply.errs.n, 4 * SEGMENT);
	assert_int_equal(m->body.store_reply.errs.v[0], 0);
	assert_true(m->body.store_reply.errs.v[4 * SEGMENT - 1] < 0);
	while (world_next(w, DSR_MSG_COMMIT) != NULL)
		; /* sent before it died */
	for (int i = 0; i < 5; i++)
		world_step(w);
	assert_int_equal(world_count(w, DSR_MSG_COMMIT) + world_count(w, DSR_MSG_ABORT), 0);
	assert_true(dsr_store_ops.is_drained(w->self));
	/* A late answer to the old one means nothing. */
	w->cookie = cookie;
	(void)world_tell(w, &next, DSR_MSG_COMMIT_REPLY, &(struct dsr_msg_commit_reply){0});
}

#if DSR_WITH_FAULTS
/* ---- faults ---- */

static void failing_blocks_are_aborted(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[2 * SEGMENT];
	struct world_message *m;

	reserve(w, refs, 0, 2 * SEGMENT);
	world_attach(w, 0, 2 * SEGMENT * SLOT, 1, 0);
	world_arm(w, "store_before_copy:nth=2:fail=EIO");
	m = expect_reply(w, store(w, 0, refs, 2 * SEGMENT, 0, 1));
	for (uint32_t i = 0; i < 2 * SEGMENT; i++)
		assert_int_equal(m->body.store_reply.errs.v[i], i < SEGMENT ? 0 : -EIO);
	assert_int_equal(world_expect(w, DSR_MSG_COMMIT)->body.commit.refs.n, SEGMENT);
	m = world_expect(w, DSR_MSG_ABORT);
	assert_int_equal(m->body.abort.refs.n, SEGMENT);
	assert_int_equal(m->body.abort.refs.v[0].slot, SEGMENT);
	assert_int_equal(m->body.abort.reason, DSR_REASON_UNREADABLE);
	/* The engine counts them: the worker was told. */
	assert_int_equal(world_counter(w, DSR_COUNTER_DROP_UNREADABLE), 0);
}

static void a_corrupting_fault_changes_one_byte_in_l1(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[2];

	reserve(w, refs, 0, 2);
	world_attach(w, 0, 2 * SLOT, 1, 0);
	world_arm(w, "store_after_copy:corrupt");
	(void)expect_reply(w, store(w, 0, refs, 2, 0, 1));
	assert_int_equal(world_slot(w, 0, 0)[0], (uint8_t)~world_byte(0, 0));
	world_slot(w, 0, 0)[0] = world_byte(0, 0);
	assert_true(is_in_slot(w, 0, 0));
	assert_true(is_in_slot(w, 0, 1));
	assert_int_equal(world_expect(w, DSR_MSG_COMMIT)->body.commit.refs.n, 2);
}

static void a_dropped_commit_is_sent_later(void **state)
{
	struct world *w = *state;
	struct dsr_ref ref;

	reserve(w, &ref, 0, 1);
	world_attach(w, 0, SLOT, 1, 0);
	world_arm(w, "store_before_commit:drop");
	(void)expect_reply(w, store(w, 0, &ref, 1, 0, 1));
	assert_int_equal(world_count(w, DSR_MSG_COMMIT), 0);
	assert_false(dsr_store_ops.is_drained(w->self));
	dsr_faults_disarm(w->rt.faults);
	world_until(w, has_commit);
}

#endif /* DSR_WITH_FAULTS */

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_are_copied_then_committed),
		TEST(digests_are_there_before_the_commit),
		TEST(only_reserved_blocks_are_written),
		TEST(a_block_given_up_during_its_copy_is_not_committed),
		TEST(bad_stores_are_refused_and_told_why),
		TEST(a_full_queue_refuses_and_counts),
		TEST(a_commit_is_repeated_until_it_is_answered),
		TEST(a_commit_that_was_not_carried_out_is_repeated),
		TEST(a_reply_goes_out_when_its_worker_can_be_reached_again),
		TEST(a_commit_that_cannot_be_sent_is_sent_later),
		TEST(commits_of_one_reservation_go_together),
		TEST(a_dead_scheduler_is_told_nothing),
#if DSR_WITH_FAULTS
		TEST(failing_blocks_are_aborted),
		TEST(a_corrupting_fault_changes_one_byte_in_l1),
		TEST(a_dropped_commit_is_sent_later),
#endif
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}

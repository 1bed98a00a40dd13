/* SPDX-License-Identifier: Apache-2.0 */
#include "store_test.h"

/* ---- CANCEL ---- */

static void cancel_waits_for_the_copies_under_way(void **state)
{
	struct world *w = *state;
	struct dsr_msg_cancel cancel = {.scheduler = w->scheduler.incarnation};
	struct dsr_ref refs[2];
	uint64_t req;

	reserve(w, refs, 0, 2);
	world_attach(w, 0, 2 * SLOT, 1, 0);
	(void)store(w, 0, refs, 2, 0, 1);
	world_set_state(w, &refs[0], DSR_ENTRY_ABORTING);
	cancel.refs = (struct dsr_refs){.v = refs, .n = 1};
	req = world_tell(w, &w->scheduler, DSR_MSG_CANCEL, &cancel);
	assert_int_equal(world_count(w, DSR_MSG_CANCEL_REPLY), 0);
	assert_int_equal(world_expect(w, DSR_MSG_CANCEL_REPLY)->req, req);
	/* Its copy ended before the answer: its result is there. */
	assert_int_equal(world_next(w, DSR_MSG_STORE_REPLY)->body.store_reply.errs.v[0],
	                 -ECANCELED);
	assert_int_equal(world_next(w, DSR_MSG_COMMIT)->body.commit.refs.n, 1);
}

static void cancel_without_copies_is_answered_at_once(void **state)
{
	struct world *w = *state;
	struct dsr_msg_cancel cancel = {.scheduler = w->scheduler.incarnation};
	uint64_t req = world_tell(w, &w->scheduler, DSR_MSG_CANCEL, &cancel);

	assert_int_equal(world_next(w, DSR_MSG_CANCEL_REPLY)->req, req);
}

static void cancel_is_the_schedulers_alone(void **state)
{
	struct world *w = *state;
	struct dsr_msg_cancel cancel = {.scheduler = w->scheduler.incarnation};
	struct dsr_ref ref;

	reserve(w, &ref, 0, 1);
	world_attach(w, 0, SLOT, 1, 0);
	(void)store(w, 0, &ref, 1, 0, 1);
	(void)world_tell(w, &w->workers[0], DSR_MSG_CANCEL, &cancel);
	assert_int_equal(world_next(w, DSR_MSG_CANCEL_REPLY)->body.cancel_reply.err, -EINVAL);
	assert_int_equal(world_expect(w, DSR_MSG_STORE_REPLY)->body.store_reply.errs.v[0], 0);
}

static void nothing_is_written_after_cancel_was_answered(void **state)
{
	struct world *w = *state;
	struct dsr_msg_cancel cancel = {.scheduler = w->scheduler.incarnation};
	struct dsr_ref refs[4 * SEGMENT];
	struct world_message *m;

	reserve(w, refs, 0, 4 * SEGMENT);
	world_attach(w, 0, 4 * SEGMENT * SLOT, 1, 0);
	(void)store(w, 0, refs, 4 * SEGMENT, 0, 1);
	for (uint32_t i = 0; i < 4 * SEGMENT; i++)
		world_set_state(w, &refs[i], DSR_ENTRY_ABORTING);
	cancel.refs = (struct dsr_refs){.v = refs, .n = 4 * SEGMENT};
	(void)world_tell(w, &w->scheduler, DSR_MSG_CANCEL, &cancel);
	(void)world_expect(w, DSR_MSG_CANCEL_REPLY);
	/* The slots go to somebody else now. */
	for (uint32_t i = 0; i < 4 * SEGMENT; i++)
		memset(world_slot(w, 0, i), 0x77, 64);
	m = world_expect(w, DSR_MSG_STORE_REPLY);
	for (uint32_t i = 0; i < 4 * SEGMENT; i++)
		assert_int_equal(m->body.store_reply.errs.v[i], -ECANCELED);
	assert_int_equal(world_count(w, DSR_MSG_COMMIT), 0);
	for (uint32_t i = 0; i < 4 * SEGMENT; i++)
		assert_int_equal(world_slot(w, 0, i)[0], 0x77);
}

static void cancel_of_all_drops_what_waits(void **state)
{
	struct world *w = *state;
	struct dsr_msg_cancel cancel = {.scheduler = w->scheduler.incarnation};
	struct dsr_ref refs[4 * SEGMENT];
	struct world_message *m;
	uint64_t req;

	reserve(w, refs, 0, 4 * SEGMENT);
	world_attach(w, 0, 4 * SEGMENT * SLOT, 1, 0);
	(void)store(w, 0, refs, 4 * SEGMENT, 0, 1);
	req = world_tell(w, &w->scheduler, DSR_MSG_CANCEL, &cancel);
	assert_int_equal(world_expect(w, DSR_MSG_CANCEL_REPLY)->req, req);
	m = world_expect(w, DSR_MSG_STORE_REPLY);
	for (uint32_t i = 0; i < 4 * SEGMENT; i++)
		assert_int_equal(m->body.store_reply.errs.v[i],
		                 i < SEGMENT * DSR_COPIER_DEPTH ? 0 : -ECANCELED);
	/* The scheduler knows: it is told of none of these. */
	assert_int_equal(world_count(w, DSR_MSG_ABORT), 0);
	assert_int_equal(world_counter(w, DSR_COUNTER_DROP_CANCELLED), 0);
}

static void cancel_of_an_older_scheduler_leaves_newer_stores(void **state)
{
	struct world *w = *state;
	struct dsr_msg_cancel cancel = {.scheduler = w->scheduler.incarnation - 1};
	struct dsr_ref refs[4 * SEGMENT];
	struct world_message *m;

	reserve(w, refs, 0, 4 * SEGMENT);
	world_attach(w, 0, 4 * SEGMENT * SLOT, 1, 0);
	(void)store(w, 0, refs, 4 * SEGMENT, 0, 1);
	(void)world_tell(w, &w->scheduler, DSR_MSG_CANCEL, &cancel);
	m = world_expect(w, DSR_MSG_STORE_REPLY);
	for (uint32_t i = 0; i < 4 * SEGMENT; i++)
		assert_int_equal(m->body.store_reply.errs.v[i], 0);
	(void)world_expect(w, DSR_MSG_CANCEL_REPLY);
}

static void many_cancels_each_get_one_answer(void **state)
{
	struct world *w = *state;
	struct dsr_msg_cancel cancel = {.scheduler = w->scheduler.incarnation};
	struct dsr_ref refs[4 * SEGMENT];
	uint64_t first = 0;

	reserve(w, refs, 0, 4 * SEGMENT);
	world_attach(w, 0, 4 * SEGMENT * SLOT, 1, 0);
	(void)store(w, 0, refs, 4 * SEGMENT, 0, 1);
	cancel.refs = (struct dsr_refs){.v = refs, .n = 1};
	for (uint64_t i = 0; i < 1025; i++) {
		uint64_t req = world_tell(w, &w->scheduler, DSR_MSG_CANCEL, &cancel);

		first = first == 0 ? req : first;
	}
	/* One more than there is room for: refused, to be sent again. */
	assert_int_equal(world_next(w, DSR_MSG_CANCEL_REPLY)->body.cancel_reply.err, -EAGAIN);
	for (uint64_t i = 0; i < 1024; i++) {
		struct world_message *m = world_expect(w, DSR_MSG_CANCEL_REPLY);

		assert_int_equal(m->req, first + i);
		assert_int_equal(m->body.cancel_reply.err, 0);
	}
}

/* ---- workers ---- */

static void what_a_dead_worker_left_is_committed_or_aborted(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[4 * SEGMENT];
	uint32_t committed = 0, aborted = 0;

	reserve(w, refs, 0, 4 * SEGMENT);
	world_attach(w, 0, 4 * SEGMENT * SLOT, 1, 1);
	(void)store(w, 0, refs, 4 * SEGMENT, 0, 1);
	dsr_store_ops.link->peer_dead(w->self, &w->workers[0]);
	while (committed + aborted < 4 * SEGMENT) {
		struct world_message *m = world_next(w, DSR_MSG_COMMIT);

		if (m != NULL) {
			committed += m->body.commit.refs.n;
			continue;
		}
		m = world_next(w, DSR_MSG_ABORT);
		if (m == NULL) {
			world_step(w);
			continue;
		}
		aborted += m->body.abort.refs.n;
		assert_int_equal(m->body.abort.reason, DSR_REASON_ACTOR_GONE);
		assert_int_equal(m->body.abort.lane, 1);
		assert_int_equal(m->body.abort.reservation, 40);
	}
	assert_int_equal(committed, SEGMENT * DSR_COPIER_DEPTH);
	assert_int_equal(world_counter(w, DSR_COUNTER_DROP_ACTOR_GONE), aborted);
	assert_int_equal(world_count(w, DSR_MSG_STORE_REPLY), 0);
	assert_int_equal(atomic_load(&w->rt.row->peer_handles), 0);
}

static void detaching_aborts_what_waits(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[4 * SEGMENT];
	struct world_message *m;
	uint64_t req;

	reserve(w, refs, 0, 4 * SEGMENT);
	world_attach(w, 0, 4 * SEGMENT * SLOT, 1, 0);
	(void)store(w, 0, refs, 4 * SEGMENT, 0, 1);
	req = world_tell(w, &w->workers[0], DSR_MSG_DETACH, &(struct dsr_msg_detach){0});
	assert_int_equal(world_expect(w, DSR_MSG_DETACH_REPLY)->req, req);
	m = world_next(w, DSR_MSG_STORE_REPLY);
	assert_int_equal(m->body.store_reply.errs.v[0], 0);
	assert_int_equal(m->body.store_reply.errs.v[4 * SEGMENT - 1], -ECANCELED);
	m = world_next(w, DSR_MSG_ABORT);
	assert_int_equal(m->body.abort.reason, DSR_REASON_CANCELLED);
	assert_int_equal(m->body.abort.refs.n, 4 * SEGMENT - SEGMENT * DSR_COPIER_DEPTH);
}

static void a_dropped_save_is_aborted_for_its_lane(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[3];
	struct dsr_msg_drop drop = {.reservation = 41,
	                            .scheduler = w->scheduler.incarnation,
	                            .engine = 4001,
	                            .reason = DSR_REASON_PREEMPTED};
	struct world_message *m;
	uint64_t req;

	reserve(w, refs, 0, 3);
	drop.refs = (struct dsr_refs){.v = refs, .n = 3};
	(void)world_tell(w, &w->workers[0], DSR_MSG_DROP, &drop);
	assert_int_equal(world_next(w, DSR_MSG_DROP_REPLY)->body.drop_reply.err, -ESTALE);
	world_attach(w, 0, SLOT, 1, 1);
	req = world_tell(w, &w->workers[0], DSR_MSG_DROP, &drop);
	m = world_next(w, DSR_MSG_DROP_REPLY);
	assert_int_equal(m->req, req);
	assert_int_equal(m->body.drop_reply.err, 0);
	m = world_next(w, DSR_MSG_ABORT);
	assert_int_equal(m->body.abort.engine, 4001);
	assert_int_equal(m->body.abort.reservation, 41);
	assert_int_equal(m->body.abort.lane, 1);
	assert_int_equal(m->body.abort.reason, DSR_REASON_PREEMPTED);
	assert_int_equal(m->body.abort.refs.n, 3);
	assert_memory_equal(m->body.abort.refs.v, refs, sizeof(refs));
	world_answer(w, &w->scheduler, m, &(struct dsr_msg_abort_reply){.aborted = 3});
	assert_true(dsr_store_ops.is_drained(w->self));
	drop.scheduler--;
	(void)world_tell(w, &w->workers[0], DSR_MSG_DROP, &drop);
	assert_int_equal(world_next(w, DSR_MSG_DROP_REPLY)->body.drop_reply.err, -ESTALE);
	drop.scheduler++;
	drop.reason = DSR_REASON_COUNT;
	(void)world_tell(w, &w->workers[0], DSR_MSG_DROP, &drop);
	assert_int_equal(world_next(w, DSR_MSG_DROP_REPLY)->body.drop_reply.err, -EINVAL);
}

static void drops_are_refused_when_nothing_more_can_be_told(void **state)
{
	static struct dsr_ref refs[DSR_SETTLE_BLOCKS / 4];
	struct world *w = *state;
	struct dsr_msg_drop drop = {.reservation = 41,
	                            .scheduler = w->scheduler.incarnation,
	                            .refs = {.v = refs, .n = DSR_SETTLE_BLOCKS / 4}};

	world_attach(w, 0, SLOT, 1, 1);
	for (int i = 0; i < 5; i++)
		(void)world_tell(w, &w->workers[0], DSR_MSG_DROP, &drop);
	for (int i = 0; i < 5; i++)
		assert_int_equal(world_next(w, DSR_MSG_DROP_REPLY)->body.drop_reply.err,
		                 i < 4 ? 0 : -EAGAIN);
	assert_int_equal(world_counter(w, DSR_COUNTER_REFUSED_STORES), 1);
	world_until(w, is_drained);
	(void)world_tell(w, &w->workers[0], DSR_MSG_DROP, &drop);
	assert_int_equal(world_next(w, DSR_MSG_DROP_REPLY)->body.drop_reply.err, 0);
}

/* ---- DRAIN ---- */

static void drain_waits_for_copies_and_answers(void **state)
{
	struct world *w = *state;
	struct dsr_msg_drain drain = {.timeout_ms = 60000};
	struct dsr_ref refs[4 * SEGMENT];
	uint64_t req;

	reserve(w, refs, 0, 4 * SEGMENT);
	world_attach(w, 0, 4 * SEGMENT * SLOT, 2, 0);
	(void)store(w, 0, refs, 2 * SEGMENT, 0, 1);
	req = world_tell(w, &w->ctl, DSR_MSG_DRAIN, &drain);
	/* Comes after it, and is not waited for: its commits are never answered here. */
	(void)store(w, 0, refs + 2 * SEGMENT, 2 * SEGMENT, 1, 1);
	for (uint32_t i = 0; i < 2; i++)
		(void)world_expect(w, DSR_MSG_STORE_REPLY);
	for (uint32_t blocks = 0; blocks < 2 * SEGMENT;) {
		struct world_message *m = world_expect(w, DSR_MSG_COMMIT);

		assert_int_equal(world_count(w, DSR_MSG_DRAIN_REPLY), 0);
		if (m->body.commit.refs.v[0].slot >= 2 * SEGMENT)
			continue;
		blocks += m->body.commit.refs.n;
		world_answer(w, &w->scheduler, m, &(struct dsr_msg_commit_reply){0});
	}
	assert_int_equal(world_expect(w, DSR_MSG_DRAIN_REPLY)->req, req);
	assert_false(dsr_store_ops.is_drained(w->self));
}

static void drain_of_nothing_is_answered_at_once(void **state)
{
	struct world *w = *state;
	struct dsr_msg_drain drain = {.timeout_ms = 0};

	(void)world_tell(w, &w->ctl, DSR_MSG_DRAIN, &drain);
	assert_int_equal(world_next(w, DSR_MSG_DRAIN_REPLY)->body.drain_reply.err, 0);
}

static void drain_tells_what_is_left_when_its_time_is_over(void **state)
{
	struct world *w = *state;
	struct dsr_msg_drain drain = {.timeout_ms = 50};
	struct dsr_ref refs[3];
	struct world_message *m;

	reserve(w, refs, 0, 3);
	world_attach(w, 0, 3 * SLOT, 1, 0);
	(void)store(w, 0, refs, 3, 0, 1);
	(void)world_tell(w, &w->ctl, DSR_MSG_DRAIN, &drain);
	m = world_expect(w, DSR_MSG_DRAIN_REPLY);
	assert_int_equal(m->body.drain_reply.err, -ETIMEDOUT);
	assert_int_equal(m->body.drain_reply.left, 3);
}

static void drains_beyond_their_number_are_refused_and_the_dead_are_forgotten(void **state)
{
	struct world *w = *state;
	struct dsr_msg_drain drain = {.timeout_ms = 60000};
	struct dsr_ref ref;

	reserve(w, &ref, 0, 1);
	world_attach(w, 0, SLOT, 1, 0);
	(void)store(w, 0, &ref, 1, 0, 1);
	for (int i = 0; i < 17; i++)
		(void)world_tell(w, &w->ctl, DSR_MSG_DRAIN, &drain);
	assert_int_equal(world_next(w, DSR_MSG_DRAIN_REPLY)->body.drain_reply.err, -EAGAIN);
	dsr_store_ops.link->peer_dead(w->self, &w->ctl);
	world_until(w, is_drained);
	assert_int_equal(world_count(w, DSR_MSG_DRAIN_REPLY), 0);
}

static void a_scheduler_that_dies_ends_a_drain(void **state)
{
	struct world *w = *state;
	struct dsr_msg_drain drain = {.timeout_ms = 60000};
	struct dsr_ref refs[4 * SEGMENT];

	reserve(w, refs, 0, 4 * SEGMENT);
	world_attach(w, 0, 4 * SEGMENT * SLOT, 1, 0);
	(void)store(w, 0, refs, 4 * SEGMENT, 0, 1);
	(void)world_expect(w, DSR_MSG_COMMIT);
	(void)world_tell(w, &w->ctl, DSR_MSG_DRAIN, &drain);
	w->present_scheduler = NULL;
	dsr_store_ops.link->peer_dead(w->self, &w->scheduler);
	assert_int_equal(world_expect(w, DSR_MSG_DRAIN_REPLY)->body.drain_reply.err, 0);
}

static void stopping_finishes_what_was_accepted(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[2 * SEGMENT];
	struct stored s;

	reserve(w, refs, 0, 2 * SEGMENT);
	world_attach(w, 0, 2 * SEGMENT * SLOT, 2, 0);
	(void)store(w, 0, refs, 2 * SEGMENT, 0, 1);
	dsr_store_ops.drain(w->self);
	assert_false(dsr_store_ops.is_drained(w->self));
	assert_refused(w, store_of(&s, w, refs, 1, 1, 1), -ECANCELED);
	world_until(w, is_drained);
	assert_int_equal(world_expect(w, DSR_MSG_STORE_REPLY)->body.store_reply.err, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cancel_waits_for_the_copies_under_way),
		TEST(cancel_without_copies_is_answered_at_once),
		TEST(cancel_is_the_schedulers_alone),
		TEST(nothing_is_written_after_cancel_was_answered),
		TEST(cancel_of_all_drops_what_waits),
		TEST(cancel_of_an_older_scheduler_leaves_newer_stores),
		TEST(many_cancels_each_get_one_answer),
		TEST(what_a_dead_worker_left_is_committed_or_aborted),
		TEST(detaching_aborts_what_waits),
		TEST(a_dropped_save_is_aborted_for_its_lane),
		TEST(drops_are_refused_when_nothing_more_can_be_told),
		TEST(drain_waits_for_copies_and_answers),
		TEST(drain_of_nothing_is_answered_at_once),
		TEST(drain_tells_what_is_left_when_its_time_is_over),
		TEST(drains_beyond_their_number_are_refused_and_the_dead_are_forgotten),
		TEST(a_scheduler_that_dies_ends_a_drain),
		TEST(stopping_finishes_what_was_accepted),
	};

	return cmocka_run_group_tests_name("store_ends", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "load_test.h"

/* ---- attaching ---- */

static void attach_tells_the_digest_that_was_read(void **state)
{
	struct world *w = *state;
	struct dsr_msg_attach attach = world_staging(w, 0, 16 * SLOT, 4, 0);
	uint64_t req = world_tell(w, &w->workers[0], DSR_MSG_ATTACH, &attach);
	struct world_message *m = world_expect(w, DSR_MSG_ATTACH_REPLY);

	assert_int_equal(m->req, req);
	assert_int_equal(m->body.attach_reply.err, 0);
	assert_int_equal(m->body.attach_reply.canary, attach.canary);
}

static void attach_refuses_another_pattern(void **state)
{
	struct world *w = *state;
	struct dsr_msg_attach attach = world_staging(w, 0, 16 * SLOT, 4, 0);
	uint64_t canary = attach.canary;
	struct dsr_ref ref = put(w, 0);
	struct world_message *m;
	uint64_t req;

	attach.canary ^= 1;
	(void)world_tell(w, &w->workers[0], DSR_MSG_ATTACH, &attach);
	m = world_expect(w, DSR_MSG_ATTACH_REPLY);
	assert_int_equal(m->body.attach_reply.err, -EBADMSG);
	assert_int_equal(m->body.attach_reply.canary, canary);
	req = load(w, 0, &ref, 1, 0, 1, 1);
	assert_int_equal(expect_reply(w, req).err, -ENOENT);
}

static void refuse_attach(struct world *w, const struct dsr_msg_attach *attach, int err,
                          const char *text)
{
	struct world_message *m;

	(void)world_tell(w, &w->workers[0], DSR_MSG_ATTACH, attach);
	m = world_expect(w, DSR_MSG_ATTACH_REPLY);
	assert_int_equal(m->body.attach_reply.err, err);
	if (strstr(m->text, text) == NULL)
		fail_msg("`%s` does not name `%s`", m->text, text);
}

static void attach_refuses_what_does_not_fit(void **state)
{
	struct world *w = *state;
	const struct dsr_msg_attach good = world_staging(w, 0, 16 * SLOT, 4, 0);
	struct dsr_msg_attach m = good;

	m.pool_epoch = WORLD_EPOCH + 1;
	refuse_attach(w, &m, -ESTALE, "epoch 8");
	m = good;
	m.lane = LANES;
	refuse_attach(w, &m, -EINVAL, "lane 2");
	m = good;
	m.buffer_bytes = SLOT - 1;
	refuse_attach(w, &m, -EINVAL, "buffer_bytes 4095");
	m = good;
	m.object = (struct dsr_str){.p = "staging/nobody", .n = 14};
	refuse_attach(w, &m, -EINVAL, "staging/nobody");
	m = good;
	m.buffers = 5; /* more than the object has */
	refuse_attach(w, &m, -EINVAL, "importing");
	m = good;
	m.object = (struct dsr_str){.p = "control", .n = 7};
	refuse_attach(w, &m, -EINVAL, "control");
	assert_int_equal(atomic_load(&w->rt.row->peer_handles), 0);
}

static void one_more_than_64_workers_is_refused(void **state)
{
	struct world *w = *state;
	struct dsr_msg_attach attach;

	for (uint32_t i = 0; i < DSR_MOVER_WORKERS; i++)
		world_attach(w, i, SLOT, 1, 0);
	attach = world_staging(w, DSR_MOVER_WORKERS, SLOT, 1, 0);
	(void)world_tell(w, &w->workers[DSR_MOVER_WORKERS], DSR_MSG_ATTACH, &attach);
	assert_int_equal(world_expect(w, DSR_MSG_ATTACH_REPLY)->body.attach_reply.err, -EAGAIN);
	/* One leaves, and the next is taken. */
	dsr_load_ops.link->peer_dead(w->self, &w->workers[5]);
	world_step(w);
	(void)world_tell(w, &w->workers[DSR_MOVER_WORKERS], DSR_MSG_ATTACH, &attach);
	assert_int_equal(world_expect(w, DSR_MSG_ATTACH_REPLY)->body.attach_reply.err, 0);
}

/* ---- sharing ---- */

static bool has_reply(struct world *w)
{
	return world_count(w, DSR_MSG_LOAD_REPLY) > 0;
}

static void a_short_load_passes_a_long_one_of_another_worker(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[256];
	uint32_t before = 0;
	uint64_t second;

	put_all(w, refs, 256);
	world_attach(w, 0, 256 * SLOT, 1, 0);
	world_attach(w, 1, 256 * SLOT, 1, 1);
	(void)load(w, 0, refs, 256, 0, 1, 1);
	second = load(w, 1, refs, 2, 0, 1, 1);
	world_until(w, has_reply);
	for (size_t i = w->taken; w->messages[i].type != DSR_MSG_LOAD_REPLY; i++)
		before += w->messages[i].peer == &w->workers[0];
	/* Two were under way, then they took turns. */
	assert_true(before <= DSR_COPIER_DEPTH + 2);
	(void)expect_reply(w, second);
	(void)world_expect(w, DSR_MSG_LOAD_REPLY);
}

static void loads_of_one_worker_keep_their_order(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[64];
	uint64_t reqs[4];

	put_all(w, refs, 64);
	world_attach(w, 0, 64 * SLOT, 4, 0);
	for (uint32_t b = 0; b < 4; b++)
		reqs[b] = load(w, 0, refs, 64, b, 1, 8);
	for (uint32_t b = 0; b < 4; b++)
		(void)expect_reply(w, reqs[b]);
}

static void a_worker_that_takes_no_message_holds_up_nobody(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[8];
	uint64_t slow, other;
	uint32_t next = 0;

	put_all(w, refs, 8);
	world_attach(w, 0, 8 * SLOT, 1, 0);
	world_attach(w, 1, 8 * SLOT, 1, 1);
	w->unreachable = &w->workers[0];
	w->send_error = -EAGAIN;
	w->sends_left = 1;
	slow = load(w, 0, refs, 8, 0, 1, 2);
	other = load(w, 1, refs, 8, 0, 1, 2);
	(void)expect_reply(w, other);
	for (int i = 0; i < 5; i++)
		world_step(w);
	assert_int_equal(world_count(w, DSR_MSG_LOAD_REPLY), 0);
	assert_false(dsr_load_ops.is_drained(w->self));
	w->unreachable = NULL;
	(void)expect_reply(w, slow);
	for (struct world_message *m; (m = world_next(w, DSR_MSG_SEGMENT)) != NULL;) {
		if (m->peer != &w->workers[0])
			continue;
		assert_int_equal(m->body.segment.first, next);
		next += m->body.segment.errs.n;
	}
	assert_int_equal(next, 8);
	assert_true(dsr_load_ops.is_drained(w->self));
}

/* ---- ends ---- */

static void a_dead_workers_memory_is_closed_after_its_copies(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[64];

	put_all(w, refs, 64);
	world_attach(w, 0, 64 * SLOT, 2, 0);
	(void)load(w, 0, refs, 64, 0, 1, 1);
	(void)load(w, 0, refs, 64, 1, 1, 1);
	dsr_load_ops.link->peer_dead(w->self, &w->workers[0]);
	/* Two segments run still. */
	assert_int_equal(atomic_load(&w->rt.row->peer_handles), 1);
	assert_false(dsr_load_ops.is_drained(w->self));
	while (atomic_load(&w->rt.row->peer_handles) > 0)
		world_step(w);
	assert_true(dsr_load_ops.is_drained(w->self));
	assert_int_equal(world_count(w, DSR_MSG_LOAD_REPLY), 0);
	assert_int_equal(world_counter(w, DSR_COUNTER_COPIES), DSR_COPIER_DEPTH);
}

static void a_worker_that_dies_while_its_pattern_is_read_is_closed(void **state)
{
	struct world *w = *state;
	struct dsr_msg_attach attach = world_staging(w, 0, SLOT, 1, 0);

	(void)world_tell(w, &w->workers[0], DSR_MSG_ATTACH, &attach);
	dsr_load_ops.link->peer_dead(w->self, &w->workers[0]);
	assert_int_equal(atomic_load(&w->rt.row->peer_handles), 1);
	while (atomic_load(&w->rt.row->peer_handles) > 0)
		world_step(w);
	assert_int_equal(world_count(w, DSR_MSG_ATTACH_REPLY), 0);
}

static void detach_is_answered_after_the_copies(void **state)
{
	struct world *w = *state;
	struct dsr_msg_detach detach = {0};
	struct dsr_ref refs[64];
	uint32_t told = 0, failed = 0;
	uint64_t first, second, req;

	put_all(w, refs, 64);
	world_attach(w, 0, 64 * SLOT, 2, 0);
	first = load(w, 0, refs, 64, 0, 1, 8);
	second = load(w, 0, refs, 64, 1, 1, 8);
	req = world_tell(w, &w->workers[0], DSR_MSG_DETACH, &detach);
	assert_int_equal(world_count(w, DSR_MSG_DETACH_REPLY), 0);
	/* The second one had nothing submitted: it is over at once, all its blocks given up. */
	assert_int_equal(world_next(w, DSR_MSG_LOAD_REPLY)->req, second);
	assert_int_equal(world_expect(w, DSR_MSG_DETACH_REPLY)->req, req);
	assert_int_equal(world_next(w, DSR_MSG_LOAD_REPLY)->req, first);
	for (struct world_message *m; (m = world_next(w, DSR_MSG_SEGMENT)) != NULL;)
		for (uint32_t i = 0; i < m->body.segment.errs.n; i++, told++)
			failed += m->body.segment.errs.v[i] == -ECANCELED;
	assert_int_equal(told, 128);
	assert_int_equal(failed, 128 - 8 * DSR_COPIER_DEPTH);
	(void)world_tell(w, &w->workers[0], DSR_MSG_DETACH, &detach);
	assert_int_equal(world_expect(w, DSR_MSG_DETACH_REPLY)->body.detach_reply.err, 0);
	assert_int_equal(expect_reply(w, load(w, 0, refs, 1, 0, 9, 1)).err, -ENOENT);
}

static void attaching_again_replaces_after_the_copies(void **state)
{
	struct world *w = *state;
	struct dsr_msg_attach attach;
	struct dsr_ref refs[64];
	uint64_t first;

	put_all(w, refs, 64);
	world_attach(w, 0, 64 * SLOT, 2, 0);
	first = load(w, 0, refs, 64, 0, 9, 8);
	attach = world_staging(w, 0, 64 * SLOT, 2, 1);
	(void)world_tell(w, &w->workers[0], DSR_MSG_ATTACH, &attach);
	assert_int_equal(world_count(w, DSR_MSG_ATTACH_REPLY), 0);
	assert_int_equal(expect_reply(w, load(w, 0, refs, 1, 1, 1, 1)).err, -ENOENT);
	assert_int_equal(world_expect(w, DSR_MSG_ATTACH_REPLY)->body.attach_reply.err, 0);
	assert_int_equal(world_next(w, DSR_MSG_LOAD_REPLY)->req, first);
	/* Lendings count anew, and the new lane is read. */
	(void)expect_reply(w, load(w, 0, refs, 1, 0, 1, 1));
	assert_true(world_is_filled(world_buffer(w, 0, 0), 10000, SLOT));
}

static void of_two_attaches_at_once_the_later_one_counts(void **state)
{
	struct world *w = *state;
	struct dsr_msg_attach a = world_staging(w, 0, 4 * SLOT, 1, 0);
	struct dsr_msg_attach b = world_staging(w, 0, 4 * SLOT, 3, 0);
	struct dsr_ref ref = put(w, 0);
	uint64_t first, second;
	struct world_message *m;

	first = world_tell(w, &w->workers[0], DSR_MSG_ATTACH, &a);
	second = world_tell(w, &w->workers[0], DSR_MSG_ATTACH, &b);
	m = world_expect(w, DSR_MSG_ATTACH_REPLY);
	assert_int_equal(m->req, first);
	assert_int_equal(m->body.attach_reply.err, -ECANCELED);
	m = world_expect(w, DSR_MSG_ATTACH_REPLY);
	assert_int_equal(m->req, second);
	assert_int_equal(m->body.attach_reply.err, 0);
	assert_int_equal(expect_reply(w, load(w, 0, &ref, 1, 2, 1, 1)).err, 0);
}

static void draining_finishes_what_was_accepted_and_refuses_the_rest(void **state)
{
	struct world *w = *state;
	struct dsr_msg_attach attach;
	struct dsr_ref refs[64];
	uint64_t req;

	put_all(w, refs, 64);
	world_attach(w, 0, 64 * SLOT, 2, 0);
	req = load(w, 0, refs, 64, 0, 1, 8);
	dsr_load_ops.drain(w->self);
	assert_false(dsr_load_ops.is_drained(w->self));
	assert_int_equal(expect_reply(w, load(w, 0, refs, 1, 1, 1, 1)).err, -ECANCELED);
	attach = world_staging(w, 1, SLOT, 1, 0);
	(void)world_tell(w, &w->workers[1], DSR_MSG_ATTACH, &attach);
	assert_int_equal(world_expect(w, DSR_MSG_ATTACH_REPLY)->body.attach_reply.err, -ECANCELED);
	assert_int_equal(expect_reply(w, req).err, 0);
	assert_true(dsr_load_ops.is_drained(w->self));
	assert_false(dsr_load_ops.is_stuck(w->self));
}

/* Nothing ends before world_free: closing with copies under way waits for them and leaks nothing.
 */
static void closing_in_the_middle_of_copies_is_safe(void **state)
{
	struct world *w = *state;
	struct dsr_ref refs[64];

	put_all(w, refs, 64);
	world_attach(w, 0, 64 * SLOT, 2, 0);
	(void)load(w, 0, refs, 64, 0, 1, 8);
	assert_int_equal(world_count(w, DSR_MSG_LOAD_REPLY), 0);
}

static void cancel_is_answered_at_once(void **state)
{
	struct world *w = *state;
	struct dsr_msg_cancel cancel = {.scheduler = w->scheduler.incarnation};
	struct dsr_ref refs[64];
	uint64_t req, first;

	put_all(w, refs, 64);
	world_attach(w, 0, 64 * SLOT, 1, 0);
	first = load(w, 0, refs, 64, 0, 1, 8);
	req = world_tell(w, &w->scheduler, DSR_MSG_CANCEL, &cancel);
	assert_int_equal(world_next(w, DSR_MSG_CANCEL_REPLY)->req, req);
	assert_int_equal(expect_reply(w, first).copies, 64);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(attach_tells_the_digest_that_was_read),
		TEST(attach_refuses_another_pattern),
		TEST(attach_refuses_what_does_not_fit),
		TEST(one_more_than_64_workers_is_refused),
		TEST(a_short_load_passes_a_long_one_of_another_worker),
		TEST(loads_of_one_worker_keep_their_order),
		TEST(a_worker_that_takes_no_message_holds_up_nobody),
		TEST(a_dead_workers_memory_is_closed_after_its_copies),
		TEST(a_worker_that_dies_while_its_pattern_is_read_is_closed),
		TEST(detach_is_answered_after_the_copies),
		TEST(attaching_again_replaces_after_the_copies),
		TEST(of_two_attaches_at_once_the_later_one_counts),
		TEST(draining_finishes_what_was_accepted_and_refuses_the_rest),
		TEST(closing_in_the_middle_of_copies_is_safe),
		TEST(cancel_is_answered_at_once),
	};

	return cmocka_run_group_tests_name("load_workers", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "world.h"

static const struct dsr_msg_register_worker_reply *register_reply(void)
{
	return &world_last(DSR_MSG_REGISTER_REPLY)->register_worker_reply;
}

static void the_first_worker_makes_the_pool_and_gets_actors(void **state)
{
	const struct dsr_scheduler_state *shared = world.rt.control.scheduler;

	(void)state;
	assert_int_equal(shared->pool_epoch, 0);
	assert_int_equal(world_register(0), 0);
	assert_int_equal(register_reply()->pool_epoch, shared->pool_epoch);
	assert_int_not_equal(shared->pool_epoch, 0);
	assert_int_equal(shared->next_generation >> DSR_EPOCH_SHIFT, shared->pool_epoch);
	assert_int_equal(shared->slots_free, register_reply()->slots);
	assert_true(register_reply()->slots > 100);
	assert_int_equal(register_reply()->page, DSR_ACTOR_ROWS);
	assert_string_equal(world.calls, "spawn host:0;");
	assert_int_equal(world_register(1), 0);
	assert_string_equal(world.calls, "spawn host:0;spawn host:1;");
	assert_int_equal(register_reply()->page, DSR_ACTOR_ROWS + 1);
	assert_int_equal(shared->engines, 1);
}

static void registering_again_gives_the_same_answer(void **state)
{
	struct dsr_msg_register_worker_reply first;

	(void)state;
	assert_int_equal(world_register(0), 0);
	first = *register_reply();
	assert_int_equal(world_register(0), 0);
	assert_int_equal(register_reply()->pool_epoch, first.pool_epoch);
	assert_int_equal(register_reply()->slots, first.slots);
	assert_int_equal(register_reply()->page, first.page);
	assert_string_equal(world.calls, "spawn host:0;");
}

static void another_engine_of_another_geometry_is_told_why_not(void **state)
{
	uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {7};
	struct dsr_msg_register_worker m = {
		.engine = {.p = "two", .n = 3},
		.fingerprint = {.p = fingerprint, .n = sizeof(fingerprint)},
		.world = 1,
		.lanes = 1,
		.writer = 1,
		.slot_bytes = 8192,
		.block_tokens = 16,
		.device = {.p = "host:0", .n = 6},
	};

	(void)state;
	assert_int_equal(world_register(0), 0);
	world_call(&world.workers[1], DSR_MSG_REGISTER, &m);
	assert_int_equal(register_reply()->err, -EXDEV);
	assert_string_equal(register_reply()->reason.p,
	                    "slot_bytes 8192, this instance serves 4096");
	assert_int_equal(register_reply()->page, DSR_PAGE_NONE);
	m.engine.n = 0;
	world_call(&world.workers[1], DSR_MSG_REGISTER, &m);
	assert_int_equal(register_reply()->err, -EINVAL);
	assert_int_equal(world.rt.control.scheduler->engines, 1);
}

static void a_slot_that_does_not_fit_is_refused_with_the_numbers(void **state)
{
	uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {7};
	struct dsr_msg_register_worker m = {
		.engine = {.p = "big", .n = 3},
		.fingerprint = {.p = fingerprint, .n = sizeof(fingerprint)},
		.world = 1,
		.lanes = 1,
		.writer = 1,
		.slot_bytes = 64 << 20,
		.block_tokens = 16,
		.device = {.p = "host:0", .n = 6},
	};

	(void)state;
	world_call(&world.workers[0], DSR_MSG_REGISTER, &m);
	assert_int_equal(register_reply()->err, -ENOSPC);
	assert_non_null(strstr(register_reply()->reason.p, "67108864"));
	assert_string_equal(world.calls, "");
	assert_int_equal(world.rt.control.scheduler->pool_epoch, 0);
	/* It left nothing: one that fits is served. */
	assert_int_equal(world_register(0), 0);
}

static void what_fails_half_way_is_undone(void **state)
{
	uint64_t last;

	(void)state;
	world.spawn_err = -ENOTCONN;
	assert_int_equal(world_register(0), -ENOTCONN);
	assert_non_null(strstr(register_reply()->reason.p, "host:0"));
	assert_int_equal(world.rt.control.scheduler->pool_epoch, 0);
	assert_int_equal(world.rt.control.scheduler->engines, 0);
	assert_int_equal(world.rt.control.counters[DSR_ACTOR_ROWS].incarnation, 0);
	last = world.rt.control.scheduler->next_generation;
	world.spawn_err = 0;
	world.put_err = -ETIMEDOUT;
	assert_int_equal(world_register(0), -ETIMEDOUT);
	assert_int_equal(world.rt.control.scheduler->pool_epoch, 0);
	world.put_err = 0;
	assert_int_equal(world_register(0), 0);
	/* An epoch is never used twice. */
	assert_true(world.rt.control.scheduler->next_generation >> DSR_EPOCH_SHIFT > last >>
	            DSR_EPOCH_SHIFT);
}

static void a_name_that_is_no_device_is_refused(void **state)
{
	static const char *const names[] = {"", "/etc", "host 0"};
	uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {7};
	char longest[DSR_DEVICE_NAME_MAX];
	struct dsr_msg_register_worker m = {
		.engine = {.p = "llm", .n = 3},
		.fingerprint = {.p = fingerprint, .n = sizeof(fingerprint)},
		.world = 1,
		.lanes = 1,
		.slot_bytes = 4096,
		.block_tokens = 16,
		.device = {.p = longest, .n = sizeof(longest)},
	};

	(void)state;
	memset(longest, 'x', sizeof(longest));
	world_call(&world.workers[0], DSR_MSG_REGISTER, &m);
	assert_int_equal(register_reply()->err, -EINVAL);
	for (size_t i = 0; i < 3; i++) {
		m.device = (struct dsr_str){.p = names[i], .n = (uint32_t)strlen(names[i])};
		world_call(&world.workers[0], DSR_MSG_REGISTER, &m);
		assert_int_equal(register_reply()->err, -EINVAL);
	}
}

static void a_message_of_another_role_is_refused(void **state)
{
	uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {7};
	struct dsr_msg_engine m = {
		.engine = {.p = "llm", .n = 3},
		.fingerprint = {.p = fingerprint, .n = sizeof(fingerprint)},
		.world = 2,
	};

	(void)state;
	world_call(&world.workers[0], DSR_MSG_ENGINE, &m);
	assert_int_equal(world_last(DSR_MSG_ENGINE_REPLY)->engine_reply.err, -EINVAL);
	assert_non_null(strstr(world_last(DSR_MSG_ENGINE_REPLY)->engine_reply.reason.p,
	                       "`worker`, expected a `engine`"));
	m.world = 65;
	world_call(&world.engine, DSR_MSG_ENGINE, &m);
	assert_int_equal(world_last(DSR_MSG_ENGINE_REPLY)->engine_reply.err, -EINVAL);
	assert_int_equal(world_engine(), 0);
	assert_int_equal(world_last(DSR_MSG_ENGINE_REPLY)->engine_reply.page, DSR_ACTOR_ROWS);
	assert_int_equal(world_engine(), 0);
	assert_int_equal(world_last(DSR_MSG_ENGINE_REPLY)->engine_reply.page, DSR_ACTOR_ROWS);
}

static void a_worker_must_register_before_it_is_ready(void **state)
{
	(void)state;
	assert_int_equal(world_ready(0), -ENOENT);
	assert_int_equal(world_register(0), 0);
	assert_int_equal(world_ready(0), 0);
	assert_int_equal(world_ready(1), -ENOENT);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(the_first_worker_makes_the_pool_and_gets_actors),
		T(registering_again_gives_the_same_answer),
		T(another_engine_of_another_geometry_is_told_why_not),
		T(a_slot_that_does_not_fit_is_refused_with_the_numbers),
		T(what_fails_half_way_is_undone),
		T(a_name_that_is_no_device_is_refused),
		T(a_message_of_another_role_is_refused),
		T(a_worker_must_register_before_it_is_ready),
	};

	return cmocka_run_group_tests_name("scheduler_on_engine", tests, NULL, NULL);
}

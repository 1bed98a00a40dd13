/* SPDX-License-Identifier: Apache-2.0 */
#include "engines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"
#include "roles.h"

#define NOW UINT64_C(1000000000000)
#define SECOND UINT64_C(1000000000)

struct fixture {
	struct dsr_engines engines;
	struct dsr_actor_row rows[DSR_ACTOR_ROWS];
	struct dsr_pool_geometry pool;
	char why[256];
};

static uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {1, 2, 3};
static uint8_t other_fingerprint[DSR_NAMESPACE_BYTES] = {1, 2, 4};

static int setup(void **state)
{
	static struct fixture f;

	memset(&f, 0, sizeof(f));
	dsr_engines_init(&f.engines, f.rows);
	f.pool.lanes = 2;
	f.pool.slot_bytes = 4096;
	f.pool.block_tokens = 16;
	memcpy(f.pool.fingerprint, fingerprint, sizeof(fingerprint));
	*state = &f;
	return 0;
}

static struct dsr_engine_request engine_request(const char *name, uint64_t incarnation)
{
	return (struct dsr_engine_request){
		.name = name,
		.name_bytes = (uint32_t)strlen(name),
		.fingerprint = fingerprint,
		.fingerprint_bytes = sizeof(fingerprint),
		.world = 2,
		.incarnation = incarnation,
	};
}

static struct dsr_rank_request rank_request(const char *name, uint64_t incarnation, uint32_t rank)
{
	struct dsr_rank_request request = {
		.engine = engine_request(name, incarnation),
		.rank = rank,
		.lane = rank,
		.lanes = 2,
		.writer = 1,
		.slot_bytes = 4096,
		.block_tokens = 16,
	};

	(void)snprintf(request.device, sizeof(request.device), "host:%u", rank);
	return request;
}

static uint32_t join(struct fixture *f, const char *name, uint64_t incarnation, uint32_t rank)
{
	struct dsr_rank_request request = rank_request(name, incarnation, rank);

	assert_int_equal(
		dsr_engines_check_rank(&f->engines, &request, &f->pool, f->why, sizeof(f->why)), 0);
	return dsr_engines_join_rank(&f->engines, &request);
}

static int check(struct fixture *f, const struct dsr_rank_request *request)
{
	f->why[0] = '\0';
	return dsr_engines_check_rank(&f->engines, request, &f->pool, f->why, sizeof(f->why));
}

static void actor(struct fixture *f, uint32_t row, uint32_t role, const char *device,
                  uint64_t incarnation)
{
	f->rows[row].role = role;
	(void)snprintf(f->rows[row].device, sizeof(f->rows[row].device), "%s", device);
	f->rows[row].progress_ns = NOW;
	f->rows[row].state = DSR_ACTOR_READY;
	f->rows[row].incarnation = incarnation;
}

static int ready(struct fixture *f, const char *name, uint64_t incarnation, uint32_t rank,
                 uint64_t load, uint64_t store)
{
	struct dsr_engine_request request = engine_request(name, incarnation);

	return dsr_engines_set_ready(&f->engines, &request, rank, load, store, true);
}

/* An engine of two ranks with everything it needs. */
static uint32_t serve(struct fixture *f)
{
	uint32_t engine = join(f, "a", 10, 0);

	(void)join(f, "a", 11, 1);
	actor(f, 2, DSR_ROLE_LOAD, "host:0", 100);
	actor(f, 3, DSR_ROLE_STORE, "host:0", 101);
	actor(f, 4, DSR_ROLE_LOAD, "host:1", 102);
	actor(f, 5, DSR_ROLE_STORE, "host:1", 103);
	f->engines.devices[0].store = 101;
	f->engines.devices[1].store = 103;
	assert_int_equal(ready(f, "a", 10, 0, 100, 101), 0);
	assert_int_equal(ready(f, "a", 11, 1, 102, 103), 0);
	return engine;
}

static void an_engine_is_served_when_all_its_ranks_are(void **state)
{
	struct fixture *f = *state;
	uint32_t engine = serve(f);

	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), 0);
	assert_int_equal(dsr_engines_is_written(&f->engines, engine, 2, NOW), 0);
	assert_int_equal(dsr_engines_devices(&f->engines, engine), 3);
	assert_int_equal(dsr_engines_lanes(&f->engines, engine, 1), 2);
	assert_int_equal(dsr_engines_count(&f->engines), 1);
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 0, NOW), -ENOTCONN);
}

static void an_engine_is_not_served_while_a_rank_is_missing(void **state)
{
	struct fixture *f = *state;
	uint32_t engine = join(f, "a", 10, 0);

	actor(f, 2, DSR_ROLE_LOAD, "host:0", 100);
	actor(f, 3, DSR_ROLE_STORE, "host:0", 101);
	assert_int_equal(ready(f, "a", 10, 0, 100, 101), 0);
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), -ENOTCONN);
}

static void each_thing_that_a_rank_lacks_stops_the_engine(void **state)
{
	struct fixture *f = *state;
	struct dsr_engine_request request = engine_request("a", 11);
	uint32_t engine = serve(f);

	assert_int_equal(dsr_engines_set_ready(&f->engines, &request, 1, 102, 103, false), 0);
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), -ENOTCONN);
	assert_int_equal(ready(f, "a", 11, 1, 0, 103), 0);
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), -ENOTCONN);
	assert_int_equal(ready(f, "a", 11, 1, 102, 0), 0);
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), -ENOTCONN);
	assert_int_equal(ready(f, "a", 11, 1, 99, 103), 0); /* the actor before this one */
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), -ENOTCONN);
	assert_int_equal(ready(f, "a", 11, 1, 102, 103), 0);
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), 0);
	(void)dsr_engines_worker_dead(&f->engines, engine, 1);
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), -ENOTCONN);
}

static void an_actor_that_stands_still_or_is_not_ready_stops_the_engine(void **state)
{
	struct fixture *f = *state;
	uint32_t engine = serve(f);

	for (uint32_t row = 2; row <= 5; row++) {
		f->rows[row].progress_ns = NOW - 2 * SECOND;
		assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), 0);
		f->rows[row].progress_ns = NOW - 2 * SECOND - 1;
		assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), -ENOTCONN);
		f->rows[row].progress_ns = NOW;
		f->rows[row].state = DSR_ACTOR_DRAINING;
		assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), -ENOTCONN);
		f->rows[row].state = DSR_ACTOR_READY;
		f->rows[row].incarnation++;
		assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), -ENOTCONN);
		f->rows[row].incarnation--;
	}
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), 0);
}

static void writing_needs_a_connected_writer_for_each_lane(void **state)
{
	struct fixture *f = *state;
	uint32_t engine = serve(f);

	f->engines.devices[1].store = 0;
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), 0);
	assert_int_equal(dsr_engines_is_written(&f->engines, engine, 2, NOW), -ENOTCONN);
	f->engines.devices[1].store = 103;
	f->engines.engines[engine].ranks[1].is_writer = false;
	assert_int_equal(dsr_engines_is_written(&f->engines, engine, 2, NOW), -ENOTCONN);
}

static void ranks_that_share_a_lane_have_one_writer(void **state)
{
	struct fixture *f = *state;
	struct dsr_rank_request request = rank_request("mla", 20, 0);

	f->pool.lanes = 1;
	request.lanes = 1;
	assert_int_equal(check(f, &request), 0);
	(void)dsr_engines_join_rank(&f->engines, &request);
	request = rank_request("mla", 21, 1);
	request.lane = 0;
	request.lanes = 1;
	assert_int_equal(check(f, &request), -EINVAL);
	assert_non_null(strstr(f->why, "writer of lane 0 is rank 0"));
	request.writer = 0;
	assert_int_equal(check(f, &request), 0);
	(void)dsr_engines_join_rank(&f->engines, &request);
	assert_int_equal(dsr_engines_devices(&f->engines, 0), 1);
}

static void sixty_four_ranks_are_served(void **state)
{
	struct fixture *f = *state;
	uint32_t engine = 0;

	f->pool.lanes = 64;
	for (uint32_t rank = 0; rank < 64; rank++) {
		struct dsr_rank_request request = rank_request("big", 1000 + rank, rank);

		request.engine.world = 64;
		request.lanes = 64;
		(void)snprintf(request.device, sizeof(request.device), "host:%u", rank % 8);
		assert_int_equal(check(f, &request), 0);
		engine = dsr_engines_join_rank(&f->engines, &request);
	}
	for (uint32_t device = 0; device < 8; device++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "host:%u", device);
		actor(f, 2 + 2 * device, DSR_ROLE_LOAD, name, 100 + device);
		actor(f, 3 + 2 * device, DSR_ROLE_STORE, name, 200 + device);
		f->engines.devices[device].store = 200 + device;
	}
	for (uint32_t rank = 0; rank < 64; rank++) {
		assert_int_equal(dsr_engines_is_written(&f->engines, engine, 64, NOW), -ENOTCONN);
		assert_int_equal(ready(f, "big", 1000 + rank, rank, 100 + rank % 8, 200 + rank % 8),
		                 0);
	}
	assert_int_equal(dsr_engines_is_written(&f->engines, engine, 64, NOW), 0);
	assert_int_equal(dsr_engines_lanes(&f->engines, engine, 3), UINT64_C(0x0808080808080808));
	assert_int_equal(dsr_engines_devices(&f->engines, engine), 0xff);
}

static void another_geometry_is_refused_by_name_value_and_expectation(void **state)
{
	struct fixture *f = *state;
	struct dsr_rank_request request = rank_request("a", 10, 0);

	request.slot_bytes = 8192;
	assert_int_equal(check(f, &request), -EXDEV);
	assert_string_equal(f->why, "slot_bytes 8192, this instance serves 4096");
	request = rank_request("a", 10, 0);
	request.block_tokens = 32;
	assert_int_equal(check(f, &request), -EXDEV);
	assert_string_equal(f->why, "block_tokens 32, this instance serves 16");
	request = rank_request("a", 10, 0);
	request.lanes = 4;
	assert_int_equal(check(f, &request), -EXDEV);
	assert_string_equal(f->why, "lanes 4, this instance serves 2");
	request = rank_request("a", 10, 0);
	request.engine.fingerprint = other_fingerprint;
	assert_int_equal(check(f, &request), -EXDEV);
	assert_string_equal(f->why, "fingerprint 0102040000000000..., this instance has "
	                            "0102030000000000...");
}

static void one_engine_has_one_world_and_fingerprint(void **state)
{
	struct fixture *f = *state;
	struct dsr_engine_request engine = engine_request("a", 9);
	struct dsr_rank_request request = rank_request("a", 10, 0);

	assert_int_equal(
		dsr_engines_check_engine(&f->engines, &engine, NULL, f->why, sizeof(f->why)), 0);
	(void)dsr_engines_join_engine(&f->engines, &engine);
	request.engine.world = 3;
	assert_int_equal(check(f, &request), -EXDEV);
	assert_string_equal(f->why, "world 3, engine `a` has 2");
	request = rank_request("a", 10, 0);
	request.engine.fingerprint = other_fingerprint;
	memcpy(f->pool.fingerprint, other_fingerprint, sizeof(other_fingerprint));
	assert_int_equal(check(f, &request), -EXDEV);
	assert_non_null(strstr(f->why, "this engine has 0102030000000000..."));
}

static void values_out_of_range_are_refused(void **state)
{
	struct fixture *f = *state;
	char name[DSR_ENGINE_NAME_MAX + 1];
	struct dsr_rank_request bad[12];
	static const char *const told[12] = {
		"engine name of 0 bytes",
		"engine name of 128 bytes",
		"engine name of 3 bytes",
		"fingerprint of 31 bytes",
		"world 0",
		"world 65",
		"rank 2, expected below 2",
		"lanes 0",
		"lane 2, expected below 2",
		"writer 2",
		"slot_bytes 0",
		"device `",
	};

	memset(name, 'x', sizeof(name));
	for (uint32_t i = 0; i < 12; i++)
		bad[i] = rank_request("a", 10, 0);
	bad[0].engine.name_bytes = 0;
	bad[1].engine.name = name;
	bad[1].engine.name_bytes = DSR_ENGINE_NAME_MAX;
	bad[2].engine.name = "a\0b";
	bad[2].engine.name_bytes = 3;
	bad[3].engine.fingerprint_bytes = 31;
	bad[4].engine.world = 0;
	bad[5].engine.world = 65;
	bad[6].rank = 2;
	bad[7].lanes = 0;
	bad[8].lane = 2;
	bad[9].writer = 2;
	bad[10].slot_bytes = 0;
	memcpy(bad[11].device, "../x", 5);
	for (uint32_t i = 0; i < 12; i++) {
		assert_int_equal(check(f, &bad[i]), -EINVAL);
		assert_non_null(strstr(f->why, told[i]));
	}
	bad[0] = rank_request("a", 10, 0);
	bad[0].slot_bytes = UINT64_C(1) << 32;
	assert_int_equal(check(f, &bad[0]), -EINVAL);
	bad[0] = rank_request("a", 10, 0);
	bad[0].block_tokens = 0;
	assert_int_equal(check(f, &bad[0]), -EINVAL);
	bad[0] = rank_request("a", 10, 0);
	bad[0].device[0] = '\0';
	assert_int_equal(check(f, &bad[0]), -EINVAL);
	assert_int_equal(dsr_engines_count(&f->engines), 0);
}

static void a_rank_belongs_to_its_process_until_that_is_dead(void **state)
{
	struct fixture *f = *state;
	struct dsr_rank_request request = rank_request("a", 20, 1);
	uint32_t engine = serve(f), rank;

	assert_int_equal(check(f, &request), -EEXIST);
	assert_non_null(strstr(f->why, "rank 1 of engine `a` has another process"));
	assert_int_equal(dsr_engines_of_worker(&f->engines, 11, &rank), engine);
	assert_int_equal(rank, 1);
	assert_int_equal(dsr_engines_worker_dead(&f->engines, engine, rank), 2);
	assert_int_equal(dsr_engines_of_worker(&f->engines, 11, &rank), DSR_ENGINE_NONE);
	assert_int_equal(check(f, &request), 0);
	(void)dsr_engines_join_rank(&f->engines, &request);
	assert_int_equal(ready(f, "a", 11, 1, 102, 103), -ENOENT);
	assert_int_equal(ready(f, "a", 20, 1, 102, 103), 0);
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), 0);
}

static void the_same_process_may_register_again_with_the_same_values(void **state)
{
	struct fixture *f = *state;
	struct dsr_rank_request request = rank_request("a", 11, 1);
	uint32_t engine = serve(f);

	assert_int_equal(check(f, &request), 0);
	assert_int_equal(dsr_engines_join_rank(&f->engines, &request), engine);
	assert_int_equal(dsr_engines_is_served(&f->engines, engine, 2, NOW), 0);
	request.lane = 0;
	request.writer = 0;
	assert_int_equal(check(f, &request), -EINVAL);
	request = rank_request("a", 11, 1);
	memcpy(request.device, "host:7", 7);
	assert_int_equal(check(f, &request), -EINVAL);
}

static void an_engine_name_belongs_to_its_process_until_that_is_dead(void **state)
{
	struct fixture *f = *state;
	struct dsr_engine_request request = engine_request("a", 9);
	uint32_t engine;

	engine = dsr_engines_join_engine(&f->engines, &request);
	assert_int_equal(dsr_engines_of_process(&f->engines, 9), engine);
	assert_int_equal(
		dsr_engines_check_engine(&f->engines, &request, NULL, f->why, sizeof(f->why)), 0);
	request.incarnation = 8;
	assert_int_equal(
		dsr_engines_check_engine(&f->engines, &request, NULL, f->why, sizeof(f->why)),
		-EEXIST);
	dsr_engines_process_dead(&f->engines, engine);
	assert_int_equal(dsr_engines_of_process(&f->engines, 9), DSR_ENGINE_NONE);
	assert_int_equal(
		dsr_engines_check_engine(&f->engines, &request, NULL, f->why, sizeof(f->why)), 0);
	request.fingerprint = other_fingerprint;
	assert_int_equal(
		dsr_engines_check_engine(&f->engines, &request, &f->pool, f->why, sizeof(f->why)),
		-EXDEV);
}

static void an_engine_is_forgotten_when_all_its_processes_are_dead(void **state)
{
	struct fixture *f = *state;
	struct dsr_engine_request request = engine_request("a", 9);
	uint32_t engine = serve(f);

	(void)dsr_engines_join_engine(&f->engines, &request);
	assert_int_equal(dsr_engines_idle_device(&f->engines), DSR_DEVICE_NONE);
	(void)dsr_engines_worker_dead(&f->engines, engine, 0);
	(void)dsr_engines_worker_dead(&f->engines, engine, 1);
	assert_false(dsr_engines_forget(&f->engines, engine));
	/* A worker may come back: its actors stay. */
	assert_int_equal(dsr_engines_idle_device(&f->engines), DSR_DEVICE_NONE);
	dsr_engines_process_dead(&f->engines, engine);
	assert_true(dsr_engines_forget(&f->engines, engine));
	assert_int_equal(dsr_engines_count(&f->engines), 0);
	assert_int_equal(dsr_engines_idle_device(&f->engines), 0);
	f->engines.devices[0].is_retired = true;
	assert_int_equal(dsr_engines_idle_device(&f->engines), 1);
	dsr_engines_drop_device(&f->engines, 1); /* not retired */
	assert_int_equal(dsr_engines_device(&f->engines, "host:1"), 1);
	dsr_engines_drop_device(&f->engines, 0);
	assert_int_equal(dsr_engines_device(&f->engines, "host:0"), DSR_DEVICE_NONE);
}

static void a_device_stays_while_another_engine_runs_on_it(void **state)
{
	struct fixture *f = *state;
	uint32_t engine = serve(f), other = join(f, "b", 30, 0);

	assert_int_not_equal(engine, other);
	(void)dsr_engines_worker_dead(&f->engines, engine, 0);
	(void)dsr_engines_worker_dead(&f->engines, engine, 1);
	assert_true(dsr_engines_forget(&f->engines, engine));
	assert_int_equal(dsr_engines_idle_device(&f->engines), 1);
	f->engines.devices[1].is_retired = true;
	assert_int_equal(dsr_engines_idle_device(&f->engines), DSR_DEVICE_NONE);
	/* Somebody comes back to a retired one. */
	(void)join(f, "b", 31, 1);
	assert_false(f->engines.devices[1].is_retired);
}

static void tables_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct dsr_rank_request request;

	for (uint32_t i = 0; i < DSR_ENGINES_MAX; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "e%u", i);
		(void)join(f, name, 100 + i, 0);
	}
	request = rank_request("one more", 500, 0);
	assert_int_equal(check(f, &request), -EAGAIN);
	for (uint32_t i = 1; i < DSR_DEVICES_MAX; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "e%u", i);
		request = rank_request(name, 600 + i, 1);
		(void)snprintf(request.device, sizeof(request.device), "host:%u", i);
		assert_int_equal(check(f, &request), 0);
		(void)dsr_engines_join_rank(&f->engines, &request);
	}
	request = rank_request("e0", 700, 1);
	memcpy(request.device, "host:77", 8);
	assert_int_equal(check(f, &request), -EAGAIN);
	assert_non_null(strstr(f->why, "device `host:77`"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		T(an_engine_is_served_when_all_its_ranks_are),
		T(an_engine_is_not_served_while_a_rank_is_missing),
		T(each_thing_that_a_rank_lacks_stops_the_engine),
		T(an_actor_that_stands_still_or_is_not_ready_stops_the_engine),
		T(writing_needs_a_connected_writer_for_each_lane),
		T(ranks_that_share_a_lane_have_one_writer),
		T(sixty_four_ranks_are_served),
		T(another_geometry_is_refused_by_name_value_and_expectation),
		T(one_engine_has_one_world_and_fingerprint),
		T(values_out_of_range_are_refused),
		T(a_rank_belongs_to_its_process_until_that_is_dead),
		T(the_same_process_may_register_again_with_the_same_values),
		T(an_engine_name_belongs_to_its_process_until_that_is_dead),
		T(an_engine_is_forgotten_when_all_its_processes_are_dead),
		T(a_device_stays_while_another_engine_runs_on_it),
		T(tables_are_bounded),
	};

	return cmocka_run_group_tests_name("scheduler_engines", tests, NULL, NULL);
}

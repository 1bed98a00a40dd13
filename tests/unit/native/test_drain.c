/* SPDX-License-Identifier: Apache-2.0 */
/* daser_drain: who is asked, in which order, and what comes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daser/daser.h"
#include "fake_service.h"
#include "util.h"

/* A row as its actor would fill it. */
static void fill_row(struct fake_service *service, enum dsr_role role, uint32_t state,
                     uint64_t progress_ns)
{
	struct dsr_actor_row *row = &fake_service_control(service)->rows[role];

	row->role = role;
	if (role != DSR_ROLE_SCHEDULER)
		(void)snprintf(row->device, sizeof(row->device), "%s", FAKE_DEVICE);
	atomic_store(&row->incarnation, 1);
	atomic_store(&row->progress_ns, progress_ns);
	atomic_store(&row->state, state);
}

static int set_up(void **state)
{
	struct fake_service *service = fake_service_open();

	fill_row(service, DSR_ROLE_SCHEDULER, DSR_ACTOR_READY, dsr_now_ns());
	*state = service;
	return 0;
}

static int tear_down(void **state)
{
	fake_service_close((struct fake_service **)state);
	return 0;
}

static void the_store_actors_come_before_the_scheduler(void **state)
{
	struct fake_service *service = *state;
	struct fake_shared *shared = fake_service_shared(service);

	fake_service_start_all(service);
	fill_row(service, DSR_ROLE_STORE, DSR_ACTOR_READY, dsr_now_ns() + UINT64_C(60000000000));
	assert_int_equal(daser_drain(fake_service_run_dir(service), 20000, NULL), 0);
	assert_int_equal(shared->drains, 2);
	assert_int_equal(shared->first_drained, DSR_ROLE_STORE);
}

static void an_actor_that_is_not_up_is_not_asked(void **state)
{
	struct fake_service *service = *state;
	struct fake_shared *shared = fake_service_shared(service);

	fake_service_start(service, DSR_ROLE_SCHEDULER);
	fill_row(service, DSR_ROLE_STORE, DSR_ACTOR_STOPPED, dsr_now_ns());
	assert_int_equal(daser_drain(fake_service_run_dir(service), 20000, NULL), 0);
	assert_int_equal(shared->drains, 1);
	assert_int_equal(shared->first_drained, DSR_ROLE_SCHEDULER);
}

static void what_is_left_at_the_end_of_the_time_is_told(void **state)
{
	struct fake_service *service = *state;
	struct fake_shared *shared = fake_service_shared(service);
	uint64_t left = 0;

	fake_service_start(service, DSR_ROLE_SCHEDULER);
	atomic_store(&shared->drain_err, -ETIMEDOUT);
	atomic_store(&shared->drain_left, 17);
	assert_int_equal(daser_drain(fake_service_run_dir(service), 20000, &left), -ETIMEDOUT);
	assert_int_equal(left, 17);
}

static void a_store_actor_that_never_answers_ends_with_the_time(void **state)
{
	struct fake_service *service = *state;
	uint64_t left = 99;

	/* Its row says that it is up; nobody is there. */
	fake_service_start(service, DSR_ROLE_SCHEDULER);
	fill_row(service, DSR_ROLE_STORE, DSR_ACTOR_READY, dsr_now_ns() + UINT64_C(60000000000));
	assert_int_equal(daser_drain(fake_service_run_dir(service), 200, &left), -ETIMEDOUT);
	assert_int_equal(left, 0);
	assert_int_equal(fake_service_shared(service)->drains, 0);
}

static void without_a_supervisor_there_is_no_service(void **state)
{
	char dir[] = "/tmp/daser-native-XXXXXX";
	uint64_t left = 99;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(daser_drain(dir, 1000, &left), -ENOTCONN);
	assert_int_equal(left, 99);
	(void)rmdir(dir);
	assert_int_equal(daser_drain("/nonexistent/daser", 1000, NULL), -ENOTCONN);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_store_actors_come_before_the_scheduler, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(an_actor_that_is_not_up_is_not_asked, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(what_is_left_at_the_end_of_the_time_is_told, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_store_actor_that_never_answers_ends_with_the_time,
	                                        set_up, tear_down),
		cmocka_unit_test(without_a_supervisor_there_is_no_service),
	};

	fake_actor_main(argc, argv);
	return cmocka_run_group_tests_name("native drain", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "broker.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fake_supervisor.h"
#include "layout.h"
#include "rt_test.h"

struct fixture {
	char *run_dir;
	struct fake *fake;
	struct dsr_broker *broker;
	struct dsr_options options;
	int row;
	bool by_hand;
	unsigned descriptors; /* open before the test's own */
};

static unsigned count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static int open_broker(struct fixture *f)
{
	const struct dsr_broker_hello hello = {
		.role = DSR_ROLE_STORE, .device = "host:0", .incarnation = 77};

	return dsr_broker_open(f->run_dir, &hello, &f->options, &f->broker, &f->row, &f->by_hand);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->run_dir = test_make_run_dir();
	f->fake = fake_start(f->run_dir, 5);
	f->row = -9;
	dsr_options_init(&f->options);
	*state = f;
	return 0;
}

static int set_up_open(void **state)
{
	struct fixture *f;

	(void)set_up(state);
	f = *state;
	assert_int_equal(open_broker(f), 0);
	fake_wait_connections(f->fake, 1);
	f->descriptors = count_descriptors();
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dsr_broker_close(&f->broker);
	assert_null(f->broker);
	dsr_broker_close(&f->broker);
	fake_stop(&f->fake);
	test_remove_run_dir(&f->run_dir);
	free(f);
	return 0;
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void wait_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 10000), 1);
}

static void hello_tells_who_we_are_and_brings_row_and_settings(void **state)
{
	struct fixture *f = *state;
	char want[256];
	uint64_t ticks;

	fake_set_options(f->fake, "{\"l1.size\":\"1073741824\",\"log.level\":\"debug\","
	                          "\"from.the.future\":\"1\"}");
	assert_int_equal(open_broker(f), 0);
	assert_int_equal(f->row, 5);
	assert_true(f->by_hand);
	assert_true(f->options.l1_size == UINT64_C(1) << 30);
	assert_int_equal(f->options.log_level, 3);
	assert_int_equal(dsr_start_ticks(getpid(), &ticks), 0);
	(void)snprintf(want, sizeof(want),
	               "{\"op\":\"hello\",\"role\":\"store\",\"device\":\"host:0\",\"pid\":%d,"
	               "\"start_ticks\":%llu,\"incarnation\":77,\"protocol\":[1,0]}",
	               (int)getpid(), (unsigned long long)ticks);
	assert_string_equal(fake_request(f->fake, "hello"), want);
}

static void objects_are_put_got_and_dropped(void **state)
{
	struct fixture *f = *state;
	int fd = memfd_create("x", MFD_CLOEXEC);
	struct stat mine;
	struct stat got;
	int copy;

	assert_int_equal(dsr_broker_get(f->broker, "control"), -ENOENT);
	assert_int_equal(dsr_broker_put(f->broker, "control", fd), 0);
	assert_int_equal(dsr_broker_put(f->broker, "control", fd), -EEXIST);
	copy = dsr_broker_get(f->broker, "control");
	assert_true(copy >= 0);
	assert_int_equal(fcntl(copy, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd, &mine), 0);
	assert_int_equal(fstat(copy, &got), 0);
	assert_true(mine.st_ino == got.st_ino);
	(void)close(copy);
	assert_int_equal(dsr_broker_drop(f->broker, "control"), 0);
	assert_int_equal(dsr_broker_get(f->broker, "control"), -ENOENT);
	(void)close(fd);
	assert_int_equal(count_descriptors(), f->descriptors);
}

static void the_other_requests_say_what_they_mean(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(dsr_broker_ready(f->broker), 0);
	assert_string_equal(fake_request(f->fake, "ready"), "{\"op\":\"ready\"}");
	assert_int_equal(dsr_broker_spawn(f->broker, "host:1"), 0);
	assert_string_equal(fake_request(f->fake, "spawn"),
	                    "{\"op\":\"spawn\",\"device\":\"host:1\"}");
	assert_int_equal(dsr_broker_retire(f->broker, "host:2"), 0);
	assert_string_equal(fake_request(f->fake, "retire"),
	                    "{\"op\":\"retire\",\"device\":\"host:2\"}");
	assert_int_equal(dsr_broker_kill(f->broker, DSR_ROLE_LOAD, "host:3", UINT64_C(1) << 60,
	                                 "it \"hangs\""),
	                 0);
	assert_string_equal(fake_request(f->fake, "kill"),
	                    "{\"op\":\"kill\",\"role\":\"load\",\"device\":\"host:3\","
	                    "\"incarnation\":1152921504606846976,\"why\":\"it \\\"hangs\\\"\"}");
	assert_int_equal(dsr_broker_spawn(f->broker, "\xff"), -EINVAL);
}

static void a_request_longer_than_a_datagram_is_not_sent(void **state)
{
	struct fixture *f = *state;
	static char name[9000];

	memset(name, 'x', sizeof(name) - 1);
	assert_int_equal(dsr_broker_drop(f->broker, name), -E2BIG);
	assert_int_equal(dsr_broker_ready(f->broker), 0);
}

static void events_make_it_readable(void **state)
{
	struct fixture *f = *state;
	char device[DSR_DEVICE_NAME_MAX] = "";

	assert_false(is_readable(dsr_broker_fd(f->broker)));
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_NONE);
	fake_send(f->fake, "{\"event\":\"spawn\",\"device\":\"host:1\"}");
	fake_send(f->fake, "{\"event\":\"retire\",\"device\":\"host:2\"}");
	fake_send(f->fake, "{\"event\":\"stop\"}");
	wait_readable(dsr_broker_fd(f->broker));
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_SPAWN);
	assert_string_equal(device, "host:1");
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_RETIRE);
	assert_string_equal(device, "host:2");
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_STOP);
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_NONE);
	assert_false(is_readable(dsr_broker_fd(f->broker)));
}

static void events_that_come_before_an_answer_are_kept(void **state)
{
	struct fixture *f = *state;
	char device[DSR_DEVICE_NAME_MAX] = "";

	fake_set(f->fake, FAKE_EVENT_FIRST);
	assert_int_equal(dsr_broker_ready(f->broker), 0);
	assert_int_equal(dsr_broker_ready(f->broker), 0);
	assert_true(is_readable(dsr_broker_fd(f->broker)));
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_SPAWN);
	assert_string_equal(device, "host:7");
	assert_true(is_readable(dsr_broker_fd(f->broker)));
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_SPAWN);
	assert_false(is_readable(dsr_broker_fd(f->broker)));
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_NONE);
}

static void bad_events_are_ignored(void **state)
{
	struct fixture *f = *state;
	char device[DSR_DEVICE_NAME_MAX] = "";

	fake_send(f->fake, "nonsense");
	fake_send(f->fake, "[]");
	fake_send(f->fake, "{\"event\":5}");
	fake_send(f->fake, "{\"event\":\"dance\"}");
	fake_send(f->fake, "{\"event\":\"spawn\"}");
	fake_send(f->fake, "{\"event\":\"spawn\",\"device\":\"../x\"}");
	fake_send(f->fake, "{\"ok\":true}");
	fake_send(f->fake, "{\"event\":\"stop\"}");
	wait_readable(dsr_broker_fd(f->broker));
	while (dsr_broker_next(f->broker, device) != DSR_BROKER_STOP)
		wait_readable(dsr_broker_fd(f->broker));
	assert_int_equal(dsr_broker_ready(f->broker), 0);
}

static void a_late_answer_is_not_taken_for_the_next(void **state)
{
	struct fixture *f = *state;

	fake_set(f->fake, FAKE_LATE);
	assert_int_equal(dsr_broker_get(f->broker, "nothing"), -ETIMEDOUT);
	fake_set(f->fake, FAKE_GOOD); /* now comes the answer -ENOENT */
	assert_int_equal(dsr_broker_ready(f->broker), 0);
	assert_int_equal(dsr_broker_get(f->broker, "nothing"), -ENOENT);
}

static void received_descriptors_never_leak(void **state)
{
	struct fixture *f = *state;
	int fd;

	fake_set(f->fake, FAKE_MANY_FDS);
	assert_int_equal(dsr_broker_ready(f->broker), 0);
	assert_int_equal(count_descriptors(), f->descriptors);
	fd = dsr_broker_get(f->broker, "x"); /* refused, with descriptors beside it */
	assert_int_equal(fd, -ENOENT);
	assert_int_equal(count_descriptors(), f->descriptors);
	fake_set(f->fake, FAKE_GARBAGE);
	assert_int_equal(dsr_broker_ready(f->broker), -EBADMSG);
	assert_int_equal(count_descriptors(), f->descriptors);
	fake_set(f->fake, FAKE_NO_FD);
	assert_int_equal(dsr_broker_get(f->broker, "x"), -EPROTO);
	assert_int_equal(count_descriptors(), f->descriptors);
}

static void the_supervisors_end_is_seen(void **state)
{
	struct fixture *f = *state;
	char device[DSR_DEVICE_NAME_MAX] = "";

	fake_send(f->fake, "{\"event\":\"stop\"}");
	fake_hang_up(f->fake);
	wait_readable(dsr_broker_fd(f->broker));
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_STOP);
	wait_readable(dsr_broker_fd(f->broker));
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_GONE);
	assert_int_equal(dsr_broker_next(f->broker, device), DSR_BROKER_GONE);
	assert_int_equal(dsr_broker_ready(f->broker), -ENOTCONN);
}

static void hanging_up_in_the_middle_of_a_request_is_enotconn(void **state)
{
	struct fixture *f = *state;

	fake_set(f->fake, FAKE_HANG_UP);
	assert_int_equal(dsr_broker_ready(f->broker), -ENOTCONN);
	assert_int_equal(dsr_broker_ready(f->broker), -ENOTCONN);
}

static void a_supervisor_that_answers_badly_is_not_joined(void **state)
{
	struct fixture *f = *state;

	f->descriptors = count_descriptors();
	fake_set(f->fake, FAKE_BAD_ROW);
	assert_int_equal(open_broker(f), -EPROTO);
	fake_set(f->fake, FAKE_BAD_OPTIONS);
	assert_int_equal(open_broker(f), -EINVAL);
	fake_set(f->fake, FAKE_OTHER_VERSION);
	assert_int_equal(open_broker(f), -EPROTONOSUPPORT);
	fake_set(f->fake, FAKE_HANG_UP);
	assert_int_equal(open_broker(f), -ENOTCONN);
	fake_set(f->fake, FAKE_MUTE);
	assert_int_equal(open_broker(f), -ETIMEDOUT);
	assert_int_equal(f->row, -9);
	assert_null(f->broker);
	fake_wait_connections(f->fake, 0);
	assert_int_equal(count_descriptors(), f->descriptors);
}

static void nobody_serves_an_empty_or_foreign_directory(void **state)
{
	struct fixture *f = *state;
	const struct dsr_broker_hello hello = {.role = DSR_ROLE_CTL, .device = ""};
	char *empty = test_make_run_dir();
	static char longest[300];

	assert_int_equal(dsr_broker_open(empty, &hello, NULL, &f->broker, &f->row, &f->by_hand),
	                 -ENOTCONN);
	assert_int_equal(
		dsr_broker_open("/nonexistent", &hello, NULL, &f->broker, &f->row, &f->by_hand),
		-ENOTCONN);
	assert_int_equal(chmod(f->run_dir, 0755), 0);
	assert_int_equal(open_broker(f), -EACCES);
	assert_int_equal(chmod(f->run_dir, 0700), 0);
	memset(longest, '/', sizeof(longest) - 1);
	memcpy(longest, empty, strlen(empty));
	assert_int_equal(dsr_broker_open(longest, &hello, NULL, &f->broker, &f->row, &f->by_hand),
	                 -ENAMETOOLONG);
	test_remove_run_dir(&empty);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(hello_tells_who_we_are_and_brings_row_and_settings,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(objects_are_put_got_and_dropped, set_up_open,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(the_other_requests_say_what_they_mean, set_up_open,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_request_longer_than_a_datagram_is_not_sent,
	                                        set_up_open, tear_down),
		cmocka_unit_test_setup_teardown(events_make_it_readable, set_up_open, tear_down),
		cmocka_unit_test_setup_teardown(events_that_come_before_an_answer_are_kept,
	                                        set_up_open, tear_down),
		cmocka_unit_test_setup_teardown(bad_events_are_ignored, set_up_open, tear_down),
		cmocka_unit_test_setup_teardown(a_late_answer_is_not_taken_for_the_next,
	                                        set_up_open, tear_down),
		cmocka_unit_test_setup_teardown(received_descriptors_never_leak, set_up_open,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(the_supervisors_end_is_seen, set_up_open,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(hanging_up_in_the_middle_of_a_request_is_enotconn,
	                                        set_up_open, tear_down),
		cmocka_unit_test_setup_teardown(a_supervisor_that_answers_badly_is_not_joined,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_serves_an_empty_or_foreign_directory, set_up,
	                                        tear_down),
	};

	return cmocka_run_group_tests_name("broker", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* daserctl and daser-metrics beside a running broker and scheduler. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli_call.h"
#include "errors.h"
#include "fake_instance.h"
#include "files.h"
#include "metrics.h"
#include "util.h"

/* What a spec that means nothing gets. */
#if DSR_WITH_FAULTS
#define BAD_SPEC (-EINVAL)
#define BAD_SPEC_TEXT "err -22 (EINVAL)"
#else
#define BAD_SPEC (-ENOTSUP)
#define BAD_SPEC_TEXT "err -95 ("
#endif

#define DEADLINE_NS (UINT64_C(30) * 1000 * 1000 * 1000)

static void expect(const char *line, int status, const char *part)
{
	struct cli_call call = cli_expect(line, status, part);

	cli_call_done(&call);
}

static json_int_t number(const json_t *object, const char *path_a, const char *path_b)
{
	const json_t *value = json_object_get(json_object_get(object, path_a), path_b);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static void status_follows_the_actors(void **state)
{
	struct fake_instance *f = *state;
	struct cli_call call = cli_expect("status --json", DSR_CTL_OK, NULL);

	assert_int_equal(number(call.json, "pool", "lanes"), 2);
	assert_int_equal(number(call.json, "pool", "slot_bytes"), 4096);
	assert_int_equal(number(call.json, "scheduler", "leases"), 5);
	assert_int_equal(json_array_size(json_object_get(call.json, "actors")), 4);
	cli_call_done(&call);
	f->test.control.rows[2].start_ticks++; /* another process than ours: it is gone */
	call = cli_expect("status", DSR_CTL_DEGRADED, NULL);
	assert_non_null(strstr(call.out, "is gone"));
	cli_call_done(&call);
}

static void an_instance_that_just_started_is_degraded(void **state)
{
	struct cli_call call;

	fake_instance_drop(*state, "control");
	call = cli_expect("status --json", DSR_CTL_DEGRADED, NULL);
	assert_true(json_is_null(json_object_get(call.json, "scheduler")));
	cli_call_done(&call);
	expect("requests", DSR_CTL_DEGRADED, "no control segment yet");
	expect("entries", DSR_CTL_DEGRADED, "no control segment yet");
	expect("drain", DSR_CTL_DEGRADED, "no control segment yet");
}

static void a_missing_pool_is_not_shown(void **state)
{
	struct cli_call call;

	fake_instance_drop(*state, "pool/3");
	call = cli_expect("status --json", DSR_CTL_OK, NULL);
	assert_true(json_is_null(json_object_get(call.json, "pool")));
	assert_int_equal(number(call.json, "cache", "bytes_capacity"), 0);
	cli_call_done(&call);
}

static void a_broker_that_refuses_is_told(void **state)
{
	struct fake_instance *f = *state;

	atomic_store(&f->hello_errno, EPROTONOSUPPORT);
	expect("status", DSR_CTL_FAILED, "another protocol version");
	atomic_store(&f->hello_errno, EIO);
	expect("status", DSR_CTL_FAILED, "does not answer");
}

static void requests_and_entries_are_shown(void **state)
{
	struct cli_call call = cli_expect("requests --json --limit 2", DSR_CTL_OK, NULL);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(call.json, "requests")), 2);
	cli_call_done(&call);
	call = cli_expect("entries --json --state visible", DSR_CTL_OK, NULL);
	assert_int_equal(json_array_size(json_object_get(call.json, "entries")), 2);
	cli_call_done(&call);
	call = cli_expect("entries --limit 1", DSR_CTL_OK, NULL);
	assert_non_null(strstr(call.out, "there are more"));
	cli_call_done(&call);
}

static void send_prints_the_reply(void **state)
{
	struct cli_call call;

	fake_instance_start_scheduler(*state);
	call = cli_expect("send scheduler ping token=18446744073709551615 --json", DSR_CTL_OK,
	                  NULL);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(call.json, "reply"), "token")),
		"18446744073709551615");
	assert_true(json_integer_value(json_object_get(call.json, "incarnation")) > 0);
	cli_call_done(&call);
	call = cli_expect("send scheduler ping token=7", DSR_CTL_OK, NULL);
	assert_non_null(strstr(call.out, "ping_reply"));
	assert_non_null(strstr(call.out, "err 0, token 7\n"));
	cli_call_done(&call);
	call = cli_expect("send scheduler fault spec=nonsense", DSR_CTL_FAILED, NULL);
	assert_non_null(strstr(call.out, BAD_SPEC_TEXT));
	cli_call_done(&call);
}

static void send_tells_who_cannot_be_reached(void **state)
{
	struct fake_instance *f = *state;

	expect("send scheduler ping --timeout 100", DSR_CTL_FAILED,
	       "scheduler cannot be reached: it does not answer");
	test_set_row(&f->test, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_STARTING, 0);
	fake_instance_refresh(f);
	expect("send load ping --timeout 100", DSR_CTL_FAILED,
	       "load-host:0 cannot be reached: starting");
	expect("send load-host:9 ping --timeout 100", DSR_CTL_FAILED,
	       "load-host:9 cannot be reached: no such actor is known");
	expect("send nobody ping", DSR_CTL_USAGE, "`nobody` is no actor");
	expect("send engine ping", DSR_CTL_USAGE, "`engine` is no actor");
	expect("send scheduler-host:0 ping", DSR_CTL_USAGE, "scheduler has no device");
	expect("send load-../x ping", DSR_CTL_USAGE, "no device name");
	test_set_row(&f->test, 4, DSR_ROLE_LOAD, "host:1", DSR_ACTOR_READY, 0);
	expect("send load ping", DSR_CTL_USAGE, "`load` needs a device");
}

static void drain_asks_everyone_concerned(void **state)
{
	struct fake_instance *f = *state;
	struct cli_call call;

	/* no store actor is up: the scheduler alone is asked */
	test_set_row(&f->test, 3, DSR_ROLE_STORE, "host:0", DSR_ACTOR_STARTING, 0);
	fake_instance_refresh(f);
	fake_instance_start_scheduler(f);
	call = cli_expect("drain --json", DSR_CTL_OK, NULL);
	assert_true(json_is_true(json_object_get(call.json, "drained")));
	assert_int_equal(json_integer_value(json_object_get(call.json, "left")), 0);
	assert_int_equal(json_array_size(json_object_get(call.json, "actors")), 1);
	cli_call_done(&call);
	atomic_store(&f->drain_err, -ETIMEDOUT);
	call = cli_expect("drain --timeout 1234 --json", DSR_CTL_FAILED, NULL);
	assert_int_equal(json_integer_value(json_object_get(call.json, "left")), 1234);
	cli_call_done(&call);
	call = cli_expect("drain --timeout 5", DSR_CTL_FAILED, NULL);
	assert_string_equal(call.out, "scheduler: not drained (ETIMEDOUT), left 5\n");
	cli_call_done(&call);
}

static void drain_fails_when_the_scheduler_is_not_there(void **state)
{
	struct cli_call call = cli_call("drain --timeout 0 --json");

	(void)state;
	assert_int_equal(call.status, DSR_CTL_FAILED);
	assert_non_null(strstr(call.err, "scheduler cannot be reached"));
	assert_true(json_is_false(json_object_get(call.json, "drained")));
	cli_call_done(&call);
}

static void reset_is_done_or_refused(void **state)
{
	struct fake_instance *f = *state;
	struct cli_call call;

	fake_instance_start_scheduler(f);
	call = cli_expect("reset --json", DSR_CTL_OK, NULL);
	assert_int_equal(json_integer_value(json_object_get(call.json, "entries")), 2);
	cli_call_done(&call);
	call = cli_expect("reset --entries", DSR_CTL_OK, NULL);
	assert_string_equal(call.out, "blocks forgotten: 1\n");
	cli_call_done(&call);
	atomic_store(&f->reset_err, -EBUSY);
	call = cli_expect("reset --json", DSR_CTL_FAILED, NULL);
	assert_string_equal(json_string_value(json_object_get(call.json, "reason")),
	                    "an engine is attached");
	cli_call_done(&call);
	call = cli_expect("reset", DSR_CTL_FAILED, NULL);
	assert_string_equal(call.out, "refused (EBUSY): an engine is attached\n");
	cli_call_done(&call);
}

static void faults_are_armed_and_disarmed(void **state)
{
	struct fake_instance *f = *state;
	struct cli_call call;

	for (uint32_t row = 1; row < 4; row++)
		atomic_store(&f->test.control.rows[row].state, DSR_ACTOR_STARTING);
	fake_instance_start_scheduler(f);
	call = cli_expect("fault scheduler nonsense --json", DSR_CTL_FAILED, NULL);
	assert_int_equal(json_integer_value(json_object_get(
				 json_array_get(json_object_get(call.json, "actors"), 0), "err")),
	                 BAD_SPEC);
	cli_call_done(&call);
	call = cli_expect("fault --disarm", DSR_CTL_OK, NULL);
	assert_string_equal(call.out, "scheduler: disarmed\n");
	cli_call_done(&call);
	call = cli_expect("fault --disarm scheduler --json", DSR_CTL_OK, NULL);
	assert_string_equal(json_string_value(json_object_get(call.json, "spec")), "");
	cli_call_done(&call);
}

#if DSR_WITH_FAULTS
static void a_fault_point_takes_its_spec(void **state)
{
	struct cli_call call;

	fake_instance_start_scheduler(*state);
	call = cli_expect("fault scheduler sched_before_reply:nth=3:drop", DSR_CTL_OK, NULL);
	assert_string_equal(call.out, "scheduler: armed sched_before_reply:nth=3:drop\n");
	cli_call_done(&call);
}
#endif

/* ---- tap ---- */

struct tapping {
	const char *line;
	struct cli_call call;
	atomic_bool is_over;
};

static void *run_tap(void *self)
{
	struct tapping *tapping = self;

	tapping->call = cli_call(tapping->line);
	atomic_store(&tapping->is_over, true);
	return NULL;
}

/* Runs the tap in a thread and gives it messages to see until it has enough of them. */
static struct cli_call tap_while_pinging(const char *line)
{
	struct tapping tapping = {.line = line};
	uint64_t deadline = dsr_now_ns() + DEADLINE_NS;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run_tap, &tapping), 0);
	while (!atomic_load(&tapping.is_over) && dsr_now_ns() < deadline)
		expect("send scheduler ping token=42", DSR_CTL_OK, NULL);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return tapping.call;
}

static void tap_prints_messages_of_both_directions(void **state)
{
	struct cli_call call;
	char *rest, *line;
	int in = 0, out = 0;

	fake_instance_start_scheduler(*state);
	call = tap_while_pinging("tap scheduler --count 6 --timeout 30000 --json");
	assert_int_equal(call.status, DSR_CTL_OK);
	rest = call.out;
	while ((line = strsep(&rest, "\n")) != NULL && line[0] != '\0') {
		json_t *json = json_loads(line, 0, NULL);

		assert_non_null(json);
		assert_int_equal(strncmp(line, "{\"schema\":1,", 12), 0);
		assert_non_null(json_object_get(json, "message"));
		assert_string_equal(json_string_value(json_object_get(json, "actor")), "scheduler");
		in += strcmp(json_string_value(json_object_get(json, "direction")), "in") == 0;
		out += strcmp(json_string_value(json_object_get(json, "direction")), "out") == 0;
		json_decref(json);
	}
	assert_int_equal(in + out, 6);
	assert_true(in > 0 && out > 0);
	cli_call_done(&call);
	call = tap_while_pinging("tap --count 2 --timeout 30000");
	assert_int_equal(call.status, DSR_CTL_OK);
	assert_non_null(strstr(call.out, "scheduler "));
	cli_call_done(&call);
}

static void tap_ends_at_its_timeout(void **state)
{
	(void)state;
	expect("tap scheduler --timeout 20", DSR_CTL_OK, NULL);
	expect("tap scheduler --timeout 20 --count 1", DSR_CTL_FAILED, "0 of 1 messages");
	expect("tap nobody", DSR_CTL_USAGE, "`nobody` is no actor");
}

/* ---- daser-metrics ---- */

struct metrics_thread {
	char stop_flag[32];
	char run_dir_flag[80];
	int status;
};

static void *run_metrics(void *self)
{
	struct metrics_thread *m = self;
	char program[] = "daser-metrics";
	char *argv[] = {program, m->stop_flag, m->run_dir_flag, NULL};

	m->status = dsr_actor_run(&dsr_metrics_ops, 3, argv, NULL, true);
	return NULL;
}

/* 0 while there is no such file. */
static unsigned read_port(const struct fake_instance *f)
{
	char path[128];
	unsigned port = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", f->run_dir, DSR_FILE_METRICS_PORT);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	assert_int_equal(fscanf(file, "%u\n", &port), 1);
	fclose(file);
	return port;
}

/* The whole answer to one request; freed by the caller. */
static char *fetch(unsigned port, const char *path)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
	                              .sin_port = htons((uint16_t)port),
	                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char *text = calloc(1, 1 << 20);
	size_t bytes = 0;
	ssize_t n;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_non_null(text);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_true(dprintf(fd, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path) >
	            0);
	while ((n = read(fd, text + bytes, (1 << 20) - 1 - bytes)) > 0)
		bytes += (size_t)n;
	assert_int_equal(n, 0);
	close(fd);
	return text;
}

static void expect_page(unsigned port, const char *path, const char *begin, const char *part)
{
	char *text = fetch(port, path);

	assert_int_equal(strncmp(text, begin, strlen(begin)), 0);
	if (strstr(text, part) == NULL)
		fail_msg("no `%s` in `%s`", part, text);
	free(text);
}

static void wait_ready(const struct fake_instance *f)
{
	uint64_t deadline = dsr_now_ns() + DEADLINE_NS;

	while (atomic_load(&f->ready_count) == 0 && dsr_now_ns() < deadline)
		assert_int_equal(poll(NULL, 0, 1), 0);
	assert_int_equal(atomic_load(&f->ready_count), 1);
}

static void metrics_serves_until_it_is_stopped(void **state)
{
	struct fake_instance *f = *state;
	struct metrics_thread m = {.status = -1};
	int stop_fd = eventfd(0, EFD_CLOEXEC);
	struct cli_call call;
	pthread_t thread;
	unsigned port;

	snprintf(m.stop_flag, sizeof(m.stop_flag), "--stop-fd=%d", stop_fd);
	snprintf(m.run_dir_flag, sizeof(m.run_dir_flag), "--run-dir=%s", f->run_dir);
	assert_int_equal(pthread_create(&thread, NULL, run_metrics, &m), 0);
	wait_ready(f);
	port = read_port(f);
	assert_true(port != 0);
	fake_instance_refresh(f);
	expect_page(port, "/metrics", "HTTP/1.1 200 ", "text/plain; version=0.0.4");
	expect_page(port, "/metrics", "HTTP/1.1 200 ", "\ndaser_up 1\n");
	expect_page(port, "/metrics", "HTTP/1.1 200 ",
	            "\ndaser_actor_restarts_total{actor=\"metrics\"} 1\n");
	expect_page(port, "/health", "HTTP/1.1 200 ", "{\"status\":\"ok\",");
	expect_page(port, "/", "HTTP/1.1 404 ", "/metrics");
	atomic_store(&f->test.control.rows[0].state, DSR_ACTOR_STARTING);
	expect_page(port, "/health", "HTTP/1.1 503 ",
	            "\"down\":[{\"actor\":\"scheduler\",\"why\":\"starting\"}]");
	/* the geometry of the pool that the broker has */
	atomic_store(&f->test.control.scheduler->slots_free, 0);
	expect_page(port, "/metrics", "HTTP/1.1 200 ", "\ndaser_l1_bytes_capacity 262144\n");
	expect_page(port, "/metrics", "HTTP/1.1 200 ", "\ndaser_l1_bytes_used 262144\n");
	atomic_store(&f->test.control.scheduler->pool_epoch, 4);
	expect_page(port, "/metrics", "HTTP/1.1 200 ", "\ndaser_l1_bytes_capacity 0\n");
	call = cli_expect("send metrics ping token=1", DSR_CTL_OK, NULL);
	cli_call_done(&call);
	assert_int_equal(eventfd_write(stop_fd, 1), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(m.status, DSR_EXIT_OK);
	assert_int_equal(read_port(f), 0);
	assert_int_equal(atomic_load(&f->test.control.rows[1].state), DSR_ACTOR_STOPPED);
	close(stop_fd);
}

#define TEST(name)                                                                                 \
	cmocka_unit_test_setup_teardown(name, fake_instance_set_up, fake_instance_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(status_follows_the_actors),
		TEST(an_instance_that_just_started_is_degraded),
		TEST(a_missing_pool_is_not_shown),
		TEST(a_broker_that_refuses_is_told),
		TEST(requests_and_entries_are_shown),
		TEST(send_prints_the_reply),
		TEST(send_tells_who_cannot_be_reached),
		TEST(drain_asks_everyone_concerned),
		TEST(drain_fails_when_the_scheduler_is_not_there),
		TEST(reset_is_done_or_refused),
		TEST(faults_are_armed_and_disarmed),
#if DSR_WITH_FAULTS
		TEST(a_fault_point_takes_its_spec),
#endif
		TEST(tap_prints_messages_of_both_directions),
		TEST(tap_ends_at_its_timeout),
		TEST(metrics_serves_until_it_is_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

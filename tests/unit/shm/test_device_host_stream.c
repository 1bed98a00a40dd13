/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be held still from outside: streams with a gate. Includes the source under test, to
 * make work wait for work that another stream does not have yet, and to count allocations. */
#include <stddef.h>
#include <stdlib.h>

static void *counted_malloc(size_t bytes);
#define malloc counted_malloc
#include "device_host_stream.c"
#undef malloc

#include <poll.h>
#include <unistd.h>

#include "shm_test.h"

#define DEADLINE_NS UINT64_C(20000000000)

static size_t mallocs;
static bool is_malloc_broken;

static void *counted_malloc(size_t bytes)
{
	mallocs++;
	return is_malloc_broken ? NULL : malloc(bytes);
}

struct fixture {
	struct dsr_device *device;
	struct dsr_stream *gate;
	struct dsr_stream *stream;
};

static int set_up(void **state)
{
	struct fixture *f = test_calloc(1, sizeof(*f));

	*state = f;
	is_malloc_broken = false;
	assert_int_equal(dsr_device_open("host:0", &f->device), 0);
	assert_int_equal(dsr_stream_open(f->device, &f->gate), 0);
	assert_int_equal(dsr_stream_open(f->device, &f->stream), 0);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dsr_stream_close(&f->stream);
	dsr_stream_close(&f->gate);
	dsr_device_close(&f->device);
	test_free(f);
	return 0;
}

/* Work behind this waits until gate_open. */
static void gate_shut(struct fixture *f)
{
	int r = 0;
	struct work *work = stream_take_node(f->stream, 0, &r);

	assert_non_null(work);
	work->kind = WORK_WAIT;
	work->event = (struct dsr_event){stream_get(f->gate), f->gate->enqueued + 1};
	stream_submit(f->stream, work);
}

static void gate_open(struct fixture *f)
{
	static uint8_t from[1], to[1];
	const struct dsr_copy copy = {to, from, 1};

	assert_int_equal(dsr_stream_copy(f->gate, &copy, 1), 0);
}

/* The gate's work fails: what the host cannot do by itself. */
static void gate_open_with_error(struct fixture *f, int error)
{
	(void)pthread_mutex_lock(&f->gate->lock);
	stream_note_error(f->gate, f->gate->enqueued + 1, error);
	(void)pthread_mutex_unlock(&f->gate->lock);
	gate_open(f);
}

static void finish(struct dsr_stream *stream)
{
	struct dsr_event event;

	assert_int_equal(dsr_stream_record(stream, &event), 0);
	assert_int_equal(dsr_event_wait(event, test_now_ns() + DEADLINE_NS), 0);
}

static bool is_readable(struct dsr_device *device, int timeout_ms)
{
	struct pollfd fd = {.fd = dsr_device_fd(device), .events = POLLIN};

	return poll(&fd, 1, timeout_ms) == 1;
}

static void an_event_is_not_done_before_the_work_before_it(void **state)
{
	struct fixture *f = *state;
	uint8_t from[8] = "1234567", to[8] = "";
	const struct dsr_copy copy = {to, from, sizeof(to)};
	struct dsr_event before, after;

	assert_int_equal(dsr_stream_copy(f->stream, &copy, 1), 0);
	assert_int_equal(dsr_stream_record(f->stream, &before), 0);
	assert_int_equal(dsr_event_wait(before, test_now_ns() + DEADLINE_NS), 0);
	assert_true(is_readable(f->device, 20000));
	dsr_device_ack(f->device);
	gate_shut(f);
	memcpy(from, "abcdefg", sizeof(from));
	assert_int_equal(dsr_stream_copy(f->stream, &copy, 1), 0);
	assert_int_equal(dsr_stream_record(f->stream, &after), 0);
	assert_true(dsr_event_done(before));
	assert_false(dsr_event_done(after));
	assert_false(is_readable(f->device, 0));
	assert_string_equal(to, "1234567");
	assert_int_equal(dsr_event_wait(after, 0), -ETIMEDOUT);
	assert_int_equal(dsr_event_wait(after, test_now_ns() + 1000000), -ETIMEDOUT);
	gate_open(f);
	assert_true(is_readable(f->device, 20000));
	assert_true(dsr_event_done(after));
	assert_string_equal(to, "abcdefg");
}

static void the_poller_is_woken_by_events_alone(void **state)
{
	struct fixture *f = *state;
	uint8_t from[1] = {0}, to[1];
	uint64_t count, wakeups = 0;
	const struct dsr_copy copy = {to, from, 1};
	struct dsr_event event;

	/* places that carried an event before carry none now */
	for (int i = 0; i < 10; i++) {
		gate_shut(f);
		assert_int_equal(dsr_stream_record(f->stream, &event), 0);
		gate_open(f);
		assert_true(is_readable(f->device, 20000));
		dsr_device_ack(f->device);
	}
	gate_shut(f);
	for (int i = 0; i < 10; i++)
		assert_int_equal(dsr_stream_copy(f->stream, &copy, 1), 0);
	assert_int_equal(dsr_stream_record(f->stream, &event), 0);
	gate_open(f);
	assert_int_equal(dsr_event_wait(event, test_now_ns() + DEADLINE_NS), 0);
	finish(f->stream);
	/* two events, eleven pieces of work: two wake-ups */
	do {
		assert_true(is_readable(f->device, 20000));
		assert_int_equal(read(dsr_device_fd(f->device), &count, sizeof(count)),
		                 sizeof(count));
		wakeups += count;
	} while (wakeups < 2);
	dsr_stream_close(&f->stream);
	assert_false(is_readable(f->device, 0));
	assert_int_equal(wakeups, 2);
}

static void a_full_queue_refuses_and_serves_again(void **state)
{
	struct fixture *f = *state;
	static uint8_t from[1] = {7}, to[STREAM_DEPTH + 1];
	struct dsr_event event;
	uint32_t queued = 0;
	int r;

	memset(to, 0, sizeof(to));
	gate_shut(f);
	for (;;) {
		const struct dsr_copy copy = {&to[queued], from, 1};

		r = dsr_stream_copy(f->stream, &copy, 1);
		if (r < 0)
			break;
		queued++;
	}
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(queued, STREAM_DEPTH - 1);
	assert_int_equal(dsr_stream_wait(f->stream, (struct dsr_event){f->gate, 0}), 0);
	/* an event needs no place */
	assert_int_equal(dsr_stream_record(f->stream, &event), 0);
	assert_false(dsr_event_done(event));
	gate_open(f);
	assert_int_equal(dsr_event_wait(event, test_now_ns() + DEADLINE_NS), 0);
	for (uint32_t i = 0; i < queued; i++)
		assert_int_equal(to[i], 7);
	assert_int_equal(to[queued], 0);
	assert_int_equal(dsr_stream_copy(f->stream, &(struct dsr_copy){to, from, 1}, 1), 0);
	finish(f->stream);
}

static void arrays_are_copied_when_work_is_enqueued(void **state)
{
	struct fixture *f = *state;
	uint8_t memory[4] = {10, 20, 30, 40}, staging[2] = {0}, to[1] = {0}, other[1] = {0};
	const struct dsr_piece piece = {memory, 1, 1, 1, 1};
	struct dsr_kv_layout layout;
	uint32_t ids[2] = {3, 1};
	uint64_t seeds[2] = {5, 6}, digests[2] = {0};
	struct dsr_copy copy = {to, &memory[2], 1};

	assert_int_equal(dsr_kv_layout_init(&layout, &piece, 1, 4, NULL, 0), 0);
	gate_shut(f);
	assert_int_equal(dsr_stream_gather(f->stream, &layout, ids, seeds, 2, staging, digests), 0);
	assert_int_equal(dsr_stream_copy(f->stream, &copy, 1), 0);
	memset(ids, 0xff, sizeof(ids));
	memset(seeds, 0xff, sizeof(seeds));
	copy = (struct dsr_copy){other, memory, 1};
	gate_open(f);
	finish(f->stream);
	assert_int_equal(staging[0], 40);
	assert_int_equal(staging[1], 20);
	assert_int_equal(digests[0], dsr_digest_of(&memory[3], 1, 5));
	assert_int_equal(digests[1], dsr_digest_of(&memory[1], 1, 6));
	assert_int_equal(to[0], 30);
	assert_int_equal(other[0], 0);
	dsr_kv_layout_done(&layout);
}

static void an_error_counts_for_its_work_and_all_after_it(void **state)
{
	struct fixture *f = *state;
	uint8_t byte[2] = {0};
	const struct dsr_copy copy = {&byte[0], &byte[1], 1};
	struct dsr_event before, failed, after;

	assert_int_equal(dsr_stream_copy(f->stream, &copy, 1), 0);
	assert_int_equal(dsr_stream_record(f->stream, &before), 0);
	gate_shut(f);
	assert_int_equal(dsr_stream_record(f->stream, &failed), 0);
	assert_int_equal(dsr_stream_copy(f->stream, &copy, 1), 0);
	assert_int_equal(dsr_stream_record(f->stream, &after), 0);
	assert_int_equal(dsr_event_error(failed), 0);
	gate_open_with_error(f, -EIO);
	assert_int_equal(dsr_event_wait(after, test_now_ns() + DEADLINE_NS), 0);
	assert_int_equal(dsr_event_error(before), 0);
	assert_int_equal(dsr_event_error(failed), -EIO);
	assert_int_equal(dsr_event_error(after), -EIO);
	/* the first one stays */
	gate_shut(f);
	gate_open_with_error(f, -ENODEV);
	finish(f->stream);
	assert_int_equal(dsr_event_error(after), -EIO);
}

static void a_wait_for_failed_work_fails_also_when_it_is_over(void **state)
{
	struct fixture *f = *state;
	struct dsr_event failed, event;

	gate_open_with_error(f, -EIO);
	assert_int_equal(dsr_stream_record(f->gate, &failed), 0);
	assert_int_equal(dsr_event_wait(failed, test_now_ns() + DEADLINE_NS), 0);
	assert_int_equal(dsr_stream_wait(f->stream, failed), 0);
	assert_int_equal(dsr_stream_record(f->stream, &event), 0);
	assert_int_equal(dsr_event_wait(event, test_now_ns() + DEADLINE_NS), 0);
	assert_int_equal(dsr_event_error(event), -EIO);
}

static void a_stream_may_close_while_another_waits_for_it(void **state)
{
	struct fixture *f = *state;
	struct dsr_stream *first, *second;
	struct dsr_event event;

	for (int i = 0; i < 50; i++) {
		assert_int_equal(dsr_stream_open(f->device, &first), 0);
		assert_int_equal(dsr_stream_open(f->device, &second), 0);
		gate_shut(f);
		assert_int_equal(dsr_stream_record(f->stream, &event), 0);
		assert_int_equal(dsr_stream_wait(first, event), 0);
		assert_int_equal(dsr_stream_record(first, &event), 0);
		assert_int_equal(dsr_stream_wait(second, event), 0);
		gate_open(f);
		dsr_stream_close(&first);
		dsr_stream_close(&second);
	}
}

/* Buffers grow to what the largest work needs, in the few nodes that are used. */
static void the_steady_state_allocates_nothing(void **state)
{
	struct fixture *f = *state;
	static uint8_t from[1], to[1];
	static struct dsr_copy copies[2000];
	size_t before;

	for (size_t i = 0; i < COUNT_OF(copies); i++)
		copies[i] = (struct dsr_copy){to, from, 1};
	for (int round = 0; round < 400; round++) {
		if (round == 200)
			before = mallocs;
		for (int i = 0; i < 3; i++)
			assert_int_equal(dsr_stream_copy(f->stream, copies, COUNT_OF(copies)), 0);
		finish(f->stream);
	}
	assert_int_equal(mallocs, before);
	assert_true(before > 0);
}

static void no_memory_is_refused_and_costs_no_place(void **state)
{
	struct fixture *f = *state;
	static uint8_t from[1], to[1];
	const struct dsr_copy copy = {to, from, 1};

	is_malloc_broken = true;
	for (int i = 0; i < STREAM_DEPTH + 10; i++)
		assert_int_equal(dsr_stream_copy(f->stream, &copy, 1), -ENOMEM);
	is_malloc_broken = false;
	assert_int_equal(dsr_stream_copy(f->stream, &copy, 1), 0);
	finish(f->stream);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_event_is_not_done_before_the_work_before_it),
		TEST(the_poller_is_woken_by_events_alone),
		TEST(a_full_queue_refuses_and_serves_again),
		TEST(arrays_are_copied_when_work_is_enqueued),
		TEST(an_error_counts_for_its_work_and_all_after_it),
		TEST(a_wait_for_failed_work_fails_also_when_it_is_over),
		TEST(a_stream_may_close_while_another_waits_for_it),
		TEST(the_steady_state_allocates_nothing),
		TEST(no_memory_is_refused_and_costs_no_place),
	};

	return cmocka_run_group_tests_name("device_host_stream", tests, NULL, NULL);
}

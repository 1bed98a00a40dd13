/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "shm_test.h"

struct fixture {
	int fd;
	struct dsr_control control;
	struct dsr_record records[DSR_RECORDS + 1];
};

static int set_up(void **state)
{
	struct fixture *f = test_calloc(1, sizeof(*f));

	*state = f;
	f->fd = dsr_control_create(1);
	assert_true(f->fd >= 0);
	assert_int_equal(dsr_control_attach(f->fd, true, &f->control, NULL, 0), 0);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dsr_control_detach(&f->control);
	(void)close(f->fd);
	test_free(f);
	return 0;
}

/* Every word tells n. */
static struct dsr_record record_of(uint64_t n)
{
	struct dsr_record record = {
		.incarnation = n,
		.end_ns = n,
		.bytes = n,
		.total_ns = n,
		.open_ns = n,
		.wait_ns = n,
		.ipc_ns = n,
		.copy_ns = n,
		.kv_ns = n,
		.sync_ns = n,
		.op = DSR_RECORD_LOAD,
		.rank = (uint32_t)n,
		.blocks = (uint32_t)n,
		.segments = (uint32_t)n,
	};

	(void)snprintf(record.request, sizeof(record.request), "request-%llu-%llu-%llu",
	               (unsigned long long)n, (unsigned long long)n, (unsigned long long)n);
	return record;
}

static bool record_is(const struct dsr_record *record, uint64_t n)
{
	struct dsr_record expected = record_of(n);

	return memcmp((const uint64_t *)record + 1, (const uint64_t *)&expected + 1,
	              offsetof(struct dsr_record, check) - 8) == 0;
}

static void append(struct fixture *f, uint64_t n)
{
	const struct dsr_record record = record_of(n);

	dsr_records_append(&f->control, &record);
}

static void the_newest_come_first(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(dsr_records_read(&f->control, f->records, 10), 0);
	for (uint64_t n = 0; n < 5; n++)
		append(f, n);
	assert_int_equal(dsr_records_read(&f->control, f->records, 3), 3);
	for (uint64_t i = 0; i < 3; i++)
		assert_true(record_is(&f->records[i], 4 - i));
	assert_int_equal(dsr_records_read(&f->control, f->records, 100), 5);
	assert_true(record_is(&f->records[4], 0));
	assert_int_equal(dsr_records_read(&f->control, f->records, 0), 0);
}

static void the_oldest_are_overwritten(void **state)
{
	struct fixture *f = *state;

	for (uint64_t n = 0; n < DSR_RECORDS + 100; n++)
		append(f, n);
	assert_int_equal(dsr_records_read(&f->control, f->records, DSR_RECORDS + 1), DSR_RECORDS);
	for (uint64_t i = 0; i < DSR_RECORDS; i++)
		assert_true(record_is(&f->records[i], DSR_RECORDS + 99 - i));
}

/* A writer took a row and died. */
static void a_row_left_odd_is_skipped_and_taken_over_by_the_next_lap(void **state)
{
	struct fixture *f = *state;
	uint64_t dead;

	for (uint64_t n = 0; n < 10; n++)
		append(f, n);
	dead = atomic_fetch_add(&f->control.record_head->head, 1);
	atomic_store(&f->control.records[dead].seq, 2 * dead + 1);
	append(f, 11);
	assert_int_equal(dsr_records_read(&f->control, f->records, 100), 11);
	assert_true(record_is(&f->records[0], 11));
	assert_true(record_is(&f->records[1], 9));
	for (uint64_t n = 12; n <= DSR_RECORDS + dead; n++)
		append(f, n);
	assert_int_equal(dsr_records_read(&f->control, f->records, DSR_RECORDS + 1), DSR_RECORDS);
	assert_true(record_is(&f->records[0], DSR_RECORDS + dead));
}

/* A writer took its number and died before it took the row. */
static void a_number_without_a_row_is_skipped(void **state)
{
	struct fixture *f = *state;

	append(f, 0);
	atomic_fetch_add(&f->control.record_head->head, 1);
	append(f, 2);
	assert_int_equal(dsr_records_read(&f->control, f->records, 100), 2);
	assert_true(record_is(&f->records[0], 2));
	assert_true(record_is(&f->records[1], 0));
}

static void a_writer_that_was_lapped_leaves_the_newer_record(void **state)
{
	struct fixture *f = *state;

	for (uint64_t n = 0; n < DSR_RECORDS + 1; n++)
		append(f, n);
	/* the writer of record 0 comes back: its turn is one lap ago */
	atomic_store(&f->control.record_head->head, 0);
	append(f, 777);
	atomic_store(&f->control.record_head->head, DSR_RECORDS + 1);
	assert_int_equal(dsr_records_read(&f->control, f->records, 1), 1);
	assert_true(record_is(&f->records[0], DSR_RECORDS));
}

/* The late words of a writer that was taken over stand in a row of another. */
static void a_mixed_row_is_skipped(void **state)
{
	struct fixture *f = *state;

	append(f, 0);
	append(f, 1);
	f->control.records[1].kv_ns ^= 1;
	assert_int_equal(dsr_records_read(&f->control, f->records, 100), 1);
	assert_true(record_is(&f->records[0], 0));
	f->control.records[1].kv_ns ^= 1;
	assert_int_equal(dsr_records_read(&f->control, f->records, 100), 2);
}

static void requests_are_terminated_whatever_is_written(void **state)
{
	struct fixture *f = *state;
	struct dsr_record record = record_of(1);

	memset(record.request, 'x', sizeof(record.request));
	dsr_records_append(&f->control, &record);
	assert_int_equal(f->control.records[0].request[sizeof(record.request) - 1], 0);
	assert_int_equal(dsr_records_read(&f->control, f->records, 1), 1);
	assert_int_equal(strlen(f->records[0].request), sizeof(record.request) - 1);
}

static void a_damaged_head_yields_no_wrong_record(void **state)
{
	static const uint64_t heads[] = {UINT64_MAX, UINT64_C(1) << 63, DSR_RECORDS * 3, 2, 1};
	struct fixture *f = *state;
	uint32_t count;

	for (uint64_t n = 0; n < 20; n++)
		append(f, n);
	for (size_t i = 0; i < COUNT_OF(heads); i++) {
		atomic_store(&f->control.record_head->head, heads[i]);
		count = dsr_records_read(&f->control, f->records, DSR_RECORDS + 1);
		assert_int_equal(count, heads[i] <= 20 ? heads[i] : 0);
		for (uint32_t n = 0; n < count; n++)
			assert_true(record_is(&f->records[n], heads[i] - 1 - n));
	}
}

#define WRITERS 3
#define WRITES 6000 /* of each: several laps together */

struct writer {
	struct dsr_control *control;
	uint64_t number;
	_Atomic uint32_t *writing;
};

static void *write_often(void *arg)
{
	struct writer *w = arg;

	for (uint64_t i = 0; i < WRITES; i++) {
		const struct dsr_record record = record_of(w->number * WRITES + i);

		dsr_records_append(w->control, &record);
	}
	atomic_fetch_sub(w->writing, 1);
	return NULL;
}

static void many_writers_and_a_reader_never_mix_records(void **state)
{
	struct fixture *f = *state;
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	_Atomic uint32_t writing = WRITERS;
	uint64_t wrong = 0;
	uint32_t count;

	for (uint64_t i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){&f->control, i, &writing};
		assert_int_equal(pthread_create(&threads[i], NULL, write_often, &writers[i]), 0);
	}
	do {
		count = dsr_records_read(&f->control, f->records, 100);
		for (uint32_t i = 0; i < count; i++)
			wrong += !record_is(&f->records[i], f->records[i].incarnation);
	} while (atomic_load(&writing) > 0);
	for (uint64_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(wrong, 0);
	assert_int_equal(f->control.record_head->head, WRITERS * WRITES);
	count = dsr_records_read(&f->control, f->records, DSR_RECORDS);
	for (uint32_t i = 0; i < count; i++)
		assert_true(record_is(&f->records[i], f->records[i].incarnation));
	/* only a writer that slept for a whole lap loses its record */
	assert_true(count >= DSR_RECORDS - WRITERS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_newest_come_first),
		TEST(the_oldest_are_overwritten),
		TEST(a_row_left_odd_is_skipped_and_taken_over_by_the_next_lap),
		TEST(a_number_without_a_row_is_skipped),
		TEST(a_writer_that_was_lapped_leaves_the_newer_record),
		TEST(a_mixed_row_is_skipped),
		TEST(requests_are_terminated_whatever_is_written),
		TEST(a_damaged_head_yields_no_wrong_record),
		TEST(many_writers_and_a_reader_never_mix_records),
	};

	return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}

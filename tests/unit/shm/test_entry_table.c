/* SPDX-License-Identifier: Apache-2.0 */
#include "entry_table.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "shm_test.h"

static struct dsr_entry entry_of(uint64_t n)
{
	struct dsr_entry entry = {
		.generation = n,
		.lanes_stored = n,
		.slot_seq = n,
		.l2_slot = n,
		.last_use = n,
		.state = DSR_ENTRY_VISIBLE,
		.l1_slot = (uint32_t)n,
		.parent = (uint32_t)n,
		.payload = (uint16_t)n,
		.flags = (uint16_t)n,
		.stored_bytes = (uint32_t)n,
		.depth = (uint32_t)n,
		.parent_generation = n,
		.reserved = {n, n},
	};

	for (size_t i = 0; i < sizeof(entry.key.b); i += sizeof(n))
		memcpy(entry.key.b + i, &n, sizeof(n));
	return entry;
}

/* Everything but seq. */
static bool entries_equal(const struct dsr_entry *a, const struct dsr_entry *b)
{
	return memcmp((const uint64_t *)a + 1, (const uint64_t *)b + 1, sizeof(*a) - 8) == 0;
}

static void a_written_entry_is_read_back_whole(void **state)
{
	struct dsr_entry row = {0}, read;
	const struct dsr_entry value = entry_of(UINT64_C(0x0102030405060708));

	(void)state;
	dsr_entry_write(&row, &value);
	assert_int_equal(row.seq, 2);
	assert_int_equal(dsr_entry_read(&row, 1, &read), 0);
	assert_true(entries_equal(&read, &value));
	assert_int_equal(read.seq, 2);
}

static void an_odd_entry_is_not_read(void **state)
{
	struct dsr_entry row = entry_of(1), read = entry_of(9);
	const struct dsr_entry untouched = entry_of(9);

	(void)state;
	dsr_entry_write_begin(&row);
	assert_int_equal(row.seq, 1);
	row.generation = 2;
	assert_int_equal(dsr_entry_read(&row, 100, &read), -EAGAIN);
	assert_true(entries_equal(&read, &untouched));
	dsr_entry_write_end(&row);
	assert_int_equal(row.seq, 2);
	assert_int_equal(dsr_entry_read(&row, 0, &read), -EAGAIN);
	assert_int_equal(dsr_entry_read(&row, 1, &read), 0);
	assert_int_equal(read.generation, 2);
}

static void a_row_that_a_dead_scheduler_left_odd_stays_odd_until_written(void **state)
{
	struct dsr_entry row = entry_of(1);

	(void)state;
	atomic_store(&row.seq, 41);
	dsr_entry_write_begin(&row);
	assert_int_equal(row.seq, 43);
	dsr_entry_write_end(&row);
	assert_int_equal(row.seq, 44);
}

static void matches_needs_every_part_of_the_reference(void **state)
{
	struct dsr_entry table[3] = {entry_of(1), entry_of(7), entry_of(3)};
	const struct dsr_ref good = {.generation = 7, .slot_seq = 7, .entry = 1, .slot = 7};
	struct dsr_ref ref;

	(void)state;
	assert_true(dsr_entry_matches(table, 3, &good, DSR_ENTRY_VISIBLE));
	assert_false(dsr_entry_matches(table, 3, &good, DSR_ENTRY_RESERVED));
	ref = good;
	ref.generation = 8;
	assert_false(dsr_entry_matches(table, 3, &ref, DSR_ENTRY_VISIBLE));
	ref = good;
	ref.slot_seq = 8;
	assert_false(dsr_entry_matches(table, 3, &ref, DSR_ENTRY_VISIBLE));
	ref = good;
	ref.slot = 8;
	assert_false(dsr_entry_matches(table, 3, &ref, DSR_ENTRY_VISIBLE));
	ref = good;
	ref.entry = 3;
	assert_false(dsr_entry_matches(table, 3, &ref, DSR_ENTRY_VISIBLE));
	ref.entry = DSR_ENTRY_NONE;
	assert_false(dsr_entry_matches(table, 3, &ref, DSR_ENTRY_VISIBLE));
	assert_false(dsr_entry_matches(table, 1, &good, DSR_ENTRY_VISIBLE));
	dsr_entry_write_begin(&table[1]);
	assert_false(dsr_entry_matches(table, 3, &good, DSR_ENTRY_VISIBLE));
	dsr_entry_write_end(&table[1]);
	assert_true(dsr_entry_matches(table, 3, &good, DSR_ENTRY_VISIBLE));
}

#define READERS 2
#define WRITES 100000

struct race {
	struct dsr_entry row;
	pthread_barrier_t start;
	_Atomic bool is_over;
};

struct reader {
	struct race *race;
	uint64_t torn, reads;
};

static void *read_often(void *arg)
{
	struct reader *r = arg;
	struct dsr_entry read, expected;

	(void)pthread_barrier_wait(&r->race->start);
	while (!atomic_load(&r->race->is_over)) {
		if (dsr_entry_read(&r->race->row, 1000, &read) < 0)
			continue;
		expected = entry_of(read.generation);
		r->torn += !entries_equal(&read, &expected);
		r->reads++;
	}
	return NULL;
}

static void readers_never_see_half_of_a_write(void **state)
{
	struct race race = {.row = entry_of(1)};
	struct reader readers[READERS] = {{.race = &race}, {.race = &race}};
	pthread_t threads[READERS];
	struct dsr_entry value;

	(void)state;
	assert_int_equal(pthread_barrier_init(&race.start, NULL, READERS + 1), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_often, &readers[i]), 0);
	(void)pthread_barrier_wait(&race.start);
	for (uint64_t n = 0; n < WRITES; n++) {
		value = entry_of(n * UINT64_C(0x9e3779b97f4a7c15));
		dsr_entry_write(&race.row, &value);
		/* on one processor, too, somebody reads in between */
		if (n % 1000 == 0)
			(void)sched_yield();
	}
	atomic_store(&race.is_over, true);
	for (int i = 0; i < READERS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(readers[i].torn, 0);
	}
	(void)pthread_barrier_destroy(&race.start);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_written_entry_is_read_back_whole),
		cmocka_unit_test(an_odd_entry_is_not_read),
		cmocka_unit_test(a_row_that_a_dead_scheduler_left_odd_stays_odd_until_written),
		cmocka_unit_test(matches_needs_every_part_of_the_reference),
		cmocka_unit_test(readers_never_see_half_of_a_write),
	};

	return cmocka_run_group_tests_name("entry_table", tests, NULL, NULL);
}

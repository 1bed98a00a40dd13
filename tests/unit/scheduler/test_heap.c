/* SPDX-License-Identifier: Apache-2.0 */
#include "heap.h"

#include <errno.h>

#include "rig.h"

#define COUNT 300u

static struct dsr_heap *make(void)
{
	struct dsr_heap *heap;

	assert_int_equal(dsr_heap_new(COUNT, &heap), 0);
	return heap;
}

static void the_least_rank_comes_first_and_stays_in(void **state)
{
	struct dsr_heap *heap = make();
	uint64_t rank;

	(void)state;
	assert_int_equal(dsr_heap_first(heap, &rank), DSR_HEAP_NONE);
	dsr_heap_set(heap, 5, 50);
	dsr_heap_set(heap, 3, 30);
	dsr_heap_set(heap, 4, 40);
	assert_int_equal(dsr_heap_first(heap, &rank), 3);
	assert_int_equal(rank, 30);
	assert_int_equal(dsr_heap_first(heap, NULL), 3);
	assert_int_equal(dsr_heap_size(heap), 3);
	dsr_heap_free(&heap);
	assert_null(heap);
}

static void of_equal_ranks_the_lower_number_comes_first(void **state)
{
	struct dsr_heap *heap = make();

	(void)state;
	dsr_heap_set(heap, 9, 1);
	dsr_heap_set(heap, 2, 1);
	dsr_heap_set(heap, 7, 1);
	assert_int_equal(dsr_heap_first(heap, NULL), 2);
	dsr_heap_remove(heap, 2);
	assert_int_equal(dsr_heap_first(heap, NULL), 7);
	dsr_heap_free(&heap);
}

static void removing_what_is_not_there_changes_nothing(void **state)
{
	struct dsr_heap *heap = make();

	(void)state;
	dsr_heap_set(heap, 1, 1);
	dsr_heap_remove(heap, 2);
	assert_int_equal(dsr_heap_size(heap), 1);
	assert_true(dsr_heap_has(heap, 1));
	assert_false(dsr_heap_has(heap, 2));
	dsr_heap_free(&heap);
}

static void it_agrees_with_a_plain_list_after_many_random_changes(void **state)
{
	struct dsr_heap *heap = make();
	uint64_t ranks[COUNT], seed = rig_seed(), rank;
	bool is_in[COUNT] = {false};

	(void)state;
	for (uint32_t step = 0; step < 60000; step++) {
		uint32_t number = (uint32_t)(rig_random(&seed) % COUNT), best = DSR_HEAP_NONE;

		if (rig_random(&seed) % 3 != 0) {
			ranks[number] = rig_random(&seed) % 1000;
			is_in[number] = true;
			dsr_heap_set(heap, number, ranks[number]);
		} else {
			is_in[number] = false;
			dsr_heap_remove(heap, number);
		}
		for (uint32_t i = 0; i < COUNT; i++)
			if (is_in[i] && (best == DSR_HEAP_NONE || ranks[i] < ranks[best]))
				best = i;
		assert_int_equal(dsr_heap_first(heap, &rank), best);
		if (best != DSR_HEAP_NONE)
			assert_int_equal(rank, ranks[best]);
	}
	dsr_heap_free(&heap);
}

static void whatever_was_removed_the_rest_comes_out_in_order(void **state)
{
	struct dsr_heap *heap = make();
	uint64_t seed = rig_seed(), rank, last;

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		for (uint32_t i = 0; i < COUNT; i++)
			dsr_heap_set(heap, i, rig_random(&seed) % 10000);
		for (uint32_t i = 0; i < COUNT / 2; i++)
			dsr_heap_remove(heap, (uint32_t)(rig_random(&seed) % COUNT));
		for (last = 0; dsr_heap_first(heap, &rank) != DSR_HEAP_NONE; last = rank) {
			assert_true(rank >= last);
			dsr_heap_remove(heap, dsr_heap_first(heap, NULL));
		}
	}
	dsr_heap_free(&heap);
}

static void new_refuses_nothing_to_hold(void **state)
{
	struct dsr_heap *heap;

	(void)state;
	assert_int_equal(dsr_heap_new(0, &heap), -EINVAL);
	assert_int_equal(dsr_heap_new(DSR_HEAP_NONE, &heap), -EINVAL);
	dsr_heap_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_least_rank_comes_first_and_stays_in),
		cmocka_unit_test(of_equal_ranks_the_lower_number_comes_first),
		cmocka_unit_test(removing_what_is_not_there_changes_nothing),
		cmocka_unit_test(it_agrees_with_a_plain_list_after_many_random_changes),
		cmocka_unit_test(whatever_was_removed_the_rest_comes_out_in_order),
		cmocka_unit_test(new_refuses_nothing_to_hold),
	};

	return cmocka_run_group_tests_name("scheduler_heap", tests, NULL, NULL);
}

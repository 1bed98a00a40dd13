/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint8_t staging[65536], lane[65536];

static const struct dsr_runs_place dense = {.staging = staging,
                                            .lane = lane,
                                            .slot_bytes = 256,
                                            .slot_stride = 256,
                                            .to_staging = true};

static uint32_t make(const struct dsr_runs_place *place, const uint32_t *slots, const int32_t *errs,
                     uint32_t first, uint32_t count, struct dsr_copy *copies)
{
	struct dsr_ref refs[64] = {0};

	for (uint32_t i = 0; i < first + count; i++)
		refs[i].slot = slots[i];
	return dsr_runs_make(place, refs, errs, first, count, copies);
}

static void adjacent_slots_become_one_copy(void **state)
{
	const uint32_t slots[] = {7, 8, 9, 10};
	const int32_t errs[4] = {0};
	struct dsr_copy copies[4];

	(void)state;
	assert_int_equal(make(&dense, slots, errs, 0, 4, copies), 1);
	assert_ptr_equal(copies[0].dst, staging);
	assert_ptr_equal(copies[0].src, lane + 7 * 256);
	assert_int_equal(copies[0].bytes, 4 * 256);
}

static void the_way_back_has_the_same_runs(void **state)
{
	struct dsr_runs_place back = dense;
	const uint32_t slots[] = {7, 8};
	const int32_t errs[2] = {0};
	struct dsr_copy copies[2];

	(void)state;
	back.to_staging = false;
	assert_int_equal(make(&back, slots, errs, 0, 2, copies), 1);
	assert_ptr_equal(copies[0].dst, lane + 7 * 256);
	assert_ptr_equal(copies[0].src, staging);
}

static void descending_equal_and_distant_slots_are_copied_apart(void **state)
{
	const uint32_t slots[] = {5, 4, 4, 9};
	const int32_t errs[4] = {0};
	struct dsr_copy copies[4];

	(void)state;
	assert_int_equal(make(&dense, slots, errs, 0, 4, copies), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_ptr_equal(copies[i].dst, staging + i * 256);
		assert_ptr_equal(copies[i].src, lane + slots[i] * 256);
		assert_int_equal(copies[i].bytes, 256);
	}
}

static void a_failed_block_is_left_out_and_breaks_the_run(void **state)
{
	const uint32_t slots[] = {1, 2, 3, 4, 5};
	const int32_t errs[] = {0, 0, -116, 0, 0};
	struct dsr_copy copies[5];

	(void)state;
	assert_int_equal(make(&dense, slots, errs, 0, 5, copies), 2);
	assert_int_equal(copies[0].bytes, 512);
	assert_ptr_equal(copies[1].dst, staging + 3 * 256);
	assert_ptr_equal(copies[1].src, lane + 4 * 256);
	assert_int_equal(copies[1].bytes, 512);
}

/* The slot after the gap follows the one before it, the place in staging does not. */
static void neighbours_in_l1_alone_are_not_joined(void **state)
{
	const uint32_t slots[] = {1, 77, 2};
	const int32_t errs[] = {0, -5, 0};
	struct dsr_copy copies[3];

	(void)state;
	assert_int_equal(make(&dense, slots, errs, 0, 3, copies), 2);
}

static void padded_slots_are_copied_one_by_one(void **state)
{
	struct dsr_runs_place padded = dense;
	const uint32_t slots[] = {1, 2};
	const int32_t errs[2] = {0};
	struct dsr_copy copies[2];

	(void)state;
	padded.slot_bytes = 100;
	assert_int_equal(make(&padded, slots, errs, 0, 2, copies), 2);
	assert_ptr_equal(copies[1].dst, staging + 100);
	assert_ptr_equal(copies[1].src, lane + 2 * 256);
	assert_int_equal(copies[1].bytes, 100);
}

static void a_segment_begins_at_its_first_position(void **state)
{
	const uint32_t slots[] = {1, 2, 3, 4};
	const int32_t errs[4] = {0};
	struct dsr_copy copies[2];

	(void)state;
	assert_int_equal(make(&dense, slots, errs, 2, 2, copies), 1);
	assert_ptr_equal(copies[0].dst, staging + 2 * 256);
	assert_ptr_equal(copies[0].src, lane + 3 * 256);
	assert_int_equal(copies[0].bytes, 512);
}

static void no_good_block_makes_no_copy(void **state)
{
	const uint32_t slots[] = {1};
	const int32_t errs[] = {-5};
	struct dsr_copy copies[1];

	(void)state;
	assert_int_equal(make(&dense, slots, errs, 0, 1, copies), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adjacent_slots_become_one_copy),
		cmocka_unit_test(the_way_back_has_the_same_runs),
		cmocka_unit_test(descending_equal_and_distant_slots_are_copied_apart),
		cmocka_unit_test(a_failed_block_is_left_out_and_breaks_the_run),
		cmocka_unit_test(neighbours_in_l1_alone_are_not_joined),
		cmocka_unit_test(padded_slots_are_copied_one_by_one),
		cmocka_unit_test(a_segment_begins_at_its_first_position),
		cmocka_unit_test(no_good_block_makes_no_copy),
	};

	return cmocka_run_group_tests_name("runs", tests, NULL, NULL);
}

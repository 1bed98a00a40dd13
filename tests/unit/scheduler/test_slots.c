/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include <errno.h>

#include "rig.h"

static struct dsr_slots *make(uint32_t count)
{
	struct dsr_slots *slots;

	assert_int_equal(dsr_slots_new(count, &slots), 0);
	assert_int_equal(dsr_slots_left(slots), count);
	return slots;
}

static void slots_are_handed_out_in_ascending_order(void **state)
{
	struct dsr_slots *slots = make(200);

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(dsr_slots_take(slots), i);
	assert_int_equal(dsr_slots_take(slots), DSR_SLOT_NONE);
	assert_int_equal(dsr_slots_left(slots), 0);
	dsr_slots_free(&slots);
	assert_null(slots);
}

static void a_run_goes_on_behind_the_last_one_and_then_from_the_start(void **state)
{
	struct dsr_slots *slots = make(130);

	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		(void)dsr_slots_take(slots);
	for (uint32_t i = 9; i >= 5; i--)
		dsr_slots_put(slots, i);
	for (uint32_t i = 100; i < 130; i++)
		assert_int_equal(dsr_slots_take(slots), i);
	for (uint32_t i = 5; i <= 9; i++)
		assert_int_equal(dsr_slots_take(slots), i);
	assert_int_equal(dsr_slots_take(slots), DSR_SLOT_NONE);
	dsr_slots_free(&slots);
}

static void slots_before_the_cursor_come_last_also_in_its_own_word(void **state)
{
	struct dsr_slots *slots = make(200);

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		(void)dsr_slots_take(slots);
	dsr_slots_put(slots, 70);
	assert_int_equal(dsr_slots_take(slots), 70);
	dsr_slots_put(slots, 65);
	dsr_slots_put(slots, 3);
	dsr_slots_put(slots, 190);
	assert_int_equal(dsr_slots_take(slots), 190);
	assert_int_equal(dsr_slots_take(slots), 3);
	assert_int_equal(dsr_slots_take(slots), 65);
	dsr_slots_free(&slots);
}

/* The only free slot lies before the cursor, in the cursor's own word, in another word of its
 * group, or in another group. */
static void the_only_free_slot_is_found_wherever_it_is(void **state)
{
	static const uint32_t places[] = {0, 1, 63, 64, 127, 4095, 4096, 4097, 8191, 8192, 9998};
	const uint32_t count = 10000;
	struct dsr_slots *slots = make(count);

	(void)state;
	for (uint32_t i = 0; i < count; i++)
		(void)dsr_slots_take(slots);
	for (size_t cursor = 0; cursor < sizeof(places) / sizeof(places[0]); cursor++) {
		for (size_t at = 0; at < sizeof(places) / sizeof(places[0]); at++) {
			dsr_slots_put(slots, places[cursor]);
			assert_int_equal(dsr_slots_take(slots), places[cursor]);
			dsr_slots_put(slots, places[at]);
			assert_int_equal(dsr_slots_take(slots), places[at]);
		}
	}
	dsr_slots_free(&slots);
}

static void a_quarantined_slot_is_neither_free_nor_handed_out(void **state)
{
	struct dsr_slots *slots = make(70);

	(void)state;
	assert_true(dsr_slots_quarantine(slots, 0));
	assert_true(dsr_slots_quarantine(slots, 69));
	assert_false(dsr_slots_quarantine(slots, 0));
	assert_false(dsr_slots_quarantine(slots, 70));
	assert_false(dsr_slots_take_one(slots, 69));
	assert_int_equal(dsr_slots_quarantined(slots), 2);
	for (uint32_t i = 1; i < 69; i++)
		assert_int_equal(dsr_slots_take(slots), i);
	assert_int_equal(dsr_slots_take(slots), DSR_SLOT_NONE);
	assert_int_equal(dsr_slots_end_quarantine(slots), 2);
	assert_int_equal(dsr_slots_end_quarantine(slots), 0);
	assert_int_equal(dsr_slots_quarantined(slots), 0);
	assert_int_equal(dsr_slots_take(slots), 69);
	assert_int_equal(dsr_slots_take(slots), 0);
	dsr_slots_free(&slots);
}

static void one_slot_can_be_taken_by_number_once(void **state)
{
	struct dsr_slots *slots = make(5);

	(void)state;
	assert_true(dsr_slots_take_one(slots, 3));
	assert_false(dsr_slots_take_one(slots, 3));
	assert_false(dsr_slots_take_one(slots, 5));
	assert_int_equal(dsr_slots_left(slots), 4);
	dsr_slots_free(&slots);
}

static void free_and_used_add_up_after_many_random_changes(void **state)
{
	const uint32_t count = 777;
	struct dsr_slots *slots = make(count);
	bool is_used[777] = {false};
	uint64_t seed = rig_seed();
	uint32_t used = 0;

	(void)state;
	for (uint32_t step = 0; step < 100000; step++) {
		uint32_t slot = (uint32_t)(rig_random(&seed) % count);

		if (rig_random(&seed) % 2 != 0) {
			slot = dsr_slots_take(slots);
			assert_int_equal(slot == DSR_SLOT_NONE, used == count);
			if (slot == DSR_SLOT_NONE)
				continue;
			assert_false(is_used[slot]);
			is_used[slot] = true;
			used++;
		} else if (is_used[slot]) {
			dsr_slots_put(slots, slot);
			is_used[slot] = false;
			used--;
		}
		assert_int_equal(dsr_slots_left(slots), count - used);
	}
	dsr_slots_free(&slots);
}

static void new_refuses_no_slots(void **state)
{
	struct dsr_slots *slots;

	(void)state;
	assert_int_equal(dsr_slots_new(0, &slots), -EINVAL);
	dsr_slots_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_handed_out_in_ascending_order),
		cmocka_unit_test(a_run_goes_on_behind_the_last_one_and_then_from_the_start),
		cmocka_unit_test(slots_before_the_cursor_come_last_also_in_its_own_word),
		cmocka_unit_test(the_only_free_slot_is_found_wherever_it_is),
		cmocka_unit_test(a_quarantined_slot_is_neither_free_nor_handed_out),
		cmocka_unit_test(one_slot_can_be_taken_by_number_once),
		cmocka_unit_test(free_and_used_add_up_after_many_random_changes),
		cmocka_unit_test(new_refuses_no_slots),
	};

	return cmocka_run_group_tests_name("scheduler_slots", tests, NULL, NULL);
}

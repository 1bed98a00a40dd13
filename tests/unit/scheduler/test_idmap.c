/* SPDX-License-Identifier: Apache-2.0 */
#include "idmap.h"

#include <errno.h>

#include "rig.h"

#define COUNT 500u

static struct dsr_idmap *make(void)
{
	struct dsr_idmap *map;

	assert_int_equal(dsr_idmap_new(COUNT, &map), 0);
	return map;
}

static void the_same_id_of_two_owners_is_two_things(void **state)
{
	struct dsr_idmap *map = make();

	(void)state;
	dsr_idmap_insert(map, 1, 7, 0);
	dsr_idmap_insert(map, 2, 7, 11);
	assert_int_equal(dsr_idmap_find(map, 1, 7), 0);
	assert_int_equal(dsr_idmap_find(map, 2, 7), 11);
	assert_int_equal(dsr_idmap_find(map, 3, 7), DSR_IDMAP_NONE);
	dsr_idmap_remove(map, 1, 7);
	assert_int_equal(dsr_idmap_find(map, 1, 7), DSR_IDMAP_NONE);
	assert_int_equal(dsr_idmap_find(map, 2, 7), 11);
	dsr_idmap_free(&map);
	assert_null(map);
}

static void removing_what_is_not_there_changes_nothing(void **state)
{
	struct dsr_idmap *map = make();

	(void)state;
	dsr_idmap_insert(map, 1, 1, 5);
	dsr_idmap_remove(map, 1, 2);
	assert_int_equal(dsr_idmap_find(map, 1, 1), 5);
	dsr_idmap_free(&map);
}

static void it_agrees_with_a_plain_list_after_many_random_changes(void **state)
{
	struct dsr_idmap *map = make();
	uint64_t seed = rig_seed();
	bool is_in[COUNT] = {false};

	(void)state;
	for (uint32_t step = 0; step < 100000; step++) {
		uint32_t number = (uint32_t)(rig_random(&seed) % COUNT);

		if (is_in[number])
			dsr_idmap_remove(map, number % 5, number / 5);
		else
			dsr_idmap_insert(map, number % 5, number / 5, number);
		is_in[number] = !is_in[number];
		if (step % 1000 != 0)
			continue;
		for (uint32_t i = 0; i < COUNT; i++)
			assert_int_equal(dsr_idmap_find(map, i % 5, i / 5),
			                 is_in[i] ? i : DSR_IDMAP_NONE);
	}
	dsr_idmap_free(&map);
}

static void new_refuses_no_room(void **state)
{
	struct dsr_idmap *map;

	(void)state;
	assert_int_equal(dsr_idmap_new(0, &map), -EINVAL);
	dsr_idmap_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_id_of_two_owners_is_two_things),
		cmocka_unit_test(removing_what_is_not_there_changes_nothing),
		cmocka_unit_test(it_agrees_with_a_plain_list_after_many_random_changes),
		cmocka_unit_test(new_refuses_no_room),
	};

	return cmocka_run_group_tests_name("scheduler_idmap", tests, NULL, NULL);
}

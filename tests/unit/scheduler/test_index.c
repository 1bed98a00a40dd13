/* SPDX-License-Identifier: Apache-2.0 */
#include "index.h"

#include <errno.h>
#include <stdlib.h>

#include "rig.h"

#define COUNT 3000u

struct fixture {
	struct dsr_entry *entries;
	struct dsr_index *index;
};

static int setup(void **state)
{
	static struct fixture f;

	f.entries = calloc(COUNT, sizeof(*f.entries));
	assert_non_null(f.entries);
	assert_int_equal(dsr_index_new(f.entries, COUNT, 42, &f.index), 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	dsr_index_free(&f->index);
	assert_null(f->index);
	free(f->entries);
	return 0;
}

static void put(struct fixture *f, uint32_t entry, uint64_t number)
{
	f->entries[entry].key = rig_key(number);
	dsr_index_insert(f->index, dsr_index_tag(f->index, &f->entries[entry].key), entry);
}

static bool take(struct fixture *f, uint32_t entry)
{
	return dsr_index_remove(f->index, dsr_index_tag(f->index, &f->entries[entry].key), entry);
}

static uint32_t find(struct fixture *f, uint64_t number)
{
	struct dsr_key key = rig_key(number);

	return dsr_index_find(f->index, &key);
}

static void a_key_is_found_from_insert_to_remove(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(find(f, 5), DSR_ENTRY_NONE);
	put(f, 17, 5);
	assert_int_equal(find(f, 5), 17);
	assert_int_equal(find(f, 6), DSR_ENTRY_NONE);
	assert_true(take(f, 17));
	assert_int_equal(find(f, 5), DSR_ENTRY_NONE);
	assert_false(take(f, 17));
	assert_int_equal(dsr_index_used(f->index), 0);
}

static void keys_that_differ_in_one_byte_are_different(void **state)
{
	struct fixture *f = *state;
	struct dsr_key key = rig_key(5);

	put(f, 0, 5);
	for (int i = 0; i < DSR_KEY_BYTES; i++) {
		key.b[i] ^= 1;
		assert_int_equal(dsr_index_find(f->index, &key), DSR_ENTRY_NONE);
		key.b[i] ^= 1;
	}
	assert_int_equal(dsr_index_find(f->index, &key), 0);
}

/* All in one cluster: every home is the same. */
static void cells_with_the_same_home_survive_each_others_removal(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 64; i++) {
		f->entries[i].key = rig_key(i);
		dsr_index_insert(f->index, UINT32_MAX - (i % 3), i);
	}
	for (uint32_t i = 0; i < 64; i += 2)
		assert_true(dsr_index_remove(f->index, UINT32_MAX - (i % 3), i));
	for (uint32_t i = 1; i < 64; i += 2)
		assert_true(dsr_index_remove(f->index, UINT32_MAX - (i % 3), i));
	assert_int_equal(dsr_index_used(f->index), 0);
}

static void it_agrees_with_a_plain_list_after_many_random_changes(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = rig_seed();
	uint64_t held[COUNT] = {0}; /* number + 1 of each entry */

	for (uint32_t step = 0; step < 200000; step++) {
		uint32_t entry = (uint32_t)(rig_random(&seed) % COUNT);

		if (held[entry] != 0) {
			assert_true(take(f, entry));
			held[entry] = 0;
		} else {
			/* Unique: the entry is part of the number. */
			held[entry] = (rig_random(&seed) % 1000) * COUNT + entry + 1;
			put(f, entry, held[entry] - 1);
		}
		if (step % 10000 != 0)
			continue;
		for (uint32_t i = 0; i < COUNT; i++)
			if (held[i] != 0)
				assert_int_equal(find(f, held[i] - 1), i);
	}
}

static void many_keys_at_once_are_found_as_each_alone(void **state)
{
	struct fixture *f = *state;
	struct dsr_key keys[100];
	uint32_t found[100];

	for (uint32_t i = 0; i < 100; i++)
		if (i % 3 != 0)
			put(f, i, i);
	rig_chain(keys, 0, 100);
	for (uint32_t count = 0; count <= 100; count++) {
		dsr_index_find_all(f->index, keys, count, found);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(found[i], i % 3 != 0 ? i : DSR_ENTRY_NONE);
	}
}

static void it_can_be_filled_with_every_entry(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < COUNT; i++)
		put(f, i, i);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(find(f, i), i);
	assert_int_equal(find(f, COUNT), DSR_ENTRY_NONE);
	assert_int_equal(dsr_index_used(f->index), COUNT);
}

static void new_refuses_sizes_it_cannot_number(void **state)
{
	struct fixture *f = *state;
	struct dsr_index *index;

	assert_int_equal(dsr_index_new(f->entries, 0, 1, &index), -EINVAL);
	assert_int_equal(dsr_index_new(f->entries, UINT32_MAX, 1, &index), -EINVAL);
	dsr_index_free(NULL);
}

/* As large as a control segment gets: memory that is not used must cost nothing. */
static void sixteen_million_entries_open_at_once(void **state)
{
	struct fixture *f = *state;
	struct dsr_index *index;

	assert_int_equal(dsr_index_new(f->entries, 16u << 20, 1, &index), 0);
	dsr_index_insert(index, dsr_index_tag(index, &f->entries[7].key), 7);
	assert_int_equal(dsr_index_find(index, &f->entries[7].key), 7);
	dsr_index_free(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_key_is_found_from_insert_to_remove, setup,
	                                        teardown),
		cmocka_unit_test_setup_teardown(keys_that_differ_in_one_byte_are_different, setup,
	                                        teardown),
		cmocka_unit_test_setup_teardown(
			cells_with_the_same_home_survive_each_others_removal, setup, teardown),
		cmocka_unit_test_setup_teardown(
			it_agrees_with_a_plain_list_after_many_random_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(many_keys_at_once_are_found_as_each_alone, setup,
	                                        teardown),
		cmocka_unit_test_setup_teardown(it_can_be_filled_with_every_entry, setup, teardown),
		cmocka_unit_test_setup_teardown(new_refuses_sizes_it_cannot_number, setup,
	                                        teardown),
		cmocka_unit_test_setup_teardown(sixteen_million_entries_open_at_once, setup,
	                                        teardown),
	};

	return cmocka_run_group_tests_name("scheduler_index", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "leases.h"

#include <errno.h>
#include <string.h>

#include "rig.h"

static struct dsr_key keys[RIG_KEYS]; /* of blocks 0, 1, 2, ... */

static int setup(void **state)
{
	static struct rig rig;

	rig_open(&rig, 16, 2);
	rig_chain(keys, 0, RIG_KEYS);
	*state = &rig;
	return 0;
}

static int teardown(void **state)
{
	struct rig *rig = *state;

	(void)dsr_leases_release_owner(rig->leases, RIG_INCARNATION);
	assert_int_equal(dsr_leases_count(rig->leases), 0);
	assert_int_equal(rig_counts(rig).leased, 0);
	rig_check(rig);
	rig_close(rig);
	return 0;
}

static void a_lease_pins_the_leading_visible_blocks(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 5);
	assert_int_equal(rig_lease(rig, 1, keys, 7), 0);
	assert_int_equal(rig->got, 5);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(dsr_cache_find(rig->cache, &keys[i]), rig->refs[i].entry);
		assert_int_equal(dsr_cache_resolve(rig->cache, &rig->refs[i]), rig->refs[i].entry);
	}
	assert_int_equal(dsr_cache_make_room(rig->cache, 16, 0), 11);
	assert_true(dsr_leases_release(rig->leases, RIG_INCARNATION, 1));
	assert_false(dsr_leases_release(rig->leases, RIG_INCARNATION, 1));
	assert_int_equal(dsr_cache_make_room(rig->cache, 16, 0), 16);
}

static void nothing_cached_is_no_lease_and_no_error(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_lease(rig, 1, keys, 3), 0);
	assert_int_equal(rig->got, 0);
	assert_int_equal(rig_lease(rig, 2, keys, 0), 0);
	assert_int_equal(dsr_leases_count(rig->leases), 0);
	assert_false(dsr_leases_release(rig->leases, RIG_INCARNATION, 1));
}

static void leases_pin_at_most_half_of_the_slots(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 12);
	assert_int_equal(rig_lease(rig, 1, keys, 12), 0);
	assert_int_equal(rig->got, 8);
	rig_store(rig, 2, 100, 2);
	keys[100] = rig_key(100);
	assert_int_equal(rig_lease(rig, 2, &keys[100], 2), -EAGAIN);
	/* The same slots once more pin nothing new. */
	assert_int_equal(rig_lease(rig, 3, keys, 12), 0);
	assert_int_equal(rig->got, 8);
	assert_int_equal(rig_counts(rig).leased, 8);
	assert_int_equal(rig_counter(rig, DSR_COUNTER_REFUSED_LEASES), 1);
}

static void a_repeat_gives_the_same_answer_and_renews(void **state)
{
	struct rig *rig = *state;
	struct dsr_ref first[3];

	rig_store(rig, 1, 0, 3);
	assert_int_equal(rig_lease(rig, 9, keys, 5), 0);
	memcpy(first, rig->refs, sizeof(first));
	/* Blocks that became visible later do not lengthen it. */
	assert_int_equal(rig_reserve(rig, 2, &keys[3], 1, &keys[2], 3, 1), 0);
	(void)rig_commit(rig, 2, 0, 0, 1);
	assert_int_equal(rig_commit(rig, 2, 1, 0, 1), 1);
	rig->now_ns += 900;
	assert_int_equal(rig_lease(rig, 9, keys, 5), 0);
	assert_int_equal(rig->got, 3);
	assert_memory_equal(first, rig->refs, sizeof(first));
	assert_int_equal(dsr_leases_count(rig->leases), 1);
	assert_int_equal(dsr_leases_expire(rig->leases, rig->now_ns + 999), 0);
	assert_int_equal(dsr_leases_expire(rig->leases, rig->now_ns + 1000), 1);
}

static void a_repeat_with_other_keys_is_refused(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 4);
	assert_int_equal(rig_lease(rig, 1, keys, 4), 0);
	assert_int_equal(rig_lease(rig, 1, keys, 3), -EINVAL);
	assert_int_equal(rig_lease(rig, 1, keys, 5), -EINVAL);
	assert_int_equal(rig_lease(rig, 1, &keys[1], 4), -EINVAL);
	assert_int_equal(rig_lease(rig, 1, keys, 4), 0);
}

static void leases_end_in_the_order_of_their_times(void **state)
{
	struct rig *rig = *state;
	struct dsr_lease_request request = {.owner = RIG_INCARNATION, .keys = keys, .count = 2};
	static const uint64_t ttls[] = {500, 100, 300};

	rig_store(rig, 1, 0, 2);
	for (uint32_t i = 0; i < 3; i++) {
		request.id = i;
		request.ttl_ns = ttls[i];
		assert_int_equal(
			dsr_leases_grant(rig->leases, &request, 1000, rig->refs, &rig->got), 0);
	}
	assert_int_equal(dsr_leases_expire(rig->leases, 1099), 0);
	assert_int_equal(dsr_leases_expire(rig->leases, 1100), 1);
	assert_false(dsr_leases_release(rig->leases, RIG_INCARNATION, 1));
	assert_int_equal(dsr_leases_expire(rig->leases, 1400), 1);
	assert_true(dsr_leases_release(rig->leases, RIG_INCARNATION, 0));
	assert_int_equal(dsr_leases_expire(rig->leases, 100000), 0);
	assert_int_equal(rig_counter(rig, DSR_COUNTER_LEASES), 3);
	assert_int_equal(rig_counter(rig, DSR_COUNTER_LEASES_EXPIRED), 2);
}

static void leases_of_a_dead_engine_go_and_others_stay(void **state)
{
	struct rig *rig = *state;
	struct dsr_lease_request other = {
		.owner = 77, .id = 1, .keys = keys, .count = 2, .ttl_ns = 1000};

	rig_store(rig, 1, 0, 4);
	assert_int_equal(rig_lease(rig, 1, keys, 4), 0);
	assert_int_equal(rig_lease(rig, 2, keys, 2), 0);
	assert_int_equal(dsr_leases_grant(rig->leases, &other, 1000, rig->refs, &rig->got), 0);
	assert_int_equal(dsr_leases_release_owner(rig->leases, RIG_INCARNATION), 2);
	assert_int_equal(dsr_leases_count(rig->leases), 1);
	assert_int_equal(rig_counts(rig).leased, 2);
	assert_true(dsr_leases_release(rig->leases, 77, 1));
}

static void a_lease_marks_its_whole_chain_used(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 4);
	rig_store(rig, 2, 100, 4);
	rig_store(rig, 3, 200, 8);
	/* Blocks 2 and 3 alone, below 0 and 1, which are used by that, too. */
	assert_int_equal(rig_lease(rig, 1, &keys[2], 2), 0);
	assert_int_equal(rig->got, 2);
	assert_true(dsr_leases_release(rig->leases, RIG_INCARNATION, 1));
	assert_int_equal(dsr_cache_make_room(rig->cache, 4, 0), 4);
	assert_int_equal(rig_state(rig, 100), DSR_ENTRY_FREE);
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_VISIBLE);
	assert_int_equal(rig_state(rig, 207), DSR_ENTRY_VISIBLE);
}

static void a_run_ends_where_blocks_are_no_chain(void **state)
{
	struct rig *rig = *state;
	struct dsr_key mixed[3] = {keys[0], rig_key(100), keys[1]};
	struct dsr_key twice[2] = {keys[0], keys[0]};

	rig_store(rig, 1, 0, 2);
	rig_store(rig, 2, 100, 2);
	assert_int_equal(rig_lease(rig, 1, mixed, 3), 0);
	assert_int_equal(rig->got, 1);
	assert_int_equal(rig_lease(rig, 2, twice, 2), 0);
	assert_int_equal(rig->got, 1);
}

static void a_mismatched_block_ends_the_next_lease_before_it(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 4);
	assert_int_equal(rig_lease(rig, 1, keys, 4), 0);
	assert_true(dsr_cache_mismatch(rig->cache, rig->refs[2].entry));
	assert_int_equal(rig_lease(rig, 2, keys, 4), 0);
	assert_int_equal(rig->got, 2);
	/* The first one still is what it was. */
	assert_int_equal(rig_lease(rig, 1, keys, 4), 0);
	assert_int_equal(rig->got, 4);
	assert_true(dsr_leases_release(rig->leases, RIG_INCARNATION, 1));
	assert_int_equal(rig_state(rig, 2), DSR_ENTRY_FREE);
	assert_int_equal(rig_state(rig, 3), DSR_ENTRY_VISIBLE);
	assert_true(dsr_leases_release(rig->leases, RIG_INCARNATION, 2));
}

static void too_many_leases_are_refused_and_counted(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 1);
	for (uint64_t id = 0; id < 64; id++)
		assert_int_equal(rig_lease(rig, id, keys, 1), 0);
	assert_int_equal(rig_lease(rig, 64, keys, 1), -EAGAIN);
	assert_int_equal(rig_counter(rig, DSR_COUNTER_REFUSED_LEASES), 1);
	assert_int_equal(rig_lease(rig, 63, keys, 1), 0); /* a repeat is none */
	assert_true(dsr_leases_release(rig->leases, RIG_INCARNATION, 5));
	assert_int_equal(rig_lease(rig, 64, keys, 1), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_lease_pins_the_leading_visible_blocks),
		T(nothing_cached_is_no_lease_and_no_error),
		T(leases_pin_at_most_half_of_the_slots),
		T(a_repeat_gives_the_same_answer_and_renews),
		T(a_repeat_with_other_keys_is_refused),
		T(leases_end_in_the_order_of_their_times),
		T(leases_of_a_dead_engine_go_and_others_stay),
		T(a_lease_marks_its_whole_chain_used),
		T(a_run_ends_where_blocks_are_no_chain),
		T(a_mismatched_block_ends_the_next_lease_before_it),
		T(too_many_leases_are_refused_and_counted),
	};

	return cmocka_run_group_tests_name("scheduler_leases", tests, NULL, NULL);
}

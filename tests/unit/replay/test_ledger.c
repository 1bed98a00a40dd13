/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ledger.h"
#include "roles.h"

#define SECOND UINT64_C(1000000000)
#define KEYS 4

static struct replay_ledger *ledger;
static struct replay_key keys[KEYS];

static int begin(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < KEYS; i++)
		keys[i] = (struct replay_key){.lo = (uint64_t)(i + 1) << 40, .hi = i};
	return replay_ledger_new(&ledger);
}

static int end(void **state)
{
	(void)state;
	replay_ledger_free(&ledger);
	return ledger == NULL ? 0 : -1;
}

static uint32_t arrive(uint64_t ticket)
{
	uint32_t seen = 99;

	assert_int_equal(replay_ledger_arrive(ledger, keys, KEYS, ticket, &seen), 0);
	return seen;
}

static void event(uint32_t block, uint32_t fate, uint32_t reason, uint64_t now)
{
	struct daser_block_event e = {.fate = fate, .reason = reason};

	(void)memcpy(e.hash, &keys[block], sizeof(keys[block]));
	replay_ledger_event(ledger, &e, now);
}

static enum replay_cause cause(uint64_t ticket, uint64_t lookup_ns)
{
	return replay_ledger_cause(ledger, &keys[0], ticket, lookup_ns);
}

static void a_block_is_seen_from_its_second_request_on(void **state)
{
	struct replay_key other[2] = {keys[0], {.lo = 1, .hi = 1}};
	uint32_t seen = 99;

	(void)state;
	assert_int_equal(arrive(1), 0);
	assert_int_equal(arrive(2), KEYS);
	assert_int_equal(replay_ledger_arrive(ledger, other, 2, 3, &seen), 0);
	assert_int_equal(seen, 1);
}

static void who_asks_first_has_no_one_to_blame(void **state)
{
	(void)state;
	assert_int_equal(cause(1, 0), REPLAY_FIRST_USE);
	(void)arrive(1);
	assert_int_equal(cause(1, 0), REPLAY_FIRST_USE);
}

static void a_block_in_flight_is_a_duplicate_for_others(void **state)
{
	(void)state;
	(void)arrive(1);
	(void)arrive(2);
	assert_int_equal(cause(2, 0), REPLAY_IN_FLIGHT_DUPLICATE);
	event(0, DASER_BLOCK_RESERVED, 0, SECOND);
	assert_int_equal(cause(2, SECOND), REPLAY_IN_FLIGHT_DUPLICATE);
}

static void a_stored_block_that_is_missing_was_evicted(void **state)
{
	(void)state;
	(void)arrive(1);
	event(0, DASER_BLOCK_RESERVED, 0, SECOND);
	event(0, DASER_BLOCK_STORED, 0, 5 * SECOND);
	replay_ledger_leave(ledger, keys, 1, 1, false);
	(void)arrive(2);
	assert_int_equal(cause(2, 9 * SECOND), REPLAY_EVICTION_ORDER);
	/* the lookup went out before it was stored */
	assert_int_equal(cause(2, 4 * SECOND), REPLAY_IN_FLIGHT_DUPLICATE);
}

static void a_dropped_store_gives_its_reason(void **state)
{
	static const struct {
		uint32_t reason;
		enum replay_cause cause;
	} cases[] = {
		{DSR_REASON_NO_SLOT, REPLAY_REFUSED_STORE},
		{DSR_REASON_QUEUE_FULL, REPLAY_REFUSED_STORE},
		{DSR_REASON_ORPHAN, REPLAY_REFUSED_STORE},
		{DSR_REASON_DEADLINE, REPLAY_REFUSED_STORE},
		{DSR_REASON_PREEMPTED, REPLAY_PREEMPTED},
		{DSR_REASON_ABORTED, REPLAY_ABORTED},
		{DSR_REASON_ACTOR_GONE, REPLAY_OTHER},
		{DSR_REASON_DETACHED, REPLAY_OTHER},
	};

	(void)state;
	(void)arrive(1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		event(0, DASER_BLOCK_RESERVED, 0, SECOND);
		event(0, DASER_BLOCK_DROPPED, cases[i].reason, SECOND);
		assert_int_equal(cause(2, 2 * SECOND), cases[i].cause);
	}
}

static void a_duplicate_changes_nothing_that_is_known(void **state)
{
	(void)state;
	(void)arrive(1);
	event(0, DASER_BLOCK_RESERVED, 0, SECOND);
	event(0, DASER_BLOCK_DROPPED, DSR_REASON_DUPLICATE, SECOND);
	assert_int_equal(cause(2, 2 * SECOND), REPLAY_IN_FLIGHT_DUPLICATE);
	/* another engine has it */
	event(1, DASER_BLOCK_DROPPED, DSR_REASON_DUPLICATE, SECOND);
	assert_int_equal(replay_ledger_cause(ledger, &keys[1], 2, 2 * SECOND),
	                 REPLAY_EVICTION_ORDER);
}

static void blocks_of_an_aborted_request_are_lost_with_it(void **state)
{
	(void)state;
	(void)arrive(1);
	(void)arrive(2);
	(void)arrive(3);
	/* it was not the first: the first one is still at it */
	replay_ledger_leave(ledger, keys, KEYS, 2, true);
	assert_int_equal(cause(3, 0), REPLAY_IN_FLIGHT_DUPLICATE);
	replay_ledger_leave(ledger, keys, KEYS, 1, true);
	assert_int_equal(cause(3, 0), REPLAY_ABORTED);
	event(0, DASER_BLOCK_RESERVED, 0, SECOND);
	assert_int_equal(cause(4, 0), REPLAY_IN_FLIGHT_DUPLICATE);
}

static void a_drop_that_follows_from_another_counts_like_that(void **state)
{
	(void)state;
	(void)arrive(1);
	event(0, DASER_BLOCK_RESERVED, 0, SECOND);
	event(0, DASER_BLOCK_DROPPED, DSR_REASON_CANCELLED, SECOND);
	assert_int_equal(cause(2, 2 * SECOND), REPLAY_OTHER);
	event(0, DASER_BLOCK_RESERVED, 0, SECOND);
	replay_ledger_lost(ledger, keys, KEYS, REPLAY_PREEMPTED);
	event(0, DASER_BLOCK_DROPPED, DSR_REASON_CANCELLED, SECOND);
	assert_int_equal(cause(2, 2 * SECOND), REPLAY_PREEMPTED);
	event(0, DASER_BLOCK_DROPPED, DSR_REASON_STALE, SECOND);
	assert_int_equal(cause(2, 2 * SECOND), REPLAY_PREEMPTED);
	/* a new reservation forgets it */
	event(0, DASER_BLOCK_RESERVED, 0, SECOND);
	event(0, DASER_BLOCK_DROPPED, DSR_REASON_LANE, SECOND);
	assert_int_equal(cause(2, 2 * SECOND), REPLAY_OTHER);
	/* what is not under way is not touched */
	replay_ledger_lost(ledger, keys + 1, 1, REPLAY_PREEMPTED);
	assert_int_equal(replay_ledger_cause(ledger, &keys[1], 1, 0), REPLAY_FIRST_USE);
}

static void a_block_of_which_nothing_is_heard_is_no_excuse(void **state)
{
	(void)state;
	(void)arrive(1);
	replay_ledger_leave(ledger, keys, KEYS, 1, false);
	assert_int_equal(cause(2, 0), REPLAY_OTHER);
}

static void a_loaded_block_was_stored_by_somebody(void **state)
{
	(void)state;
	(void)arrive(1);
	replay_ledger_loaded(ledger, keys, 1);
	replay_ledger_leave(ledger, keys, 1, 1, false);
	assert_int_equal(cause(2, 0), REPLAY_EVICTION_ORDER);
}

static void many_blocks_are_kept_apart(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 20000; i++) {
		struct replay_key key = {.lo = i, .hi = ~i};
		uint32_t seen = 0;

		assert_int_equal(replay_ledger_arrive(ledger, &key, 1, i + 1, &seen), 0);
		assert_int_equal(seen, 0);
	}
	for (uint64_t i = 0; i < 20000; i++) {
		struct replay_key key = {.lo = i, .hi = ~i};

		assert_int_equal(replay_ledger_cause(ledger, &key, i + 1, 0), REPLAY_FIRST_USE);
		assert_int_equal(replay_ledger_cause(ledger, &key, i + 2, 0),
		                 REPLAY_IN_FLIGHT_DUPLICATE);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_block_is_seen_from_its_second_request_on),
		TEST(who_asks_first_has_no_one_to_blame),
		TEST(a_block_in_flight_is_a_duplicate_for_others),
		TEST(a_stored_block_that_is_missing_was_evicted),
		TEST(a_dropped_store_gives_its_reason),
		TEST(a_duplicate_changes_nothing_that_is_known),
		TEST(blocks_of_an_aborted_request_are_lost_with_it),
		TEST(a_drop_that_follows_from_another_counts_like_that),
		TEST(a_block_of_which_nothing_is_heard_is_no_excuse),
		TEST(a_loaded_block_was_stored_by_somebody),
		TEST(many_blocks_are_kept_apart),
	};

	return cmocka_run_group_tests_name("replay_ledger", tests, NULL, NULL);
}

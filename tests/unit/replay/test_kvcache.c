/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache.h"

static struct replay_key key_of(uint64_t n)
{
	/* equal low bits: all in one bucket */
	return (struct replay_key){.lo = n << 32, .hi = n};
}

static struct replay_kvcache *new_cache(uint32_t blocks)
{
	struct replay_kvcache *cache = NULL;

	assert_int_equal(replay_kvcache_new(blocks, &cache), 0);
	return cache;
}

static void blocks_are_taken_in_the_order_they_were_freed(void **state)
{
	struct replay_kvcache *cache = new_cache(4);
	uint32_t ids[4], again[4];

	(void)state;
	assert_int_equal(replay_kvcache_take(cache, 4, ids), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(ids[i], i + 1);
	replay_kvcache_put(cache, ids, 3); /* 3, 2, 1 */
	replay_kvcache_put(cache, ids + 3, 1);
	assert_int_equal(replay_kvcache_take(cache, 4, again), 0);
	assert_int_equal(again[0], 3);
	assert_int_equal(again[1], 2);
	assert_int_equal(again[2], 1);
	assert_int_equal(again[3], 4);
	replay_kvcache_free(&cache);
	assert_null(cache);
}

static void the_null_block_is_never_handed_out(void **state)
{
	struct replay_kvcache *cache = new_cache(100);
	uint32_t ids[100];

	(void)state;
	assert_int_equal(replay_kvcache_take(cache, 100, ids), 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_not_equal(ids[i], 0);
	replay_kvcache_free(&cache);
}

static void a_take_that_does_not_fit_takes_nothing(void **state)
{
	struct replay_kvcache *cache = new_cache(3);
	uint32_t ids[4] = {0};

	(void)state;
	assert_int_equal(replay_kvcache_take(cache, 4, ids), -ENOSPC);
	assert_int_equal(replay_kvcache_free_count(cache), 3);
	assert_int_equal(ids[0], 0);
	replay_kvcache_free(&cache);
}

static void a_freed_block_hits_until_it_is_taken(void **state)
{
	struct replay_kvcache *cache = new_cache(2);
	struct replay_key keys[2] = {key_of(1), key_of(2)};
	uint32_t ids[2], hit[2];

	(void)state;
	assert_int_equal(replay_kvcache_take(cache, 2, ids), 0);
	replay_kvcache_cache(cache, ids[0], &keys[0]);
	replay_kvcache_cache(cache, ids[1], &keys[1]);
	replay_kvcache_put(cache, ids, 2);
	assert_int_equal(replay_kvcache_match(cache, keys, 2, hit), 2);
	assert_int_equal(hit[0], ids[0]);
	assert_int_equal(replay_kvcache_match(cache, keys, 1, hit), 1);
	/* the last block was freed first, so it goes first */
	assert_int_equal(replay_kvcache_take(cache, 1, hit), 0);
	assert_int_equal(hit[0], ids[1]);
	assert_int_equal(replay_kvcache_match(cache, keys, 2, hit), 1);
	replay_kvcache_free(&cache);
}

static void a_hit_leaves_the_queue_and_is_shared(void **state)
{
	struct replay_kvcache *cache = new_cache(2);
	struct replay_key key = key_of(7);
	uint32_t id, other;

	(void)state;
	assert_int_equal(replay_kvcache_take(cache, 1, &id), 0);
	replay_kvcache_cache(cache, id, &key);
	replay_kvcache_put(cache, &id, 1);
	assert_true(replay_kvcache_fits(cache, &id, 1, 1));
	assert_false(
		replay_kvcache_fits(cache, &id, 1, 2)); /* the hit itself is one of the free ones */
	replay_kvcache_touch(cache, &id, 1);
	replay_kvcache_touch(cache, &id, 1);
	assert_int_equal(replay_kvcache_free_count(cache), 1);
	assert_int_equal(replay_kvcache_take(cache, 1, &other), 0);
	assert_int_not_equal(other, id);
	replay_kvcache_put(cache, &id, 1);
	assert_int_equal(replay_kvcache_free_count(cache), 0); /* one user is left */
	replay_kvcache_put(cache, &id, 1);
	assert_int_equal(replay_kvcache_free_count(cache), 1);
	replay_kvcache_free(&cache);
}

static void a_key_stays_with_the_block_that_had_it_first(void **state)
{
	struct replay_kvcache *cache = new_cache(2);
	struct replay_key key = key_of(7), late = key_of(8);
	uint32_t ids[2], hit[1];

	(void)state;
	assert_int_equal(replay_kvcache_take(cache, 2, ids), 0);
	replay_kvcache_cache(cache, ids[0], &key);
	replay_kvcache_cache(cache, ids[1], &key);
	assert_int_equal(replay_kvcache_match(cache, &key, 1, hit), 1);
	assert_int_equal(hit[0], ids[0]);
	replay_kvcache_cache(cache, ids[0], &late); /* it has a key already */
	assert_int_equal(replay_kvcache_match(cache, &late, 1, hit), 0);
	replay_kvcache_free(&cache);
}

static void forgetting_keeps_users_and_drops_contents(void **state)
{
	struct replay_kvcache *cache = new_cache(3);
	struct replay_key keys[2] = {key_of(1), key_of(2)};
	uint32_t ids[2], hit[2];

	(void)state;
	assert_int_equal(replay_kvcache_take(cache, 2, ids), 0);
	replay_kvcache_cache(cache, ids[0], &keys[0]);
	replay_kvcache_cache(cache, ids[1], &keys[1]);
	replay_kvcache_forget(cache);
	assert_int_equal(replay_kvcache_match(cache, keys, 2, hit), 0);
	assert_int_equal(replay_kvcache_free_count(cache), 1);
	replay_kvcache_cache(cache, ids[1], &keys[0]);
	assert_int_equal(replay_kvcache_match(cache, keys, 2, hit), 1);
	replay_kvcache_free(&cache);
}

static void a_cache_without_blocks_is_refused(void **state)
{
	struct replay_kvcache *cache = NULL;

	(void)state;
	assert_int_equal(replay_kvcache_new(0, &cache), -EINVAL);
	assert_null(cache);
	replay_kvcache_free(&cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_taken_in_the_order_they_were_freed),
		cmocka_unit_test(the_null_block_is_never_handed_out),
		cmocka_unit_test(a_take_that_does_not_fit_takes_nothing),
		cmocka_unit_test(a_freed_block_hits_until_it_is_taken),
		cmocka_unit_test(a_hit_leaves_the_queue_and_is_shared),
		cmocka_unit_test(a_key_stays_with_the_block_that_had_it_first),
		cmocka_unit_test(forgetting_keeps_users_and_drops_contents),
		cmocka_unit_test(a_cache_without_blocks_is_refused),
	};

	return cmocka_run_group_tests_name("replay_kvcache", tests, NULL, NULL);
}

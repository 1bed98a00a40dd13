/* SPDX-License-Identifier: Apache-2.0 */
/* Block contents and the memory of a rank's KV cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "content.h"
#include "kvspace.h"

#define WORDS 1000

static void what_was_filled_checks(void **state)
{
	uint64_t words[WORDS], first = 0;

	(void)state;
	replay_content_fill(42, 0, words, WORDS);
	assert_int_equal(replay_content_check(42, 0, words, WORDS, &first), 0);
	/* in pieces as well */
	replay_content_fill(42, 100, words + 100, 7);
	assert_int_equal(replay_content_check(42, 0, words, WORDS, &first), 0);
	assert_int_equal(replay_content_check(42, 500, words + 500, 500, &first), 0);
}

static void one_flipped_bit_is_found_wherever_it_is(void **state)
{
	uint64_t words[WORDS], first = 0;

	(void)state;
	replay_content_fill(42, 0, words, WORDS);
	for (uint32_t bit = 0; bit < WORDS * 64; bit += 97) {
		words[bit / 64] ^= UINT64_C(1) << bit % 64;
		assert_int_equal(replay_content_check(42, 0, words, WORDS, &first), 1);
		assert_int_equal(first, bit / 8);
		words[bit / 64] ^= UINT64_C(1) << bit % 64;
	}
}

static void no_other_block_lane_or_place_looks_right(void **state)
{
	uint64_t words[WORDS], first = 0;
	uint64_t seed = replay_content_seed(1, 0);

	(void)state;
	replay_content_fill(seed, 0, words, WORDS);
	assert_true(replay_content_check(replay_content_seed(2, 0), 0, words, WORDS, &first) >
	            7900);
	assert_true(replay_content_check(replay_content_seed(1, 1), 0, words, WORDS, &first) >
	            7900);
	/* shifted by one word */
	assert_true(replay_content_check(seed, 1, words, WORDS, &first) > 7900);
	assert_int_equal(first / 8, 0);
}

static void differing_bytes_are_counted(void **state)
{
	uint64_t words[WORDS], first = 0;

	(void)state;
	replay_content_fill(9, 0, words, WORDS);
	((uint8_t *)words)[803] ^= 0xff;
	((uint8_t *)words)[804] ^= 1;
	((uint8_t *)words)[7000] ^= 2;
	assert_int_equal(replay_content_check(9, 0, words, WORDS, &first), 3);
	assert_int_equal(first, 803);
}

static void open_space(struct replay_kvspace *space, uint32_t layers)
{
	assert_int_equal(replay_kvspace_open(space, 5, 4096, 16, layers), 0);
	for (uint32_t id = 0; id < 5; id++)
		replay_kvspace_poison(space, id);
}

static void check_layout(uint32_t layers)
{
	struct replay_kvspace space;
	uint64_t first = 0;

	open_space(&space, layers);
	for (uint32_t id = 1; id < 5; id++)
		replay_kvspace_fill(&space, id, id * 1000, 0, 16);
	for (uint32_t id = 1; id < 5; id++)
		assert_int_equal(replay_kvspace_check(&space, id, id * 1000, 16, &first), 0);
	assert_true(replay_kvspace_is_poisoned(&space, 0));
	assert_false(replay_kvspace_is_poisoned(&space, 1));
	/* pieces cover the whole memory, without overlap */
	uint64_t payload = 0;

	for (uint32_t i = 0; i < space.piece_count; i++)
		payload += space.pieces[i].bytes * space.pieces[i].count;
	assert_int_equal(payload, 4096);
	assert_int_equal(space.bytes, 5 * 4096);
	replay_kvspace_close(&space);
}

static void a_contiguous_cache_keeps_blocks_apart(void **state)
{
	(void)state;
	check_layout(0);
}

static void a_layered_cache_keeps_blocks_apart(void **state)
{
	(void)state;
	check_layout(4);
	check_layout(1);
}

static void part_of_a_block_is_filled_and_checked(void **state)
{
	struct replay_kvspace space;
	uint64_t first = 0;

	(void)state;
	open_space(&space, 4);
	replay_kvspace_fill(&space, 2, 77, 0, 5);
	assert_int_equal(replay_kvspace_check(&space, 2, 77, 5, &first), 0);
	assert_true(replay_kvspace_check(&space, 2, 77, 6, &first) > 0);
	/* token 5 of the first run: 512 bytes a run, 32 a token */
	assert_int_equal(first, 5 * 32);
	replay_kvspace_fill(&space, 2, 77, 5, 16);
	assert_int_equal(replay_kvspace_check(&space, 2, 77, 16, &first), 0);
	replay_kvspace_close(&space);
}

static void tokens_that_do_not_divide_a_block_cover_it_all_the_same(void **state)
{
	struct replay_kvspace space;
	uint64_t first = 0;

	(void)state;
	assert_int_equal(replay_kvspace_open(&space, 2, 80, 7, 0), 0);
	replay_kvspace_poison(&space, 1);
	for (uint32_t token = 0; token < 7; token++)
		replay_kvspace_fill(&space, 1, 5, token, token + 1);
	assert_int_equal(replay_kvspace_check(&space, 1, 5, 7, &first), 0);
	replay_kvspace_close(&space);
}

static void a_poisoned_block_never_checks(void **state)
{
	struct replay_kvspace space;
	uint64_t first = 0;

	(void)state;
	open_space(&space, 0);
	replay_kvspace_fill(&space, 3, 1, 0, 16);
	replay_kvspace_poison(&space, 3);
	assert_true(replay_kvspace_check(&space, 3, 1, 16, &first) > 4000);
	replay_kvspace_close(&space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_filled_checks),
		cmocka_unit_test(one_flipped_bit_is_found_wherever_it_is),
		cmocka_unit_test(no_other_block_lane_or_place_looks_right),
		cmocka_unit_test(differing_bytes_are_counted),
		cmocka_unit_test(a_contiguous_cache_keeps_blocks_apart),
		cmocka_unit_test(a_layered_cache_keeps_blocks_apart),
		cmocka_unit_test(part_of_a_block_is_filled_and_checked),
		cmocka_unit_test(tokens_that_do_not_divide_a_block_cover_it_all_the_same),
		cmocka_unit_test(a_poisoned_block_never_checks),
	};

	return cmocka_run_group_tests_name("replay_content", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Generators, block keys, and the reader of traces. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rng.h"
#include "trace.h"

#define LINE(timestamp, input, output, ids)                                                        \
	"{\"timestamp\": " timestamp ", \"input_length\": " input ", \"output_length\": " output   \
	", \"hash_ids\": [" ids "]}\n"

static int read_text(const char *text, size_t length, struct replay_workload *workload, char *why)
{
	FILE *file = fmemopen(NULL, length + 1, "w+");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	assert_int_equal(fflush(file), 0);
	rewind(file);
	/* a second stream that ends where the text does */
	FILE *exact = fmemopen((void *)(uintptr_t)text, length ? length : 1, "r");
	int r = length ? replay_trace_read(exact, "t.jsonl", 0, workload, why, 256)
	               : replay_trace_read(file, "t.jsonl", 0, workload, why, 256);

	(void)fclose(exact);
	(void)fclose(file);
	return r;
}

static bool is_same(struct replay_key a, struct replay_key b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

static void a_trace_is_read(void **state)
{
	static const char text[] =
		LINE("0", "1000", "5", "3, 4") "\n"
					       "{\"timestamp\": 2.5, \"input_length\": 512, "
					       "\"output_length\": 0, \"hash_ids\": [3], "
					       "\"more\": null}";
	struct replay_workload workload;
	char why[256] = "";

	(void)state;
	replay_workload_init(&workload, 512);
	assert_int_equal(read_text(text, sizeof(text) - 1, &workload, why), 0);
	assert_int_equal(workload.count, 2);
	assert_int_equal(workload.items[0].input_length, 1000);
	assert_int_equal(workload.items[0].output_length, 5);
	assert_int_equal(workload.items[0].id_count, 2);
	assert_int_equal(workload.items[1].timestamp_ms, 2);
	assert_int_equal(workload.ids[workload.items[1].first_id], 3);
	replay_workload_done(&workload);
}

static void a_bad_line_is_refused_by_line_and_field(void **state)
{
	static const char good[] = LINE("0", "512", "1", "1");
	static const struct {
		const char *line, *why;
	} cases[] = {
		{"{\"input_length\": 1, \"output_length\": 1, \"hash_ids\": []}",
	         "timestamp is missing"},
		{"{\"timestamp\": \"0\", \"input_length\": 1}", "timestamp is not a number"},
		{LINE("-1", "1", "1", ""), "timestamp -1: expected"},
		{"{\"timestamp\": 0}", "input_length is missing"},
		{LINE("0", "0", "1", ""), "input_length 0: expected"},
		{LINE("0", "1.5", "1", ""), "input_length is not an integer"},
		{LINE("0", "99999999999", "1", ""), "input_length 99999999999: expected"},
		{LINE("0", "1", "-1", ""), "output_length -1: expected"},
		{LINE("0", "1", "\"x\"", ""), "output_length is not an integer"},
		{"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}",
	         "hash_ids is missing"},
		{"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": 7}",
	         "hash_ids is not an array"},
		{LINE("0", "1024", "1", "1"), "hash_ids has 1 ids: input_length 1024 takes 2"},
		{LINE("0", "512", "1", "1, 2"), "hash_ids has 2 ids: input_length 512 takes 1"},
		{LINE("0", "512", "1", "\"a\""), "hash_ids[0] is not an integer"},
		{LINE("0", "600", "1", "1, -2"), "hash_ids[1] is not an integer"},
		{"[1]", "expected a JSON object"},
		{"{\"timestamp\": 0", "not JSON"},
		{"\xff\xfe", "not JSON"},
		{"{\"timestamp\": 0, \"timestamp\": 1}", "not JSON"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct replay_workload workload;
		char text[512], why[256] = "";
		int n = snprintf(text, sizeof(text), "%s%s", good, cases[i].line);

		replay_workload_init(&workload, 512);
		assert_int_equal(read_text(text, (size_t)n, &workload, why), -EINVAL);
		if (strncmp(why, "t.jsonl:2: ", 11) != 0 || !strstr(why, cases[i].why))
			fail_msg("`%s` gave `%s`", cases[i].line, why);
		replay_workload_done(&workload);
	}
}

static void an_empty_trace_and_a_packed_one_are_refused(void **state)
{
	struct replay_workload workload;
	char why[256] = "";

	(void)state;
	replay_workload_init(&workload, 512);
	assert_int_equal(read_text("\n \n", 3, &workload, why), -EINVAL);
	assert_non_null(strstr(why, "no requests"));
	assert_int_equal(read_text("\xfd"
	                           "7zXZ\0\0",
	                           7, &workload, why),
	                 -EINVAL);
	assert_non_null(strstr(why, "xz"));
	assert_int_equal(replay_trace_load("/nonexistent/x", 0, &workload, why, sizeof(why)),
	                 -EINVAL);
	assert_non_null(strstr(why, "/nonexistent/x"));
	replay_workload_done(&workload);
}

/* Bytes cut, repeated and flipped: an error or a smaller workload, never worse. */
static void garbage_never_crashes(void **state)
{
	static const char text[] = LINE("0", "1000", "5", "3, 4") LINE("1", "512", "5", "9");
	struct replay_rng rng = {.state = 1};

	(void)state;
	for (uint32_t round = 0; round < 3000; round++) {
		struct replay_workload workload;
		char copy[sizeof(text)], why[256] = "";
		size_t length = 1 + replay_rng_below(&rng, sizeof(text) - 2);

		(void)memcpy(copy, text, sizeof(text));
		for (uint32_t n = replay_rng_below(&rng, 4); n > 0; n--)
			copy[replay_rng_below(&rng, (uint32_t)length)] =
				(char)replay_rng_below(&rng, 256);
		replay_workload_init(&workload, 512);
		int r = read_text(copy, length, &workload, why);

		assert_true(r == 0 ? workload.count > 0 : r == -EINVAL && why[0] != '\0');
		replay_workload_done(&workload);
	}
}

/* Keys of one request with these ids. */
static uint32_t keys_of(uint32_t span, uint32_t block, uint32_t input, const uint64_t *ids,
                        struct replay_key *keys)
{
	struct replay_item item = {.input_length = input, .output_length = 1, .after = REPLAY_NONE};
	struct replay_workload workload;

	replay_workload_init(&workload, span);
	assert_int_equal(replay_workload_append(&workload, &item, ids, (input + span - 1) / span),
	                 0);
	replay_workload_keys(&workload, 0, block, keys);
	uint32_t full = replay_full_blocks(&workload.items[0], block);

	replay_workload_done(&workload);
	return full;
}

static void small_blocks_share_as_far_as_ids_agree(void **state)
{
	static const uint64_t a[] = {1, 2}, b[] = {1, 3};
	struct replay_key x[64], y[64];

	(void)state;
	assert_int_equal(keys_of(512, 16, 600, a, x), 37);
	assert_int_equal(keys_of(512, 16, 1024, b, y), 64);
	for (uint32_t i = 0; i < 32; i++)
		assert_true(is_same(x[i], y[i]));
	for (uint32_t i = 32; i < 37; i++)
		assert_false(is_same(x[i], y[i]));
	/* a partial span is the same one where it is full */
	assert_int_equal(keys_of(512, 16, 1024, a, y), 64);
	for (uint32_t i = 0; i < 37; i++)
		assert_true(is_same(x[i], y[i]));
	/* no block of a prompt has the key of another */
	for (uint32_t i = 0; i < 64; i++)
		for (uint32_t j = 0; j < i; j++)
			assert_false(is_same(y[i], y[j]));
}

static void large_blocks_take_all_their_ids(void **state)
{
	static const uint64_t a[] = {1, 2, 3, 4}, b[] = {1, 9, 3, 4}, c[] = {1, 2, 3, 9};
	struct replay_key x[2], y[2];

	(void)state;
	assert_int_equal(keys_of(512, 1024, 2048, a, x), 2);
	assert_int_equal(keys_of(512, 1024, 2048, b, y), 2);
	assert_false(is_same(x[0], y[0]));
	assert_false(is_same(x[1], y[1])); /* the block before differs */
	assert_int_equal(keys_of(512, 1024, 2047, c, y), 1);
	assert_true(is_same(x[0], y[0]));
}

static void settings_of(struct replay_settings *settings, const char *workload)
{
	char *argv[] = {(char *)(uintptr_t) "t", (char *)(uintptr_t) "--workload",
	                (char *)(uintptr_t)workload, NULL};
	char why[256];

	assert_int_equal(replay_settings_parse(settings, 3, argv, why, sizeof(why)), 0);
}

static void a_user_comes_back_with_a_longer_prompt(void **state)
{
	struct replay_settings settings;
	struct replay_workload workload;
	struct replay_key first[64], second[128], other[64];

	(void)state;
	settings_of(&settings, "multiturn");
	settings.users = 3;
	settings.turns = 2;
	settings.turn_tokens = 1000;
	replay_workload_init(&workload, 16);
	assert_int_equal(replay_workload_multiturn(&workload, &settings), 0);
	assert_int_equal(workload.count, 6);
	assert_int_equal(workload.items[4].input_length, 2000);
	assert_int_equal(workload.items[4].after, 1);
	assert_int_equal(workload.items[1].after, REPLAY_NONE);
	replay_workload_keys(&workload, 1, 16, first);
	replay_workload_keys(&workload, 4, 16, second);
	replay_workload_keys(&workload, 2, 16, other);
	for (uint32_t i = 0; i < 62; i++) {
		assert_true(is_same(first[i], second[i]));
		assert_false(is_same(first[i], other[i]));
	}
	replay_workload_done(&workload);
}

static void prompts_share_their_prefix_and_nothing_else(void **state)
{
	struct replay_settings settings;
	struct replay_workload workload;
	struct replay_key x[32], y[32];

	(void)state;
	settings_of(&settings, "prefix");
	settings.prefixes = 1;
	settings.prefix_tokens = 100;
	settings.suffix_tokens = 60;
	settings.requests = 2;
	replay_workload_init(&workload, 16);
	assert_int_equal(replay_workload_prefix(&workload, &settings), 0);
	assert_int_equal(workload.count, 2);
	replay_workload_keys(&workload, 0, 16, x);
	replay_workload_keys(&workload, 1, 16, y);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(is_same(x[i], y[i]), i < 6);
	replay_workload_done(&workload);
}

static void a_prompt_without_bound_is_refused(void **state)
{
	struct replay_settings settings;
	struct replay_workload workload;

	(void)state;
	settings_of(&settings, "multiturn");
	settings.turns = 10000;
	settings.turn_tokens = 1000000;
	replay_workload_init(&workload, 16);
	assert_int_equal(replay_workload_multiturn(&workload, &settings), -EINVAL);
	replay_workload_done(&workload);
}

static void a_written_workload_reads_the_same(void **state)
{
	static const uint64_t ids[] = {5, 6, 7};
	struct replay_item item = {
		.timestamp_ms = 9, .input_length = 1500, .output_length = 2, .after = REPLAY_NONE};
	struct replay_workload before, after;
	char *text = NULL, why[256] = "";
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);

	(void)state;
	replay_workload_init(&before, 512);
	replay_workload_init(&after, 512);
	assert_int_equal(replay_workload_append(&before, &item, ids, 3), 0);
	assert_int_equal(replay_workload_write(&before, file), 0);
	(void)fclose(file);
	assert_int_equal(read_text(text, length, &after, why), 0);
	assert_int_equal(after.count, 1);
	assert_int_equal(after.items[0].timestamp_ms, 9);
	assert_memory_equal(after.ids, ids, sizeof(ids));
	free(text);
	replay_workload_done(&before);
	replay_workload_done(&after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_trace_is_read),
		cmocka_unit_test(a_bad_line_is_refused_by_line_and_field),
		cmocka_unit_test(an_empty_trace_and_a_packed_one_are_refused),
		cmocka_unit_test(garbage_never_crashes),
		cmocka_unit_test(small_blocks_share_as_far_as_ids_agree),
		cmocka_unit_test(large_blocks_take_all_their_ids),
		cmocka_unit_test(a_user_comes_back_with_a_longer_prompt),
		cmocka_unit_test(prompts_share_their_prefix_and_nothing_else),
		cmocka_unit_test(a_prompt_without_bound_is_refused),
		cmocka_unit_test(a_written_workload_reads_the_same),
	};

	return cmocka_run_group_tests_name("replay_workload", tests, NULL, NULL);
}

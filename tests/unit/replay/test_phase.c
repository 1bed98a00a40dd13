/* SPDX-License-Identifier: Apache-2.0 */
/* Results as JSON and as a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "phase.h"
#include "roles.h"

static void percentiles_are_of_all_samples(void **state)
{
	struct replay_samples samples = {0};

	(void)state;
	assert_int_equal(replay_samples_percentile(&samples, 0.5), 0);
	for (uint64_t i = 2000; i > 0; i--)
		assert_int_equal(replay_samples_add(&samples, i), 0);
	assert_int_equal(replay_samples_percentile(&samples, 0.5), 1001);
	assert_int_equal(replay_samples_percentile(&samples, 0.99), 1981);
	assert_int_equal(replay_samples_percentile(&samples, 1), 2000);
	replay_samples_clear(&samples);
	assert_int_equal(replay_samples_add(&samples, 5), 0);
	assert_int_equal(replay_samples_percentile(&samples, 0.99), 5);
	replay_samples_done(&samples);
}

static void settings_for(struct replay_settings *settings)
{
	char *argv[] = {(char *)(uintptr_t) "t", NULL};
	char why[256];

	assert_int_equal(replay_settings_parse(settings, 1, argv, why, sizeof(why)), 0);
}

static json_t *print(const struct replay_phase *phase, const char *error)
{
	struct replay_settings settings;
	char *text = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);

	settings_for(&settings);
	assert_int_equal(replay_phases_json(file, &settings, phase, 1, error), 0);
	(void)fclose(file);
	assert_int_equal(text[length - 1], '\n');
	assert_null(memchr(text, '\n', length - 1));
	assert_int_equal(strncmp(text, "{\"schema\":1,\"seed\":", 19), 0);
	json_t *root = json_loads(text, 0, NULL);

	free(text);
	assert_non_null(root);
	return root;
}

static void the_json_has_the_fixed_keys(void **state)
{
	static const char *const keys[] = {"name",          "requests",   "failed",
	                                   "aborted",       "hung",       "mismatched_bytes",
	                                   "prompt_tokens", "hit_tokens", "bytes_loaded",
	                                   "bytes_stored",  "load_GBps",  "store_GBps",
	                                   "lookup_us",     "load_us",    "l1_hits",
	                                   "l1_misses",     "l2_reads",   "drops",
	                                   "seconds"};
	struct replay_phase phase = {.name = "cold",
	                             .requests = 5,
	                             .l1_tokens = 77,
	                             .bytes_loaded = 3000,
	                             .load_busy_ns = 1000,
	                             .load_p99_ns = 1500,
	                             .seconds = 1.25};

	(void)state;
	phase.drops[DSR_REASON_NO_SLOT] = 3;
	phase.missed[REPLAY_ABORTED] = 2;
	json_t *root = print(&phase, NULL);
	json_t *p = json_array_get(json_object_get(root, "phases"), 0);

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!json_object_get(p, keys[i]))
			fail_msg("%s is missing", keys[i]);
	assert_int_equal(json_integer_value(json_object_get(p, "requests")), 5);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(p, "hit_tokens"), "l1")), 77);
	assert_true(json_real_value(json_object_get(p, "load_GBps")) == 3.0);
	assert_true(json_real_value(json_object_get(p, "store_GBps")) == 0.0);
	assert_true(json_real_value(json_object_get(json_object_get(p, "load_us"), "p99")) == 1.5);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(p, "drops"), "no_slot")), 3);
	assert_int_equal(json_object_size(json_object_get(p, "drops")), 1);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(p, "missed_blocks"), "aborted")),
		2);
	assert_true(json_is_null(json_object_get(root, "error")));
	json_decref(root);
}

static void an_early_end_is_said(void **state)
{
	struct replay_phase phase = {.name = "warm", .hung = 1};
	json_t *root = print(&phase, "hung");

	(void)state;
	assert_string_equal(json_string_value(json_object_get(root, "error")), "hung");
	json_decref(root);
}

static void the_table_has_a_column_for_each_phase(void **state)
{
	struct replay_phase phases[2] = {{.name = "cold", .prompt_tokens = 1234567},
	                                 {.name = "warm", .prompt_tokens = 12}};
	struct replay_settings settings;
	char *text = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);

	(void)state;
	phases[0].drops[DSR_REASON_NO_SLOT] = 3;
	settings_for(&settings);
	replay_phases_table(file, &settings, phases, 2);
	(void)fclose(file);
	assert_non_null(strstr(text, "          cold          warm\n"));
	assert_non_null(strstr(text, "     1,234,567            12\n"));
	assert_non_null(strstr(text, "cold: 3 blocks not stored: no_slot\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_of_all_samples),
		cmocka_unit_test(the_json_has_the_fixed_keys),
		cmocka_unit_test(an_early_end_is_said),
		cmocka_unit_test(the_table_has_a_column_for_each_phase),
	};

	return cmocka_run_group_tests_name("replay_phase", tests, NULL, NULL);
}

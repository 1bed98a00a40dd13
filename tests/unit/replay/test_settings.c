/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "settings.h"

#define ARGS_MAX 16

enum {
#define REPLAY_SETTING(field, flag, TYPE, def, accepted, help) FLAG_##field,
#include "settings.def"
#undef REPLAY_SETTING
	FLAGS
};

/* Parses a line of flags separated by spaces. */
static int parse(const char *line, struct replay_settings *settings, char *why)
{
	static char text[512]; /* values are borrowed */
	char *argv[ARGS_MAX + 1] = {(char *)(uintptr_t) "daser-replay"};
	char *rest = NULL;
	int argc = 1;

	(void)snprintf(text, sizeof(text), "%s", line);
	for (char *p = strtok_r(text, " ", &rest); p && argc < ARGS_MAX;
	     p = strtok_r(NULL, " ", &rest))
		argv[argc++] = p;
	why[0] = '\0';
	return replay_settings_parse(settings, argc, argv, why, 256);
}

static void defaults_are_those_of_the_table(void **state)
{
	struct replay_settings s;
	char why[256];

	(void)state;
	assert_int_equal(parse("", &s, why), 0);
	assert_string_equal(s.workload, "multiturn");
	assert_int_equal(s.token_budget, 8192);
	assert_int_equal(s.block_bytes, 32768);
	assert_int_equal(s.phase_count, 3);
	assert_string_equal(s.phase_names[1], "drain");
	assert_int_equal(s.wait_us, 300);
	assert_int_equal(s.save_deadline_ms, 1000);
	assert_int_equal(s.worker_fd, -1);
	assert_false(s.settle);
}

static void values_are_taken(void **state)
{
	struct replay_settings s;
	char why[256];

	(void)state;
	assert_int_equal(parse("--trace x --tp 8 --block-bytes=1.5MiB --abort-rate .25 --settle "
	                       "--phases warm,warm --seed 18446744073709551615",
	                       &s, why),
	                 0);
	assert_string_equal(s.workload, "trace");
	assert_int_equal(s.tp, 8);
	assert_int_equal(s.block_bytes, 1572864);
	assert_true(s.abort_rate == 0.25);
	assert_int_equal(s.phase_count, 2);
	assert_true(s.seed == UINT64_MAX);
	/* who settles has time */
	assert_int_equal(s.wait_us, 1000000);
	assert_int_equal(s.save_deadline_ms, 30000);
}

static void a_bad_value_is_refused_with_what_is_accepted(void **state)
{
	static const struct {
		const char *line, *why[3];
	} cases[] = {
		{"--tp 0", {"--tp", "`0`", "1..64"}},
		{"--tp 65", {"--tp", "`65`", "1..64"}},
		{"--tp two", {"--tp", "`two`", "1..64"}},
		{"--tp -1", {"--tp", "`-1`", "1..64"}},
		{"--tp 1x", {"--tp", "`1x`", "1..64"}},
		{"--seed 18446744073709551616", {"--seed", "18446744073709551616", "0.."}},
		{"--abort-rate 1.5", {"--abort-rate", "1.5", "0..1"}},
		{"--preempt-rate 0.6", {"--preempt-rate", "0.6", "0..0.5"}},
		{"--abort-rate nan", {"--abort-rate", "nan", "0..1"}},
		{"--block-bytes 4GiBB", {"--block-bytes", "4GiBB", "8..1GiB"}},
		{"--block-bytes 2GiB", {"--block-bytes", "2GiB", "8..1GiB"}},
		{"--block-bytes 12", {"--block-bytes", "12", "multiple of 8"}},
		{"--layout layer --layers 3 --block-bytes 64",
	         {"--block-bytes", "64", "multiple of 48"}},
		{"--layout rows", {"--layout", "rows", "block|layer"}},
		{"--layout bloc", {"--layout", "bloc", "block|layer"}},
		{"--phases cold,hot", {"--phases", "hot", "drain"}},
		{"--phases cold,", {"--phases", "cold,", "warm"}},
		{"--workload trace", {"--workload trace", "--trace", "FILE"}},
		{"--workload prefix --trace x", {"--trace", "x", "prefix"}},
		{"--trace x --block-tokens 100", {"--block-tokens", "100", "512"}},
		{"--lookup-wait 2000000", {"--lookup-wait", "2000000", "1000000"}},
		{"--nonsense", {"--nonsense", "no such flag", "--help"}},
		{"--tp", {"--tp", "needs", "value"}},
		{"--json=1", {"--json=1", "no such flag", "value"}},
		{"word", {"word", "flags", "--help"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct replay_settings s;
		char why[256];

		if (parse(cases[i].line, &s, why) != -EINVAL)
			fail_msg("`%s` was taken", cases[i].line);
		for (size_t j = 0; j < 3; j++)
			if (!strstr(why, cases[i].why[j]))
				fail_msg("`%s`: `%s` does not say `%s`", cases[i].line, why,
				         cases[i].why[j]);
	}
}

static void generated_workloads_take_any_block(void **state)
{
	struct replay_settings s;
	char why[256];

	(void)state;
	assert_int_equal(parse("--block-tokens 100", &s, why), 0);
	assert_int_equal(parse("--trace x --block-tokens 1024", &s, why), 0);
}

static void the_config_names_every_flag(void **state)
{
	struct replay_settings s;
	char why[256];

	(void)state;
	assert_int_equal(parse("--trace \xff --tp 2", &s, why), 0);
	json_t *config = replay_settings_json(&s);

	assert_non_null(config);
	assert_int_equal(json_integer_value(json_object_get(config, "tp")), 2);
	assert_non_null(json_object_get(config, "trace"));
	assert_int_equal(json_object_size(config), FLAGS);
	json_decref(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_table),
		cmocka_unit_test(values_are_taken),
		cmocka_unit_test(a_bad_value_is_refused_with_what_is_accepted),
		cmocka_unit_test(generated_workloads_take_any_block),
		cmocka_unit_test(the_config_names_every_flag),
	};

	return cmocka_run_group_tests_name("replay_settings", tests, NULL, NULL);
}

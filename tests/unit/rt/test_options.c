/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <inttypes.h>

#include "rt_test.h"

static char why[512];

static void defaults_are_those_of_the_table(void **state)
{
	struct dsr_options o;
	const struct dsr_option_info *info;
	char text[DSR_OPTION_TEXT_MAX];
	unsigned i;

	(void)state;
	dsr_options_init(&o);
	assert_string_equal(o.run_dir, "");
	assert_true(o.l1_size == 0);
	assert_true(o.staging_ceiling == UINT64_C(6144) << 20);
	assert_true(o.lease_ttl_ms == 30000);
	assert_true(o.lookup_wait_us == 300);
	assert_string_equal(o.metrics_listen, "127.0.0.1:9400");
	assert_int_equal(o.log_level, 2);
	for (i = 0; (info = dsr_option_info(i)); i++) {
		struct dsr_options again = o;

		/* Its text is what its parser takes. */
		assert_int_equal(dsr_options_text(&o, i, text, sizeof(text)), 0);
		assert_int_equal(dsr_options_set(&again, info->key, text, why, sizeof(why)), 0);
		assert_memory_equal(&o, &again, sizeof(o));
	}
	assert_int_equal(dsr_options_text(&o, i, text, sizeof(text)), -ENOENT);
}

static void every_setting_has_a_flag_of_the_same_name(void **state)
{
	const struct dsr_option_info *info;
	unsigned i;

	(void)state;
	for (i = 0; (info = dsr_option_info(i)); i++) {
		size_t k;

		assert_int_equal(strlen(info->flag), strlen(info->key));
		for (k = 0; info->key[k]; k++)
			assert_true(info->flag[k] == info->key[k] ||
			            (info->flag[k] == '-' && strchr("._", info->key[k])));
		assert_non_null(info->help);
		assert_non_null(info->accepted);
	}
	assert_true(i > 10);
}

static void values_of_every_type_are_set(void **state)
{
	struct dsr_options o;
	char text[64];

	(void)state;
	dsr_options_init(&o);
	assert_int_equal(dsr_options_set(&o, "l1.size", "1.5GiB", why, sizeof(why)), 0);
	assert_true(o.l1_size == UINT64_C(1536) << 20);
	assert_int_equal(dsr_options_set(&o, "l1-size", "auto", why, sizeof(why)), 0);
	assert_true(o.l1_size == 0);
	assert_int_equal(dsr_options_set(&o, "log.level", "debug", why, sizeof(why)), 0);
	assert_int_equal(o.log_level, 3);
	assert_int_equal(dsr_options_set(&o, "l1.hugepages", "2MiB", why, sizeof(why)), 0);
	assert_int_equal(o.l1_hugepages, 1);
	assert_int_equal(dsr_options_set(&o, "lease-ttl-ms", "100", why, sizeof(why)), 0);
	assert_true(o.lease_ttl_ms == 100);
	assert_int_equal(dsr_options_set(&o, "l2.dirs", "/a,/b", why, sizeof(why)), 0);
	assert_string_equal(o.l2_dirs, "/a,/b");
	assert_int_equal(dsr_options_set(&o, "metrics.listen", "", why, sizeof(why)), 0);
	assert_int_equal(dsr_options_set(&o, "metrics.listen", "127.0.0.1:0", why, sizeof(why)), 0);
	assert_int_equal(dsr_options_text(&o, 1, text, sizeof(text)), 0);
	assert_string_equal(text, "debug");
	assert_int_equal(dsr_options_text(&o, 1, text, 3), -E2BIG);
}

static void bad_values_are_named_and_change_nothing(void **state)
{
	static const struct {
		const char *key, *value, *why;
	} cases[] = {
		{"l1.size", "12q", "l1.size: value `12q`, expected 1MiB..64TiB or auto"},
		{"l1-size", "1KiB", "l1.size: value `1KiB`, expected 1MiB..64TiB or auto"},
		{"l1.size", "-1MiB", "l1.size: value `-1MiB`, expected 1MiB..64TiB or auto"},
		{"l2.size", "auto", "l2.size: value `auto`, expected 0..1024TiB"},
		{"log.level", "loud", "log.level: value `loud`, expected error|warn|info|debug"},
		{"log.level", "", "log.level: value ``, expected error|warn|info|debug"},
		{"log.level", "err", "log.level: value `err`, expected error|warn|info|debug"},
		{"lease.ttl_ms", "99", "lease.ttl_ms: value `99`, expected 100..3600000"},
		{"lease.ttl_ms", "1s", "lease.ttl_ms: value `1s`, expected 100..3600000"},
		{"lookup.wait_us", "99999999999999999999",
	         "lookup.wait_us: value `99999999999999999999`, expected 0..1000000"},
		{"metrics.listen", "0.0.0.0:80",
	         "metrics.listen: value `0.0.0.0:80`, expected 127.0.0.1:port"},
		{"metrics.listen", "127.0.0.1:65536",
	         "metrics.listen: value `127.0.0.1:65536`, expected 127.0.0.1:port"},
		{"run_dir", "a\nb", "run_dir: value `a\nb`, expected path"},
	};
	struct dsr_options o;
	struct dsr_options before;
	size_t i;

	(void)state;
	dsr_options_init(&o);
	before = o;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(
			dsr_options_set(&o, cases[i].key, cases[i].value, why, sizeof(why)),
			-EINVAL);
		assert_string_equal(why, cases[i].why);
	}
	assert_int_equal(dsr_options_set(&o, "l1.sise", "1GiB", why, sizeof(why)), -ENOENT);
	assert_string_equal(why, "no setting `l1.sise`");
	assert_int_equal(dsr_options_set(&o, "l1_size", "1GiB", why, sizeof(why)), -ENOENT);
	assert_memory_equal(&o, &before, sizeof(o));
}

static void a_text_that_is_too_long_is_refused(void **state)
{
	static char text[DSR_OPTION_TEXT_MAX + 1];
	struct dsr_options o;

	(void)state;
	memset(text, 'x', DSR_OPTION_TEXT_MAX);
	dsr_options_init(&o);
	assert_int_equal(dsr_options_set(&o, "l2.dirs", text, why, sizeof(why)), -EINVAL);
	text[DSR_OPTION_TEXT_MAX - 1] = '\0';
	assert_int_equal(dsr_options_set(&o, "l2.dirs", text, why, sizeof(why)), 0);
}

static void flags_are_taken_and_the_rest_stays_in_order(void **state)
{
	char a0[] = "prog";
	char a1[] = "--l1-size=2GiB";
	char a2[] = "status";
	char a3[] = "--log-level";
	char a4[] = "warn";
	char a5[] = "--other=1";
	char a6[] = "-v";
	char a7[] = "--";
	char a8[] = "--l1-size=3GiB";
	char *argv[] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, NULL};
	int argc = 9;
	struct dsr_options o;

	(void)state;
	dsr_options_init(&o);
	assert_int_equal(dsr_options_parse(&o, &argc, argv, why, sizeof(why)), 0);
	assert_true(o.l1_size == UINT64_C(2) << 30);
	assert_int_equal(o.log_level, 1);
	assert_int_equal(argc, 6);
	assert_ptr_equal(argv[0], a0);
	assert_ptr_equal(argv[1], a2);
	assert_ptr_equal(argv[2], a5);
	assert_ptr_equal(argv[3], a6);
	assert_ptr_equal(argv[4], a7);
	assert_ptr_equal(argv[5], a8);
	assert_null(argv[6]);
}

static void a_flag_without_a_value_or_with_a_bad_one_is_an_error(void **state)
{
	char a0[] = "prog";
	char a1[] = "--l1-size";
	char bad[] = "--l1-size=x";
	char *argv[] = {a0, a1, NULL};
	int argc = 2;
	struct dsr_options o;

	(void)state;
	dsr_options_init(&o);
	assert_int_equal(dsr_options_parse(&o, &argc, argv, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "--l1-size: a value is missing");
	argv[1] = bad;
	assert_int_equal(dsr_options_parse(&o, &argc, argv, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "l1.size: value `x`"));
}

static void keys_are_no_flags(void **state)
{
	char a0[] = "prog";
	char a1[] = "--l1.size=2GiB";
	char *argv[] = {a0, a1, NULL};
	int argc = 2;
	struct dsr_options o;

	(void)state;
	dsr_options_init(&o);
	assert_int_equal(dsr_options_parse(&o, &argc, argv, why, sizeof(why)), 0);
	assert_int_equal(argc, 2);
	assert_true(o.l1_size == 0);
}

static void sizes_are_parsed(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"4096", 4096},
		{"1KiB", 1024},
		{"64MiB", UINT64_C(64) << 20},
		{"1.5GiB", UINT64_C(3) << 29},
		{"0.1KiB", 102},
		{"1.123456789TiB", UINT64_C(1235253802809)},
		{"18446744073709551615", UINT64_MAX},
		{"16777215TiB", UINT64_C(16777215) << 40},
	};
	static const char *const bad[] = {"",
	                                  "x",
	                                  "-1",
	                                  "+1",
	                                  "1 KiB",
	                                  "1KB",
	                                  "1k",
	                                  "1.KiB",
	                                  ".5KiB",
	                                  "1.5",
	                                  "1.5.5KiB",
	                                  "0x10",
	                                  "1KiBx",
	                                  "18446744073709551616",
	                                  "1e3",
	                                  "16777216TiB",
	                                  "1.1234567891KiB"};
	uint64_t bytes = 7;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(dsr_parse_size(bad[i], &bytes), -EINVAL);
		assert_true(bytes == 7);
	}
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(dsr_parse_size(good[i].text, &bytes), 0);
		assert_true(bytes == good[i].bytes);
	}
}

static void sizes_are_written_for_people(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0"},
		{1023, "1023"},
		{1024, "1KiB"},
		{UINT64_C(64) << 20, "64MiB"},
		{UINT64_C(6144) << 20, "6GiB"},
		{UINT64_C(3) << 29, "1.5GiB"},
		{(UINT64_C(31) << 30) + 300000000, "31.3GiB"},
	};
	char text[32];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		dsr_format_size(cases[i].bytes, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
}

static void the_run_dir_comes_from_the_environment(void **state)
{
	struct dsr_options o;
	char fallback[64];

	(void)state;
	dsr_options_init(&o);
	(void)setenv("DASER_RUN_DIR", "/x/run", 1);
	(void)setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	assert_int_equal(dsr_options_resolve_run_dir(&o, why, sizeof(why)), 0);
	assert_string_equal(o.run_dir, "/x/run");
	assert_int_equal(dsr_options_resolve_run_dir(&o, why, sizeof(why)), 0);
	o.run_dir[0] = '\0';
	(void)unsetenv("DASER_RUN_DIR");
	assert_int_equal(dsr_options_resolve_run_dir(&o, why, sizeof(why)), 0);
	assert_string_equal(o.run_dir, "/run/user/7/daser");
	o.run_dir[0] = '\0';
	(void)unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(dsr_options_resolve_run_dir(&o, why, sizeof(why)), 0);
	(void)snprintf(fallback, sizeof(fallback), "/tmp/daser-%u", (unsigned)getuid());
	assert_string_equal(o.run_dir, fallback);
}

static void auto_is_resolved_and_fits(void **state)
{
	struct dsr_options o;

	(void)state;
	dsr_options_init(&o);
	assert_int_equal(dsr_options_resolve(&o, why, sizeof(why)), 0);
	assert_true(o.l1_size >= UINT64_C(2) << 20);
	assert_true(o.l1_size % (UINT64_C(2) << 20) == 0);
}

static void a_size_that_does_not_fit_is_refused_with_the_numbers(void **state)
{
	struct dsr_options o;

	(void)state;
	dsr_options_init(&o);
	assert_int_equal(dsr_options_set(&o, "l1.size", "64TiB", why, sizeof(why)), 0);
	assert_int_equal(dsr_options_resolve(&o, why, sizeof(why)), -ENOMEM);
	assert_non_null(strstr(why, "l1.size: 64TiB does not fit, MemAvailable is "));
	assert_non_null(strstr(why, "the cgroup's headroom "));
}

static void l2_needs_directories(void **state)
{
	struct dsr_options o;

	(void)state;
	dsr_options_init(&o);
	assert_int_equal(dsr_options_set(&o, "l2.size", "10GiB", why, sizeof(why)), 0);
	assert_int_equal(dsr_options_resolve(&o, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "l2.size: 10GiB needs l2.dirs, which is empty");
	assert_int_equal(dsr_options_set(&o, "l2.dirs", "/x", why, sizeof(why)), 0);
	assert_int_equal(dsr_options_resolve(&o, why, sizeof(why)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_table),
		cmocka_unit_test(every_setting_has_a_flag_of_the_same_name),
		cmocka_unit_test(values_of_every_type_are_set),
		cmocka_unit_test(bad_values_are_named_and_change_nothing),
		cmocka_unit_test(a_text_that_is_too_long_is_refused),
		cmocka_unit_test(flags_are_taken_and_the_rest_stays_in_order),
		cmocka_unit_test(a_flag_without_a_value_or_with_a_bad_one_is_an_error),
		cmocka_unit_test(keys_are_no_flags),
		cmocka_unit_test(sizes_are_parsed),
		cmocka_unit_test(sizes_are_written_for_people),
		cmocka_unit_test(the_run_dir_comes_from_the_environment),
		cmocka_unit_test(auto_is_resolved_and_fits),
		cmocka_unit_test(a_size_that_does_not_fit_is_refused_with_the_numbers),
		cmocka_unit_test(l2_needs_directories),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}

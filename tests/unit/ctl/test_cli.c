/* SPDX-License-Identifier: Apache-2.0 */
/* The command line without an instance: usage, help, config, layout, and that nothing runs. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_call.h"
#include "ctl_test.h"
#include "errors.h"

static const char *const verbs[] = {"status", "requests", "entries", "send",   "tap",
                                    "drain",  "reset",    "fault",   "config", "layout"};
#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

static void expect(const char *line, int status, const char *part)
{
	struct cli_call call = cli_expect(line, status, part);

	cli_call_done(&call);
}

static void usage_errors_name_what_is_wrong(void **state)
{
	static const struct {
		const char *line, *part;
	} bad[] = {
		{"", "no verb given"},
		{"--json", "no verb given"},
		{"nonsense", "unknown verb `nonsense`"},
		{"--nonsense", "unknown flag `--nonsense`"},
		{"status --nonsense", "unknown flag `--nonsense` of status"},
		{"status --nonsense=1", "unknown flag `--nonsense` of status"},
		{"status --json=1", "--json takes no value, got `1`"},
		{"status --run-dir", "--run-dir needs a value: DIR"},
		{"status words", "status takes `no words`"},
		{"status --limit 3", "unknown flag `--limit` of status"},
		{"requests --limit", "--limit needs a value: N"},
		{"requests --limit -1", "--limit `-1` is not a number from 0 to 4294967295"},
		{"requests --limit=4294967296", "--limit `4294967296`"},
		{"requests --limit 1x", "--limit `1x`"},
		{"requests --limit=", "--limit ``"},
		{"requests --limit 99999999999999999999", "--limit `99999999999999999999`"},
		{"entries --state nonsense", "--state `nonsense`: expected free"},
		{"send scheduler", "send takes `ROLE[-DEVICE] MESSAGE"},
		{"send scheduler nonsense", "no message is called `nonsense`"},
		{"send scheduler ping token=x", "field `token` got `x`"},
		{"send scheduler ping nonsense", "`nonsense` is no FIELD=VALUE of ping"},
		{"send scheduler ping_reply", "`ping_reply` is no request"},
		{"send scheduler segment", "`segment` is no request"},
		{"send scheduler hello", "`hello` opens every connection by itself"},
		{"fault", "fault takes ROLE[-DEVICE] SPEC"},
		{"fault scheduler", "fault takes ROLE[-DEVICE] SPEC"},
		{"fault --list scheduler", "fault takes"},
		{"fault --list --disarm", "fault takes"},
		{"fault --disarm scheduler kill", "fault takes"},
		{"fault a b c", "fault takes"},
		{"drain --timeout 3600001", "--timeout `3600001`"},
		{"tap --count 1x", "--count `1x`"},
		{"config --nonsense=1", "`--nonsense=1` is no setting"},
		{"config nonsense", "`nonsense` is no setting"},
		{"config --l1-size=nonsense", "l1.size"},
		{"config --l1-size", "l1-size"},
		{"config --l1-size=1", "1MiB..64TiB"},
		{"config --l1-size=64TiB", "does not fit"},
		{"config --log-level=loud", "error|warn|info|debug"},
		{"config --l2-size=1GiB", "l2.dirs"},
		{"config --metrics-listen=0.0.0.0:1", "metrics.listen"},
		{"config --lease-ttl-ms=99", "100..3600000"},
		{"layout words", "layout takes"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++)
		expect(bad[i].line, DSR_CTL_USAGE, bad[i].part);
}

static void help_is_given_for_everything(void **state)
{
	struct cli_call call = cli_expect("--help", DSR_CTL_OK, NULL);
	char line[64];

	(void)state;
	for (size_t i = 0; i < COUNT(verbs); i++) {
		snprintf(line, sizeof(line), "\n  %s ", verbs[i]);
		assert_non_null(strstr(call.out, line));
	}
	cli_call_done(&call);
	for (size_t i = 0; i < COUNT(verbs); i++) {
		snprintf(line, sizeof(line), "%s --help", verbs[i]);
		call = cli_expect(line, DSR_CTL_OK, NULL);
		snprintf(line, sizeof(line), "usage: daserctl %s", verbs[i]);
		assert_non_null(strstr(call.out, line));
		assert_non_null(strstr(call.out, "--json"));
		cli_call_done(&call);
	}
	call = cli_expect("send --help", DSR_CTL_OK, NULL);
	assert_non_null(strstr(call.out, "  lookup (scheduler): "));
	assert_null(strstr(call.out, "lookup_reply"));
	cli_call_done(&call);
	call = cli_expect("config --help", DSR_CTL_OK, NULL);
	assert_non_null(strstr(call.out, "--l1-size "));
	cli_call_done(&call);
	call = cli_expect("--version", DSR_CTL_OK, NULL);
	assert_int_equal(strncmp(call.out, "daserctl ", 9), 0);
	cli_call_done(&call);
}

static void nothing_running_is_exit_status_3(void **state)
{
	static const char *const lines[] = {
		"status",
		"requests",
		"entries",
		"tap",
		"drain",
		"reset",
		"send scheduler ping",
		"fault scheduler sched_before_reply:kill",
		"fault --disarm",
	};
	char empty[] = "/tmp/dsr-ctl-XXXXXX", line[160];

	(void)state;
	assert_non_null(mkdtemp(empty));
	for (size_t i = 0; i < COUNT(lines); i++) {
		snprintf(line, sizeof(line), "--run-dir %s %s", empty, lines[i]);
		expect(line, DSR_CTL_NOT_RUNNING, empty);
		snprintf(line, sizeof(line), "%s --run-dir=/nonexistent/dir", lines[i]);
		expect(line, DSR_CTL_NOT_RUNNING, "no instance is running in `/nonexistent/dir`");
	}
	assert_int_equal(setenv("DASER_RUN_DIR", empty, 1), 0);
	expect("status --json", DSR_CTL_NOT_RUNNING, empty);
	assert_int_equal(unsetenv("DASER_RUN_DIR"), 0);
	assert_int_equal(rmdir(empty), 0);
}

static void a_run_directory_open_to_others_is_refused(void **state)
{
	char open_dir[] = "/tmp/dsr-ctl-XXXXXX", line[160];

	(void)state;
	assert_non_null(mkdtemp(open_dir));
	assert_int_equal(chmod(open_dir, 0755), 0);
	snprintf(line, sizeof(line), "--run-dir %s status", open_dir);
	expect(line, DSR_CTL_FAILED, "open to others");
	assert_int_equal(rmdir(open_dir), 0);
}

static const char *option_of(const struct cli_call *call, const char *key)
{
	const char *text =
		json_string_value(json_object_get(json_object_get(call->json, "options"), key));

	assert_non_null(text);
	return text;
}

static void config_prints_effective_settings(void **state)
{
	struct cli_call call = cli_expect("config --json --l1-size=4MiB --log-level warn "
	                                  "--run-dir=/run/x --l2-dirs=/a,/b --l2-size=1GiB",
	                                  DSR_CTL_OK, NULL);

	(void)state;
	assert_int_equal(
		strncmp(call.out, "{\"schema\":1,\"options\":{\"run_dir\":\"/run/x\",", 42), 0);
	assert_string_equal(option_of(&call, "l1.size"), "4194304");
	assert_string_equal(option_of(&call, "log.level"), "warn");
	assert_string_equal(option_of(&call, "l2.dirs"), "/a,/b");
	assert_string_equal(option_of(&call, "metrics.listen"), "127.0.0.1:9400");
	assert_true(json_is_false(json_object_get(json_object_get(call.json, "l1"), "auto")));
	cli_call_done(&call);
	call = cli_expect("--run-dir /run/y config --l1-size=4MiB", DSR_CTL_OK, NULL);
	assert_non_null(strstr(call.out, "/run/y"));
	assert_non_null(strstr(call.out, "4MiB"));
	assert_non_null(strstr(call.out, "MemAvailable"));
	cli_call_done(&call);
}

static void config_chooses_l1_from_the_machine(void **state)
{
	struct cli_call call = cli_expect("config --json", DSR_CTL_OK, NULL);
	const json_t *l1 = json_object_get(call.json, "l1");
	unsigned long long size = strtoull(option_of(&call, "l1.size"), NULL, 10);

	(void)state;
	assert_true(json_is_true(json_object_get(l1, "auto")));
	assert_true(size > 0);
	assert_true(size <=
	            (unsigned long long)json_integer_value(json_object_get(l1, "mem_available")));
	assert_non_null(json_object_get(l1, "cgroup_headroom"));
	cli_call_done(&call);
}

static void layout_and_fault_points_need_no_instance(void **state)
{
	struct cli_call call = cli_expect("layout", DSR_CTL_OK, NULL);

	(void)state;
	assert_non_null(json_object_get(call.json, "actor_row"));
	cli_call_done(&call);
	call = cli_expect("fault --list --json", DSR_CTL_OK, NULL);
	assert_true(json_array_size(json_object_get(call.json, "faults")) > 0);
	cli_call_done(&call);
	call = cli_expect("fault --list", DSR_CTL_OK, NULL);
	assert_non_null(strstr(call.out, "sched_before_reply"));
	cli_call_done(&call);
}

static void a_result_that_cannot_be_written_is_a_failure(void **state)
{
	char program[] = "daserctl", verb[] = "layout";
	char *argv[] = {program, verb, NULL};
	FILE *full = fopen("/dev/full", "we"), *err = fopen("/dev/null", "we");

	(void)state;
	assert_non_null(full);
	assert_non_null(err);
	assert_int_equal(dsr_cli_main(2, argv, full, err), DSR_CTL_FAILED);
	fclose(full);
	fclose(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usage_errors_name_what_is_wrong),
		cmocka_unit_test(help_is_given_for_everything),
		cmocka_unit_test(nothing_running_is_exit_status_3),
		cmocka_unit_test(a_run_directory_open_to_others_is_refused),
		cmocka_unit_test(config_prints_effective_settings),
		cmocka_unit_test(config_chooses_l1_from_the_machine),
		cmocka_unit_test(layout_and_fault_points_need_no_instance),
		cmocka_unit_test(a_result_that_cannot_be_written_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

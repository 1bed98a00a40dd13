/* SPDX-License-Identifier: Apache-2.0 */
#include "exposition.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "ctl_test.h"

static struct dsr_exposition shown_of(const struct test_instance *t)
{
	return (struct dsr_exposition){.control = &t->control,
	                               .geometry = t->geometry.slots != 0 ? &t->geometry : NULL,
	                               .now_ns = TEST_NOW_NS,
	                               .is_alive = test_is_alive};
}

/* Freed by the caller. */
static char *metrics_of(const struct test_instance *t)
{
	struct dsr_exposition shown = shown_of(t);
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(dsr_exposition_metrics(out, &shown), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

static json_t *health_of(const struct test_instance *t, bool *ret_is_good)
{
	struct dsr_exposition shown = shown_of(t);
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	json_t *json;

	assert_non_null(out);
	assert_int_equal(dsr_exposition_health(out, &shown, ret_is_good), 0);
	assert_int_equal(fclose(out), 0);
	json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(json);
	free(text);
	return json;
}

static size_t count_of(const char *text, const char *part)
{
	size_t count = 0;

	for (text = strstr(text, part); text != NULL; text = strstr(text + 1, part))
		count++;
	return count;
}

static void metrics_have_their_golden_text(void **state)
{
	char *text;

	test_fill(*state);
	text = metrics_of(*state);
	test_golden_text("metrics.txt", text);
	free(text);
}

static void metrics_of_nothing_are_whole(void **state)
{
	char *text = metrics_of(*state);

	assert_non_null(strstr(text, "\ndaser_up 0\n"));
	assert_non_null(strstr(text, "\ndaser_l1_bytes_capacity 0\n"));
	assert_int_equal(count_of(text, "daser_actor_progress_age_seconds{"), 0);
	free(text);
}

static void every_counter_has_one_line_and_its_family_one_head(void **state)
{
	char *text = metrics_of(*state);
	char part[256];

	for (unsigned i = 0; i < DSR_COUNTER_COUNT; i++) {
		const struct dsr_counter_info *info = dsr_counter_info(i);

		snprintf(part, sizeof(part), "\n# TYPE %s counter\n", info->metric);
		assert_int_equal(count_of(text, part), 1);
		snprintf(part, sizeof(part), "\n# HELP %s ", info->metric);
		assert_int_equal(count_of(text, part), 1);
		if (i == DSR_COUNTER_RESTARTS)
			continue;
		snprintf(part, sizeof(part), "\n%s%s%s%s ", info->metric,
		         info->labels[0] != '\0' ? "{" : "", info->labels,
		         info->labels[0] != '\0' ? "}" : "");
		assert_int_equal(count_of(text, part), 1);
	}
	free(text);
}

static void counters_are_sums_over_pages_and_survive_their_owner(void **state)
{
	struct test_instance *t = *state;
	char *text;

	dsr_counter_add(&t->control.counters[0], DSR_COUNTER_L1_HITS, 5);
	dsr_counter_add(&t->control.counters[100], DSR_COUNTER_L1_HITS, 7);
	dsr_counters_retire(&t->control, 100);
	text = metrics_of(t);
	assert_non_null(strstr(text, "\ndaser_l1_hits_total 12\n"));
	free(text);
}

static void a_stopped_actor_has_restarts_but_no_age(void **state)
{
	struct test_instance *t = *state;
	char *text;

	test_fill(t);
	test_set_row(t, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_STOPPED, 60000);
	test_set_row(t, 3, DSR_ROLE_STORE, "host:0", DSR_ACTOR_STOPPED, 60000);
	text = metrics_of(t);
	assert_non_null(strstr(text, "daser_actor_restarts_total{actor=\"load-host:0\"} 2\n"));
	assert_null(strstr(text, "daser_actor_progress_age_seconds{actor=\"load-host:0\"}"));
	assert_non_null(
		strstr(text, "daser_actor_progress_age_seconds{actor=\"scheduler\"} 0.012\n"));
	assert_non_null(strstr(text, "\ndaser_up 1\n"));
	free(text);
}

static void health_of_a_good_instance_is_ok(void **state)
{
	bool is_good = false;
	json_t *json;

	test_fill(*state);
	json = health_of(*state, &is_good);
	assert_true(is_good);
	test_golden_indented("health.json", json);
	json_decref(json);
}

static void health_lists_what_is_down(void **state)
{
	struct test_instance *t = *state;
	bool is_good = true;
	json_t *json;

	test_fill(t);
	test_set_row(t, 0, DSR_ROLE_SCHEDULER, "", DSR_ACTOR_READY, 4000);
	t->control.rows[3].pid = TEST_GONE_PID;
	json = health_of(t, &is_good);
	assert_false(is_good);
	test_golden_indented("health_degraded.json", json);
	json_decref(json);
}

static void a_full_disk_is_told(void **state)
{
	struct dsr_exposition shown = shown_of(*state);
	FILE *full = fopen("/dev/full", "we");
	bool is_good;

	assert_non_null(full);
	setbuf(full, NULL);
	assert_true(dsr_exposition_metrics(full, &shown) < 0);
	assert_true(dsr_exposition_health(full, &shown, &is_good) < 0);
	fclose(full);
}

#define TEST(name)                                                                                 \
	cmocka_unit_test_setup_teardown(name, test_instance_set_up, test_instance_tear_down)

/* With an argument: writes the metrics of the golden instance, for promtool. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(metrics_have_their_golden_text),
		TEST(metrics_of_nothing_are_whole),
		TEST(every_counter_has_one_line_and_its_family_one_head),
		TEST(counters_are_sums_over_pages_and_survive_their_owner),
		TEST(a_stopped_actor_has_restarts_but_no_age),
		TEST(health_of_a_good_instance_is_ok),
		TEST(health_lists_what_is_down),
		TEST(a_full_disk_is_told),
	};

	if (argc == 2 && strcmp(argv[1], "--print") == 0) {
		struct test_instance *t;
		struct dsr_exposition shown;
		void *state;

		if (test_instance_set_up(&state) != 0)
			return 1;
		t = state;
		test_fill(t);
		shown = shown_of(t);
		return dsr_exposition_metrics(stdout, &shown) < 0 ||
		       test_instance_tear_down(&state) != 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

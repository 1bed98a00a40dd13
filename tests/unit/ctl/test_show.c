/* SPDX-License-Identifier: Apache-2.0 */
/* status, layout and config: the JSON, and what people see. */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "ctl_test.h"
#include "layout_json.h"
#include "status.h"

static json_t *status_of(const struct test_instance *t, bool *ret_is_good)
{
	struct dsr_status status = {.control = &t->control,
	                            .geometry = t->geometry.slots != 0 ? &t->geometry : NULL,
	                            .pool_epoch = 3,
	                            .run_dir = "/run/daser",
	                            .metrics_port = 9400,
	                            .now_ns = TEST_NOW_NS,
	                            .is_alive = test_is_alive};

	return dsr_status_json(&status, ret_is_good);
}

static void golden_print(const char *name, int (*print)(const json_t *, FILE *), json_t *json)
{
	char *text = test_print(print, json);

	test_golden_text(name, text);
	free(text);
	json_decref(json);
}

static void status_of_a_good_instance(void **state)
{
	bool is_good = false;

	test_fill(*state);
	test_golden_json("status.json", status_of(*state, &is_good));
	assert_true(is_good);
	golden_print("status.txt", dsr_status_print, status_of(*state, &is_good));
}

static void status_of_a_degraded_instance(void **state)
{
	struct test_instance *t = *state;
	bool is_good = true;

	test_set_row(t, 0, DSR_ROLE_SCHEDULER, "", DSR_ACTOR_READY, 5000);
	test_set_row(t, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_STARTING, 1);
	test_golden_json("status_degraded.json", status_of(t, &is_good));
	assert_false(is_good);
	golden_print("status_degraded.txt", dsr_status_print, status_of(t, &is_good));
}

static void status_without_a_control_segment(void **state)
{
	struct dsr_status status = {.run_dir = "/run/daser"};
	bool is_good = true;

	(void)state;
	test_golden_json("status_empty.json", dsr_status_json(&status, &is_good));
	assert_false(is_good);
	golden_print("status_empty.txt", dsr_status_print, dsr_status_json(&status, &is_good));
}

static void layout_of_this_build(void **state)
{
	(void)state;
	test_golden_json("layout.json", dsr_layout_json());
}

/* Follows the offsets as a reader without the headers would. */
static void layout_leads_to_the_actor_rows(void **state)
{
	struct test_instance *t = *state;
	const uint8_t *base = t->control.segment.base;
	json_t *layout = dsr_layout_json();
	json_int_t sections_off, section_size, section_count, kind, kind_off, off_off, row, pid;
	uint64_t at = 0, rows_at = 0;
	uint32_t found = 0;
	int32_t read_pid;

	assert_non_null(layout);
	test_fill(t);
	assert_int_equal(json_unpack(layout,
	                             "{s:{s:I, s:I}, s:{s:I, s:I, s:I}, s:{s:I}, s:{s:I, s:I}}",
	                             "header", "sections_off", &sections_off, "section_count",
	                             &section_count, "section", "size", &section_size, "kind",
	                             &kind_off, "off", &off_off, "sections", "actors", &kind,
	                             "actor_row", "size", &row, "pid", &pid),
	                 0);
	memcpy(&at, base + sections_off, sizeof(at));
	memcpy(&found, base + section_count, sizeof(found));
	for (uint32_t i = 0; i < found; i++) {
		const uint8_t *section = base + at + i * (uint64_t)section_size;
		uint32_t its_kind;

		memcpy(&its_kind, section + kind_off, sizeof(its_kind));
		if (its_kind == kind)
			memcpy(&rows_at, section + off_off, sizeof(rows_at));
	}
	assert_true(rows_at != 0);
	memcpy(&read_pid, base + rows_at + 3 * (uint64_t)row + (uint64_t)pid, sizeof(read_pid));
	assert_int_equal(read_pid, 5003);
	json_decref(layout);
}

static void config_with_every_setting(void **state)
{
	struct dsr_options *options = calloc(1, sizeof(*options));
	struct dsr_memory memory = {.available = UINT64_C(8) << 30, .headroom = UINT64_MAX};
	char why[256];

	(void)state;
	assert_non_null(options);
	dsr_options_init(options);
	assert_int_equal(dsr_options_set(options, "run_dir", "/run/daser", why, sizeof(why)), 0);
	assert_int_equal(dsr_options_set(options, "l1-size", "2GiB", why, sizeof(why)), 0);
	test_golden_json("config.json", dsr_config_json(options, true, &memory));
	memory.headroom = UINT64_C(3) << 30;
	golden_print("config.txt", dsr_config_print, dsr_config_json(options, false, &memory));
	free(options);
}

#define TEST(name)                                                                                 \
	cmocka_unit_test_setup_teardown(name, test_instance_set_up, test_instance_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(status_of_a_good_instance),        TEST(status_of_a_degraded_instance),
		TEST(status_without_a_control_segment), TEST(layout_of_this_build),
		TEST(layout_leads_to_the_actor_rows),   TEST(config_with_every_setting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

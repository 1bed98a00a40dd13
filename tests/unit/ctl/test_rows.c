/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl_test.h"
#include "entry_table.h"
#include "records.h"

static void golden_print(const char *name, int (*print)(const json_t *, FILE *), json_t *json)
{
	char *text = test_print(print, json);

	test_golden_text(name, text);
	free(text);
	json_decref(json);
}

static void requests_newest_first(void **state)
{
	struct test_instance *t = *state;
	json_t *json;

	test_fill(t);
	test_golden_json("requests.json", dsr_rows_requests(&t->control, 0));
	golden_print("requests.txt", dsr_rows_print_requests, dsr_rows_requests(&t->control, 2));
	json = dsr_rows_requests(&t->control, 1);
	assert_int_equal(json_array_size(json_object_get(json, "requests")), 1);
	json_decref(json);
}

static void requests_with_foreign_bytes_are_still_json(void **state)
{
	struct test_instance *t = *state;
	struct dsr_record record = {.op = 99, .status = 99, .reasons = UINT32_MAX};
	const json_t *shown;
	json_t *json;
	char *text;

	memset(record.request, 0xff, sizeof(record.request));
	record.request[0] = '\n';
	dsr_records_append(&t->control, &record);
	json = dsr_rows_requests(&t->control, 0);
	assert_non_null(json);
	shown = json_array_get(json_object_get(json, "requests"), 0);
	assert_string_equal(json_string_value(json_object_get(shown, "op")), "?");
	assert_string_equal(json_string_value(json_object_get(shown, "status")), "?");
	assert_int_equal(strlen(json_string_value(json_object_get(shown, "request"))),
	                 sizeof(record.request) - 1);
	assert_int_equal(json_array_size(json_object_get(shown, "reasons")), DSR_REASON_COUNT);
	text = test_print(dsr_rows_print_requests, json);
	for (const char *c = text; *c != '\0'; c++)
		assert_true(*c == '\n' || (*c >= ' ' && *c < 0x7f));
	free(text);
	json_decref(json);
}

static void entries_that_are_not_free(void **state)
{
	struct test_instance *t = *state;
	struct dsr_rows_filter filter = {.fd = -1};

	test_fill(t);
	test_golden_json("entries.json", dsr_rows_entries(&t->control, &filter));
	filter.limit = 2;
	golden_print("entries.txt", dsr_rows_print_entries, dsr_rows_entries(&t->control, &filter));
}

static size_t count_entries(const struct test_instance *t, const char *state_name, int fd)
{
	struct dsr_rows_filter filter = {.fd = fd, .has_state = state_name != NULL};
	json_t *json;
	size_t count;

	if (state_name != NULL)
		assert_int_equal(dsr_rows_parse_state(state_name, &filter.state), 0);
	json = dsr_rows_entries(&t->control, &filter);
	assert_non_null(json);
	count = json_array_size(json_object_get(json, "entries"));
	json_decref(json);
	return count;
}

static void entries_of_one_state(void **state)
{
	struct test_instance *t = *state;
	uint32_t unused;

	test_fill(t);
	assert_int_equal(count_entries(t, "visible", -1), 2);
	assert_int_equal(count_entries(t, "reserved", -1), 1);
	assert_int_equal(count_entries(t, "aborting", -1), 1);
	assert_int_equal(count_entries(t, "free", -1), TEST_ENTRIES - 4);
	assert_int_equal(count_entries(t, NULL, t->fd), 4);
	assert_true(dsr_rows_parse_state("nonsense", &unused) < 0);
}

static void entries_being_written_are_counted_and_not_shown(void **state)
{
	struct test_instance *t = *state;
	struct dsr_rows_filter filter = {.fd = -1};
	json_t *json;

	test_fill(t);
	dsr_entry_write_begin(&t->control.entries[2]);
	json = dsr_rows_entries(&t->control, &filter);
	assert_int_equal(json_integer_value(json_object_get(json, "unreadable")), 1);
	assert_int_equal(json_array_size(json_object_get(json, "entries")), 3);
	json_decref(json);
}

static void looking_at_a_sparse_table_allocates_nothing(void **state)
{
	struct test_instance big = {0};
	struct dsr_rows_filter filter = {0};
	struct stat before, after;
	json_t *json;

	(void)state;
	big.fd = dsr_control_create(1 << 20);
	assert_true(big.fd >= 0);
	assert_int_equal(dsr_control_attach(big.fd, true, &big.control, NULL, 0), 0);
	test_fill(&big);
	dsr_entry_write_begin(&big.control.entries[999999]);
	big.control.entries[999999].state = DSR_ENTRY_VISIBLE;
	dsr_entry_write_end(&big.control.entries[999999]);
	assert_int_equal(fstat(big.fd, &before), 0);
	filter.fd = big.fd;
	json = dsr_rows_entries(&big.control, &filter);
	assert_int_equal(json_array_size(json_object_get(json, "entries")), 5);
	json_decref(json);
	assert_int_equal(fstat(big.fd, &after), 0);
	assert_true(after.st_blocks <= before.st_blocks + 16);
	dsr_control_detach(&big.control);
	close(big.fd);
}

#define TEST(name)                                                                                 \
	cmocka_unit_test_setup_teardown(name, test_instance_set_up, test_instance_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests_newest_first),
		TEST(requests_with_foreign_bytes_are_still_json),
		TEST(entries_that_are_not_free),
		TEST(entries_of_one_state),
		TEST(entries_being_written_are_counted_and_not_shown),
		TEST(looking_at_a_sparse_table_allocates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

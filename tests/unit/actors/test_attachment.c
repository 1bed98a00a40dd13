/* SPDX-License-Identifier: Apache-2.0 */
#include "attachment.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define STR(text)                                                                                  \
	{                                                                                          \
		.p = (text), .n = (uint32_t)strlen(text)                                           \
	}

static struct dsr_msg_attach good(void)
{
	return (struct dsr_msg_attach){
		.engine = STR("engine-0"),
		.rank = 3,
		.lane = 1,
		.pool_epoch = 7,
		.object = STR("staging/1f/load"),
		.buffer_bytes = 1 << 20,
		.buffers = 4,
		.canary = 5,
		.canary_bytes = 4096,
	};
}

static void assert_refused(const struct dsr_msg_attach *m, const char *text)
{
	struct dsr_attachment_spec spec;
	char why[256] = "";

	memset(&spec, 0x55, sizeof(spec));
	assert_int_equal(dsr_attachment_parse(m, &spec, why, sizeof(why)), -EINVAL);
	if (strstr(why, text) == NULL)
		fail_msg("`%s` does not name `%s`", why, text);
	assert_int_equal(spec.buffers, 0x55555555);
}

static void a_good_attach_is_copied(void **state)
{
	struct dsr_msg_attach m = good();
	struct dsr_attachment_spec spec;
	char why[256] = "";

	(void)state;
	m.offset = 4096;
	assert_int_equal(dsr_attachment_parse(&m, &spec, why, sizeof(why)), 0);
	assert_string_equal(spec.engine, "engine-0");
	assert_string_equal(spec.object, "staging/1f/load");
	assert_int_equal(spec.handle_bytes, 0);
	assert_int_equal(spec.rank, 3);
	assert_int_equal(spec.lane, 1);
	assert_int_equal(spec.offset, 4096);
	assert_int_equal(spec.buffers, 4);
	assert_int_equal(spec.pool_epoch, 7);
}

static void a_handle_may_stand_for_the_object(void **state)
{
	static const uint8_t handle[DSR_DEVICE_HANDLE_MAX + 1] = {9, 8};
	struct dsr_msg_attach m = good();
	struct dsr_attachment_spec spec;
	char why[256] = "";

	(void)state;
	m.handle = (struct dsr_bin){.p = handle, .n = DSR_DEVICE_HANDLE_MAX};
	assert_refused(&m, "handle");
	m.object.n = 0;
	assert_int_equal(dsr_attachment_parse(&m, &spec, why, sizeof(why)), 0);
	assert_memory_equal(spec.handle, handle, DSR_DEVICE_HANDLE_MAX);
	m.handle.n = DSR_DEVICE_HANDLE_MAX + 1;
	assert_refused(&m, "handle");
	m.handle.n = 0;
	assert_refused(&m, "handle");
}

static void other_objects_than_staging_are_refused(void **state)
{
	static const char *const names[] = {"control", "pool/7", "staging", "xstaging/1/load"};
	struct dsr_msg_attach m = good();

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		m.object = (struct dsr_str)STR(names[i]);
		assert_refused(&m, names[i]);
	}
}

static void names_that_do_not_fit_are_refused(void **state)
{
	char text[DSR_ATTACHMENT_NAME_MAX + 1];
	struct dsr_msg_attach m = good();

	(void)state;
	memset(text, 'x', sizeof(text));
	m.engine = (struct dsr_str){.p = text, .n = DSR_ATTACHMENT_NAME_MAX};
	assert_refused(&m, "engine");
	m = good();
	memcpy(text, "staging/", 8);
	m.object = (struct dsr_str){.p = text, .n = DSR_ATTACHMENT_NAME_MAX};
	assert_refused(&m, "object");
	m.object = (struct dsr_str){.p = "staging/\0a", .n = 10};
	assert_refused(&m, "object");
}

static void sizes_out_of_range_are_refused(void **state)
{
	struct dsr_msg_attach m = good();

	(void)state;
	m.buffers = 0;
	assert_refused(&m, "buffers 0");
	m.buffers = DSR_ATTACHMENT_BUFFERS_MAX + 1;
	assert_refused(&m, "buffers 257");
	m = good();
	m.buffer_bytes = 0;
	assert_refused(&m, "buffers of 0 bytes");
	m.buffer_bytes = UINT64_MAX / 2;
	assert_refused(&m, "bytes in all");
	m = good();
	m.offset = UINT64_MAX - 4096;
	assert_refused(&m, "bytes in all");
	m.offset = DSR_ATTACHMENT_BYTES_MAX;
	assert_refused(&m, "bytes in all");
	m = good();
	m.canary_bytes = 0;
	assert_refused(&m, "canary_bytes 0");
	m.canary_bytes = DSR_ATTACHMENT_CANARY_MAX + 1;
	assert_refused(&m, "canary_bytes 65537");
	m.canary_bytes = 4096;
	m.buffer_bytes = 4095;
	assert_refused(&m, "canary_bytes 4096");
}

static void lane_and_slot_must_fit_the_pool(void **state)
{
	struct dsr_pool_geometry geometry = {.lanes = 2, .slot_bytes = 1 << 20};
	struct dsr_msg_attach m = good();
	struct dsr_attachment_spec spec;
	char why[256] = "";

	(void)state;
	assert_int_equal(dsr_attachment_parse(&m, &spec, why, sizeof(why)), 0);
	assert_int_equal(dsr_attachment_fits(&spec, &geometry, why, sizeof(why)), 0);
	spec.lane = 2;
	assert_int_equal(dsr_attachment_fits(&spec, &geometry, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "lane 2"));
	spec.lane = 0;
	geometry.slot_bytes++;
	assert_int_equal(dsr_attachment_fits(&spec, &geometry, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "1048577"));
}

static void a_lending_is_taken_once_and_in_order(void **state)
{
	struct dsr_attachment_buffer buffers[2] = {0};
	struct dsr_attachment a = {.spec.buffers = 2, .buffers = buffers};
	struct dsr_job *job = NULL;

	(void)state;
	assert_int_equal(dsr_attachment_lend(&a, 2, 1, &job), -ENOENT);
	assert_int_equal(dsr_attachment_lend(&a, 0, 0, &job), -ESTALE);
	assert_null(job);
	assert_int_equal(dsr_attachment_lend(&a, 0, 5, &job), 0);
	assert_ptr_equal(job, &buffers[0].job);
	assert_int_equal(dsr_attachment_lend(&a, 0, 5, &job), -ESTALE);
	assert_int_equal(dsr_attachment_lend(&a, 0, 4, &job), -ESTALE);
	/* Each buffer counts for itself. */
	assert_int_equal(dsr_attachment_lend(&a, 1, 1, &job), 0);
	assert_ptr_equal(job, &buffers[1].job);
	assert_int_equal(dsr_attachment_lend(&a, 0, UINT64_MAX, &job), 0);
	assert_int_equal(dsr_attachment_lend(&a, 0, UINT64_MAX, &job), -ESTALE);
}

static void a_buffer_is_not_lent_twice_at_a_time(void **state)
{
	struct dsr_attachment_buffer buffers[1] = {0};
	struct dsr_attachment a = {.spec.buffers = 1, .buffers = buffers};
	struct dsr_job *job = NULL;

	(void)state;
	buffers[0].job.is_live = true;
	assert_int_equal(dsr_attachment_lend(&a, 0, 1, &job), -EINVAL);
	assert_null(job);
	buffers[0].job.is_live = false;
	/* The refused number is spent: what was sent with it never runs. */
	assert_int_equal(dsr_attachment_lend(&a, 0, 1, &job), -ESTALE);
	assert_int_equal(dsr_attachment_lend(&a, 0, 2, &job), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_attach_is_copied),
		cmocka_unit_test(a_handle_may_stand_for_the_object),
		cmocka_unit_test(other_objects_than_staging_are_refused),
		cmocka_unit_test(names_that_do_not_fit_are_refused),
		cmocka_unit_test(sizes_out_of_range_are_refused),
		cmocka_unit_test(lane_and_slot_must_fit_the_pool),
		cmocka_unit_test(a_lending_is_taken_once_and_in_order),
		cmocka_unit_test(a_buffer_is_not_lent_twice_at_a_time),
	};

	return cmocka_run_group_tests_name("attachment", tests, NULL, NULL);
}

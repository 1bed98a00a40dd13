/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms, busy time, and the times of a record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "blocks.h"
#include "stats.h"

static void percentiles_are_within_three_percent(void **state)
{
	struct dsr_histogram *h = calloc(1, sizeof(*h));
	uint64_t p50, p99;

	(void)state;
	assert_non_null(h);
	for (uint64_t i = 1; i <= 100000; i++)
		dsr_histogram_add(h, i * 17);
	p50 = dsr_histogram_percentile(h, 50);
	p99 = dsr_histogram_percentile(h, 99);
	assert_in_range(p50, 850000 * 97 / 100, 850000 * 103 / 100);
	assert_in_range(p99, 1683000 * 97 / 100, 1683000 * 103 / 100);
	assert_in_range(dsr_histogram_percentile(h, 100), 1700000 * 97 / 100, 1700000 * 103 / 100);
	free(h);
}

static void every_value_falls_into_a_bucket_around_it(void **state)
{
	struct dsr_histogram h;

	(void)state;
	for (unsigned shift = 0; shift < 64; shift++) {
		for (int step = -1; step <= 1; step++) {
			uint64_t value = (UINT64_C(1) << shift) + (uint64_t)step;

			memset(&h, 0, sizeof(h));
			dsr_histogram_add(&h, value);
			assert_in_range(dsr_histogram_percentile(&h, 50), value - value / 30,
			                value > UINT64_MAX - value / 30 ? UINT64_MAX
			                                                : value + value / 30);
		}
	}
}

static void an_empty_histogram_says_zero(void **state)
{
	struct dsr_histogram h = {0};

	(void)state;
	assert_int_equal(dsr_histogram_percentile(&h, 50), 0);
	assert_int_equal(dsr_histogram_percentile(&h, 99), 0);
}

static void busy_time_counts_overlaps_once(void **state)
{
	struct dsr_busy busy = {0};

	(void)state;
	dsr_busy_begin(&busy, 100);
	dsr_busy_begin(&busy, 150);
	dsr_busy_end(&busy, 200);
	assert_int_equal(dsr_busy_ns(&busy, 300), 200);
	dsr_busy_end(&busy, 400);
	dsr_busy_end(&busy, 900); /* one too many */
	assert_int_equal(dsr_busy_ns(&busy, 1000), 300);
	dsr_busy_begin(&busy, 1000);
	dsr_busy_end(&busy, 1001);
	assert_int_equal(dsr_busy_ns(&busy, 2000), 301);
	assert_int_equal(busy.count_max, 2);
}

static uint64_t parts_of(const struct dsr_record *r)
{
	return r->open_ns + r->wait_ns + r->ipc_ns + r->copy_ns + r->kv_ns + r->sync_ns;
}

static void the_parts_of_a_record_add_up_to_its_total(void **state)
{
	const struct dsr_times plain = {.queued_ns = 1000,
	                                .opened_ns = 1100,
	                                .wait_ns = 200,
	                                .copy_ns = 300,
	                                .kv_ns = 50,
	                                .sync_ns = 20};
	/* Two buffers at once: the actor was busy for longer than the load took. */
	const struct dsr_times overlapping = {.queued_ns = 1000,
	                                      .opened_ns = 1100,
	                                      .wait_ns = 5000,
	                                      .copy_ns = 700,
	                                      .kv_ns = 150,
	                                      .sync_ns = 20};
	const struct dsr_times never_opened = {.queued_ns = 1000};
	struct dsr_record r = {0};

	(void)state;
	dsr_times_record(&plain, 2000, &r);
	assert_int_equal(r.total_ns, 1000);
	assert_int_equal(r.open_ns, 100);
	assert_int_equal(r.wait_ns, 200);
	assert_int_equal(r.copy_ns, 300);
	assert_int_equal(r.ipc_ns, 330);
	assert_int_equal(parts_of(&r), r.total_ns);
	dsr_times_record(&overlapping, 2000, &r);
	assert_int_equal(r.total_ns, 1000);
	assert_int_equal(r.wait_ns, 30);
	assert_int_equal(parts_of(&r), r.total_ns);
	dsr_times_record(&never_opened, 2000, &r);
	assert_int_equal(r.open_ns, 1000);
	assert_int_equal(parts_of(&r), r.total_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_within_three_percent),
		cmocka_unit_test(every_value_falls_into_a_bucket_around_it),
		cmocka_unit_test(an_empty_histogram_says_zero),
		cmocka_unit_test(busy_time_counts_overlaps_once),
		cmocka_unit_test(the_parts_of_a_record_add_up_to_its_total),
	};

	return cmocka_run_group_tests_name("native stats", tests, NULL, NULL);
}

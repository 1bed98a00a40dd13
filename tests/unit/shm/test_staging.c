/* SPDX-License-Identifier: Apache-2.0 */
#include "staging.h"

#include <errno.h>

#include "shm_test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define CEILING (6144 * MIB)

static struct dsr_staging_plan plan(enum dsr_staging_mode mode, uint64_t slot, uint64_t total,
                                    uint64_t free_bytes, uint64_t ceiling)
{
	struct dsr_staging_plan p = {0};
	char why[256] = "";

	if (dsr_staging_plan(mode, slot, total, free_bytes, ceiling, &p, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	return p;
}

static void assert_plan(struct dsr_staging_plan p, enum dsr_staging_mode mode, uint64_t buffer,
                        uint32_t loads, uint32_t stores)
{
	assert_int_equal(p.mode, mode);
	assert_int_equal(p.buffer_bytes, buffer);
	assert_int_equal(p.load_buffers, loads);
	assert_int_equal(p.store_buffers, stores);
}

static uint64_t pool_bytes(struct dsr_staging_plan p)
{
	return p.buffer_bytes * (p.load_buffers + p.store_buffers);
}

/* Two cards of 80 GB, of which a tenth of the free memory is the smaller share. */
static void classic_gives_the_published_run_to_the_byte(void **state)
{
	const uint64_t total = 85899345920;
	struct dsr_staging_plan rank0 =
		plan(DSR_STAGING_CLASSIC, 2359296, total, 11843141639, CEILING);
	struct dsr_staging_plan rank1 =
		plan(DSR_STAGING_CLASSIC, 2359296, total, 12021399550, CEILING);

	(void)state;
	assert_plan(rank0, DSR_STAGING_CLASSIC, 1184314163, 3, 2);
	assert_int_equal(pool_bytes(rank0), 5921570815);
	assert_plan(rank1, DSR_STAGING_CLASSIC, 1202139955, 3, 2);
	assert_int_equal(pool_bytes(rank1), 6010699775);
	/* one byte less is another tenth */
	assert_int_equal(plan(DSR_STAGING_CLASSIC, 1, total, 12021399549, CEILING).buffer_bytes,
	                 1202139954);
}

static void classic_takes_the_smaller_of_a_fiftieth_of_all_and_a_tenth_of_free(void **state)
{
	(void)state;
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 50 * GIB, 50 * GIB, CEILING), DSR_STAGING_CLASSIC,
	            GIB, 4, 2);
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 50 * GIB + 49, 50 * GIB, CEILING),
	            DSR_STAGING_CLASSIC, GIB, 4, 2);
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 50 * GIB + 50, 50 * GIB, CEILING),
	            DSR_STAGING_CLASSIC, GIB + 1, 3, 2);
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 500 * GIB, 10 * GIB, CEILING), DSR_STAGING_CLASSIC,
	            GIB, 4, 2);
}

static void classic_buffers_lie_between_64_and_1536_mib(void **state)
{
	(void)state;
	/* a card of 141 GiB, empty: 2.8 GiB is too much */
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 141 * GIB, 140 * GIB, CEILING),
	            DSR_STAGING_CLASSIC, 1536 * MIB, 2, 2);
	/* a small card: a fiftieth of 2 GiB is too little */
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 2 * GIB, 2 * GIB, CEILING), DSR_STAGING_CLASSIC,
	            64 * MIB, 14, 2);
	/* a slot larger than all of them */
	assert_plan(plan(DSR_STAGING_CLASSIC, 2 * GIB, 141 * GIB, 140 * GIB, CEILING),
	            DSR_STAGING_CLASSIC, 2 * GIB, 2, 1);
}

static void classic_shares_a_small_depth(void **state)
{
	(void)state;
	/* buffers of 1 GiB, and a ceiling for n of them */
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 50 * GIB, 50 * GIB, 2 * GIB), DSR_STAGING_CLASSIC,
	            GIB, 1, 1);
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 50 * GIB, 50 * GIB, 3 * GIB), DSR_STAGING_CLASSIC,
	            GIB, 2, 1);
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 50 * GIB, 50 * GIB, 4 * GIB), DSR_STAGING_CLASSIC,
	            GIB, 2, 2);
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, 50 * GIB, 50 * GIB, 9 * GIB), DSR_STAGING_CLASSIC,
	            GIB, 7, 2);
}

static void little_free_memory_first_takes_depth_then_makes_classic_lean(void **state)
{
	const uint64_t total = 80 * GIB;

	(void)state;
	/* buffers of a tenth of free; free - 1 GiB holds this many of them, below the ceiling */
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, total, 5 * GIB, CEILING), DSR_STAGING_CLASSIC,
	            512 * MIB, 6, 2);
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, total, 2 * GIB, CEILING), DSR_STAGING_CLASSIC,
	            2 * GIB / 10, 3, 2);
	/* 112 MiB: a tenth of free exceeds half of it */
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, total, 1136 * MIB, CEILING), DSR_STAGING_LEAN,
	            16 * MIB, 4, 3);
	assert_plan(plan(DSR_STAGING_CLASSIC, 1, total, 1056 * MIB, CEILING), DSR_STAGING_LEAN,
	            16 * MIB, 1, 1);
}

static void lean_is_4_and_4_buffers_of_16_mib(void **state)
{
	(void)state;
	assert_plan(plan(DSR_STAGING_LEAN, 1, 80 * GIB, 70 * GIB, CEILING), DSR_STAGING_LEAN,
	            16 * MIB, 4, 4);
	assert_plan(plan(DSR_STAGING_LEAN, 16 * MIB, 80 * GIB, 70 * GIB, CEILING), DSR_STAGING_LEAN,
	            16 * MIB, 4, 4);
	assert_plan(plan(DSR_STAGING_LEAN, 16 * MIB + 1, 80 * GIB, 70 * GIB, CEILING),
	            DSR_STAGING_LEAN, 16 * MIB + 1, 4, 4);
	assert_plan(plan(DSR_STAGING_LEAN, 2 * GIB, 80 * GIB, 70 * GIB, CEILING), DSR_STAGING_LEAN,
	            2 * GIB, 2, 1);
}

/* By turns, a store buffer first. */
static void lean_shrinks_by_turns(void **state)
{
	static const uint32_t order[][2] = {{4, 4}, {4, 3}, {3, 3}, {3, 2}, {2, 2}, {2, 1}, {1, 1}};
	uint64_t budget = 128 * MIB;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(order); i++, budget -= 16 * MIB) {
		assert_plan(plan(DSR_STAGING_LEAN, 1, 80 * GIB, 70 * GIB, budget), DSR_STAGING_LEAN,
		            16 * MIB, order[i][0], order[i][1]);
		assert_plan(plan(DSR_STAGING_LEAN, 1, 80 * GIB, GIB + budget, CEILING),
		            DSR_STAGING_LEAN, 16 * MIB, order[i][0], order[i][1]);
		assert_plan(plan(DSR_STAGING_LEAN, 1, 80 * GIB, 70 * GIB, budget + 16 * MIB - 1),
		            DSR_STAGING_LEAN, 16 * MIB, order[i][0], order[i][1]);
	}
}

static void assert_too_big(enum dsr_staging_mode mode, uint64_t slot, uint64_t free_bytes,
                           uint64_t ceiling)
{
	struct dsr_staging_plan p = {.load_buffers = 77};
	char why[256] = "", number[32];

	assert_int_equal(
		dsr_staging_plan(mode, slot, 80 * GIB, free_bytes, ceiling, &p, why, sizeof(why)),
		-E2BIG);
	assert_int_equal(p.load_buffers, 77);
	(void)snprintf(number, sizeof(number), "ceiling %llu", (unsigned long long)ceiling);
	assert_non_null(strstr(why, number));
	(void)snprintf(number, sizeof(number), "free %llu", (unsigned long long)free_bytes);
	assert_non_null(strstr(why, number));
}

static void what_does_not_fit_is_refused_with_the_numbers(void **state)
{
	(void)state;
	for (int mode = DSR_STAGING_LEAN; mode <= DSR_STAGING_CLASSIC; mode++) {
		enum dsr_staging_mode m = (enum dsr_staging_mode)mode;

		/* slots above half the budget */
		assert_too_big(m, CEILING / 2 + 1, 70 * GIB, CEILING);
		assert_too_big(m, UINT64_MAX, 70 * GIB, CEILING);
		assert_too_big(m, GIB + 1, 3 * GIB, CEILING);
		/* no memory */
		assert_too_big(m, 1, 0, CEILING);
		assert_too_big(m, 1, GIB, CEILING);
		assert_too_big(m, 1, GIB + 1, CEILING);
		assert_too_big(m, 1, 70 * GIB, 0);
		/* not two buffers */
		assert_too_big(m, 1, GIB + 32 * MIB - 1, CEILING);
		assert_too_big(m, 1, 70 * GIB, 32 * MIB - 1);
	}
	assert_plan(plan(DSR_STAGING_CLASSIC, CEILING / 2, 80 * GIB, 70 * GIB, CEILING),
	            DSR_STAGING_CLASSIC, CEILING / 2, 1, 1);
	assert_plan(plan(DSR_STAGING_LEAN, GIB, 80 * GIB, 3 * GIB, CEILING), DSR_STAGING_LEAN, GIB,
	            1, 1);
}

static void no_slot_and_no_mode_are_invalid(void **state)
{
	struct dsr_staging_plan p;
	char why[128];

	(void)state;
	assert_int_equal(dsr_staging_plan(DSR_STAGING_LEAN, 0, GIB, GIB, GIB, &p, why, sizeof(why)),
	                 -EINVAL);
	assert_non_null(strstr(why, "slot"));
	assert_int_equal(
		dsr_staging_plan((enum dsr_staging_mode)2, 1, GIB, GIB, GIB, &p, why, sizeof(why)),
		-EINVAL);
	assert_non_null(strstr(why, "mode 2"));
	assert_int_equal(dsr_staging_plan(DSR_STAGING_LEAN, 0, GIB, GIB, GIB, &p, NULL, 0),
	                 -EINVAL);
}

/* Whatever the numbers: what is planned fits, and both ways have a buffer that holds a slot. */
static void every_plan_fits_its_budget(void **state)
{
	uint64_t random = 8, planned = 0;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		enum dsr_staging_mode mode = (enum dsr_staging_mode)(test_random(&random) % 2);
		uint64_t slot = (test_random(&random) >> (test_random(&random) % 64)) + 1;
		uint64_t total = test_random(&random) >> (test_random(&random) % 64);
		uint64_t free_bytes = test_random(&random) >> (test_random(&random) % 64);
		uint64_t ceiling = test_random(&random) >> (test_random(&random) % 64);
		struct dsr_staging_plan p;

		if (slot == 0 ||
		    dsr_staging_plan(mode, slot, total, free_bytes, ceiling, &p, NULL, 0) != 0)
			continue;
		planned++;
		assert_true(p.load_buffers >= 1 && p.store_buffers >= 1);
		assert_true(p.load_buffers >= p.store_buffers);
		assert_true(p.buffer_bytes >= slot);
		assert_true(p.buffer_bytes <=
		            ceiling / ((uint64_t)p.load_buffers + p.store_buffers));
		assert_true(pool_bytes(p) + GIB <= free_bytes);
	}
	assert_true(planned > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classic_gives_the_published_run_to_the_byte),
		cmocka_unit_test(
			classic_takes_the_smaller_of_a_fiftieth_of_all_and_a_tenth_of_free),
		cmocka_unit_test(classic_buffers_lie_between_64_and_1536_mib),
		cmocka_unit_test(classic_shares_a_small_depth),
		cmocka_unit_test(little_free_memory_first_takes_depth_then_makes_classic_lean),
		cmocka_unit_test(lean_is_4_and_4_buffers_of_16_mib),
		cmocka_unit_test(lean_shrinks_by_turns),
		cmocka_unit_test(what_does_not_fit_is_refused_with_the_numbers),
		cmocka_unit_test(no_slot_and_no_mode_are_invalid),
		cmocka_unit_test(every_plan_fits_its_budget),
	};

	return cmocka_run_group_tests_name("staging", tests, NULL, NULL);
}

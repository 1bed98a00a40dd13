/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"
#include "shm_test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static const uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {1, 2, 3};

static struct dsr_pool_request request_of(uint64_t slot_bytes, uint32_t lanes, uint64_t budget)
{
	return (struct dsr_pool_request){
		.fingerprint = fingerprint,
		.slot_bytes = slot_bytes,
		.budget_bytes = budget,
		.epoch = 5,
		.lanes = lanes,
		.block_tokens = 16,
		.max_slots = 16 << 20,
	};
}

/* All that must hold for any plan. */
static void assert_sound(const struct dsr_pool_request *request, const struct dsr_pool_geometry *g,
                         uint64_t bytes)
{
	uint64_t page = dsr_segment_page_bytes(request->hugepages);

	assert_true(bytes <= request->budget_bytes);
	assert_int_equal(bytes % page, 0);
	assert_true(g->slots >= 1 && g->slots <= request->max_slots);
	assert_int_equal(g->lanes, request->lanes);
	assert_int_equal(g->slot_bytes, request->slot_bytes);
	assert_int_equal(g->slot_stride % DSR_SLOT_ALIGN, 0);
	assert_true(g->slot_stride >= g->slot_bytes &&
	            g->slot_stride < g->slot_bytes + DSR_SLOT_ALIGN);
	assert_true(g->slot_seqs_off >= sizeof(struct dsr_pool_header));
	assert_true(g->digests_off >= g->slot_seqs_off + 8 * (uint64_t)g->slots);
	assert_true(g->lanes_off >= g->digests_off + 8 * (uint64_t)g->slots * g->lanes);
	assert_int_equal(g->digests_off % 4096, 0);
	assert_int_equal(g->slot_seqs_off % 4096, 0);
	assert_int_equal(g->lanes_off % DSR_LANE_ALIGN, 0);
	assert_int_equal(g->lane_stride % DSR_LANE_ALIGN, 0);
	assert_true(g->lane_stride >= g->slot_stride * g->slots);
	assert_true(bytes >= g->lanes_off + g->lane_stride * g->lanes);
	assert_int_equal(g->block_tokens, request->block_tokens);
	assert_memory_equal(g->fingerprint, fingerprint, sizeof(fingerprint));
}

static void plan_fits_tables_and_lanes_into_the_budget(void **state)
{
	static const uint64_t slots[] = {1, 4096, 4097, 65536, 294912, 2359296, 64 * MIB};
	static const uint32_t lanes[] = {1, 2, 3, 8, 64};
	static const uint64_t budgets[] = {4 * MIB, 100 * MIB + 1, 1 * GIB, 37 * GIB, 4096 * GIB};
	struct dsr_pool_geometry g;
	uint64_t bytes, planned = 0;

	(void)state;
	for (size_t s = 0; s < COUNT_OF(slots); s++)
		for (size_t l = 0; l < COUNT_OF(lanes); l++)
			for (size_t b = 0; b < COUNT_OF(budgets); b++) {
				struct dsr_pool_request r =
					request_of(slots[s], lanes[l], budgets[b]);
				int rc = dsr_pool_plan(&r, &g, &bytes, NULL, 0);

				if (rc == -ENOSPC) {
					assert_true(slots[s] * lanes[l] + 2 * MIB * lanes[l] +
					                    2 * MIB >
					            budgets[b]);
					continue;
				}
				assert_int_equal(rc, 0);
				assert_sound(&r, &g, bytes);
				planned++;
			}
	assert_true(planned > 100);
}

static void plan_wastes_less_than_a_slot_and_a_border_in_each_lane(void **state)
{
	struct dsr_pool_request r = request_of(2359296, 8, 64 * GIB);
	struct dsr_pool_geometry g;
	uint64_t bytes;

	(void)state;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), 0);
	assert_sound(&r, &g, bytes);
	assert_true(r.budget_bytes - (uint64_t)g.slots * g.slot_stride * g.lanes <
	            8 * (2359296 + 2 * MIB) + 4 * MIB);
	assert_int_equal(g.slots, 3640);
}

static void plan_is_capped_by_max_slots(void **state)
{
	struct dsr_pool_request r = request_of(4096, 2, GIB);
	struct dsr_pool_geometry g;
	uint64_t bytes;

	(void)state;
	r.max_slots = 1000;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), 0);
	assert_sound(&r, &g, bytes);
	assert_int_equal(g.slots, 1000);
	assert_int_equal(bytes, 2 * MIB + 2 * 4 * MIB);
	r.max_slots = 1;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), 0);
	assert_int_equal(g.slots, 1);
	assert_int_equal(bytes, 6 * MIB);
}

static void plan_needs_room_for_one_slot_and_says_how_much(void **state)
{
	struct dsr_pool_request r = request_of(3 * MIB, 2, 10 * MIB - 1);
	struct dsr_pool_geometry g = {.slots = 77};
	uint64_t bytes = 88;
	char why[256] = "";

	(void)state;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, why, sizeof(why)), -ENOSPC);
	assert_non_null(strstr(why, "10485759"));
	assert_non_null(strstr(why, "10485760"));
	assert_non_null(strstr(why, "3145728"));
	assert_int_equal(g.slots, 77);
	assert_int_equal(bytes, 88);
	r.budget_bytes = 10 * MIB;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), 0);
	assert_int_equal(g.slots, 1);
	r.budget_bytes = 0;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), -ENOSPC);
}

static void plan_refuses_numbers_out_of_range_by_name(void **state)
{
	struct dsr_pool_geometry g;
	uint64_t bytes;
	char why[256];
	struct dsr_pool_request r = request_of(4096, 0, GIB);

	(void)state;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "lanes 0"));
	r.lanes = 65;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "lanes 65"));
	r = request_of(0, 1, GIB);
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "slot_bytes 0"));
	r = request_of((UINT64_C(1) << 40) + 1, 1, UINT64_MAX);
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "slot_bytes 1099511627777"));
	r = request_of(UINT64_MAX, 64, UINT64_MAX);
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, why, sizeof(why)), -EINVAL);
	r = request_of(4096, 1, GIB);
	r.max_slots = 0;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "max_slots 0"));
	r.max_slots = DSR_SLOT_NONE;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, why, sizeof(why)), -EINVAL);
	r = request_of(4096, 1, GIB);
	r.hugepages = (enum dsr_hugepages)7;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "hugepages 7"));
}

static void plan_of_the_largest_numbers_does_not_overflow(void **state)
{
	struct dsr_pool_request r = request_of(UINT64_C(1) << 40, 64, UINT64_MAX);
	struct dsr_pool_geometry g;
	uint64_t bytes;

	(void)state;
	r.max_slots = DSR_SLOT_NONE - 1;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), 0);
	assert_sound(&r, &g, bytes);
	assert_true(bytes <= INT64_MAX);
	assert_int_equal(g.slots, 131071);
}

static void plan_with_huge_pages_ends_on_one_inside_the_budget(void **state)
{
	struct dsr_pool_request r = request_of(4096, 2, 5 * GIB + 123);
	struct dsr_pool_geometry g;
	uint64_t bytes;

	(void)state;
	r.hugepages = DSR_HUGEPAGES_1G;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), 0);
	assert_sound(&r, &g, bytes);
	assert_int_equal(bytes, 5 * GIB);
	r.budget_bytes = GIB - 1;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), -ENOSPC);
	r.hugepages = DSR_HUGEPAGES_2M;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), 0);
	assert_sound(&r, &g, bytes);
}

struct fixture {
	int fd;
	struct dsr_pool pool;
	struct dsr_pool_header *header;
	char why[256];
};

static int set_up(void **state)
{
	struct fixture *f = test_calloc(1, sizeof(*f));
	struct dsr_pool_request r = request_of(5000, 3, 64 * MIB);

	*state = f;
	r.max_slots = 100;
	f->fd = dsr_pool_create(&r, f->why, sizeof(f->why));
	assert_true(f->fd >= 0);
	assert_int_equal(dsr_pool_attach(f->fd, &f->pool, f->why, sizeof(f->why)), 0);
	f->header = f->pool.segment.base;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dsr_pool_detach(&f->pool);
	assert_null(f->pool.geometry);
	dsr_pool_detach(&f->pool);
	dsr_pool_detach(NULL);
	(void)close(f->fd);
	test_free(f);
	return 0;
}

static void a_created_pool_is_what_was_planned(void **state)
{
	struct fixture *f = *state;
	struct dsr_pool_request r = request_of(5000, 3, 64 * MIB);
	struct dsr_pool_geometry g;
	uint64_t bytes;

	r.max_slots = 100;
	assert_int_equal(dsr_pool_plan(&r, &g, &bytes, NULL, 0), 0);
	assert_int_equal(f->pool.segment.bytes, bytes);
	assert_memory_equal(f->pool.geometry, &g, sizeof(g));
	assert_int_equal(f->pool.epoch, 5);
	assert_int_equal(g.slots, 100);
}

static void a_new_pool_takes_no_memory(void **state)
{
	struct dsr_pool_request r = request_of(MIB, 2, 16 * GIB);
	int fd = dsr_pool_create(&r, NULL, 0);
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true((uint64_t)st.st_blocks * 512 <= 2 * MIB);
	(void)close(fd);
}

static void slots_and_digests_lie_apart_and_inside(void **state)
{
	struct fixture *f = *state;
	const uint8_t *base = f->pool.segment.base, *end = base + f->pool.segment.bytes;
	const uint8_t *last = (const uint8_t *)(uintptr_t)(f->pool.slot_seqs + 100);

	for (uint32_t lane = 0; lane < 3; lane++)
		for (uint32_t slot = 0; slot < 100; slot++) {
			const uint8_t *digest =
				(const uint8_t *)(uintptr_t)dsr_pool_digest(&f->pool, lane, slot);

			assert_true(digest >= last && digest + 8 <= end);
			assert_true(slot > 0 || (uintptr_t)digest % 64 == 0);
			last = digest + 8;
		}
	for (uint32_t lane = 0; lane < 3; lane++)
		for (uint32_t slot = 0; slot < 100; slot++) {
			uint8_t *at = dsr_pool_slot(&f->pool, lane, slot);

			assert_true(at >= last && at + 5000 <= end);
			assert_int_equal((uintptr_t)at % 4096, 0);
			assert_true(slot > 0 || (uint64_t)(at - base) % DSR_LANE_ALIGN == 0);
			memset(at, (int)(lane * 100 + slot), 5000);
			last = at + 5000;
		}
	assert_int_equal(*(uint8_t *)dsr_pool_slot(&f->pool, 2, 55), 255);
}

static void slots_out_of_range_have_no_address(void **state)
{
	struct fixture *f = *state;

	assert_null(dsr_pool_slot(&f->pool, 3, 0));
	assert_null(dsr_pool_slot(&f->pool, 0, 100));
	assert_null(dsr_pool_slot(&f->pool, UINT32_MAX, UINT32_MAX));
	assert_null(dsr_pool_slot(&f->pool, 0, DSR_SLOT_NONE));
	assert_null(dsr_pool_digest(&f->pool, 3, 0));
	assert_null(dsr_pool_digest(&f->pool, 0, 100));
	assert_null(dsr_pool_digest(&f->pool, UINT32_MAX, UINT32_MAX));
}

static void a_geometry_damaged_after_the_attach_gives_no_address_outside(void **state)
{
	struct fixture *f = *state;
	const uint8_t *base = f->pool.segment.base, *end = base + f->pool.segment.bytes;
	struct dsr_pool_geometry good = f->header->geometry;
	uint64_t seed = 3, none = 0;

	for (int i = 0; i < 20000; i++) {
		uint8_t *bytes = (uint8_t *)&f->header->geometry;
		uint32_t lane = (uint32_t)test_random(&seed) % 3;
		uint32_t slot = (uint32_t)test_random(&seed) % 100;
		uint8_t *at;
		uint8_t *digest;

		bytes[32 + test_random(&seed) % 64] = (uint8_t)test_random(&seed);
		at = dsr_pool_slot(&f->pool, lane, slot);
		digest = (uint8_t *)(uintptr_t)dsr_pool_digest(&f->pool, lane, slot);
		none += at == NULL;
		assert_true(at == NULL || (at >= base && at <= end));
		assert_true(digest == NULL || (digest >= base && digest + 8 <= end));
		if (i % 8 == 0)
			f->header->geometry = good;
	}
	f->header->geometry = good;
	assert_true(none > 0);
}

static void assert_attach_refused(struct fixture *f, const char *text)
{
	struct dsr_pool pool;
	size_t maps = test_count_maps();

	assert_int_equal(dsr_pool_attach(f->fd, &pool, f->why, sizeof(f->why)), -EPROTONOSUPPORT);
	if (strstr(f->why, text) == NULL)
		fail_msg("`%s` does not say `%s`", f->why, text);
	assert_int_equal(test_count_maps(), maps);
}

static void attach_refuses_a_geometry_that_is_not_sound(void **state)
{
	struct fixture *f = *state;
	struct dsr_pool_geometry *g = &f->header->geometry, good = *g;
	struct dsr_pool pool;

#define REFUSED(field, value, text)                                                                \
	g->field = (value);                                                                        \
	assert_attach_refused(f, text);                                                            \
	*g = good
	REFUSED(lanes, 0, "lanes 0");
	REFUSED(lanes, 65, "lanes 65");
	REFUSED(lanes, 64, "64 lanes");
	REFUSED(slots, 0, "max_slots 0");
	REFUSED(slots, 1 << 30, "1073741824 slots");
	REFUSED(slots, UINT32_MAX, "max_slots 4294967295");
	REFUSED(slot_bytes, 0, "slot_bytes 0");
	REFUSED(slot_bytes, UINT64_MAX, "slot_bytes 18446744073709551615");
	REFUSED(slot_bytes, UINT64_C(1) << 40, "slots of 1099511627776 bytes");
	REFUSED(slot_stride, 4096, "slot_stride 4096");
	REFUSED(lane_stride, good.lane_stride - 1, "lane_stride");
	REFUSED(lanes_off, good.lanes_off + 4096, "lanes_off");
	REFUSED(digests_off, good.digests_off + 8, "digests_off");
	REFUSED(slot_seqs_off, 0, "slot_seqs_off");
	REFUSED(payload, 1, "payload 1");
#undef REFUSED
	assert_int_equal(dsr_pool_attach(f->fd, &pool, NULL, 0), 0);
	dsr_pool_detach(&pool);
}

static void attach_refuses_a_pool_without_a_geometry(void **state)
{
	struct fixture *f = *state;
	struct dsr_section *sections = (struct dsr_section *)(f->header + 1);

	assert_int_equal(sections[0].kind, DSR_SECTION_GEOMETRY);
	sections[0].kind = 999;
	assert_attach_refused(f, "section kind 19");
}

static void attach_refuses_a_control_segment(void **state)
{
	struct fixture *f = *state;
	struct dsr_pool pool;
	int fd = dsr_control_create(1);

	assert_int_equal(dsr_pool_attach(fd, &pool, f->why, sizeof(f->why)), -EPROTONOSUPPORT);
	assert_non_null(strstr(f->why, "magic"));
	(void)close(fd);
	assert_int_equal(dsr_pool_attach(-1, &pool, f->why, sizeof(f->why)), -EBADF);
	assert_non_null(strstr(f->why, "descriptor -1"));
}

static void create_says_what_does_not_fit(void **state)
{
	struct fixture *f = *state;
	struct dsr_pool_request r = request_of(4096, 1, UINT64_C(1) << 45);
	size_t fds = test_count_fds();

	r.hugepages = DSR_HUGEPAGES_2M;
	r.slot_bytes = UINT64_C(1) << 39;
	assert_int_equal(dsr_pool_create(&r, f->why, sizeof(f->why)), -ENOMEM);
	assert_non_null(strstr(f->why, "pages of 2097152"));
	r.budget_bytes = 4096;
	assert_int_equal(dsr_pool_create(&r, f->why, sizeof(f->why)), -ENOSPC);
	assert_int_equal(test_count_fds(), fds);
}

static void attach_and_detach_leave_nothing(void **state)
{
	struct fixture *f = *state;
	size_t fds = test_count_fds(), maps = test_count_maps();
	struct dsr_pool pool;

	for (int i = 0; i < 20; i++) {
		assert_int_equal(dsr_pool_attach(f->fd, &pool, NULL, 0), 0);
		dsr_pool_detach(&pool);
	}
	assert_int_equal(test_count_fds(), fds);
	assert_int_equal(test_count_maps(), maps);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plan_fits_tables_and_lanes_into_the_budget),
		cmocka_unit_test(plan_wastes_less_than_a_slot_and_a_border_in_each_lane),
		cmocka_unit_test(plan_is_capped_by_max_slots),
		cmocka_unit_test(plan_needs_room_for_one_slot_and_says_how_much),
		cmocka_unit_test(plan_refuses_numbers_out_of_range_by_name),
		cmocka_unit_test(plan_of_the_largest_numbers_does_not_overflow),
		cmocka_unit_test(plan_with_huge_pages_ends_on_one_inside_the_budget),
		TEST(a_created_pool_is_what_was_planned),
		TEST(a_new_pool_takes_no_memory),
		TEST(slots_and_digests_lie_apart_and_inside),
		TEST(slots_out_of_range_have_no_address),
		TEST(a_geometry_damaged_after_the_attach_gives_no_address_outside),
		TEST(attach_refuses_a_geometry_that_is_not_sound),
		TEST(attach_refuses_a_pool_without_a_geometry),
		TEST(attach_refuses_a_control_segment),
		TEST(create_says_what_does_not_fit),
		TEST(attach_and_detach_leave_nothing),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}

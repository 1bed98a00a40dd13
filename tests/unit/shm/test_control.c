/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool.h"
#include "roles.h"
#include "shm_test.h"

#define ENTRIES 5000

struct fixture {
	int fd;
	struct dsr_control control;
	char why[256];
};

static int set_up(void **state)
{
	struct fixture *f = test_calloc(1, sizeof(*f));

	*state = f;
	f->fd = dsr_control_create(ENTRIES);
	assert_true(f->fd >= 0);
	assert_int_equal(dsr_control_attach(f->fd, true, &f->control, NULL, 0), 0);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dsr_control_detach(&f->control);
	(void)close(f->fd);
	test_free(f);
	return 0;
}

static struct dsr_section *section_of(struct fixture *f, uint32_t kind)
{
	struct dsr_section *sections =
		(void *)((uint8_t *)f->control.segment.base + f->control.header->sections_off);

	for (uint32_t i = 0; i < f->control.header->section_count; i++)
		if (sections[i].kind == kind)
			return &sections[i];
	print_error("no section of kind %u\n", kind);
	abort();
}

static void assert_attach_refused(struct fixture *f, const char *text)
{
	struct dsr_control control = {.entry_count = 77};
	size_t maps = test_count_maps();

	assert_int_equal(dsr_control_attach(f->fd, true, &control, f->why, sizeof(f->why)),
	                 -EPROTONOSUPPORT);
	if (strstr(f->why, text) == NULL)
		fail_msg("`%s` does not say `%s`", f->why, text);
	assert_int_equal(control.entry_count, 77);
	assert_int_equal(test_count_maps(), maps);
}

static void entries_are_one_for_each_16_kib_within_limits(void **state)
{
	(void)state;
	assert_int_equal(dsr_control_entries_for(0), 4096);
	assert_int_equal(dsr_control_entries_for(UINT64_C(4097) << 14), 4097);
	assert_int_equal(dsr_control_entries_for(UINT64_C(1) << 30), 65536);
	assert_int_equal(dsr_control_entries_for(UINT64_C(1) << 50), 16 << 20);
	assert_int_equal(dsr_control_entries_for(UINT64_MAX), 16 << 20);
}

static void create_refuses_no_entries_and_too_many(void **state)
{
	(void)state;
	assert_int_equal(dsr_control_create(0), -EINVAL);
	assert_int_equal(dsr_control_create((16 << 20) + 1), -EINVAL);
}

static void the_largest_segment_is_sparse(void **state)
{
	struct dsr_control control;
	int fd = dsr_control_create(16 << 20);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(dsr_control_attach(fd, true, &control, NULL, 0), 0);
	assert_int_equal(control.entry_count, 16 << 20);
	control.entries[(16 << 20) - 1].generation = 1;
	dsr_control_detach(&control);
	(void)close(fd);
}

/* Start on a page, lie inside, do not overlap. */
static void every_array_has_its_own_pages(void **state)
{
	struct fixture *f = *state;
	struct dsr_control *c = &f->control;
	const struct {
		void *at;
		uint64_t bytes;
	} arrays[] = {
		{c->header, sizeof(*c->header)},
		{c->rows, DSR_ACTOR_ROWS * sizeof(*c->rows)},
		{c->last_words, DSR_ACTOR_ROWS * sizeof(*c->last_words)},
		{c->scheduler, sizeof(*c->scheduler)},
		{c->entries, ENTRIES * sizeof(*c->entries)},
		{c->counters, DSR_COUNTER_PAGES * sizeof(*c->counters)},
		{c->record_head, sizeof(*c->record_head)},
		{c->records, DSR_RECORDS * sizeof(*c->records)},
	};
	uintptr_t base = (uintptr_t)c->segment.base;

	assert_int_equal(c->entry_count, ENTRIES);
	for (size_t i = 0; i < COUNT_OF(arrays); i++) {
		uintptr_t start = (uintptr_t)arrays[i].at;

		assert_int_equal(start % 4096, 0);
		assert_true(start >= base && start + arrays[i].bytes <= base + c->segment.bytes);
		for (size_t j = 0; j < i; j++) {
			uintptr_t other = (uintptr_t)arrays[j].at;

			assert_true(start >= other + arrays[j].bytes ||
			            other >= start + arrays[i].bytes);
		}
	}
}

static void a_new_segment_is_zero_but_for_its_header(void **state)
{
	struct fixture *f = *state;
	const uint8_t *bytes = f->control.segment.base;

	for (size_t i = 4096; i < f->control.segment.bytes; i++)
		assert_int_equal(bytes[i], 0);
	assert_true(f->control.header->epoch > UINT64_C(1600000000000000000));
}

static void two_mappings_see_each_other(void **state)
{
	struct fixture *f = *state;
	struct dsr_control reader;

	assert_int_equal(dsr_control_attach(f->fd, false, &reader, NULL, 0), 0);
	atomic_store(&f->control.scheduler->pool_epoch, 42);
	assert_int_equal(atomic_load(&reader.scheduler->pool_epoch), 42);
	dsr_control_detach(&reader);
	assert_null(reader.rows);
	dsr_control_detach(&reader);
	dsr_control_detach(NULL);
}

static void attach_refuses_a_pool(void **state)
{
	static const uint8_t fingerprint[DSR_NAMESPACE_BYTES];
	struct fixture *f = *state;
	const struct dsr_pool_request request = {
		.fingerprint = fingerprint,
		.slot_bytes = 4096,
		.budget_bytes = 8 << 20,
		.lanes = 1,
		.max_slots = 16,
	};
	int fd = dsr_pool_create(&request, NULL, 0);
	struct dsr_control control;

	assert_true(fd >= 0);
	assert_int_equal(dsr_control_attach(fd, true, &control, f->why, sizeof(f->why)),
	                 -EPROTONOSUPPORT);
	assert_non_null(strstr(f->why, "magic"));
	(void)close(fd);
}

static void attach_refuses_what_is_no_segment(void **state)
{
	struct fixture *f = *state;
	struct dsr_control control;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dsr_control_attach(fds[0], true, &control, f->why, sizeof(f->why)),
	                 -EINVAL);
	assert_non_null(strstr(f->why, "expected a sealed memory file"));
	assert_int_equal(dsr_control_attach(-1, true, &control, NULL, 0), -EBADF);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void attach_refuses_each_missing_or_short_section(void **state)
{
	static const uint32_t kinds[] = {
		DSR_SECTION_ACTORS,   DSR_SECTION_LAST_WORDS, DSR_SECTION_SCHEDULER,
		DSR_SECTION_COUNTERS, DSR_SECTION_RECORDS,    DSR_SECTION_RECORD_HEAD,
	};
	struct fixture *f = *state;
	char text[32];

	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		struct dsr_section *section = section_of(f, kinds[i]);
		struct dsr_section good = *section;

		(void)snprintf(text, sizeof(text), "section kind %u", kinds[i]);
		section->kind = 1000;
		assert_attach_refused(f, text);
		*section = good;
		section->count--;
		assert_attach_refused(f, text);
		*section = good;
		section->stride += 8;
		section->count = 0;
		assert_attach_refused(f, text);
		*section = good;
	}
}

static void attach_refuses_entry_counts_out_of_range(void **state)
{
	struct fixture *f = *state;
	struct dsr_section *section = section_of(f, DSR_SECTION_ENTRIES);

	section->count = 0;
	assert_attach_refused(f, "entry count 0");
	section->count = ENTRIES;
	section->kind = 1000;
	assert_attach_refused(f, "entry count 0");
}

/* Whatever stands in the first page, attach either refuses or gives pointers into the mapping. */
static void attach_of_a_damaged_header_never_points_outside(void **state)
{
	struct fixture *f = *state;
	uint8_t *page = f->control.segment.base;
	uint8_t good[512];
	uint64_t seed = 1;
	uint32_t accepted = 0;

	memcpy(good, page, sizeof(good));
	for (int i = 0; i < 20000; i++) {
		struct dsr_control c;

		for (uint64_t n = test_random(&seed) % 3 + 1; n > 0; n--)
			page[test_random(&seed) % sizeof(good)] ^=
				(uint8_t)(1U << test_random(&seed) % 8);
		if (dsr_control_attach(f->fd, true, &c, f->why, sizeof(f->why)) == 0) {
			const uint8_t *base = c.segment.base, *end = base + c.segment.bytes;

			accepted++;
			assert_true((uint8_t *)c.entries >= base &&
			            (uint8_t *)(c.entries + c.entry_count) <= end);
			assert_true((uint8_t *)c.rows >= base &&
			            (uint8_t *)(c.rows + DSR_ACTOR_ROWS) <= end);
			assert_true((uint8_t *)c.records >= base &&
			            (uint8_t *)(c.records + DSR_RECORDS) <= end);
			assert_true((uint8_t *)c.counters >= base &&
			            (uint8_t *)(c.counters + DSR_COUNTER_PAGES) <= end);
			dsr_control_detach(&c);
		}
		memcpy(page, good, sizeof(good));
	}
	assert_true(accepted > 0 && accepted < 20000);
}

static void a_row_is_up_while_ready_and_progressing(void **state)
{
	struct fixture *f = *state;
	struct dsr_actor_row *row = &f->control.rows[3];

	assert_false(dsr_actor_row_is_up(row, 1000, 100));
	atomic_store(&row->progress_ns, 900);
	for (uint32_t s = DSR_ACTOR_ABSENT; s <= DSR_ACTOR_STOPPED + 1; s++) {
		atomic_store(&row->state, s);
		assert_int_equal(dsr_actor_row_is_up(row, 1000, 100), s == DSR_ACTOR_READY);
	}
	atomic_store(&row->state, DSR_ACTOR_READY);
	assert_false(dsr_actor_row_is_up(row, 1001, 100));
	assert_true(dsr_actor_row_is_up(row, 10, 100));
	atomic_store(&row->progress_ns, UINT64_MAX);
	assert_true(dsr_actor_row_is_up(row, 1000, 100));
}

static void attach_and_detach_leave_nothing(void **state)
{
	struct fixture *f = *state;
	size_t fds = test_count_fds(), maps = test_count_maps();
	struct dsr_control control;

	for (int i = 0; i < 20; i++) {
		int fd = dsr_control_create(1);

		assert_int_equal(dsr_control_attach(fd, true, &control, NULL, 0), 0);
		dsr_control_detach(&control);
		(void)close(fd);
	}
	(void)f;
	assert_int_equal(test_count_fds(), fds);
	assert_int_equal(test_count_maps(), maps);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(entries_are_one_for_each_16_kib_within_limits),
		TEST(create_refuses_no_entries_and_too_many),
		TEST(the_largest_segment_is_sparse),
		TEST(every_array_has_its_own_pages),
		TEST(a_new_segment_is_zero_but_for_its_header),
		TEST(two_mappings_see_each_other),
		TEST(attach_refuses_a_pool),
		TEST(attach_refuses_what_is_no_segment),
		TEST(attach_refuses_each_missing_or_short_section),
		TEST(attach_refuses_entry_counts_out_of_range),
		TEST(attach_of_a_damaged_header_never_points_outside),
		TEST(a_row_is_up_while_ready_and_progressing),
		TEST(attach_and_detach_leave_nothing),
	};

	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}

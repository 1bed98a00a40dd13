/* SPDX-License-Identifier: Apache-2.0 */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm_test.h"
#include "version.h"

#define BYTES 8192
#define MAGIC UINT64_C(0x1122334455667788)
#define KIND_A 5
#define KIND_B 9

/* A well-formed segment: header, directory of two sections, data. */
struct fixture {
	int fd;
	struct dsr_segment segment;
	struct dsr_segment_header *header;
	struct dsr_section *sections;
	char why[256];
};

static int set_up(void **state)
{
	struct fixture *f = test_calloc(1, sizeof(*f));

	*state = f;
	f->fd = dsr_segment_create("daser-test", BYTES, DSR_HUGEPAGES_OFF);
	assert_true(f->fd >= 0);
	assert_int_equal(dsr_segment_map(f->fd, true, &f->segment), 0);
	f->header = f->segment.base;
	f->sections = (struct dsr_section *)(f->header + 1);
	f->header->magic = MAGIC;
	f->header->major = DSR_LAYOUT_MAJOR;
	f->header->minor = DSR_LAYOUT_MINOR;
	f->header->header_size = sizeof(*f->header);
	f->header->total_size = BYTES;
	f->header->section_count = 2;
	f->header->sections_off = sizeof(*f->header);
	f->sections[0] =
		(struct dsr_section){.kind = KIND_A, .off = 4096, .count = 16, .stride = 64};
	f->sections[1] =
		(struct dsr_section){.kind = KIND_B, .off = 5120, .count = 1, .stride = 3072};
	atomic_store_explicit(&f->header->state, DSR_SEGMENT_READY, memory_order_release);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dsr_segment_unmap(&f->segment);
	(void)close(f->fd);
	test_free(f);
	return 0;
}

static int check(struct fixture *f)
{
	f->why[0] = '\0';
	return dsr_segment_check(&f->segment, MAGIC, f->why, sizeof(f->why));
}

/* The check fails, and its line names the field. */
static void assert_refused(struct fixture *f, const char *field)
{
	assert_int_equal(check(f), -EPROTONOSUPPORT);
	if (strstr(f->why, field) == NULL)
		fail_msg("`%s` does not name `%s`", f->why, field);
	assert_non_null(strstr(f->why, "expected"));
}

static void create_seals_the_size_and_closes_on_exec(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ftruncate(f->fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(f->fd, 16384), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(f->fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(errno, EPERM);
	assert_true(fcntl(f->fd, F_GETFD) & FD_CLOEXEC);
}

static void create_rounds_up_to_whole_pages(void **state)
{
	struct dsr_segment segment;
	int fd = dsr_segment_create("daser-test", 4097, DSR_HUGEPAGES_OFF);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(dsr_segment_map(fd, false, &segment), 0);
	assert_int_equal(segment.bytes, 8192);
	dsr_segment_unmap(&segment);
	assert_null(segment.base);
	(void)close(fd);
}

static void create_refuses_sizes_that_no_file_has(void **state)
{
	(void)state;
	assert_int_equal(dsr_segment_create("daser-test", 0, DSR_HUGEPAGES_OFF), -EINVAL);
	assert_int_equal(dsr_segment_create("daser-test", UINT64_MAX, DSR_HUGEPAGES_OFF), -EINVAL);
	assert_int_equal(dsr_segment_create("daser-test", UINT64_C(1) << 63, DSR_HUGEPAGES_2M),
	                 -EINVAL);
	assert_int_equal(dsr_segment_create("daser-test", 4096, (enum dsr_hugepages)3), -EINVAL);
}

static void create_with_more_huge_pages_than_there_are_is_enomem(void **state)
{
	size_t fds = test_count_fds();
	int r = dsr_segment_create("daser-test", UINT64_C(1) << 45, DSR_HUGEPAGES_2M);

	(void)state;
	assert_int_equal(r, -ENOMEM);
	assert_int_equal(test_count_fds(), fds);
}

static void map_refuses_what_is_not_a_sealed_memory_file(void **state)
{
	struct dsr_segment segment = {0};
	FILE *regular = tmpfile();
	int pipes[2], null, unsealed, growing, empty;

	(void)state;
	assert_non_null(regular);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	unsealed = memfd_create("daser-test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(unsealed, 4096), 0);
	growing = memfd_create("daser-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(growing, 4096), 0);
	assert_int_equal(fcntl(growing, F_ADD_SEALS, F_SEAL_GROW), 0);
	empty = memfd_create("daser-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(fcntl(empty, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);

	assert_int_equal(dsr_segment_map(fileno(regular), true, &segment), -EINVAL);
	assert_int_equal(dsr_segment_map(pipes[0], true, &segment), -EINVAL);
	assert_int_equal(dsr_segment_map(null, true, &segment), -EINVAL);
	assert_int_equal(dsr_segment_map(unsealed, true, &segment), -EINVAL);
	assert_int_equal(dsr_segment_map(growing, true, &segment), -EINVAL);
	assert_int_equal(dsr_segment_map(empty, true, &segment), -EINVAL);
	assert_int_equal(dsr_segment_map(-1, true, &segment), -EBADF);
	assert_null(segment.base);
	(void)fclose(regular);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
	(void)close(null);
	(void)close(unsealed);
	(void)close(growing);
	(void)close(empty);
}

static void a_read_only_mapping_cannot_be_written(void **state)
{
	struct fixture *f = *state;
	struct dsr_segment segment;
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	assert_int_equal(dsr_segment_map(f->fd, false, &segment), 0);
	assert_int_equal(read(zero, segment.base, 1), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(read(zero, f->segment.base, 1), 1);
	dsr_segment_unmap(&segment);
	(void)close(zero);
}

static void check_accepts_a_well_formed_segment(void **state)
{
	assert_int_equal(check(*state), 0);
	assert_int_equal(dsr_segment_check(&((struct fixture *)*state)->segment, MAGIC, NULL, 0),
	                 0);
}

static void check_says_again_until_ready(void **state)
{
	struct fixture *f = *state;

	atomic_store(&f->header->state, DSR_SEGMENT_EMPTY);
	f->header->major = 77;
	assert_int_equal(check(f), -EAGAIN);
	assert_non_null(strstr(f->why, "state 0"));
}

static void check_refuses_an_unknown_state(void **state)
{
	struct fixture *f = *state;

	atomic_store(&f->header->state, 2);
	assert_refused(f, "state 2");
}

static void check_refuses_another_magic(void **state)
{
	struct fixture *f = *state;

	f->header->magic ^= 1;
	assert_refused(f, "magic 0x1122334455667789");
}

static void attach_refuses_a_newer_major(void **state)
{
	struct fixture *f = *state;

	f->header->major = DSR_LAYOUT_MAJOR + 1;
	assert_refused(f, "major 2");
}

static void attach_refuses_an_older_major(void **state)
{
	struct fixture *f = *state;

	f->header->major = DSR_LAYOUT_MAJOR - 1;
	assert_refused(f, "major 0");
}

static void attach_accepts_a_newer_minor_and_unknown_compatible_features(void **state)
{
	struct fixture *f = *state;

	f->header->minor = DSR_LAYOUT_MINOR + 1;
	f->header->feat_compat = UINT64_MAX;
	assert_int_equal(check(f), 0);
}

static void attach_refuses_an_unknown_incompatible_feature(void **state)
{
	struct fixture *f = *state;

	f->header->feat_incompat = UINT64_C(1) << 63;
	assert_refused(f, "feat_incompat 0x8000000000000000");
}

static void check_refuses_sizes_that_are_not_the_files(void **state)
{
	struct fixture *f = *state;

	f->header->total_size = BYTES - 1;
	assert_refused(f, "total_size 8191");
	f->header->total_size = UINT64_MAX;
	assert_refused(f, "total_size");
	f->header->total_size = BYTES;
	f->header->header_size = sizeof(*f->header) - 1;
	assert_refused(f, "header_size 127");
	f->header->header_size = BYTES + 1;
	assert_refused(f, "header_size 8193");
}

static void check_refuses_a_mapping_smaller_than_a_header(void **state)
{
	struct fixture *f = *state;
	struct dsr_segment small = {.base = f->segment.base, .bytes = 127};

	assert_int_equal(dsr_segment_check(&small, MAGIC, f->why, sizeof(f->why)),
	                 -EPROTONOSUPPORT);
	assert_non_null(strstr(f->why, "127"));
	small.base = NULL;
	assert_int_equal(dsr_segment_check(&small, MAGIC, NULL, 0), -EPROTONOSUPPORT);
}

static void check_refuses_a_directory_outside_the_file(void **state)
{
	static const uint64_t offsets[] = {
		0, 8, 120, 129, BYTES - 56, BYTES, UINT64_MAX - 7, UINT64_MAX};
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT_OF(offsets); i++) {
		f->header->sections_off = offsets[i];
		assert_refused(f, "section");
	}
	f->header->sections_off = sizeof(*f->header);
	f->header->section_count = 0;
	assert_refused(f, "section_count 0");
	f->header->section_count = 65;
	assert_refused(f, "section_count 65");
	f->header->section_count = UINT32_MAX;
	assert_refused(f, "section_count 4294967295");
}

static void check_refuses_a_section_outside_the_file(void **state)
{
	static const struct dsr_section bad[] = {
		{.kind = 1, .off = 4096, .count = 65, .stride = 64},
		{.kind = 1, .off = 4096, .count = UINT64_MAX, .stride = 64},
		{.kind = 1, .off = 4096, .count = UINT64_C(1) << 58, .stride = 64},
		{.kind = 1, .off = UINT64_MAX - 7, .count = 1, .stride = 8},
		{.kind = 1, .off = BYTES, .count = 1, .stride = 8},
		{.kind = 1, .off = 0, .count = 1, .stride = 8},
		{.kind = 1, .off = 4097, .count = 1, .stride = 8},
		{.kind = 1, .off = 4096, .count = 1, .stride = 0},
		{.kind = 1, .off = 4096, .count = 1, .stride = 12},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		f->sections[1] = bad[i];
		assert_refused(f, "section kind 1");
	}
}

static void section_gives_what_has_the_stride_and_the_count(void **state)
{
	struct fixture *f = *state;
	uint8_t *base = f->segment.base;

	assert_ptr_equal(dsr_segment_section(&f->segment, KIND_A, 64, 16), base + 4096);
	assert_ptr_equal(dsr_segment_section(&f->segment, KIND_A, 64, 1), base + 4096);
	assert_ptr_equal(dsr_segment_section(&f->segment, KIND_B, 3072, 1), base + 5120);
	assert_null(dsr_segment_section(&f->segment, KIND_A, 64, 17));
	assert_null(dsr_segment_section(&f->segment, KIND_A, 32, 16));
	assert_null(dsr_segment_section(&f->segment, 77, 64, 1));
	assert_int_equal(dsr_segment_section_count(&f->segment, KIND_A), 16);
	assert_int_equal(dsr_segment_section_count(&f->segment, 77), 0);
}

static void section_checks_again_what_was_changed_after_the_check(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(check(f), 0);
	f->sections[0].off = BYTES - 64;
	assert_null(dsr_segment_section(&f->segment, KIND_A, 64, 2));
	assert_int_equal(dsr_segment_section_count(&f->segment, KIND_A), 0);
	f->header->sections_off = UINT64_MAX - 15;
	assert_null(dsr_segment_section(&f->segment, KIND_B, 3072, 1));
}

static void a_short_line_of_reason_is_cut_and_terminated(void **state)
{
	struct fixture *f = *state;
	char why[9] = "........";

	f->header->magic = 0;
	assert_int_equal(dsr_segment_check(&f->segment, MAGIC, why, 6), -EPROTONOSUPPORT);
	assert_string_equal(why, "magic");
	assert_int_equal(why[6], '.');
}

static void create_and_close_and_map_and_unmap_leave_nothing(void **state)
{
	size_t fds = test_count_fds(), maps = test_count_maps();
	struct dsr_segment segment;

	(void)state;
	for (int i = 0; i < 50; i++) {
		int fd = dsr_segment_create("daser-test", 4096, DSR_HUGEPAGES_OFF);

		assert_int_equal(dsr_segment_map(fd, i % 2 == 0, &segment), 0);
		assert_int_equal(test_count_maps(), maps + 1);
		dsr_segment_unmap(&segment);
		dsr_segment_unmap(&segment);
		(void)close(fd);
	}
	dsr_segment_unmap(NULL);
	assert_int_equal(test_count_fds(), fds);
	assert_int_equal(test_count_maps(), maps);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(create_seals_the_size_and_closes_on_exec),
		TEST(create_rounds_up_to_whole_pages),
		TEST(create_refuses_sizes_that_no_file_has),
		TEST(create_with_more_huge_pages_than_there_are_is_enomem),
		TEST(map_refuses_what_is_not_a_sealed_memory_file),
		TEST(a_read_only_mapping_cannot_be_written),
		TEST(check_accepts_a_well_formed_segment),
		TEST(check_says_again_until_ready),
		TEST(check_refuses_an_unknown_state),
		TEST(check_refuses_another_magic),
		TEST(attach_refuses_a_newer_major),
		TEST(attach_refuses_an_older_major),
		TEST(attach_accepts_a_newer_minor_and_unknown_compatible_features),
		TEST(attach_refuses_an_unknown_incompatible_feature),
		TEST(check_refuses_sizes_that_are_not_the_files),
		TEST(check_refuses_a_mapping_smaller_than_a_header),
		TEST(check_refuses_a_directory_outside_the_file),
		TEST(check_refuses_a_section_outside_the_file),
		TEST(section_gives_what_has_the_stride_and_the_count),
		TEST(section_checks_again_what_was_changed_after_the_check),
		TEST(a_short_line_of_reason_is_cut_and_terminated),
		TEST(create_and_close_and_map_and_unmap_leave_nothing),
	};

	return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}

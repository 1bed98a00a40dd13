/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <ftw.h>
#include <sys/stat.h>

#include "rt_test.h"

#define MIB (UINT64_C(1) << 20)

/* A made-up /proc and /sys/fs/cgroup in one directory. */
static char root[64];
static char proc[80];
static char cgroup[80];

static int set_up(void **state)
{
	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/daser-memory-XXXXXX");
	assert_non_null(mkdtemp(root));
	(void)snprintf(proc, sizeof(proc), "%s/proc", root);
	(void)snprintf(cgroup, sizeof(cgroup), "%s/cgroup", root);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes root/path, with the directories above it. */
static void put(const char *path, const char *text)
{
	char full[256];
	char *slash;
	FILE *f;

	(void)snprintf(full, sizeof(full), "%s/%s", root, path);
	for (slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(full, 0700);
		*slash = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void put_meminfo(void)
{
	put("proc/meminfo", "MemTotal:       2097152 kB\nMemFree:        1 kB\n"
	                    "MemAvailable:   1048576 kB\nBuffers: 5 kB\n");
}

static void without_cgroups_there_is_no_limit(void **state)
{
	struct dsr_memory m;

	(void)state;
	put_meminfo();
	assert_int_equal(dsr_memory_read(proc, cgroup, &m), 0);
	assert_true(m.available == 1024 * MIB);
	assert_true(m.headroom == UINT64_MAX);
}

static void version_2_takes_the_least_of_all_groups_above(void **state)
{
	struct dsr_memory m;

	(void)state;
	put_meminfo();
	put("proc/self/cgroup", "0::/a/b\n");
	put("cgroup/a/b/memory.max", "max\n");
	put("cgroup/a/b/memory.current", "0\n");
	put("cgroup/a/memory.max", "536870912\n");
	put("cgroup/a/memory.current", "268435456\n");
	put("cgroup/a/memory.stat", "anon 1\nfile 2\ninactive_file 67108864\n");
	assert_int_equal(dsr_memory_read(proc, cgroup, &m), 0);
	assert_true(m.headroom == (512 - 256 + 64) * MIB);
}

static void a_limit_at_the_mounts_root_counts_in_a_container(void **state)
{
	struct dsr_memory m;

	(void)state;
	put_meminfo();
	put("proc/self/cgroup", "0::/host/path/unknown/here\n");
	put("cgroup/memory.max", "104857600\n");
	put("cgroup/memory.current", "94371840\n");
	assert_int_equal(dsr_memory_read(proc, cgroup, &m), 0);
	assert_true(m.headroom == 10 * MIB);
}

static void a_group_above_its_limit_has_no_headroom(void **state)
{
	struct dsr_memory m;

	(void)state;
	put_meminfo();
	put("proc/self/cgroup", "0::/\n");
	put("cgroup/memory.max", "1048576\n");
	put("cgroup/memory.current", "2097152\n");
	assert_int_equal(dsr_memory_read(proc, cgroup, &m), 0);
	assert_true(m.headroom == 0);
}

static void version_1_is_read_from_its_controller(void **state)
{
	struct dsr_memory m;

	(void)state;
	put_meminfo();
	put("proc/self/cgroup", "12:cpu,cpuacct:/x\n11:hugetlb,memory:/job\n1:name=systemd:/y\n");
	put("cgroup/memory/job/memory.limit_in_bytes", "209715200\n");
	put("cgroup/memory/job/memory.usage_in_bytes", "104857600\n");
	put("cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 5242880\n");
	put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("cgroup/memory/memory.usage_in_bytes", "5\n");
	assert_int_equal(dsr_memory_read(proc, cgroup, &m), 0);
	assert_true(m.headroom == 105 * MIB);
}

static void nonsense_in_the_files_is_no_limit(void **state)
{
	struct dsr_memory m;

	(void)state;
	put_meminfo();
	put("proc/self/cgroup", "nonsense\n0:\n:::::\n0::relative\n");
	put("cgroup/memory.max", "lots\n");
	assert_int_equal(dsr_memory_read(proc, cgroup, &m), 0);
	assert_true(m.headroom == UINT64_MAX);
}

static void a_machine_that_does_not_tell_is_an_error(void **state)
{
	struct dsr_memory m = {.available = 5};

	(void)state;
	assert_int_equal(dsr_memory_read(proc, cgroup, &m), -ENODATA);
	put("proc/meminfo", "MemTotal: 5 kB\n");
	assert_int_equal(dsr_memory_read(proc, cgroup, &m), -ENODATA);
	assert_true(m.available == 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(without_cgroups_there_is_no_limit, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(version_2_takes_the_least_of_all_groups_above,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_limit_at_the_mounts_root_counts_in_a_container,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_group_above_its_limit_has_no_headroom, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(version_1_is_read_from_its_controller, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(nonsense_in_the_files_is_no_limit, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_machine_that_does_not_tell_is_an_error, set_up,
	                                        tear_down),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}

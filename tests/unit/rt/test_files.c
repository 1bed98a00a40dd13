/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "rt_test.h"

static int set_up(void **state)
{
	*state = test_make_run_dir();
	return 0;
}

static int tear_down(void **state)
{
	char *run_dir = *state;

	test_remove_run_dir(&run_dir);
	return 0;
}

static void a_role_is_locked_once(void **state)
{
	int first = dsr_role_lock(*state, DSR_ROLE_STORE, "host:0");
	int other = dsr_role_lock(*state, DSR_ROLE_STORE, "host:1");
	int third = dsr_role_lock(*state, DSR_ROLE_SCHEDULER, "");

	assert_true(first >= 0 && other >= 0 && third >= 0);
	assert_int_equal(dsr_role_lock(*state, DSR_ROLE_STORE, "host:0"), -EEXIST);
	(void)close(first);
	first = dsr_role_lock(*state, DSR_ROLE_STORE, "host:0");
	assert_true(first >= 0);
	(void)close(first);
	(void)close(other);
	(void)close(third);
}

static void a_lock_is_not_inherited_and_private(void **state)
{
	int fd = dsr_role_lock(*state, DSR_ROLE_LOAD, "host:0");
	struct stat st;

	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	(void)close(fd);
}

static void a_lock_follows_no_link_and_needs_its_directory(void **state)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/scheduler.lock", (char *)*state);
	assert_int_equal(symlink("/tmp/elsewhere", path), 0);
	assert_int_equal(dsr_role_lock(*state, DSR_ROLE_SCHEDULER, ""), -ELOOP);
	assert_int_equal(dsr_role_lock("/nonexistent", DSR_ROLE_SCHEDULER, ""), -ENOENT);
	assert_int_equal(dsr_role_lock(*state, DSR_ROLE_STORE, "../x"), -EINVAL);
}

static void device_names_are_file_names(void **state)
{
	char longest[65];

	(void)state;
	memset(longest, 'a', 64);
	longest[64] = '\0';
	assert_true(dsr_device_name_ok("host:0"));
	assert_true(dsr_device_name_ok("GPU-8f6b2f3c-0000-1111-2222-333344445555"));
	assert_true(dsr_device_name_ok("MIG_1.x"));
	assert_false(dsr_device_name_ok(""));
	assert_false(dsr_device_name_ok(".."));
	assert_false(dsr_device_name_ok("-x"));
	assert_false(dsr_device_name_ok("a/b"));
	assert_false(dsr_device_name_ok("a b"));
	assert_false(dsr_device_name_ok(longest));
	longest[63] = '\0';
	assert_true(dsr_device_name_ok(longest));
}

static void a_run_dir_is_ours_alone(void **state)
{
	const char *run_dir = *state;
	char path[128];
	int fd;

	assert_int_equal(dsr_run_dir_check(run_dir), 0);
	assert_int_equal(chmod(run_dir, 0750), 0);
	assert_int_equal(dsr_run_dir_check(run_dir), -EACCES);
	assert_int_equal(chmod(run_dir, 0701), 0);
	assert_int_equal(dsr_run_dir_check(run_dir), -EACCES);
	assert_int_equal(chmod(run_dir, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/file", run_dir);
	assert_int_equal(dsr_run_dir_check(path), -ENOENT);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(dsr_run_dir_check(path), -ENOTDIR);
	(void)snprintf(path, sizeof(path), "%s/link", run_dir);
	assert_int_equal(symlink("/tmp", path), 0);
	assert_int_equal(dsr_run_dir_check(path), -ENOTDIR);
	if (geteuid() == 0) { /* somebody else's */
		assert_int_equal(chown(run_dir, 12345, 12345), 0);
		assert_int_equal(dsr_run_dir_check(run_dir), -EACCES);
		assert_int_equal(chown(run_dir, 0, 0), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_role_is_locked_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_lock_is_not_inherited_and_private, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_lock_follows_no_link_and_needs_its_directory,
	                                        set_up, tear_down),
		cmocka_unit_test(device_names_are_file_names),
		cmocka_unit_test_setup_teardown(a_run_dir_is_ours_alone, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}

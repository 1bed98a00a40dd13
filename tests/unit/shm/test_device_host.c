/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm_test.h"

static int set_up(void **state)
{
	struct dsr_device *device;

	assert_int_equal(dsr_device_open("host:0", &device), 0);
	*state = device;
	return 0;
}

static int tear_down(void **state)
{
	struct dsr_device *device = *state;

	dsr_device_close(&device);
	assert_null(device);
	dsr_device_close(&device);
	dsr_device_close(NULL);
	return 0;
}

static void open_takes_host_and_a_number_alone(void **state)
{
	static const char *const good[] = {"host:0", "host:7", "host:12", "host:999999999"};
	static const char *const bad[] = {"",        "host",    "host:",   "host:-1",
	                                  "host:01", "host:1x", "host: 1", "host:1000000000",
	                                  "HOST:0",  "disk:0",  "host:+1", "host:0 "};
	static const char *const absent[] = {"cuda:0", "GPU-12345678-1234-1234-1234-123456789abc"};
	struct dsr_device *device = NULL;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		assert_int_equal(dsr_device_open(good[i], &device), 0);
		dsr_device_close(&device);
	}
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(dsr_device_open(bad[i], &device), -EINVAL);
	for (size_t i = 0; i < COUNT_OF(absent); i++)
		assert_int_equal(dsr_device_open(absent[i], &device), -ENODEV);
	assert_int_equal(dsr_device_open(NULL, &device), -EINVAL);
	assert_null(device);
}

static void memory_tells_total_and_free(void **state)
{
	struct dsr_device *device = *state;
	uint64_t total, available;

	assert_int_equal(dsr_device_memory(device, &total, &available), 0);
	assert_true(total > UINT64_C(16) << 20);
	assert_true(available > 0 && available <= total);
}

static void staging_is_shared_by_its_descriptor(void **state)
{
	struct dsr_device *device = *state;
	struct dsr_device_memory memory, imported;
	uint8_t handle[DSR_DEVICE_HANDLE_MAX];
	size_t bytes = 77;

	assert_int_equal(dsr_device_alloc(device, 10000, &memory), 0);
	assert_int_equal(memory.bytes, 10000);
	assert_false(memory.imported);
	assert_int_equal(dsr_device_export(device, &memory, handle, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(dsr_device_import(device, NULL, 0, memory.fd, 10000, &imported), 0);
	assert_true(imported.imported);
	assert_int_equal(imported.fd, -1);
	assert_ptr_not_equal(imported.base, memory.base);
	memset(memory.base, 0x5c, 10000);
	assert_int_equal(imported.base[9999], 0x5c);
	assert_int_equal(dsr_device_export(device, &imported, handle, &bytes), -EINVAL);
	dsr_device_release(device, &imported);
	assert_null(imported.base);
	assert_int_equal(memory.base[0], 0x5c);
	dsr_device_release(device, &memory);
	dsr_device_release(device, &memory);
	dsr_device_release(device, NULL);
}

static void import_takes_a_part_of_a_larger_object(void **state)
{
	struct dsr_device *device = *state;
	struct dsr_device_memory memory, imported;
	size_t maps = test_count_maps();

	assert_int_equal(dsr_device_alloc(device, 1 << 20, &memory), 0);
	assert_int_equal(dsr_device_import(device, NULL, 0, memory.fd, 5000, &imported), 0);
	assert_int_equal(imported.bytes, 5000);
	imported.base[4999] = 9;
	assert_int_equal(memory.base[4999], 9);
	dsr_device_release(device, &imported);
	dsr_device_release(device, &memory);
	assert_int_equal(test_count_maps(), maps);
}

static void import_refuses_what_is_too_small_or_no_sealed_memory(void **state)
{
	struct dsr_device *device = *state;
	struct dsr_device_memory memory, imported = {.bytes = 77};
	int unsealed = memfd_create("daser-test", MFD_CLOEXEC);
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(ftruncate(unsealed, 1 << 20), 0);
	assert_int_equal(dsr_device_alloc(device, 8192, &memory), 0);
	assert_int_equal(dsr_device_import(device, NULL, 0, memory.fd, 8193, &imported), -EINVAL);
	assert_int_equal(dsr_device_import(device, NULL, 0, memory.fd, UINT64_MAX, &imported),
	                 -EINVAL);
	assert_int_equal(dsr_device_import(device, NULL, 0, memory.fd, 0, &imported), -EINVAL);
	assert_int_equal(dsr_device_import(device, "h", 1, memory.fd, 8192, &imported), -EINVAL);
	assert_int_equal(dsr_device_import(device, NULL, 0, unsealed, 8192, &imported), -EINVAL);
	assert_int_equal(dsr_device_import(device, NULL, 0, pipes[0], 8192, &imported), -EINVAL);
	assert_int_equal(dsr_device_import(device, NULL, 0, -1, 8192, &imported), -EINVAL);
	assert_int_equal(dsr_device_import(device, NULL, 0, 100000, 8192, &imported), -EINVAL);
	assert_int_equal(imported.bytes, 77);
	dsr_device_release(device, &memory);
	(void)close(unsealed);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
}

static void alloc_and_release_leave_nothing(void **state)
{
	struct dsr_device *device = *state;
	size_t fds = test_count_fds(), maps = test_count_maps();
	struct dsr_device_memory memory, imported;

	for (int i = 0; i < 20; i++) {
		assert_int_equal(dsr_device_alloc(device, 100000, &memory), 0);
		assert_int_equal(dsr_device_import(device, NULL, 0, memory.fd, 100000, &imported),
		                 0);
		assert_int_equal(dsr_device_register_host(device, memory.base, 100000), 0);
		dsr_device_unregister_host(device, memory.base);
		dsr_device_release(device, &imported);
		dsr_device_release(device, &memory);
	}
	assert_int_equal(dsr_device_alloc(device, 0, &memory), -EINVAL);
	assert_int_equal(dsr_device_alloc(device, UINT64_MAX, &memory), -EINVAL);
	assert_int_equal(dsr_device_register_host(device, NULL, 100000), -EINVAL);
	assert_int_equal(test_count_fds(), fds);
	assert_int_equal(test_count_maps(), maps);
}

static void open_and_close_leave_nothing(void **state)
{
	size_t fds = test_count_fds();
	struct dsr_device *device;
	struct dsr_stream *stream;

	(void)state;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(dsr_device_open("host:3", &device), 0);
		assert_int_equal(dsr_stream_open(device, &stream), 0);
		dsr_stream_close(&stream);
		dsr_device_close(&device);
	}
	assert_int_equal(test_count_fds(), fds);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(open_takes_host_and_a_number_alone),
		TEST(memory_tells_total_and_free),
		TEST(staging_is_shared_by_its_descriptor),
		TEST(import_takes_a_part_of_a_larger_object),
		TEST(import_refuses_what_is_too_small_or_no_sealed_memory),
		TEST(alloc_and_release_leave_nothing),
		TEST(open_and_close_leave_nothing),
	};

	return cmocka_run_group_tests_name("device_host", tests, NULL, NULL);
}

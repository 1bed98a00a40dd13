/* SPDX-License-Identifier: Apache-2.0 */
/* The host device: memory of this machine. Its streams: device_host_stream.c. */
#include "device_host.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"
#include "segment.h"

/* "host:" and a number without needless zeros: one device has one name. */
static int device_check_name(const char *name)
{
	static const char prefix[] = "host:";
	const char *digits = name + sizeof(prefix) - 1;
	size_t n;

	if (name[0] != '\0' && (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "cuda:", 5) == 0))
		return -ENODEV;
	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return -EINVAL;
	n = strspn(digits, "0123456789");
	if (n == 0 || n > 9 || digits[n] != '\0' || (n > 1 && digits[0] == '0'))
		return -EINVAL;
	return 0;
}

int dsr_device_open(const char *name, struct dsr_device **ret_device)
{
	struct dsr_device *device;
	int r;

	r = name == NULL ? -EINVAL : device_check_name(name);
	if (r < 0)
		return r;
	device = calloc(1, sizeof(*device));
	if (device == NULL)
		return -ENOMEM;
	device->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (device->fd == -1) {
		r = -errno;
		free(device);
		return r;
	}
	*ret_device = device;
	return 0;
}

void dsr_device_close(struct dsr_device **device)
{
	if (device == NULL || *device == NULL)
		return;
	assert(atomic_load(&(*device)->streams) == 0);
	(void)close((*device)->fd);
	free(*device);
	*device = NULL;
}

int dsr_device_memory(struct dsr_device *device, uint64_t *ret_total, uint64_t *ret_free)
{
	FILE *file = fopen("/proc/meminfo", "re");
	uint64_t kib, total = 0, available = 0;
	char line[128];

	(void)device;
	if (file == NULL)
		return -errno;
	while (fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kib) == 1)
			total = kib << 10;
		else if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
			available = kib << 10;
	}
	(void)fclose(file);
	if (total == 0 || available == 0)
		return -EIO;
	*ret_total = total;
	*ret_free = available;
	return 0;
}

int dsr_device_fd(struct dsr_device *device)
{
	return device->fd;
}

void dsr_device_ack(struct dsr_device *device)
{
	uint64_t count;

	/* -EAGAIN: nothing was signalled. */
	(void)!read(device->fd, &count, sizeof(count));
}

int dsr_device_alloc(struct dsr_device *device, uint64_t bytes,
                     struct dsr_device_memory *ret_memory)
{
	struct dsr_segment segment;
	int fd, r;

	(void)device;
	fd = dsr_segment_create("daser-staging", bytes, DSR_HUGEPAGES_OFF);
	if (fd < 0)
		return fd;
	r = dsr_segment_map(fd, true, &segment);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	/* The mapping ends on the page that `bytes` ends on: munmap of `bytes` takes it whole. */
	*ret_memory = (struct dsr_device_memory){.base = segment.base, .bytes = bytes, .fd = fd};
	return 0;
}

int dsr_device_export(struct dsr_device *device, const struct dsr_device_memory *memory,
                      uint8_t *ret_handle, size_t *ret_bytes)
{
	(void)device;
	(void)ret_handle;
	if (memory->base == NULL || memory->imported)
		return -EINVAL;
	*ret_bytes = 0;
	return 0;
}

int dsr_device_import(struct dsr_device *device, const void *handle, size_t handle_bytes, int fd,
                      uint64_t bytes, struct dsr_device_memory *ret_memory)
{
	uint64_t page = dsr_segment_page_bytes(DSR_HUGEPAGES_OFF);
	struct dsr_segment segment;
	uint64_t used;
	int r;

	(void)device;
	(void)handle;
	if (handle_bytes != 0 || fd < 0 || bytes == 0)
		return -EINVAL;
	r = dsr_segment_map(fd, true, &segment);
	if (r < 0)
		return r == -EBADF ? -EINVAL : r;
	if (segment.bytes < bytes) {
		dsr_segment_unmap(&segment);
		return -EINVAL;
	}
	used = (bytes + page - 1) / page * page;
	if (used < segment.bytes)
		(void)munmap((uint8_t *)segment.base + used, segment.bytes - used);
	*ret_memory = (struct dsr_device_memory){
		.base = segment.base, .bytes = bytes, .fd = -1, .imported = true};
	return 0;
}

void dsr_device_release(struct dsr_device *device, struct dsr_device_memory *memory)
{
	(void)device;
	if (memory == NULL || memory->base == NULL)
		return;
	(void)munmap(memory->base, memory->bytes);
	if (!memory->imported && memory->fd >= 0)
		(void)close(memory->fd);
	*memory = (struct dsr_device_memory){.fd = -1};
}

int dsr_device_register_host(struct dsr_device *device, void *base, uint64_t bytes)
{
	(void)device;
	return base == NULL || bytes == 0 ? -EINVAL : 0;
}

void dsr_device_unregister_host(struct dsr_device *device, void *base)
{
	(void)device;
	(void)base;
}

void dsr_device_signal(struct dsr_device *device)
{
	uint64_t one = 1;

	/* Fails only when the counter is full, and then it is readable anyway. */
	(void)!write(device->fd, &one, sizeof(one));
}

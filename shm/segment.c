/* SPDX-License-Identifier: Apache-2.0 */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "version.h"
#include "why.h"

#define SEGMENT_SECTIONS_MAX 64 /* far above what any layout has; bounds the walk */
#define SEGMENT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Indexed by enum dsr_hugepages. */
static const struct {
	unsigned memfd_flags;
	uint64_t page_bytes;
} segment_pages[] = {
	[DSR_HUGEPAGES_OFF] = {0, 4096},
	[DSR_HUGEPAGES_2M] = {MFD_HUGETLB | MFD_HUGE_2MB, UINT64_C(2) << 20},
	[DSR_HUGEPAGES_1G] = {MFD_HUGETLB | MFD_HUGE_1GB, UINT64_C(1) << 30},
};

uint64_t dsr_segment_page_bytes(enum dsr_hugepages hugepages)
{
	if ((unsigned)hugepages >= sizeof(segment_pages) / sizeof(segment_pages[0]))
		return 0;
	return segment_pages[hugepages].page_bytes;
}

/* Mapping a hugetlb file reserves its pages for the file's life, without touching them. */
static int segment_reserve(int fd, uint64_t bytes)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return -ENOMEM;
	(void)munmap(base, bytes);
	return 0;
}

int dsr_segment_create(const char *debug_name, uint64_t bytes, enum dsr_hugepages hugepages)
{
	uint64_t page = dsr_segment_page_bytes(hugepages);
	uint64_t rounded;
	int fd, r;

	if (page == 0 || bytes == 0 || __builtin_add_overflow(bytes, page - 1, &rounded))
		return -EINVAL;
	rounded -= rounded % page;
	if (rounded > INT64_MAX)
		return -EINVAL;
	fd = memfd_create(debug_name,
	                  MFD_CLOEXEC | MFD_ALLOW_SEALING | segment_pages[hugepages].memfd_flags);
	if (fd == -1)
		return hugepages != DSR_HUGEPAGES_OFF && errno == ENOENT ? -ENOMEM : -errno;
	if (ftruncate(fd, (off_t)rounded) == -1) {
		r = -errno;
		goto err_close;
	}
	if (hugepages != DSR_HUGEPAGES_OFF) {
		r = segment_reserve(fd, rounded);
		if (r < 0)
			goto err_close;
	}
	if (fcntl(fd, F_ADD_SEALS, SEGMENT_SEALS | F_SEAL_SEAL) == -1) {
		r = -errno;
		goto err_close;
	}
	return fd;

err_close:
	(void)close(fd);
	return r;
}

int dsr_segment_map(int fd, bool writable, struct dsr_segment *ret_segment)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *base;

	if (seals == -1)
		return errno == EBADF ? -EBADF : -EINVAL;
	if ((seals & SEGMENT_SEALS) != SEGMENT_SEALS)
		return -EINVAL;
	if (fstat(fd, &st) == -1)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return -EINVAL;
	base = mmap(NULL, (size_t)st.st_size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
	            MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	*ret_segment = (struct dsr_segment){.base = base, .bytes = (size_t)st.st_size};
	return 0;
}

void dsr_segment_unmap(struct dsr_segment *segment)
{
	if (segment == NULL || segment->base == NULL)
		return;
	(void)munmap(segment->base, segment->bytes);
	*segment = (struct dsr_segment){0};
}

/* True when [off, off + count * stride) lies in the mapping and its words are aligned. */
static bool segment_holds(const struct dsr_segment *segment, const struct dsr_section *section)
{
	uint64_t bytes, end;

	if (section->stride == 0 || section->stride % 8 != 0 || section->off % 8 != 0)
		return false;
	if (__builtin_mul_overflow(section->count, section->stride, &bytes) ||
	    __builtin_add_overflow(section->off, bytes, &end))
		return false;
	return section->off >= sizeof(struct dsr_segment_header) && end <= segment->bytes;
}

/* Copies section `index` of the directory; false when the directory leaves the mapping. Everything
 * is read anew: another process may have written it since dsr_segment_check. */
static bool segment_directory(const struct dsr_segment *segment, uint32_t index,
                              struct dsr_section *ret_section)
{
	const struct dsr_segment_header *header = segment->base;
	struct dsr_section directory = {
		.off = header->sections_off,
		.count = (uint64_t)index + 1,
		.stride = sizeof(struct dsr_section),
	};

	if (index >= SEGMENT_SECTIONS_MAX || index >= header->section_count ||
	    !segment_holds(segment, &directory))
		return false;
	memcpy(ret_section,
	       (const uint8_t *)segment->base + directory.off + index * sizeof(*ret_section),
	       sizeof(*ret_section));
	return true;
}

static int segment_check_sections(const struct dsr_segment *segment,
                                  const struct dsr_segment_header *header, char *ret_why,
                                  size_t why_bytes)
{
	struct dsr_section section;

	if (header->section_count == 0 || header->section_count > SEGMENT_SECTIONS_MAX) {
		dsr_why(ret_why, why_bytes, "section_count %" PRIu32 ", expected 1 to %d",
		        header->section_count, SEGMENT_SECTIONS_MAX);
		return -EPROTONOSUPPORT;
	}
	for (uint32_t i = 0; i < header->section_count; i++) {
		if (!segment_directory(segment, i, &section)) {
			dsr_why(ret_why, why_bytes,
			        "sections_off %" PRIu64 " with %" PRIu32
			        " sections, expected inside %zu bytes",
			        header->sections_off, header->section_count, segment->bytes);
			return -EPROTONOSUPPORT;
		}
		if (!segment_holds(segment, &section)) {
			dsr_why(ret_why, why_bytes,
			        "section kind %" PRIu32 " off %" PRIu64 " count %" PRIu64
			        " stride %" PRIu64 ", expected aligned and inside %zu bytes",
			        section.kind, section.off, section.count, section.stride,
			        segment->bytes);
			return -EPROTONOSUPPORT;
		}
	}
	return 0;
}

static int segment_check_version(const struct dsr_segment_header *header, uint64_t magic,
                                 char *ret_why, size_t why_bytes)
{
	if (header->magic != magic)
		dsr_why(ret_why, why_bytes, "magic 0x%016" PRIx64 ", expected 0x%016" PRIx64,
		        header->magic, magic);
	else if (header->major != DSR_LAYOUT_MAJOR)
		dsr_why(ret_why, why_bytes, "layout major %u, expected %u", header->major,
		        DSR_LAYOUT_MAJOR);
	/* + 1: compilers refuse `< 0` while the minor version is 0 */
	else if (header->minor + 1U < DSR_LAYOUT_MINOR + 1U)
		dsr_why(ret_why, why_bytes, "layout minor %u, expected at least %u", header->minor,
		        DSR_LAYOUT_MINOR);
	else if (header->feat_incompat != 0)
		dsr_why(ret_why, why_bytes,
		        "feat_incompat 0x%" PRIx64 ", expected no bit: none is known",
		        header->feat_incompat);
	else
		return 0;
	return -EPROTONOSUPPORT;
}

static int segment_check_sizes(const struct dsr_segment *segment,
                               const struct dsr_segment_header *header, char *ret_why,
                               size_t why_bytes)
{
	if (header->header_size < sizeof(*header) || header->header_size > segment->bytes)
		dsr_why(ret_why, why_bytes, "header_size %" PRIu32 ", expected %zu to %zu",
		        header->header_size, sizeof(*header), segment->bytes);
	else if (header->total_size != segment->bytes)
		dsr_why(ret_why, why_bytes, "total_size %" PRIu64 ", expected %zu: the file's",
		        header->total_size, segment->bytes);
	else
		return 0;
	return -EPROTONOSUPPORT;
}

int dsr_segment_check(const struct dsr_segment *segment, uint64_t magic, char *ret_why,
                      size_t why_bytes)
{
	const struct dsr_segment_header *shared = segment->base;
	struct dsr_segment_header header;
	uint32_t state;
	int r;

	if (shared == NULL || segment->bytes < sizeof(header)) {
		dsr_why(ret_why, why_bytes, "size %zu bytes, expected at least %zu for the header",
		        segment->bytes, sizeof(header));
		return -EPROTONOSUPPORT;
	}
	/* Partner: the creator's release store of `state`, its last. */
	state = atomic_load_explicit(&shared->state, memory_order_acquire);
	if (state == DSR_SEGMENT_EMPTY) {
		dsr_why(ret_why, why_bytes, "state %u, expected %u: not filled yet", state,
		        DSR_SEGMENT_READY);
		return -EAGAIN;
	}
	if (state != DSR_SEGMENT_READY) {
		dsr_why(ret_why, why_bytes, "state %u, expected %u", state, DSR_SEGMENT_READY);
		return -EPROTONOSUPPORT;
	}
	memcpy(&header, shared, sizeof(header));
	r = segment_check_version(&header, magic, ret_why, why_bytes);
	if (r < 0)
		return r;
	r = segment_check_sizes(segment, &header, ret_why, why_bytes);
	if (r < 0)
		return r;
	return segment_check_sections(segment, &header, ret_why, why_bytes);
}

static bool segment_find(const struct dsr_segment *segment, uint32_t kind,
                         struct dsr_section *ret_section)
{
	for (uint32_t i = 0; segment_directory(segment, i, ret_section); i++)
		if (ret_section->kind == kind)
			return segment_holds(segment, ret_section);
	return false;
}

void *dsr_segment_section(const struct dsr_segment *segment, uint32_t kind, uint64_t stride,
                          uint64_t count)
{
	struct dsr_section section;

	if (!segment_find(segment, kind, &section) || section.stride != stride ||
	    section.count < count)
		return NULL;
	return (uint8_t *)segment->base + section.off;
}

uint64_t dsr_segment_section_count(const struct dsr_segment *segment, uint32_t kind)
{
	struct dsr_section section;

	return segment_find(segment, kind, &section) ? section.count : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory segments: create, seal, map, check. Layouts: include/layout.h. */
#ifndef DSR_SHM_SEGMENT_H
#define DSR_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

/* A mapping of this process. Plain value; base NULL when not attached. */
struct dsr_segment {
	void *base; /* owned mapping */
	size_t bytes;
};

enum dsr_hugepages { DSR_HUGEPAGES_OFF = 0, DSR_HUGEPAGES_2M = 1, DSR_HUGEPAGES_1G = 2 };

/* Page size that a segment's bytes are rounded up to; 0 when out of range. */
uint64_t dsr_segment_page_bytes(enum dsr_hugepages hugepages);

/* A new memfd of `bytes`, sealed against resizing, CLOEXEC. With huge pages the pages are reserved
 * at once (-ENOMEM when they are not there). Returns the descriptor or negative errno. */
int dsr_segment_create(const char *debug_name, uint64_t bytes, enum dsr_hugepages hugepages);
/* Maps the whole descriptor (borrowed), without checking content. -EINVAL when it is not a sealed
 * regular memory file: a descriptor of the wrong thing cannot make a later read fault. */
int dsr_segment_map(int fd, bool writable, struct dsr_segment *ret_segment);
/* Checks a mapped header: READY (acquire), magic, major ==, minor >=, no unknown incompatible
 * feature, header and total size against the mapping, each section inside it. -EAGAIN while not
 * READY; -EPROTONOSUPPORT for any miss, with one line in `ret_why` (at least 128 bytes, may be
 * NULL) that names the field, the value and what was expected. */
int dsr_segment_check(const struct dsr_segment *segment, uint64_t magic, char *ret_why,
                      size_t why_bytes);
void dsr_segment_unmap(struct dsr_segment *segment);

/* Start of a section whose stride is `stride` and whose count is at least `count`; NULL when there
 * is none such. Only after dsr_segment_check. */
void *dsr_segment_section(const struct dsr_segment *segment, uint32_t kind, uint64_t stride,
                          uint64_t count);

/* How many elements the section has; 0 when there is none such. */
uint64_t dsr_segment_section_count(const struct dsr_segment *segment, uint32_t kind);

#endif

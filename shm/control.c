/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "roles.h"
#include "version.h"
#include "why.h"

#define CONTROL_PAGE 4096 /* each array starts on one */
#define CONTROL_ENTRIES_MIN 4096
#define CONTROL_ENTRIES_MAX (UINT32_C(16) << 20)
#define CONTROL_BYTES_PER_ENTRY (16 << 10)

/* Directory order. */
static const struct {
	uint32_t kind;
	uint64_t count; /* 0: entry_count */
	uint64_t stride;
	size_t field; /* the section's pointer in struct dsr_control */
} control_sections[] = {
	{DSR_SECTION_ACTORS, DSR_ACTOR_ROWS, sizeof(struct dsr_actor_row),
         offsetof(struct dsr_control, rows)},
	{DSR_SECTION_LAST_WORDS, DSR_ACTOR_ROWS, sizeof(struct dsr_last_words),
         offsetof(struct dsr_control, last_words)},
	{DSR_SECTION_SCHEDULER, 1, sizeof(struct dsr_scheduler_state),
         offsetof(struct dsr_control, scheduler)},
	{DSR_SECTION_ENTRIES, 0, sizeof(struct dsr_entry), offsetof(struct dsr_control, entries)},
	{DSR_SECTION_COUNTERS, DSR_COUNTER_PAGES, sizeof(struct dsr_counters_page),
         offsetof(struct dsr_control, counters)},
	{DSR_SECTION_RECORD_HEAD, 1, sizeof(struct dsr_record_head),
         offsetof(struct dsr_control, record_head)},
	{DSR_SECTION_RECORDS, DSR_RECORDS, sizeof(struct dsr_record),
         offsetof(struct dsr_control, records)},
};

#define CONTROL_SECTIONS (sizeof(control_sections) / sizeof(control_sections[0]))

uint32_t dsr_control_entries_for(uint64_t cache_bytes)
{
	uint64_t entries = cache_bytes / CONTROL_BYTES_PER_ENTRY;

	if (entries < CONTROL_ENTRIES_MIN)
		return CONTROL_ENTRIES_MIN;
	return entries > CONTROL_ENTRIES_MAX ? CONTROL_ENTRIES_MAX : (uint32_t)entries;
}

static uint64_t control_page_up(uint64_t bytes)
{
	return (bytes + CONTROL_PAGE - 1) / CONTROL_PAGE * CONTROL_PAGE;
}

/* Cannot overflow: the counts are bounded. Returns the segment's bytes. */
static uint64_t control_plan(uint32_t entry_count, struct dsr_section *ret_sections)
{
	uint64_t off =
		sizeof(struct dsr_segment_header) + CONTROL_SECTIONS * sizeof(struct dsr_section);

	for (size_t i = 0; i < CONTROL_SECTIONS; i++) {
		uint64_t count = control_sections[i].count;

		off = control_page_up(off);
		ret_sections[i] = (struct dsr_section){
			.kind = control_sections[i].kind,
			.off = off,
			.count = count == 0 ? entry_count : count,
			.stride = control_sections[i].stride,
		};
		off += ret_sections[i].count * ret_sections[i].stride;
	}
	return control_page_up(off);
}

static void control_fill(struct dsr_segment *segment, const struct dsr_section *sections)
{
	struct dsr_segment_header *header = segment->base;
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	header->magic = DSR_CONTROL_MAGIC;
	header->major = DSR_LAYOUT_MAJOR;
	header->minor = DSR_LAYOUT_MINOR;
	header->header_size = sizeof(*header);
	header->total_size = segment->bytes;
	header->epoch = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
	header->section_count = CONTROL_SECTIONS;
	header->sections_off = sizeof(*header);
	memcpy(header + 1, sections, CONTROL_SECTIONS * sizeof(*sections));
	/* Partner: the acquire load in dsr_segment_check. */
	atomic_store_explicit(&header->state, DSR_SEGMENT_READY, memory_order_release);
}

int dsr_control_create(uint32_t entry_count)
{
	struct dsr_section sections[CONTROL_SECTIONS];
	struct dsr_segment segment;
	int fd, r;

	if (entry_count == 0 || entry_count > CONTROL_ENTRIES_MAX)
		return -EINVAL;
	fd = dsr_segment_create("daser-control", control_plan(entry_count, sections),
	                        DSR_HUGEPAGES_OFF);
	if (fd < 0)
		return fd;
	r = dsr_segment_map(fd, true, &segment);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	control_fill(&segment, sections);
	dsr_segment_unmap(&segment);
	return fd;
}

/* Sets the pointers of `control`, whose segment is checked. */
static int control_resolve(struct dsr_control *control, char *ret_why, size_t why_bytes)
{
	uint64_t entries = dsr_segment_section_count(&control->segment, DSR_SECTION_ENTRIES);

	if (entries == 0 || entries > CONTROL_ENTRIES_MAX) {
		dsr_why(ret_why, why_bytes, "entry count %" PRIu64 ", expected 1 to %" PRIu32,
		        entries, CONTROL_ENTRIES_MAX);
		return -EPROTONOSUPPORT;
	}
	control->header = control->segment.base;
	control->entry_count = (uint32_t)entries;
	for (size_t i = 0; i < CONTROL_SECTIONS; i++) {
		uint32_t kind = control_sections[i].kind;
		uint64_t count =
			control_sections[i].count == 0 ? entries : control_sections[i].count;
		uint64_t stride = control_sections[i].stride;
		void *at = dsr_segment_section(&control->segment, kind, stride, count);

		if (at == NULL) {
			dsr_why(ret_why, why_bytes,
			        "section kind %" PRIu32 ", expected %" PRIu64 " times %" PRIu64
			        " bytes",
			        kind, count, stride);
			return -EPROTONOSUPPORT;
		}
		memcpy((uint8_t *)control + control_sections[i].field, &at, sizeof(at));
	}
	return 0;
}

int dsr_control_attach(int fd, bool writable, struct dsr_control *ret_control, char *ret_why,
                       size_t why_bytes)
{
	struct dsr_control control = {0};
	int r;

	r = dsr_segment_map(fd, writable, &control.segment);
	if (r < 0) {
		dsr_why(ret_why, why_bytes, "descriptor %d, expected a sealed memory file: %s", fd,
		        strerrordesc_np(-r));
		return r;
	}
	r = dsr_segment_check(&control.segment, DSR_CONTROL_MAGIC, ret_why, why_bytes);
	if (r < 0)
		goto err_unmap;
	r = control_resolve(&control, ret_why, why_bytes);
	if (r < 0)
		goto err_unmap;
	*ret_control = control;
	return 0;

err_unmap:
	dsr_segment_unmap(&control.segment);
	return r;
}

void dsr_control_detach(struct dsr_control *control)
{
	if (control == NULL)
		return;
	dsr_segment_unmap(&control->segment);
	*control = (struct dsr_control){0};
}

bool dsr_actor_row_is_up(const struct dsr_actor_row *row, uint64_t now_ns, uint64_t max_age_ns)
{
	uint64_t progress_ns;

	if (atomic_load_explicit(&row->state, memory_order_acquire) != DSR_ACTOR_READY)
		return false;
	progress_ns = atomic_load_explicit(&row->progress_ns, memory_order_relaxed);
	/* The actor may have moved it after the caller took `now`. */
	return progress_ns >= now_ns || now_ns - progress_ns <= max_age_ns;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "layout_check.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "version.h"

/* Every struct that two processes share: STRUCT(tag, size), then FIELD(tag, name, offset, size) of
 * each of its fields. The numbers are the layout of version DSR_LAYOUT_MAJOR.MINOR. */
/* clang-format off */
#define LAYOUT_STRUCTS(STRUCT, FIELD) \
	STRUCT(dsr_key, 32) \
		FIELD(dsr_key, b, 0, 32) \
	STRUCT(dsr_ref, 24) \
		FIELD(dsr_ref, generation, 0, 8) \
		FIELD(dsr_ref, slot_seq, 8, 8) \
		FIELD(dsr_ref, entry, 16, 4) \
		FIELD(dsr_ref, slot, 20, 4) \
	STRUCT(dsr_segment_header, 128) \
		FIELD(dsr_segment_header, magic, 0, 8) \
		FIELD(dsr_segment_header, major, 8, 2) \
		FIELD(dsr_segment_header, minor, 10, 2) \
		FIELD(dsr_segment_header, header_size, 12, 4) \
		FIELD(dsr_segment_header, feat_compat, 16, 8) \
		FIELD(dsr_segment_header, feat_incompat, 24, 8) \
		FIELD(dsr_segment_header, total_size, 32, 8) \
		FIELD(dsr_segment_header, epoch, 40, 8) \
		FIELD(dsr_segment_header, state, 48, 4) \
		FIELD(dsr_segment_header, section_count, 52, 4) \
		FIELD(dsr_segment_header, sections_off, 56, 8) \
		FIELD(dsr_segment_header, reserved, 64, 64) \
	STRUCT(dsr_section, 32) \
		FIELD(dsr_section, kind, 0, 4) \
		FIELD(dsr_section, reserved, 4, 4) \
		FIELD(dsr_section, off, 8, 8) \
		FIELD(dsr_section, count, 16, 8) \
		FIELD(dsr_section, stride, 24, 8) \
	STRUCT(dsr_actor_row, 128) \
		FIELD(dsr_actor_row, incarnation, 0, 8) \
		FIELD(dsr_actor_row, state, 8, 4) \
		FIELD(dsr_actor_row, role, 12, 4) \
		FIELD(dsr_actor_row, pid, 16, 4) \
		FIELD(dsr_actor_row, by_hand, 20, 4) \
		FIELD(dsr_actor_row, start_ticks, 24, 8) \
		FIELD(dsr_actor_row, heartbeat_ns, 32, 8) \
		FIELD(dsr_actor_row, progress_ns, 40, 8) \
		FIELD(dsr_actor_row, peer_handles, 48, 8) \
		FIELD(dsr_actor_row, device, 56, 64) \
		FIELD(dsr_actor_row, reserved, 120, 8) \
	STRUCT(dsr_last_words, 256) \
		FIELD(dsr_last_words, incarnation, 0, 8) \
		FIELD(dsr_last_words, text, 8, 248) \
	STRUCT(dsr_scheduler_state, 128) \
		FIELD(dsr_scheduler_state, next_generation, 0, 8) \
		FIELD(dsr_scheduler_state, next_slot_seq, 8, 8) \
		FIELD(dsr_scheduler_state, pool_epoch, 16, 8) \
		FIELD(dsr_scheduler_state, entries_visible, 24, 8) \
		FIELD(dsr_scheduler_state, entries_reserved, 32, 8) \
		FIELD(dsr_scheduler_state, slots_free, 40, 8) \
		FIELD(dsr_scheduler_state, slots_quarantined, 48, 8) \
		FIELD(dsr_scheduler_state, leases, 56, 8) \
		FIELD(dsr_scheduler_state, leased_slots, 64, 8) \
		FIELD(dsr_scheduler_state, reservations, 72, 8) \
		FIELD(dsr_scheduler_state, engines, 80, 8) \
		FIELD(dsr_scheduler_state, draining, 88, 8) \
		FIELD(dsr_scheduler_state, reserved, 96, 32) \
	STRUCT(dsr_entry, 128) \
		FIELD(dsr_entry, seq, 0, 8) \
		FIELD(dsr_entry, generation, 8, 8) \
		FIELD(dsr_entry, key, 16, 32) \
		FIELD(dsr_entry, lanes_stored, 48, 8) \
		FIELD(dsr_entry, slot_seq, 56, 8) \
		FIELD(dsr_entry, l2_slot, 64, 8) \
		FIELD(dsr_entry, last_use, 72, 8) \
		FIELD(dsr_entry, state, 80, 4) \
		FIELD(dsr_entry, l1_slot, 84, 4) \
		FIELD(dsr_entry, parent, 88, 4) \
		FIELD(dsr_entry, payload, 92, 2) \
		FIELD(dsr_entry, flags, 94, 2) \
		FIELD(dsr_entry, stored_bytes, 96, 4) \
		FIELD(dsr_entry, depth, 100, 4) \
		FIELD(dsr_entry, parent_generation, 104, 8) \
		FIELD(dsr_entry, reserved, 112, 16) \
	STRUCT(dsr_counters_page, 4096) \
		FIELD(dsr_counters_page, incarnation, 0, 8) \
		FIELD(dsr_counters_page, role, 8, 4) \
		FIELD(dsr_counters_page, pid, 12, 4) \
		FIELD(dsr_counters_page, generation, 16, 8) \
		FIELD(dsr_counters_page, reserved, 24, 40) \
		FIELD(dsr_counters_page, v, 64, 4032) \
	STRUCT(dsr_record_head, 64) \
		FIELD(dsr_record_head, head, 0, 8) \
		FIELD(dsr_record_head, reserved, 8, 56) \
	STRUCT(dsr_record, 256) \
		FIELD(dsr_record, seq, 0, 8) \
		FIELD(dsr_record, incarnation, 8, 8) \
		FIELD(dsr_record, end_ns, 16, 8) \
		FIELD(dsr_record, bytes, 24, 8) \
		FIELD(dsr_record, total_ns, 32, 8) \
		FIELD(dsr_record, open_ns, 40, 8) \
		FIELD(dsr_record, wait_ns, 48, 8) \
		FIELD(dsr_record, ipc_ns, 56, 8) \
		FIELD(dsr_record, copy_ns, 64, 8) \
		FIELD(dsr_record, kv_ns, 72, 8) \
		FIELD(dsr_record, sync_ns, 80, 8) \
		FIELD(dsr_record, op, 88, 4) \
		FIELD(dsr_record, status, 92, 4) \
		FIELD(dsr_record, rank, 96, 4) \
		FIELD(dsr_record, blocks, 100, 4) \
		FIELD(dsr_record, copies, 104, 4) \
		FIELD(dsr_record, copy_runs, 108, 4) \
		FIELD(dsr_record, l1_hits, 112, 4) \
		FIELD(dsr_record, l1_misses, 116, 4) \
		FIELD(dsr_record, l2_reads, 120, 4) \
		FIELD(dsr_record, failed_blocks, 124, 4) \
		FIELD(dsr_record, reasons, 128, 4) \
		FIELD(dsr_record, segments, 132, 4) \
		FIELD(dsr_record, request, 136, 112) \
		FIELD(dsr_record, check, 248, 8) \
	STRUCT(dsr_pool_geometry, 112) \
		FIELD(dsr_pool_geometry, fingerprint, 0, 32) \
		FIELD(dsr_pool_geometry, slot_bytes, 32, 8) \
		FIELD(dsr_pool_geometry, slot_stride, 40, 8) \
		FIELD(dsr_pool_geometry, lane_stride, 48, 8) \
		FIELD(dsr_pool_geometry, lanes_off, 56, 8) \
		FIELD(dsr_pool_geometry, digests_off, 64, 8) \
		FIELD(dsr_pool_geometry, slot_seqs_off, 72, 8) \
		FIELD(dsr_pool_geometry, lanes, 80, 4) \
		FIELD(dsr_pool_geometry, slots, 84, 4) \
		FIELD(dsr_pool_geometry, block_tokens, 88, 4) \
		FIELD(dsr_pool_geometry, payload, 92, 4) \
		FIELD(dsr_pool_geometry, reserved, 96, 16) \
	STRUCT(dsr_pool_header, 240) \
		FIELD(dsr_pool_header, base, 0, 128) \
		FIELD(dsr_pool_header, geometry, 128, 112)

#define LAYOUT_NUMBERS(NUMBER) \
	NUMBER(DSR_KEY_BYTES) \
	NUMBER(DSR_NAMESPACE_BYTES) \
	NUMBER(DSR_LANES_MAX) \
	NUMBER(DSR_CONTROL_MAGIC) \
	NUMBER(DSR_POOL_MAGIC) \
	NUMBER(DSR_ACTOR_ROWS) \
	NUMBER(DSR_ENGINE_PAGES) \
	NUMBER(DSR_COUNTER_PAGES) \
	NUMBER(DSR_RETIRED_PAGE) \
	NUMBER(DSR_COUNTERS_PER_PAGE) \
	NUMBER(DSR_RECORDS) \
	NUMBER(DSR_ENTRY_NONE) \
	NUMBER(DSR_SLOT_NONE) \
	NUMBER(DSR_SLOT_ALIGN) \
	NUMBER(DSR_LANE_ALIGN) \
	NUMBER(DSR_EPOCH_SHIFT) \
	NUMBER(DSR_DEVICE_NAME_MAX) \
	NUMBER(DSR_SEGMENT_EMPTY) \
	NUMBER(DSR_SEGMENT_READY) \
	NUMBER(DSR_SECTION_ACTORS) \
	NUMBER(DSR_SECTION_LAST_WORDS) \
	NUMBER(DSR_SECTION_SCHEDULER) \
	NUMBER(DSR_SECTION_ENTRIES) \
	NUMBER(DSR_SECTION_COUNTERS) \
	NUMBER(DSR_SECTION_RECORDS) \
	NUMBER(DSR_SECTION_RECORD_HEAD) \
	NUMBER(DSR_SECTION_SLOT_SEQS) \
	NUMBER(DSR_SECTION_DIGESTS) \
	NUMBER(DSR_SECTION_LANES) \
	NUMBER(DSR_SECTION_GEOMETRY) \
	NUMBER(DSR_ENTRY_FREE) \
	NUMBER(DSR_ENTRY_RESERVED) \
	NUMBER(DSR_ENTRY_VISIBLE) \
	NUMBER(DSR_ENTRY_ABORTING) \
	NUMBER(DSR_PAYLOAD_RAW) \
	NUMBER(DSR_RECORD_LOAD) \
	NUMBER(DSR_RECORD_STORE) \
	NUMBER(DSR_RECORD_OK) \
	NUMBER(DSR_RECORD_PARTIAL) \
	NUMBER(DSR_RECORD_FAILED) \
	NUMBER(DSR_RECORD_DROPPED)
/* clang-format on */

#define ASSERT_STRUCT(tag, size)                                                                   \
	static_assert(sizeof(struct tag) == (size), "size of " #tag);                              \
	static_assert((size) % 8 == 0, #tag " is made of 8-byte words");
#define ASSERT_FIELD(tag, field, off, size)                                                        \
	static_assert(offsetof(struct tag, field) == (off), "offset of " #tag "." #field);         \
	static_assert(sizeof(((struct tag *)0)->field) == (size), "size of " #tag "." #field);

LAYOUT_STRUCTS(ASSERT_STRUCT, ASSERT_FIELD)

/* Atomics of two processes must not hide a lock of one of them. */
static_assert(__atomic_always_lock_free(8, 0) && __atomic_always_lock_free(4, 0),
              "words are lock-free");

/* Rows of different writers share no cache line, and arrays of them start on a page. */
static_assert(sizeof(struct dsr_actor_row) % 64 == 0, "an actor row is whole cache lines");
static_assert(sizeof(struct dsr_last_words) % 64 == 0, "last words are whole cache lines");
static_assert(sizeof(struct dsr_entry) % 64 == 0, "an entry is whole cache lines");
static_assert(sizeof(struct dsr_counters_page) == 4096, "a counters page is a page");
static_assert(sizeof(struct dsr_record) % 64 == 0, "a record is whole cache lines");
static_assert(sizeof(struct dsr_record_head) == 64, "the head has a cache line of its own");

static const struct {
	const char *tag; /* of a struct, when field is NULL */
	const char *field;
	uint64_t off;
	uint64_t size;
} layout_rows[] = {
#define ROW_STRUCT(tag, size) {#tag, NULL, 0, (size)},
#define ROW_FIELD(tag, field, off, size) {#tag, #field, (off), (size)},
	LAYOUT_STRUCTS(ROW_STRUCT, ROW_FIELD)};

static const struct {
	const char *name;
	uint64_t value;
} layout_numbers[] = {
#define ROW_NUMBER(name) {#name, (uint64_t)(name)},
	LAYOUT_NUMBERS(ROW_NUMBER)};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

int dsr_layout_dump(FILE *file)
{
	fprintf(file, "layout version %d.%d\n", DSR_LAYOUT_MAJOR, DSR_LAYOUT_MINOR);
	for (size_t i = 0; i < COUNT_OF(layout_numbers); i++)
		fprintf(file, "number %s %" PRIu64 "\n", layout_numbers[i].name,
		        layout_numbers[i].value);
	for (size_t i = 0; i < COUNT_OF(layout_rows); i++) {
		if (layout_rows[i].field == NULL)
			fprintf(file, "struct %s size %" PRIu64 "\n", layout_rows[i].tag,
			        layout_rows[i].size);
		else
			fprintf(file, "  %s off %" PRIu64 " size %" PRIu64 "\n",
			        layout_rows[i].field, layout_rows[i].off, layout_rows[i].size);
	}
	return fflush(file) == EOF || ferror(file) ? -EIO : 0;
}

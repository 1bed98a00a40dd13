/* SPDX-License-Identifier: Apache-2.0 */
#include "layout_json.h"

#include <stddef.h>
#include <stdint.h>

#include "counters.h"
#include "errors.h"
#include "json.h"
#include "layout.h"
#include "report.h"
#include "roles.h"
#include "version.h"

struct field {
	const char *name;
	size_t off;
};

struct number {
	const char *name;
	uint64_t value;
};

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))
/* clang-format off */
#define FIELD(type, member) {#member, offsetof(struct type, member)}
/* clang-format on */

static const struct field header_fields[] = {
	FIELD(dsr_segment_header, magic),        FIELD(dsr_segment_header, major),
	FIELD(dsr_segment_header, minor),        FIELD(dsr_segment_header, header_size),
	FIELD(dsr_segment_header, feat_compat),  FIELD(dsr_segment_header, feat_incompat),
	FIELD(dsr_segment_header, total_size),   FIELD(dsr_segment_header, epoch),
	FIELD(dsr_segment_header, state),        FIELD(dsr_segment_header, section_count),
	FIELD(dsr_segment_header, sections_off),
};
static const struct field section_fields[] = {
	FIELD(dsr_section, kind),
	FIELD(dsr_section, off),
	FIELD(dsr_section, count),
	FIELD(dsr_section, stride),
};
static const struct field row_fields[] = {
	FIELD(dsr_actor_row, incarnation),  FIELD(dsr_actor_row, state),
	FIELD(dsr_actor_row, role),         FIELD(dsr_actor_row, pid),
	FIELD(dsr_actor_row, by_hand),      FIELD(dsr_actor_row, start_ticks),
	FIELD(dsr_actor_row, heartbeat_ns), FIELD(dsr_actor_row, progress_ns),
	FIELD(dsr_actor_row, peer_handles), FIELD(dsr_actor_row, device),
};
static const struct field last_words_fields[] = {
	FIELD(dsr_last_words, incarnation),
	FIELD(dsr_last_words, text),
};
static const struct field scheduler_fields[] = {
	FIELD(dsr_scheduler_state, next_generation),   FIELD(dsr_scheduler_state, next_slot_seq),
	FIELD(dsr_scheduler_state, pool_epoch),        FIELD(dsr_scheduler_state, entries_visible),
	FIELD(dsr_scheduler_state, entries_reserved),  FIELD(dsr_scheduler_state, slots_free),
	FIELD(dsr_scheduler_state, slots_quarantined), FIELD(dsr_scheduler_state, leases),
	FIELD(dsr_scheduler_state, leased_slots),      FIELD(dsr_scheduler_state, reservations),
	FIELD(dsr_scheduler_state, engines),           FIELD(dsr_scheduler_state, draining),
};
static const struct field entry_fields[] = {
	FIELD(dsr_entry, seq),
	FIELD(dsr_entry, generation),
	FIELD(dsr_entry, key),
	FIELD(dsr_entry, lanes_stored),
	FIELD(dsr_entry, slot_seq),
	FIELD(dsr_entry, l2_slot),
	FIELD(dsr_entry, last_use),
	FIELD(dsr_entry, state),
	FIELD(dsr_entry, l1_slot),
	FIELD(dsr_entry, parent),
	FIELD(dsr_entry, payload),
	FIELD(dsr_entry, flags),
	FIELD(dsr_entry, stored_bytes),
	FIELD(dsr_entry, depth),
	FIELD(dsr_entry, parent_generation),
};
static const struct field page_fields[] = {
	FIELD(dsr_counters_page, incarnation), FIELD(dsr_counters_page, role),
	FIELD(dsr_counters_page, pid),         FIELD(dsr_counters_page, generation),
	FIELD(dsr_counters_page, v),
};
static const struct field record_fields[] = {
	FIELD(dsr_record, seq),           FIELD(dsr_record, incarnation),
	FIELD(dsr_record, end_ns),        FIELD(dsr_record, bytes),
	FIELD(dsr_record, total_ns),      FIELD(dsr_record, open_ns),
	FIELD(dsr_record, wait_ns),       FIELD(dsr_record, ipc_ns),
	FIELD(dsr_record, copy_ns),       FIELD(dsr_record, kv_ns),
	FIELD(dsr_record, sync_ns),       FIELD(dsr_record, op),
	FIELD(dsr_record, status),        FIELD(dsr_record, rank),
	FIELD(dsr_record, blocks),        FIELD(dsr_record, copies),
	FIELD(dsr_record, copy_runs),     FIELD(dsr_record, l1_hits),
	FIELD(dsr_record, l1_misses),     FIELD(dsr_record, l2_reads),
	FIELD(dsr_record, failed_blocks), FIELD(dsr_record, reasons),
	FIELD(dsr_record, segments),      FIELD(dsr_record, request),
	FIELD(dsr_record, check),
};
static const struct field head_fields[] = {
	FIELD(dsr_record_head, head),
};

struct layout {
	const char *name;
	size_t size;
	const struct field *fields;
	size_t field_count;
};
#define LAYOUT(name, type, fields)                                                                 \
	{                                                                                          \
		(name), sizeof(struct type), (fields), COUNT(fields)                               \
	}

static const struct layout layouts[] = {
	LAYOUT("header", dsr_segment_header, header_fields),
	LAYOUT("section", dsr_section, section_fields),
	LAYOUT("actor_row", dsr_actor_row, row_fields),
	LAYOUT("last_words", dsr_last_words, last_words_fields),
	LAYOUT("scheduler_state", dsr_scheduler_state, scheduler_fields),
	LAYOUT("entry", dsr_entry, entry_fields),
	LAYOUT("counters_page", dsr_counters_page, page_fields),
	LAYOUT("record", dsr_record, record_fields),
	LAYOUT("record_head", dsr_record_head, head_fields),
};

static const struct number sections[] = {
	{"actors", DSR_SECTION_ACTORS},           {"last_words", DSR_SECTION_LAST_WORDS},
	{"scheduler", DSR_SECTION_SCHEDULER},     {"entries", DSR_SECTION_ENTRIES},
	{"counters", DSR_SECTION_COUNTERS},       {"records", DSR_SECTION_RECORDS},
	{"record_head", DSR_SECTION_RECORD_HEAD}, {"slot_seqs", DSR_SECTION_SLOT_SEQS},
	{"digests", DSR_SECTION_DIGESTS},         {"lanes", DSR_SECTION_LANES},
	{"geometry", DSR_SECTION_GEOMETRY},
};
static const struct number segment_states[] = {
	{"empty", DSR_SEGMENT_EMPTY},
	{"ready", DSR_SEGMENT_READY},
};
static const struct number entry_states[] = {
	{"free", DSR_ENTRY_FREE},
	{"reserved", DSR_ENTRY_RESERVED},
	{"visible", DSR_ENTRY_VISIBLE},
	{"aborting", DSR_ENTRY_ABORTING},
};
static const struct number actor_states[] = {
	{"absent", DSR_ACTOR_ABSENT},   {"starting", DSR_ACTOR_STARTING},
	{"ready", DSR_ACTOR_READY},     {"draining", DSR_ACTOR_DRAINING},
	{"stopped", DSR_ACTOR_STOPPED},
};
static const struct number exit_statuses[] = {
	{"ok", DSR_EXIT_OK},
	{"failure", DSR_EXIT_FAILURE},
	{"usage", DSR_EXIT_USAGE},
	{"locked", DSR_EXIT_LOCKED},
	{"no_broker", DSR_EXIT_NO_BROKER},
	{"orphaned", DSR_EXIT_ORPHANED},
	{"version", DSR_EXIT_VERSION},
};
static const struct number limits[] = {
	{"actor_rows", DSR_ACTOR_ROWS},
	{"counter_pages", DSR_COUNTER_PAGES},
	{"engine_pages", DSR_ENGINE_PAGES},
	{"retired_page", DSR_RETIRED_PAGE},
	{"records", DSR_RECORDS},
	{"device_name", DSR_DEVICE_NAME_MAX},
	{"progress_age_ms", DSR_REPORT_MAX_AGE_NS / 1000000},
};

static json_t *numbers_json(const struct number *numbers, size_t count)
{
	json_t *object = json_object();

	for (size_t i = 0; i < count; i++)
		dsr_json_set(&object, numbers[i].name, dsr_json_u64(numbers[i].value));
	return object;
}

/* {"size":N,"FIELD":OFFSET,...} */
static json_t *struct_json(const struct layout *layout)
{
	json_t *object = json_object();

	dsr_json_set(&object, "size", json_integer((json_int_t)layout->size));
	for (size_t i = 0; i < layout->field_count; i++)
		dsr_json_set(&object, layout->fields[i].name,
		             json_integer((json_int_t)layout->fields[i].off));
	return object;
}

struct role {
	const char *name;
	const char *exe;
	uint32_t number, ready_ms, stop_ms;
	int is_per_device, is_restarted;
};

static const struct role roles[] = {
#define DSR_ROLE(NAME, name, number, exe, per_device, ready_ms, stop_ms, restart)                  \
	{#name, (exe), (number), (ready_ms), (stop_ms), (per_device), (restart)},
#include "actors.def"
#undef DSR_ROLE
};

static json_t *actors_json(void)
{
	json_t *array = json_array();

	for (size_t i = 0; i < COUNT(roles); i++) {
		json_t *object = json_object();

		dsr_json_set(&object, "role", json_string(roles[i].name));
		dsr_json_set(&object, "number", json_integer(roles[i].number));
		dsr_json_set(&object, "executable", json_string(roles[i].exe));
		dsr_json_set(&object, "per_device", json_boolean(roles[i].is_per_device));
		dsr_json_set(&object, "ready_ms", json_integer(roles[i].ready_ms));
		dsr_json_set(&object, "stop_ms", json_integer(roles[i].stop_ms));
		dsr_json_set(&object, "restart", json_boolean(roles[i].is_restarted));
		dsr_json_append(&array, object);
	}
	return array;
}

static json_t *reasons_json(void)
{
	static const char *const meanings[] = {
#define DSR_REASON(NAME, name, number, meaning) [(number)] = (meaning),
#include "reasons.def"
#undef DSR_REASON
	};
	json_t *array = json_array();

	for (unsigned i = 0; i < DSR_REASON_COUNT; i++) {
		json_t *object = json_object();

		dsr_json_set(&object, "reason", json_string(dsr_reason_name(i)));
		dsr_json_set(&object, "number", json_integer(i));
		dsr_json_set(&object, "meaning", json_string(meanings[i]));
		dsr_json_append(&array, object);
	}
	return array;
}

static json_t *counters_json(void)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < DSR_COUNTER_COUNT; i++) {
		const struct dsr_counter_info *info = dsr_counter_info(i);
		json_t *object = json_object();

		dsr_json_set(&object, "counter", json_string(info->name));
		dsr_json_set(&object, "index", json_integer(i));
		dsr_json_set(&object, "metric", json_string(info->metric));
		dsr_json_set(&object, "labels", json_string(info->labels));
		dsr_json_set(&object, "type", json_string(info->type));
		dsr_json_append(&array, object);
	}
	return array;
}

static json_t *version_json(int major, int minor)
{
	json_t *array = json_array();

	dsr_json_append(&array, json_integer(major));
	dsr_json_append(&array, json_integer(minor));
	return array;
}

json_t *dsr_layout_json(void)
{
	json_t *object = dsr_json_new();

	dsr_json_set(&object, "version", json_string(DSR_VERSION));
	dsr_json_set(&object, "protocol", version_json(DSR_PROTOCOL_MAJOR, DSR_PROTOCOL_MINOR));
	dsr_json_set(&object, "layout", version_json(DSR_LAYOUT_MAJOR, DSR_LAYOUT_MINOR));
	dsr_json_set(&object, "control_magic", dsr_json_u64(DSR_CONTROL_MAGIC));
	dsr_json_set(&object, "pool_magic", dsr_json_u64(DSR_POOL_MAGIC));
	dsr_json_set(&object, "limits", numbers_json(limits, COUNT(limits)));
	dsr_json_set(&object, "sections", numbers_json(sections, COUNT(sections)));
	for (size_t i = 0; i < COUNT(layouts); i++)
		dsr_json_set(&object, layouts[i].name, struct_json(&layouts[i]));
	dsr_json_set(&object, "segment_states",
	             numbers_json(segment_states, COUNT(segment_states)));
	dsr_json_set(&object, "actor_states", numbers_json(actor_states, COUNT(actor_states)));
	dsr_json_set(&object, "entry_states", numbers_json(entry_states, COUNT(entry_states)));
	dsr_json_set(&object, "exit_statuses", numbers_json(exit_statuses, COUNT(exit_statuses)));
	dsr_json_set(&object, "actors", actors_json());
	dsr_json_set(&object, "reasons", reasons_json());
	dsr_json_set(&object, "counters", counters_json());
	return object;
}

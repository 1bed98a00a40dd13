/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "entry_table.h"
#include "json.h"
#include "records.h"
#include "table.h"

#define ROWS_TRIES 100     /* of reading an entry that is being written */
#define ROWS_KEY_DIGITS 12 /* of a key, for people */

static const char *name_of(const char *const *names, size_t count, uint32_t index)
{
	return index < count && names[index] != NULL ? names[index] : "?";
}

static const char *op_name(uint32_t op)
{
	static const char *const names[] = {
		[DSR_RECORD_LOAD] = "load", [DSR_RECORD_STORE] = "store"};

	return name_of(names, sizeof(names) / sizeof(names[0]), op);
}

static const char *status_name(uint32_t status)
{
	static const char *const names[] = {[DSR_RECORD_OK] = "ok",
	                                    [DSR_RECORD_PARTIAL] = "partial",
	                                    [DSR_RECORD_FAILED] = "failed",
	                                    [DSR_RECORD_DROPPED] = "dropped"};

	return name_of(names, sizeof(names) / sizeof(names[0]), status);
}

static const char *const state_names[] = {[DSR_ENTRY_FREE] = "free",
                                          [DSR_ENTRY_RESERVED] = "reserved",
                                          [DSR_ENTRY_VISIBLE] = "visible",
                                          [DSR_ENTRY_ABORTING] = "aborting"};
#define STATES (sizeof(state_names) / sizeof(state_names[0]))

static json_t *reasons_json(uint32_t bits)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < DSR_REASON_COUNT; i++) {
		if ((bits >> i & 1) != 0)
			dsr_json_append(&array, json_string(dsr_reason_name(i)));
	}
	return array;
}

static json_t *record_json(const struct dsr_record *record)
{
	json_t *object = json_object();

	dsr_json_set(&object, "request", dsr_json_text(record->request, sizeof(record->request)));
	dsr_json_set(&object, "op", json_string(op_name(record->op)));
	dsr_json_set(&object, "status", json_string(status_name(record->status)));
	dsr_json_set(&object, "rank", json_integer(record->rank));
	dsr_json_set(&object, "incarnation", dsr_json_u64(record->incarnation));
	dsr_json_set(&object, "end_ns", dsr_json_u64(record->end_ns));
	dsr_json_set(&object, "blocks", json_integer(record->blocks));
	dsr_json_set(&object, "failed_blocks", json_integer(record->failed_blocks));
	dsr_json_set(&object, "reasons", reasons_json(record->reasons));
	dsr_json_set(&object, "bytes", dsr_json_u64(record->bytes));
	dsr_json_set(&object, "copies", json_integer(record->copies));
	dsr_json_set(&object, "copy_runs", json_integer(record->copy_runs));
	dsr_json_set(&object, "segments", json_integer(record->segments));
	dsr_json_set(&object, "l1_hits", json_integer(record->l1_hits));
	dsr_json_set(&object, "l1_misses", json_integer(record->l1_misses));
	dsr_json_set(&object, "l2_reads", json_integer(record->l2_reads));
	dsr_json_set(&object, "total_ns", dsr_json_u64(record->total_ns));
	dsr_json_set(&object, "open_ns", dsr_json_u64(record->open_ns));
	dsr_json_set(&object, "wait_ns", dsr_json_u64(record->wait_ns));
	dsr_json_set(&object, "ipc_ns", dsr_json_u64(record->ipc_ns));
	dsr_json_set(&object, "copy_ns", dsr_json_u64(record->copy_ns));
	dsr_json_set(&object, "kv_ns", dsr_json_u64(record->kv_ns));
	dsr_json_set(&object, "sync_ns", dsr_json_u64(record->sync_ns));
	return object;
}

json_t *dsr_rows_requests(const struct dsr_control *control, uint64_t limit)
{
	uint32_t max = limit == 0 || limit > DSR_RECORDS ? DSR_RECORDS : (uint32_t)limit;
	struct dsr_record *records = calloc(max, sizeof(*records));
	json_t *object = dsr_json_new(), *array = json_array();
	uint32_t count;

	if (records == NULL) {
		json_decref(object);
		json_decref(array);
		return NULL;
	}
	count = dsr_records_read(control, records, max);
	for (uint32_t i = 0; i < count; i++)
		dsr_json_append(&array, record_json(&records[i]));
	free(records);
	dsr_json_set(&object, "requests", array);
	return object;
}

static void print_time_of_day(struct dsr_table *table, uint64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / 1000000000);
	struct tm tm;
	char text[32];

	if (gmtime_r(&seconds, &tm) == NULL || strftime(text, sizeof(text), "%T", &tm) == 0)
		dsr_table_cell(table, "?");
	else
		dsr_table_cell(table, "%s.%03" PRIu64, text, realtime_ns / 1000000 % 1000);
}

static void print_record(struct dsr_table *table, const json_t *record)
{
	static const char *const times[] = {"total_ns", "open_ns", "wait_ns", "ipc_ns",
	                                    "copy_ns",  "kv_ns",   "sync_ns"};
	static const char *const numbers[] = {"rank",    "blocks",    "failed_blocks", "copy_runs",
	                                      "l1_hits", "l1_misses", "l2_reads"};
	const json_t *reasons = json_object_get(record, "reasons");
	char text[DSR_TABLE_TEXT];

	print_time_of_day(table, dsr_json_get_u64(record, "end_ns"));
	dsr_table_cell(table, "%s", dsr_json_get_text(record, "request"));
	dsr_table_cell(table, "%s", dsr_json_get_text(record, "op"));
	dsr_table_cell(table, "%s", dsr_json_get_text(record, "status"));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		dsr_table_cell(table, "%" PRIu64, dsr_json_get_u64(record, numbers[i]));
	dsr_table_cell(table, "%s", dsr_table_bytes(dsr_json_get_u64(record, "bytes"), text));
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		dsr_table_cell(table, "%s",
		               dsr_table_time(dsr_json_get_u64(record, times[i]), text));
	dsr_table_cell(table, "%s%s",
	               json_array_size(reasons) > 0 ? json_string_value(json_array_get(reasons, 0))
	                                            : "",
	               json_array_size(reasons) > 1 ? ", ..." : "");
}

int dsr_rows_print_requests(const json_t *requests, FILE *out)
{
	struct dsr_table *table;
	const json_t *record;
	size_t i;
	int r;

	if (requests == NULL)
		return -ENOMEM;
	r = dsr_table_new("END (UTC),REQUEST,OP,STATUS,>RANK,>BLOCKS,>FAILED,>RUNS,>L1 "
	                  "HITS,>L1 MISSES,>L2 READS,>BYTES,>TOTAL,>OPEN,>WAIT,>IPC,>COPY,>KV,"
	                  ">SYNC,WHY",
	                  &table);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(requests, "requests"), i, record)
		print_record(table, record);
	r = dsr_table_print(table, out);
	dsr_table_free(&table);
	return r;
}

int dsr_rows_parse_state(const char *name, uint32_t *ret_state)
{
	for (uint32_t i = 0; i < STATES; i++) {
		if (strcmp(state_names[i], name) == 0) {
			*ret_state = i;
			return 0;
		}
	}
	return -EINVAL;
}

static json_t *index_json(uint32_t index, uint32_t none)
{
	return index == none ? json_null() : json_integer(index);
}

static json_t *entry_json(uint32_t index, const struct dsr_entry *entry)
{
	json_t *object = json_object();

	dsr_json_set(&object, "entry", json_integer(index));
	dsr_json_set(&object, "key", dsr_json_hex(entry->key.b, sizeof(entry->key.b)));
	dsr_json_set(&object, "state", json_string(name_of(state_names, STATES, entry->state)));
	dsr_json_set(&object, "generation", dsr_json_u64(entry->generation));
	dsr_json_set(&object, "slot", index_json(entry->l1_slot, DSR_SLOT_NONE));
	dsr_json_set(&object, "slot_seq", dsr_json_u64(entry->slot_seq));
	dsr_json_set(&object, "l2_slot",
	             entry->l2_slot == UINT64_MAX ? json_null() : dsr_json_u64(entry->l2_slot));
	dsr_json_set(&object, "lanes_stored", dsr_json_u64(entry->lanes_stored));
	dsr_json_set(&object, "parent", index_json(entry->parent, DSR_ENTRY_NONE));
	dsr_json_set(&object, "parent_generation", dsr_json_u64(entry->parent_generation));
	dsr_json_set(&object, "depth", json_integer(entry->depth));
	dsr_json_set(&object, "last_use", dsr_json_u64(entry->last_use));
	dsr_json_set(&object, "payload", json_integer(entry->payload));
	dsr_json_set(&object, "flags", json_integer(entry->flags));
	dsr_json_set(&object, "stored_bytes", json_integer(entry->stored_bytes));
	return object;
}

/* The table is a sparse file: reading a page that was never written would allocate it. Returns the
 * first row at or after `index` that has memory; *until is the row up to which all have. */
static uint64_t skip_holes(const struct dsr_control *control, int fd, uint64_t index,
                           uint64_t *until)
{
	off_t base = (char *)control->entries - (char *)control->segment.base;
	off_t data, hole;

	if (fd == -1 || index < *until)
		return index;
	data = lseek(fd, base + (off_t)(index * sizeof(struct dsr_entry)), SEEK_DATA);
	if (data == -1)
		return errno == ENXIO ? control->entry_count : index;
	hole = lseek(fd, data, SEEK_HOLE);
	if (hole == -1)
		return index;
	*until = (uint64_t)(hole - base) / sizeof(struct dsr_entry);
	data = (data - base) / (off_t)sizeof(struct dsr_entry);
	return (uint64_t)data > index ? (uint64_t)data : index;
}

json_t *dsr_rows_entries(const struct dsr_control *control, const struct dsr_rows_filter *filter)
{
	json_t *object = dsr_json_new(), *array = json_array();
	uint64_t unreadable = 0, until = 0, shown = 0;
	bool is_cut = false;

	for (uint64_t i = 0; i < control->entry_count && !is_cut; i++) {
		struct dsr_entry entry;

		i = skip_holes(control, filter->fd, i, &until);
		if (i >= control->entry_count)
			break;
		if (dsr_entry_read(&control->entries[i], ROWS_TRIES, &entry) < 0) {
			unreadable++;
			continue;
		}
		if (filter->has_state ? entry.state != filter->state
		                      : entry.state == DSR_ENTRY_FREE)
			continue;
		is_cut = filter->limit != 0 && shown == filter->limit;
		if (!is_cut)
			dsr_json_append(&array, entry_json((uint32_t)i, &entry));
		shown += !is_cut;
	}
	dsr_json_set(&object, "entry_capacity", json_integer(control->entry_count));
	dsr_json_set(&object, "unreadable", dsr_json_u64(unreadable));
	dsr_json_set(&object, "truncated", json_boolean(is_cut));
	dsr_json_set(&object, "entries", array);
	return object;
}

static void print_optional(struct dsr_table *table, const json_t *entry, const char *key)
{
	if (json_is_null(json_object_get(entry, key)))
		dsr_table_cell(table, "-");
	else
		dsr_table_cell(table, "%" PRIu64, dsr_json_get_u64(entry, key));
}

static void print_entry(struct dsr_table *table, const json_t *entry)
{
	dsr_table_cell(table, "%" PRIu64, dsr_json_get_u64(entry, "entry"));
	dsr_table_cell(table, "%.*s", ROWS_KEY_DIGITS, dsr_json_get_text(entry, "key"));
	dsr_table_cell(table, "%s", dsr_json_get_text(entry, "state"));
	dsr_table_cell(table, "%" PRIx64, dsr_json_get_u64(entry, "generation"));
	print_optional(table, entry, "slot");
	dsr_table_cell(table, "%" PRIx64, dsr_json_get_u64(entry, "slot_seq"));
	dsr_table_cell(table, "%" PRIx64, dsr_json_get_u64(entry, "lanes_stored"));
	print_optional(table, entry, "parent");
	dsr_table_cell(table, "%" PRIu64, dsr_json_get_u64(entry, "depth"));
	dsr_table_cell(table, "%" PRIu64, dsr_json_get_u64(entry, "last_use"));
}

int dsr_rows_print_entries(const json_t *entries, FILE *out)
{
	struct dsr_table *table;
	const json_t *entry;
	uint64_t unreadable;
	size_t i;
	int r;

	if (entries == NULL)
		return -ENOMEM;
	r = dsr_table_new(">ENTRY,KEY,STATE,>GENERATION,>SLOT,>SLOT "
	                  "SEQ,>LANES,>PARENT,>DEPTH,>LAST USE",
	                  &table);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(entries, "entries"), i, entry) print_entry(table, entry);
	r = dsr_table_print(table, out);
	dsr_table_free(&table);
	unreadable = dsr_json_get_u64(entries, "unreadable");
	if (unreadable > 0)
		fprintf(out, "%" PRIu64 " rows were being written and are not shown\n", unreadable);
	if (dsr_json_get_bool(entries, "truncated"))
		fputs("there are more: see --limit\n", out);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "entry_table.h"
#include "json.h"
#include "records.h"

int test_instance_set_up(void **state)
{
	struct test_instance *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -1;
	t->fd = dsr_control_create(TEST_ENTRIES);
	if (t->fd < 0 || dsr_control_attach(t->fd, true, &t->control, NULL, 0) < 0)
		return -1;
	*state = t;
	return 0;
}

int test_instance_tear_down(void **state)
{
	struct test_instance *t = *state;

	dsr_control_detach(&t->control);
	close(t->fd);
	free(t);
	return 0;
}

bool test_is_alive(int32_t pid, uint64_t start_ticks)
{
	(void)start_ticks;
	return pid != TEST_GONE_PID;
}

void test_set_row(struct test_instance *t, uint32_t row, uint32_t role, const char *device,
                  uint32_t state, uint64_t age_ms)
{
	struct dsr_actor_row *r = &t->control.rows[row];

	r->role = role;
	r->pid = 5000 + (int32_t)row;
	r->start_ticks = 7;
	snprintf(r->device, sizeof(r->device), "%s", device);
	atomic_store(&r->heartbeat_ns, TEST_NOW_NS - age_ms * 1000000);
	atomic_store(&r->progress_ns, TEST_NOW_NS - age_ms * 1000000);
	atomic_store(&r->state, state);
	atomic_store(&r->incarnation, 900000 + row);
}

static void fill_entry(struct test_instance *t, uint32_t index, uint32_t state, uint32_t parent)
{
	struct dsr_entry *entry = &t->control.entries[index];

	dsr_entry_write_begin(entry);
	entry->generation = (UINT64_C(3) << DSR_EPOCH_SHIFT) + index;
	for (uint32_t i = 0; i < DSR_KEY_BYTES; i++)
		entry->key.b[i] = (uint8_t)(index * 16 + i);
	entry->lanes_stored = state == DSR_ENTRY_VISIBLE ? 3 : 1;
	entry->slot_seq = (UINT64_C(3) << DSR_EPOCH_SHIFT) + 100 + index;
	entry->l2_slot = UINT64_MAX;
	entry->last_use = 40 - index;
	entry->state = state;
	entry->l1_slot = state == DSR_ENTRY_ABORTING ? DSR_SLOT_NONE : index + 10;
	entry->parent = parent;
	entry->depth = parent == DSR_ENTRY_NONE ? 0 : parent + 1;
	entry->parent_generation =
		parent == DSR_ENTRY_NONE ? 0 : (UINT64_C(3) << DSR_EPOCH_SHIFT) + parent;
	entry->stored_bytes = 65536;
	dsr_entry_write_end(entry);
}

static void fill_record(struct test_instance *t, uint32_t n)
{
	struct dsr_record record = {
		.incarnation = 777,
		.end_ns = UINT64_C(1700000000) * 1000000000 + n * 1000000,
		.bytes = 131072 * n,
		.total_ns = 6000 * n,
		.open_ns = 1000,
		.wait_ns = 2000,
		.ipc_ns = 500,
		.copy_ns = 1500,
		.kv_ns = 700,
		.sync_ns = 300,
		.op = n % 2 == 1 ? DSR_RECORD_LOAD : DSR_RECORD_STORE,
		.status = n == 3 ? DSR_RECORD_PARTIAL : DSR_RECORD_OK,
		.rank = n % 2,
		.blocks = n,
		.copies = n,
		.copy_runs = 1,
		.l1_hits = n == 3 ? 2 : n,
		.l1_misses = n == 3,
		.failed_blocks = n == 3,
		.reasons = n == 3 ? 1u << DSR_REASON_DIGEST | 1u << DSR_REASON_DEADLINE : 0,
		.segments = 1,
	};

	snprintf(record.request, sizeof(record.request), "request-%u", n);
	dsr_records_append(&t->control, &record);
}

static void fill_scheduler(struct dsr_scheduler_state *state)
{
	atomic_store(&state->pool_epoch, 3);
	atomic_store(&state->entries_visible, 2);
	atomic_store(&state->entries_reserved, 1);
	atomic_store(&state->slots_free, 28);
	atomic_store(&state->slots_quarantined, 1);
	atomic_store(&state->leases, 5);
	atomic_store(&state->leased_slots, 6);
	atomic_store(&state->reservations, 4);
	atomic_store(&state->engines, 1);
}

void test_fill(struct test_instance *t)
{
	test_set_row(t, 0, DSR_ROLE_SCHEDULER, "", DSR_ACTOR_READY, 12);
	test_set_row(t, 1, DSR_ROLE_METRICS, "", DSR_ACTOR_READY, 34);
	test_set_row(t, 2, DSR_ROLE_LOAD, "host:0", DSR_ACTOR_READY, 56);
	test_set_row(t, 3, DSR_ROLE_STORE, "host:0", DSR_ACTOR_READY, 78);
	t->control.rows[3].by_hand = 1;
	for (uint32_t i = 0; i < DSR_COUNTER_COUNT; i++) {
		dsr_counter_add(&t->control.counters[70], i, 1000 + i);
		dsr_counter_add(&t->control.counters[DSR_RETIRED_PAGE], i, 10000);
	}
	dsr_counter_add(&t->control.counters[2], DSR_COUNTER_RESTARTS, 2);
	fill_scheduler(t->control.scheduler);
	fill_entry(t, 1, DSR_ENTRY_VISIBLE, DSR_ENTRY_NONE);
	fill_entry(t, 2, DSR_ENTRY_VISIBLE, 1);
	fill_entry(t, 5, DSR_ENTRY_RESERVED, 2);
	fill_entry(t, 6, DSR_ENTRY_ABORTING, 2);
	for (uint32_t n = 1; n <= 3; n++)
		fill_record(t, n);
	t->geometry = (struct dsr_pool_geometry){.slot_bytes = 65000,
	                                         .slot_stride = 65536,
	                                         .lanes = 2,
	                                         .slots = 32,
	                                         .block_tokens = 16,
	                                         .payload = DSR_PAYLOAD_RAW};
	for (uint32_t i = 0; i < DSR_NAMESPACE_BYTES; i++)
		t->geometry.fingerprint[i] = (uint8_t)(0xa0 + i);
}

/* Missing files are empty: the comparison then fails and shows what should be there. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;

	if (file != NULL) {
		if (getdelim(&text, &room, '\0', file) == -1) {
			free(text);
			text = NULL;
		}
		fclose(file);
	}
	return text != NULL ? text : strdup("");
}

void test_golden_text(const char *name, const char *text)
{
	const char *update = getenv("DSR_GOLDEN_UPDATE");
	char path[512];
	char *golden;
	FILE *file;

	snprintf(path, sizeof(path), "%s/tests/golden/ctl/%s", TEST_SOURCE_DIR, name);
	if (update != NULL && update[0] != '\0') {
		file = fopen(path, "we");
		assert_non_null(file);
		assert_true(fputs(text, file) >= 0);
		assert_int_equal(fclose(file), 0);
	}
	golden = read_file(path);
	if (strcmp(text, golden) != 0)
		print_error("%s differs; if that is meant: DSR_GOLDEN_UPDATE=1 meson test\n", path);
	assert_string_equal(text, golden);
	free(golden);
}

void test_golden_indented(const char *name, const json_t *json)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(json_dumpf(json, out,
	                            JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6)),
	                 0);
	assert_true(fputc('\n', out) != EOF);
	assert_int_equal(fclose(out), 0);
	test_golden_text(name, text);
	free(text);
}

void test_golden_json(const char *name, json_t *json)
{
	static const char begin[] = "{\"schema\":1,";
	char *line = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&line, &bytes);
	json_t *parsed;

	assert_non_null(json);
	assert_non_null(out);
	assert_int_equal(dsr_json_write(json, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(strncmp(line, begin, sizeof(begin) - 1), 0);
	assert_ptr_equal(strchr(line, '\n'), line + bytes - 1);
	parsed = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(parsed);
	free(line);
	test_golden_indented(name, parsed);
	json_decref(parsed);
}

char *test_print(int (*print)(const json_t *, FILE *), const json_t *from)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(print(from, out), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

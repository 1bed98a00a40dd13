/* SPDX-License-Identifier: Apache-2.0 */
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>

#include "counters.h"
#include "json.h"
#include "table.h"
#include "version.h"

struct counter_key {
	const char *key;
	enum dsr_counter counter;
};

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

static const struct counter_key tiers[] = {
	{"l1_hits", DSR_COUNTER_L1_HITS},
	{"l1_misses", DSR_COUNTER_L1_MISSES},
	{"l2_reads", DSR_COUNTER_L2_READS},
	{"lookup_blocks", DSR_COUNTER_LOOKUP_BLOCKS},
	{"lookup_hit_blocks", DSR_COUNTER_LOOKUP_HIT_BLOCKS},
};
static const struct counter_key loads[] = {
	{"bytes", DSR_COUNTER_LOAD_BYTES},
	{"ok", DSR_COUNTER_LOAD_OK},
	{"partial", DSR_COUNTER_LOAD_PARTIAL},
	{"failed", DSR_COUNTER_LOAD_FAILED},
};
static const struct counter_key stores[] = {
	{"bytes", DSR_COUNTER_STORE_BYTES},
	{"ok", DSR_COUNTER_STORE_OK},
	{"partial", DSR_COUNTER_STORE_PARTIAL},
	{"failed", DSR_COUNTER_STORE_FAILED},
};
static const struct counter_key blocks[] = {
	{"reserved", DSR_COUNTER_BLOCKS_RESERVED},     {"committed", DSR_COUNTER_BLOCKS_COMMITTED},
	{"aborted", DSR_COUNTER_BLOCKS_ABORTED},       {"evicted", DSR_COUNTER_BLOCKS_EVICTED},
	{"mismatched", DSR_COUNTER_BLOCKS_MISMATCHED},
};

static json_t *counters_json(const struct dsr_control *control, const struct counter_key *keys,
                             size_t count)
{
	json_t *object = json_object();

	for (size_t i = 0; i < count; i++)
		dsr_json_set(&object, keys[i].key,
		             dsr_json_u64(dsr_counters_sum(control, keys[i].counter)));
	return object;
}

/* One key for each reason; `first` is the counter of reason 0. */
static json_t *reasons_json(const struct dsr_control *control, enum dsr_counter first)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < DSR_REASON_COUNT; i++)
		dsr_json_set(&object, dsr_reason_name(i),
		             dsr_json_u64(dsr_counters_sum(control, first + i)));
	return object;
}

static json_t *actor_json(const struct dsr_actor_report *report)
{
	json_t *object = json_object();
	char why[96];

	dsr_report_why(report, why, sizeof(why));
	dsr_json_set(&object, "actor", json_string(report->name));
	dsr_json_set(&object, "role", json_string(dsr_role_name(report->role)));
	dsr_json_set(&object, "device", json_string(report->device));
	dsr_json_set(&object, "row",
	             report->row == DSR_REPORT_NO_ROW ? json_null() : json_integer(report->row));
	dsr_json_set(&object, "pid", json_integer(report->pid));
	dsr_json_set(&object, "state", json_string(dsr_actor_state_name(report->state)));
	dsr_json_set(&object, "up", json_boolean(report->is_up));
	dsr_json_set(&object, "why", json_string(why));
	dsr_json_set(&object, "expected", json_boolean(report->is_expected));
	dsr_json_set(&object, "incarnation", dsr_json_u64(report->incarnation));
	dsr_json_set(&object, "progress_age_ms", dsr_json_u64(report->progress_age_ns / 1000000));
	dsr_json_set(&object, "restarts", dsr_json_u64(report->restarts));
	dsr_json_set(&object, "by_hand", json_boolean(report->is_by_hand));
	return object;
}

static json_t *pool_json(const struct dsr_status *status)
{
	const struct dsr_pool_geometry *g = status->geometry;
	json_t *object;

	if (g == NULL)
		return json_null();
	object = json_object();
	dsr_json_set(&object, "epoch", dsr_json_u64(status->pool_epoch));
	dsr_json_set(&object, "lanes", json_integer(g->lanes));
	dsr_json_set(&object, "slots", json_integer(g->slots));
	dsr_json_set(&object, "slot_bytes", dsr_json_u64(g->slot_bytes));
	dsr_json_set(&object, "slot_stride", dsr_json_u64(g->slot_stride));
	dsr_json_set(&object, "block_tokens", json_integer(g->block_tokens));
	dsr_json_set(&object, "payload", json_integer(g->payload));
	dsr_json_set(&object, "fingerprint", dsr_json_hex(g->fingerprint, sizeof(g->fingerprint)));
	return object;
}

static json_t *word_json(const _Atomic uint64_t *word)
{
	return dsr_json_u64(atomic_load_explicit(word, memory_order_relaxed));
}

static json_t *scheduler_json(const struct dsr_scheduler_state *state)
{
	json_t *object = json_object();

	dsr_json_set(&object, "engines", word_json(&state->engines));
	dsr_json_set(&object, "leases", word_json(&state->leases));
	dsr_json_set(&object, "leased_slots", word_json(&state->leased_slots));
	dsr_json_set(&object, "reservations", word_json(&state->reservations));
	dsr_json_set(&object, "entries_visible", word_json(&state->entries_visible));
	dsr_json_set(&object, "entries_reserved", word_json(&state->entries_reserved));
	dsr_json_set(&object, "slots_free", word_json(&state->slots_free));
	dsr_json_set(&object, "slots_quarantined", word_json(&state->slots_quarantined));
	dsr_json_set(
		&object, "draining",
		json_boolean(atomic_load_explicit(&state->draining, memory_order_relaxed) != 0));
	return object;
}

static json_t *cache_json(const struct dsr_status *status)
{
	json_t *object = json_object();
	struct dsr_l1_report l1;

	dsr_report_l1(status->control, status->geometry, &l1);
	dsr_json_set(&object, "slots_used", dsr_json_u64(l1.slots_used));
	dsr_json_set(&object, "slots",
	             json_integer(status->geometry != NULL ? status->geometry->slots : 0));
	dsr_json_set(&object, "bytes_used", dsr_json_u64(l1.bytes_used));
	dsr_json_set(&object, "bytes_capacity", dsr_json_u64(l1.bytes_capacity));
	dsr_json_set(&object, "entry_capacity", json_integer(status->control->entry_count));
	return object;
}

static void set_counts(json_t **object, const struct dsr_control *control)
{
	json_t *transfers = json_object();

	dsr_json_set(&transfers, "load", counters_json(control, loads, COUNT(loads)));
	dsr_json_set(&transfers, "store", counters_json(control, stores, COUNT(stores)));
	dsr_json_set(object, "tiers", counters_json(control, tiers, COUNT(tiers)));
	dsr_json_set(object, "transfers", transfers);
	dsr_json_set(object, "blocks", counters_json(control, blocks, COUNT(blocks)));
	dsr_json_set(object, "load_failures",
	             reasons_json(control, DSR_COUNTER_LOAD_FAILURE_EVICTED));
	dsr_json_set(object, "drops", reasons_json(control, DSR_COUNTER_DROP_EVICTED));
}

static void set_nothing(json_t **object)
{
	static const char *const keys[] = {"pool",      "scheduler", "cache",         "tiers",
	                                   "transfers", "blocks",    "load_failures", "drops"};

	for (size_t i = 0; i < COUNT(keys); i++)
		dsr_json_set(object, keys[i], json_null());
}

json_t *dsr_status_json(const struct dsr_status *status, bool *ret_is_good)
{
	struct dsr_actor_report reports[DSR_REPORT_MAX];
	json_t *object = dsr_json_new(), *actors = json_array();
	uint32_t count = 0;
	bool is_good = false;

	if (status->control != NULL) {
		count = dsr_report_actors(status->control, status->now_ns, status->is_alive,
		                          reports);
		is_good = dsr_report_is_good(reports, count);
	}
	for (uint32_t i = 0; i < count; i++)
		dsr_json_append(&actors, actor_json(&reports[i]));
	dsr_json_set(&object, "state", json_string(is_good ? "good" : "degraded"));
	dsr_json_set(&object, "version", json_string(DSR_VERSION));
	dsr_json_set(&object, "run_dir", dsr_json_text(status->run_dir, SIZE_MAX));
	dsr_json_set(&object, "metrics_port",
	             status->metrics_port != 0 ? json_integer(status->metrics_port) : json_null());
	dsr_json_set(&object, "actors", actors);
	if (status->control == NULL) {
		set_nothing(&object);
	} else {
		dsr_json_set(&object, "pool", pool_json(status));
		dsr_json_set(&object, "scheduler", scheduler_json(status->control->scheduler));
		dsr_json_set(&object, "cache", cache_json(status));
		set_counts(&object, status->control);
	}
	*ret_is_good = is_good;
	return object;
}

static int print_actors(const json_t *status, FILE *out)
{
	struct dsr_table *table;
	const json_t *actor;
	size_t i;
	int r = dsr_table_new("ACTOR,>PID,STATE,UP,>PROGRESS,>RESTARTS,STARTED BY,WHY NOT", &table);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(status, "actors"), i, actor)
	{
		const char *why = dsr_json_get_text(actor, "why");
		char age[DSR_TABLE_TEXT];
		bool has_row = !json_is_null(json_object_get(actor, "row"));

		dsr_table_cell(table, "%s", dsr_json_get_text(actor, "actor"));
		dsr_table_cell(table, "%" PRIu64, dsr_json_get_u64(actor, "pid"));
		dsr_table_cell(table, "%s", dsr_json_get_text(actor, "state"));
		dsr_table_cell(table, "%s", dsr_json_get_bool(actor, "up") ? "yes" : "no");
		dsr_table_cell(table, "%s",
		               has_row ? dsr_table_time(dsr_json_get_u64(actor, "progress_age_ms") *
		                                                1000000,
		                                        age)
		                       : "-");
		dsr_table_cell(table, "%" PRIu64, dsr_json_get_u64(actor, "restarts"));
		dsr_table_cell(table, "%s",
		               dsr_json_get_bool(actor, "by_hand") ? "hand" : "supervisor");
		dsr_table_cell(table, "%s", dsr_json_get_bool(actor, "expected") ? why : "");
	}
	r = dsr_table_print(table, out);
	dsr_table_free(&table);
	return r;
}

static void print_pool(const json_t *status, FILE *out)
{
	const json_t *pool = json_object_get(status, "pool");
	const json_t *cache = json_object_get(status, "cache");
	char one[DSR_TABLE_TEXT], two[DSR_TABLE_TEXT];

	if (!json_is_object(pool)) {
		fputs("pool       none yet: no engine has registered\n", out);
		return;
	}
	fprintf(out,
	        "pool       epoch %" PRIu64 ", lanes %" PRIu64 ", slots %" PRIu64
	        " of %s, tokens a block %" PRIu64 "\n",
	        dsr_json_get_u64(pool, "epoch"), dsr_json_get_u64(pool, "lanes"),
	        dsr_json_get_u64(pool, "slots"),
	        dsr_table_bytes(dsr_json_get_u64(pool, "slot_bytes"), one),
	        dsr_json_get_u64(pool, "block_tokens"));
	fprintf(out, "L1         %s of %s in use\n",
	        dsr_table_bytes(dsr_json_get_u64(cache, "bytes_used"), one),
	        dsr_table_bytes(dsr_json_get_u64(cache, "bytes_capacity"), two));
}

static void print_scheduler(const json_t *status, FILE *out)
{
	const json_t *s = json_object_get(status, "scheduler");

	fprintf(out,
	        "blocks     visible %" PRIu64 ", being stored %" PRIu64 ", slots free %" PRIu64
	        ", quarantined %" PRIu64 "\n",
	        dsr_json_get_u64(s, "entries_visible"), dsr_json_get_u64(s, "entries_reserved"),
	        dsr_json_get_u64(s, "slots_free"), dsr_json_get_u64(s, "slots_quarantined"));
	fprintf(out,
	        "scheduler  engines %" PRIu64 ", leases %" PRIu64 " on %" PRIu64
	        " slots, reservations %" PRIu64 "%s\n",
	        dsr_json_get_u64(s, "engines"), dsr_json_get_u64(s, "leases"),
	        dsr_json_get_u64(s, "leased_slots"), dsr_json_get_u64(s, "reservations"),
	        dsr_json_get_bool(s, "draining") ? ", draining" : "");
}

static void print_transfer(const json_t *status, const char *key, const char *label, FILE *out)
{
	const json_t *t = json_object_get(json_object_get(status, "transfers"), key);
	char bytes[DSR_TABLE_TEXT];

	fprintf(out, "%-10s %s, ok %" PRIu64 ", partial %" PRIu64 ", failed %" PRIu64 "\n", label,
	        dsr_table_bytes(dsr_json_get_u64(t, "bytes"), bytes), dsr_json_get_u64(t, "ok"),
	        dsr_json_get_u64(t, "partial"), dsr_json_get_u64(t, "failed"));
}

/* Reasons that occurred, on one line. */
static void print_reasons(json_t *reasons, const char *label, FILE *out)
{
	const char *name, *separator = " ";
	json_t *value;

	fprintf(out, "%-10s", label);
	json_object_foreach(reasons, name, value)
	{
		if (dsr_json_get_u64(reasons, name) == 0)
			continue;
		fprintf(out, "%s%s %" PRIu64, separator, name, dsr_json_get_u64(reasons, name));
		separator = ", ";
	}
	fputs(separator[0] == ' ' ? " none\n" : "\n", out);
}

int dsr_status_print(const json_t *status, FILE *out)
{
	const json_t *t = json_object_get(status, "tiers");
	uint64_t port = dsr_json_get_u64(status, "metrics_port");
	int r;

	if (status == NULL)
		return -ENOMEM;
	fprintf(out, "DaseR %s in %s: %s\n", dsr_json_get_text(status, "version"),
	        dsr_json_get_text(status, "run_dir"), dsr_json_get_text(status, "state"));
	if (port != 0)
		fprintf(out, "metrics at port %" PRIu64 " of the loopback address\n", port);
	if (!json_is_object(t)) {
		fputs("no control segment yet: the scheduler has not started\n", out);
		return ferror(out) ? -EIO : 0;
	}
	fputc('\n', out);
	r = print_actors(status, out);
	if (r < 0)
		return r;
	fputc('\n', out);
	print_pool(status, out);
	print_scheduler(status, out);
	fprintf(out,
	        "hits       l1 %" PRIu64 ", l2 %" PRIu64 ", misses of l1 %" PRIu64
	        "; lookups found %" PRIu64 " of %" PRIu64 " blocks\n",
	        dsr_json_get_u64(t, "l1_hits"), dsr_json_get_u64(t, "l2_reads"),
	        dsr_json_get_u64(t, "l1_misses"), dsr_json_get_u64(t, "lookup_hit_blocks"),
	        dsr_json_get_u64(t, "lookup_blocks"));
	print_transfer(status, "load", "loads", out);
	print_transfer(status, "store", "stores", out);
	print_reasons(json_object_get(status, "load_failures"), "not loaded", out);
	print_reasons(json_object_get(status, "drops"), "not stored", out);
	return ferror(out) ? -EIO : 0;
}

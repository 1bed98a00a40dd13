/* SPDX-License-Identifier: Apache-2.0 */
#include "exposition.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <string.h>

#include "counters.h"
#include "version.h"

enum gauge {
#define DSR_GAUGE(NAME, metric, labels, help) GAUGE_##NAME,
#include "gauges.def"
#undef DSR_GAUGE
	GAUGE_COUNT
};

struct gauge_info {
	const char *metric;
	const char *labels;
	const char *help;
};

static const struct gauge_info gauges[] = {
#define DSR_GAUGE(NAME, metric, labels, help) {(metric), (labels), (help)},
#include "gauges.def"
#undef DSR_GAUGE
};

struct view {
	const struct dsr_exposition *shown;
	struct dsr_actor_report reports[DSR_REPORT_MAX];
	uint32_t count;
	struct dsr_l1_report l1;
};

static void take_view(struct view *view, const struct dsr_exposition *shown)
{
	view->shown = shown;
	view->count =
		dsr_report_actors(shown->control, shown->now_ns, shown->is_alive, view->reports);
	dsr_report_l1(shown->control, shown->geometry, &view->l1);
}

static void write_head(FILE *out, const char *metric, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, type);
}

/* Only an actor that may still be working has an age that means something. */
static bool has_age(const struct dsr_actor_report *report)
{
	return report->row != DSR_REPORT_NO_ROW &&
	       (report->is_expected || report->state != DSR_ACTOR_STOPPED);
}

static void write_restarts(FILE *out, const struct view *view, const char *metric)
{
	for (uint32_t i = 0; i < view->count; i++) {
		const struct dsr_actor_report *report = &view->reports[i];

		if (report->row != DSR_REPORT_NO_ROW)
			fprintf(out, "%s{actor=\"%s\"} %" PRIu64 "\n", metric, report->name,
			        report->restarts);
	}
}

static void write_ages(FILE *out, const struct view *view, const char *metric)
{
	for (uint32_t i = 0; i < view->count; i++) {
		const struct dsr_actor_report *report = &view->reports[i];

		if (has_age(report))
			fprintf(out, "%s{actor=\"%s\"} %" PRIu64 ".%03" PRIu64 "\n", metric,
			        report->name, report->progress_age_ns / 1000000000,
			        report->progress_age_ns / 1000000 % 1000);
	}
}

static void write_counters(FILE *out, const struct view *view)
{
	const char *last = "";

	for (unsigned i = 0; i < DSR_COUNTER_COUNT; i++) {
		const struct dsr_counter_info *info = dsr_counter_info(i);
		const char *open = info->labels[0] != '\0' ? "{" : "";

		if (strcmp(info->metric, last) != 0)
			write_head(out, info->metric, info->type, info->help);
		last = info->metric;
		if (i == DSR_COUNTER_RESTARTS)
			write_restarts(out, view, info->metric);
		else
			fprintf(out, "%s%s%s%s %" PRIu64 "\n", info->metric, open, info->labels,
			        open[0] != '\0' ? "}" : "",
			        dsr_counters_sum(view->shown->control, i));
	}
}

static uint64_t read_word(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static uint64_t gauge_value(const struct view *view, enum gauge gauge)
{
	const struct dsr_scheduler_state *state = view->shown->control->scheduler;
	const uint64_t values[GAUGE_COUNT] = {
		[GAUGE_BUILD_INFO] = 1,
		[GAUGE_UP] = dsr_report_is_good(view->reports, view->count),
		[GAUGE_L1_BYTES_USED] = view->l1.bytes_used,
		[GAUGE_L1_BYTES_CAPACITY] = view->l1.bytes_capacity,
		[GAUGE_ENTRIES_VISIBLE] = read_word(&state->entries_visible),
		[GAUGE_ENTRIES_RESERVED] = read_word(&state->entries_reserved),
		[GAUGE_LEASES] = read_word(&state->leases),
		[GAUGE_RESERVATIONS] = read_word(&state->reservations),
		[GAUGE_SLOTS_QUARANTINED] = read_word(&state->slots_quarantined),
		[GAUGE_ENGINES] = read_word(&state->engines),
	};

	return values[gauge];
}

static void write_gauges(FILE *out, const struct view *view)
{
	const char *last = "";

	for (enum gauge i = 0; i < GAUGE_COUNT; i++) {
		const struct gauge_info *info = &gauges[i];

		if (strcmp(info->metric, last) != 0)
			write_head(out, info->metric, "gauge", info->help);
		last = info->metric;
		if (i == GAUGE_PROGRESS_AGE)
			write_ages(out, view, info->metric);
		else if (i == GAUGE_BUILD_INFO)
			fprintf(out, "%s{version=\"%s\"} 1\n", info->metric, DSR_VERSION);
		else if (info->labels[0] != '\0')
			fprintf(out, "%s{%s} %" PRIu64 "\n", info->metric, info->labels,
			        gauge_value(view, i));
		else
			fprintf(out, "%s %" PRIu64 "\n", info->metric, gauge_value(view, i));
	}
}

int dsr_exposition_metrics(FILE *out, const struct dsr_exposition *shown)
{
	struct view view;

	take_view(&view, shown);
	write_gauges(out, &view);
	write_counters(out, &view);
	return ferror(out) ? -EIO : 0;
}

static json_t *actor_json(const struct dsr_actor_report *report)
{
	return json_pack("{s:s, s:b, s:b, s:s, s:f}", "actor", report->name, "up", report->is_up,
	                 "expected", report->is_expected, "state",
	                 dsr_actor_state_name(report->state), "progress_age_seconds",
	                 (double)(report->progress_age_ns / 1000000) / 1000.0);
}

static json_t *health_json(const struct view *view)
{
	json_t *actors = json_array(), *down = json_array();

	for (uint32_t i = 0; i < view->count; i++) {
		const struct dsr_actor_report *report = &view->reports[i];
		char why[96];

		/* jansson's *_new functions take a NULL and report it: one check at the end */
		if (has_age(report))
			json_array_append_new(actors, actor_json(report));
		if (report->is_up || !report->is_expected)
			continue;
		dsr_report_why(report, why, sizeof(why));
		json_array_append_new(down,
		                      json_pack("{s:s, s:s}", "actor", report->name, "why", why));
	}
	return json_pack("{s:s, s:s, s:o, s:o}", "status",
	                 json_array_size(down) == 0 ? "ok" : "degraded", "version", DSR_VERSION,
	                 "down", down, "actors", actors);
}

int dsr_exposition_health(FILE *out, const struct dsr_exposition *shown, bool *ret_is_good)
{
	struct view view;
	json_t *health;
	int r;

	take_view(&view, shown);
	health = health_json(&view);
	if (health == NULL)
		return -ENOMEM;
	r = json_dumpf(health, out, JSON_PRESERVE_ORDER | JSON_COMPACT | JSON_REAL_PRECISION(6));
	json_decref(health);
	if (r < 0 || fputc('\n', out) == EOF)
		return -EIO;
	*ret_is_good = dsr_report_is_good(view.reports, view.count);
	return 0;
}

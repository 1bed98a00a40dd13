/* SPDX-License-Identifier: Apache-2.0 */
#include "phase.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "roles.h"

static const char *const reason_names[] = {
#define DSR_REASON(NAME, name, number, meaning) [number] = #name,
#include "reasons.def"
#undef DSR_REASON
};

/* ---- percentiles ---- */

void replay_samples_done(struct replay_samples *samples)
{
	free(samples->values);
	*samples = (struct replay_samples){0};
}

void replay_samples_clear(struct replay_samples *samples)
{
	samples->count = 0;
}

int replay_samples_add(struct replay_samples *samples, uint64_t value)
{
	if (samples->count == samples->capacity) {
		size_t capacity = samples->capacity ? samples->capacity * 2 : 1024;
		uint64_t *values = reallocarray(samples->values, capacity, sizeof(*values));

		if (!values)
			return -ENOMEM;
		samples->values = values;
		samples->capacity = capacity;
	}
	samples->values[samples->count++] = value;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

uint64_t replay_samples_percentile(struct replay_samples *samples, double part)
{
	if (samples->count == 0)
		return 0;
	qsort(samples->values, samples->count, sizeof(samples->values[0]), compare);
	size_t at = (size_t)(part * (double)samples->count);

	return samples->values[at < samples->count ? at : samples->count - 1];
}

/* ---- JSON ---- */

static double gbps(uint64_t bytes, uint64_t busy_ns)
{
	/* bytes a nanosecond are GB a second */
	return busy_ns ? (double)bytes / (double)busy_ns : 0;
}

static json_t *drops_json(const struct replay_phase *phase)
{
	json_t *drops = json_object();

	for (uint32_t i = 0; drops && i < DSR_REASON_COUNT; i++)
		if (phase->drops[i] > 0 &&
		    json_object_set_new(drops, reason_names[i],
		                        json_integer((json_int_t)phase->drops[i])) < 0)
			return NULL;
	return drops;
}

static json_t *missed_json(const struct replay_phase *phase)
{
	json_t *missed = json_object();

	for (uint32_t i = 0; missed && i < REPLAY_CAUSE_COUNT; i++)
		if (json_object_set_new(missed, replay_cause_name((enum replay_cause)i),
		                        json_integer((json_int_t)phase->missed[i])) < 0)
			return NULL;
	return missed;
}

static json_t *phase_json(const struct replay_phase *p)
{
	/* all numbers stay far below 2^63 */
	json_t *object = json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I}, s:I, s:I, s:f, s:f,"
		" s:{s:f, s:f}, s:{s:f, s:f}, s:I, s:I, s:I, s:o, s:f}",
		"name", p->name, "requests", (json_int_t)p->requests, "failed",
		(json_int_t)p->failed, "aborted", (json_int_t)p->aborted, "hung",
		(json_int_t)p->hung, "mismatched_bytes", (json_int_t)p->mismatched_bytes,
		"prompt_tokens", (json_int_t)p->prompt_tokens, "hit_tokens", "engine",
		(json_int_t)p->engine_tokens, "l1", (json_int_t)p->l1_tokens, "l2",
		(json_int_t)p->l2_tokens, "bytes_loaded", (json_int_t)p->bytes_loaded,
		"bytes_stored", (json_int_t)p->bytes_stored, "load_GBps",
		gbps(p->bytes_loaded, p->load_busy_ns), "store_GBps",
		gbps(p->bytes_stored, p->store_busy_ns), "lookup_us", "p50",
		(double)p->lookup_p50_ns / 1e3, "p99", (double)p->lookup_p99_ns / 1e3, "load_us",
		"p50", (double)p->load_p50_ns / 1e3, "p99", (double)p->load_p99_ns / 1e3, "l1_hits",
		(json_int_t)p->l1_hits, "l1_misses", (json_int_t)p->l1_misses, "l2_reads",
		(json_int_t)p->l2_reads, "drops", drops_json(p), "seconds", p->seconds);
	json_t *more = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "full_block_tokens",
	                         (json_int_t)p->full_block_tokens, "steps", (json_int_t)p->steps,
	                         "preemptions", (json_int_t)p->preemptions, "load_failed_blocks",
	                         (json_int_t)p->load_failed_blocks, "seen_blocks",
	                         (json_int_t)p->seen_blocks, "seen_hit_blocks",
	                         (json_int_t)p->seen_hit_blocks, "missed_blocks", missed_json(p));

	if (object && (!more || json_object_update(object, more) < 0)) {
		json_decref(object);
		object = NULL;
	}
	json_decref(more);
	return object;
}

int replay_phases_json(FILE *file, const struct replay_settings *settings,
                       const struct replay_phase *phases, uint32_t count, const char *error)
{
	json_t *list = json_array();

	for (uint32_t i = 0; list && i < count; i++)
		if (json_array_append_new(list, phase_json(&phases[i])) < 0) {
			json_decref(list);
			list = NULL;
		}
	json_t *root = json_pack("{s:i, s:I, s:o, s:o, s:s?}", "schema", 1, "seed",
	                         (json_int_t)settings->seed, "config",
	                         replay_settings_json(settings), "phases", list, "error", error);
	if (!root)
		return -ENOMEM;
	int r = json_dumpf(root, file, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));

	json_decref(root);
	return r == 0 && fputc('\n', file) != EOF && fflush(file) == 0 ? 0 : -EIO;
}

/* ---- table ---- */

#define COLUMN 14

static void grouped(uint64_t value, char *text, size_t bytes)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, value);
	size_t at = 0;

	for (int i = 0; i < n && at + 2 < bytes; i++) {
		if (i > 0 && (n - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
}

static void row(FILE *file, const char *label, const struct replay_phase *phases, uint32_t count,
                size_t offset)
{
	(void)fprintf(file, "%-30s", label);
	for (uint32_t i = 0; i < count; i++) {
		char text[32];

		grouped(*(const uint64_t *)(const void *)((const char *)&phases[i] + offset), text,
		        sizeof(text));
		(void)fprintf(file, "%*s", COLUMN, text);
	}
	(void)fputc('\n', file);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void row_real(FILE *file, const char *label, const struct replay_phase *phases,
                     uint32_t count, double (*value)(const struct replay_phase *))
{
	(void)fprintf(file, "%-30s", label);
	for (uint32_t i = 0; i < count; i++)
		(void)fprintf(file, "%*.*f", COLUMN, 2, value(&phases[i]));
	(void)fputc('\n', file);
}

static double hit_percent(const struct replay_phase *p)
{
	return percent(p->engine_tokens + p->l1_tokens + p->l2_tokens, p->prompt_tokens);
}
static double load_rate(const struct replay_phase *p)
{
	return gbps(p->bytes_loaded, p->load_busy_ns);
}
static double store_rate(const struct replay_phase *p)
{
	return gbps(p->bytes_stored, p->store_busy_ns);
}
static double load_p50(const struct replay_phase *p)
{
	return (double)p->load_p50_ns / 1e6;
}
static double load_p99(const struct replay_phase *p)
{
	return (double)p->load_p99_ns / 1e6;
}
static double lookup_p99(const struct replay_phase *p)
{
	return (double)p->lookup_p99_ns / 1e6;
}
static double seconds(const struct replay_phase *p)
{
	return p->seconds;
}

static void drops_lines(FILE *file, const struct replay_phase *phases, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t reason = 0; reason < DSR_REASON_COUNT; reason++)
			if (phases[i].drops[reason] > 0 && reason != DSR_REASON_DUPLICATE)
				(void)fprintf(file, "%s: %" PRIu64 " blocks not stored: %s\n",
				              phases[i].name, phases[i].drops[reason],
				              reason_names[reason]);
}

void replay_phases_table(FILE *file, const struct replay_settings *settings,
                         const struct replay_phase *phases, uint32_t count)
{
	char size[32];

	dsr_format_size(settings->block_bytes, size, sizeof(size));
	(void)fprintf(file, "%s, TP%" PRIu64 "%s, blocks of %" PRIu64 " tokens and %s a rank\n\n",
	              settings->workload, settings->tp, settings->replicated ? " replicated" : "",
	              settings->block_tokens, size);
	(void)fprintf(file, "%-30s", "");
	for (uint32_t i = 0; i < count; i++)
		(void)fprintf(file, "%*s", COLUMN, phases[i].name);
	(void)fputc('\n', file);
	row(file, "requests", phases, count, offsetof(struct replay_phase, requests));
	row(file, "  aborted on purpose", phases, count, offsetof(struct replay_phase, aborted));
	row(file, "  failed", phases, count, offsetof(struct replay_phase, failed));
	row(file, "  hung", phases, count, offsetof(struct replay_phase, hung));
	row(file, "preemptions", phases, count, offsetof(struct replay_phase, preemptions));
	row(file, "prompt tokens", phases, count, offsetof(struct replay_phase, prompt_tokens));
	row(file, "  hit in the engine", phases, count,
	    offsetof(struct replay_phase, engine_tokens));
	row(file, "  loaded from L1", phases, count, offsetof(struct replay_phase, l1_tokens));
	row_real(file, "  hit, %", phases, count, hit_percent);
	row(file, "full blocks seen before", phases, count,
	    offsetof(struct replay_phase, seen_blocks));
	row(file, "  served", phases, count, offsetof(struct replay_phase, seen_hit_blocks));
	row(file, "bytes loaded, all ranks", phases, count,
	    offsetof(struct replay_phase, bytes_loaded));
	row_real(file, "  GB/s", phases, count, load_rate);
	row_real(file, "  load p50, ms", phases, count, load_p50);
	row_real(file, "  load p99, ms", phases, count, load_p99);
	row(file, "bytes stored, all ranks", phases, count,
	    offsetof(struct replay_phase, bytes_stored));
	row_real(file, "  GB/s", phases, count, store_rate);
	row_real(file, "lookup p99 so far, ms", phases, count, lookup_p99);
	row(file, "mismatched bytes", phases, count,
	    offsetof(struct replay_phase, mismatched_bytes));
	row_real(file, "seconds", phases, count, seconds);
	(void)fputc('\n', file);
	drops_lines(file, phases, count);
	(void)fflush(file);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The results of one phase, and the forms in which they are printed. */
#ifndef REPLAY_PHASE_H
#define REPLAY_PHASE_H

#include <stdio.h>

#include "ledger.h"
#include "settings.h"

#define REPLAY_REASONS_MAX 32 /* length of the drops arrays of daser/scheduler.h */

struct replay_phase {
	char name[REPLAY_PHASE_NAME_MAX];
	uint64_t requests, failed, aborted, hung;
	uint64_t mismatched_bytes;
	uint64_t prompt_tokens;
	uint64_t engine_tokens, l1_tokens, l2_tokens;
	uint64_t bytes_loaded, bytes_stored; /* sums over ranks */
	uint64_t load_busy_ns, store_busy_ns;
	uint64_t lookup_p50_ns, lookup_p99_ns;
	uint64_t load_p50_ns, load_p99_ns;
	uint64_t l1_hits, l1_misses, l2_reads;
	uint64_t drops[REPLAY_REASONS_MAX];
	double seconds;
	/* beside the fixed keys */
	uint64_t steps, preemptions, load_failed_blocks;
	uint64_t full_block_tokens;          /* of requests that were not aborted */
	uint64_t seen_blocks;                /* leading full blocks that were asked for before */
	uint64_t seen_hit_blocks;            /* of these, served by the engine's own cache or L1 */
	uint64_t missed[REPLAY_CAUSE_COUNT]; /* full blocks computed, by the cause of the first one
	                                      */
};

/* A growing list of numbers, for percentiles. */
struct replay_samples {
	uint64_t *values; /* owned */
	size_t count, capacity;
};
void replay_samples_done(struct replay_samples *samples);
void replay_samples_clear(struct replay_samples *samples);
/* -ENOMEM: the value is not taken. */
int replay_samples_add(struct replay_samples *samples, uint64_t value);
/* The value that `part` (0..1) of them do not exceed; sorts them; 0 when there are none. */
uint64_t replay_samples_percentile(struct replay_samples *samples, double part);

/* One line of JSON, the keys of docs/replay.md. `error` is NULL or why the run ended early. */
int replay_phases_json(FILE *file, const struct replay_settings *settings,
                       const struct replay_phase *phases, uint32_t count, const char *error);
/* A table for people, a column for each phase. */
void replay_phases_table(FILE *file, const struct replay_settings *settings,
                         const struct replay_phase *phases, uint32_t count);

#endif

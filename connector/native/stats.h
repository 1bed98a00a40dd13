/* SPDX-License-Identifier: Apache-2.0 */
/* Latencies in log-linear buckets: fixed memory, 3 % wide. */
#ifndef DSR_NATIVE_STATS_H
#define DSR_NATIVE_STATS_H

#include <stdint.h>

#define DSR_HISTOGRAM_STEPS 32 /* buckets of each power of two */
#define DSR_HISTOGRAM_BUCKETS (60 * DSR_HISTOGRAM_STEPS)

/* Zeroed: empty. */
struct dsr_histogram {
	uint64_t total;
	uint64_t v[DSR_HISTOGRAM_BUCKETS];
};

void dsr_histogram_add(struct dsr_histogram *histogram, uint64_t value);
/* Middle of the bucket that holds the value at `percent` (1 .. 100) of the way up; 0 when empty. */
uint64_t dsr_histogram_percentile(const struct dsr_histogram *histogram, unsigned percent);

/* Time during which at least one of several overlapping things was under way. Zeroed: none yet. */
struct dsr_busy {
	uint64_t since_ns;
	uint64_t total_ns; /* without the present stretch */
	uint32_t count;
	uint32_t count_max;
};

void dsr_busy_begin(struct dsr_busy *busy, uint64_t now_ns);
void dsr_busy_end(struct dsr_busy *busy, uint64_t now_ns);
uint64_t dsr_busy_ns(const struct dsr_busy *busy, uint64_t now_ns);

#endif

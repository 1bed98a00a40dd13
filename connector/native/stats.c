/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#define STEP_BITS 5

/* Values below 32 have a bucket each; above, the five bits behind the leading one choose. */
static unsigned bucket_of(uint64_t value)
{
	unsigned top;

	if (value < DSR_HISTOGRAM_STEPS)
		return (unsigned)value;
	top = 63u - (unsigned)__builtin_clzll(value);
	return (top - STEP_BITS + 1) * DSR_HISTOGRAM_STEPS +
	       (unsigned)((value >> (top - STEP_BITS)) & (DSR_HISTOGRAM_STEPS - 1));
}

static uint64_t bucket_middle(unsigned bucket)
{
	unsigned shift;

	if (bucket < DSR_HISTOGRAM_STEPS)
		return bucket;
	shift = bucket / DSR_HISTOGRAM_STEPS - 1;
	return ((uint64_t)(DSR_HISTOGRAM_STEPS + bucket % DSR_HISTOGRAM_STEPS) << shift) +
	       ((UINT64_C(1) << shift) >> 1);
}

void dsr_histogram_add(struct dsr_histogram *histogram, uint64_t value)
{
	histogram->v[bucket_of(value)]++;
	histogram->total++;
}

uint64_t dsr_histogram_percentile(const struct dsr_histogram *histogram, unsigned percent)
{
	uint64_t rank, seen = 0;

	if (histogram->total == 0)
		return 0;
	rank = (histogram->total * percent + 99) / 100;
	for (unsigned i = 0; i < DSR_HISTOGRAM_BUCKETS; i++) {
		seen += histogram->v[i];
		if (seen >= rank && seen > 0)
			return bucket_middle(i);
	}
	return bucket_middle(DSR_HISTOGRAM_BUCKETS - 1);
}

void dsr_busy_begin(struct dsr_busy *busy, uint64_t now_ns)
{
	if (busy->count++ == 0)
		busy->since_ns = now_ns;
	if (busy->count > busy->count_max)
		busy->count_max = busy->count;
}

void dsr_busy_end(struct dsr_busy *busy, uint64_t now_ns)
{
	if (busy->count == 0 || --busy->count > 0)
		return;
	busy->total_ns += now_ns - busy->since_ns;
}

uint64_t dsr_busy_ns(const struct dsr_busy *busy, uint64_t now_ns)
{
	return busy->total_ns + (busy->count > 0 ? now_ns - busy->since_ns : 0);
}

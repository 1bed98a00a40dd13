/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "seqlock.h"

static_assert(DSR_COUNTER_COUNT <= DSR_COUNTERS_PER_PAGE, "counters.def outgrew a counters page");
static_assert(DSR_REASON_COUNT <= 32, "dsr_record.reasons has one bit for each reason");

#define COUNTERS_SUM_TRIES 16 /* retiring is rare and takes microseconds */

void dsr_counter_add(struct dsr_counters_page *page, enum dsr_counter counter, uint64_t n)
{
	if (page == NULL || (unsigned)counter >= DSR_COUNTER_COUNT)
		return;
	/* An addition and not a store: the process that owns the page may have several threads. */
	atomic_fetch_add_explicit(&page->v[counter], n, memory_order_relaxed);
}

void dsr_counters_claim(struct dsr_counters_page *page, enum dsr_role role, uint64_t incarnation,
                        int32_t pid)
{
	page->pid = pid;
	atomic_store_explicit(&page->role, (uint32_t)role, memory_order_relaxed);
	atomic_fetch_add_explicit(&page->generation, 2, memory_order_relaxed);
	/* Last: who sees the incarnation sees the rest. */
	atomic_store_explicit(&page->incarnation, incarnation, memory_order_release);
}

static bool counter_is_gauge(unsigned counter)
{
	return strcmp(dsr_counter_info(counter)->type, "gauge") == 0;
}

/* The retired page's generation is odd while values move into it, so that sums do not count one
 * twice or not at all: a sum that goes down looks like a restart to whoever collects it. A
 * scheduler that died in between leaves it odd; its successor retires the same page again and
 * moves what is left. */
void dsr_counters_retire(struct dsr_control *control, uint32_t page_index)
{
	struct dsr_counters_page *retired = &control->counters[DSR_RETIRED_PAGE];
	struct dsr_counters_page *page;
	uint64_t generation;

	if (page_index >= DSR_RETIRED_PAGE)
		return;
	page = &control->counters[page_index];
	generation = atomic_load_explicit(&retired->generation, memory_order_relaxed) | 1;
	atomic_store_explicit(&retired->generation, generation, memory_order_relaxed);
	dsr_seq_fence_write();
	for (unsigned i = 0; i < DSR_COUNTER_COUNT; i++) {
		uint64_t n = atomic_exchange_explicit(&page->v[i], 0, memory_order_relaxed);

		if (!counter_is_gauge(i))
			atomic_fetch_add_explicit(&retired->v[i], n, memory_order_relaxed);
	}
	page->pid = 0;
	atomic_store_explicit(&page->role, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&page->generation, 2, memory_order_relaxed);
	atomic_store_explicit(&page->incarnation, 0, memory_order_release);
	/* Partner: the acquire load in dsr_counters_sum. */
	atomic_store_explicit(&retired->generation, generation + 1, memory_order_release);
}

static uint64_t counters_sum_once(const struct dsr_control *control, enum dsr_counter counter)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < DSR_COUNTER_PAGES; i++)
		sum += atomic_load_explicit(&control->counters[i].v[counter], memory_order_relaxed);
	return sum;
}

uint64_t dsr_counters_sum(const struct dsr_control *control, enum dsr_counter counter)
{
	const _Atomic uint64_t *generation = &control->counters[DSR_RETIRED_PAGE].generation;
	uint64_t before, sum = 0;

	if ((unsigned)counter >= DSR_COUNTER_COUNT)
		return 0;
	for (unsigned i = 0; i < COUNTERS_SUM_TRIES; i++) {
		before = atomic_load_explicit(generation, memory_order_acquire);
		sum = counters_sum_once(control, counter);
		dsr_seq_fence_read();
		if ((before & 1) == 0 &&
		    before == atomic_load_explicit(generation, memory_order_relaxed))
			break;
	}
	return sum;
}

/* clang-format off */
static const struct dsr_counter_info counter_infos[] = {
#define DSR_COUNTER(NAME, type, metric, labels, help) {metric, labels, help, #type, #NAME},
#include "counters.def"
#undef DSR_COUNTER
};

static const char *const reason_names[] = {
#define DSR_REASON(NAME, name, number, meaning) [number] = #name,
#include "reasons.def"
#undef DSR_REASON
};

static const char *const role_names[] = {
#define DSR_ROLE(NAME, name, number, exe, per_device, ready_ms, stop_ms, restart) [number] = #name,
#include "actors.def"
#undef DSR_ROLE
};
/* clang-format on */

static const char *const actor_state_names[] = {
	[DSR_ACTOR_ABSENT] = "absent",   [DSR_ACTOR_STARTING] = "starting",
	[DSR_ACTOR_READY] = "ready",     [DSR_ACTOR_DRAINING] = "draining",
	[DSR_ACTOR_STOPPED] = "stopped",
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static_assert(COUNT_OF(counter_infos) == DSR_COUNTER_COUNT, "one info for each counter");

/* Tables may have holes. */
static const char *name_of(const char *const *names, size_t count, unsigned number)
{
	return number < count && names[number] != NULL ? names[number] : "?";
}

const struct dsr_counter_info *dsr_counter_info(unsigned counter)
{
	return counter < DSR_COUNTER_COUNT ? &counter_infos[counter] : NULL;
}

const char *dsr_reason_name(unsigned reason)
{
	return name_of(reason_names, COUNT_OF(reason_names), reason);
}

const char *dsr_role_name(unsigned role)
{
	return name_of(role_names, COUNT_OF(role_names), role);
}

const char *dsr_actor_state_name(unsigned state)
{
	return name_of(actor_state_names, COUNT_OF(actor_state_names), state);
}

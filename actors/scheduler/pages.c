/* SPDX-License-Identifier: Apache-2.0 */
#include "pages.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "util.h"

#define PAGES_FIRST DSR_ACTOR_ROWS
#define PAGES_END (DSR_ACTOR_ROWS + DSR_ENGINE_PAGES)

static uint64_t page_owner(const struct dsr_control *control, uint32_t page)
{
	return atomic_load_explicit(&control->counters[page].incarnation, memory_order_acquire);
}

int dsr_pages_get(struct dsr_control *control, enum dsr_role role, uint64_t incarnation,
                  int32_t pid, uint32_t *ret_page)
{
	uint32_t unused = PAGES_END;

	for (uint32_t page = PAGES_FIRST; page < PAGES_END; page++) {
		uint64_t owner = page_owner(control, page);

		if (owner == incarnation) {
			*ret_page = page;
			return 0;
		}
		if (owner == 0 && unused == PAGES_END)
			unused = page;
	}
	if (unused == PAGES_END)
		return -EAGAIN;
	dsr_counters_claim(&control->counters[unused], role, incarnation, pid);
	*ret_page = unused;
	return 0;
}

void dsr_pages_put(struct dsr_control *control, uint64_t incarnation)
{
	for (uint32_t page = PAGES_FIRST; page < PAGES_END; page++)
		if (incarnation != 0 && page_owner(control, page) == incarnation)
			dsr_counters_retire(control, page);
}

/* A process with this pid that started after the page was claimed is another one. Incarnations and
 * start times both count from boot. */
static bool page_process_is_dead(const struct dsr_counters_page *page)
{
	uint64_t ticks, incarnation, hz = (uint64_t)sysconf(_SC_CLK_TCK);

	if (dsr_start_ticks(page->pid, &ticks) < 0)
		return true;
	incarnation = atomic_load_explicit(&page->incarnation, memory_order_relaxed);
	return ticks / hz > incarnation / UINT64_C(1000000000) + 1;
}

uint32_t dsr_pages_sweep(struct dsr_control *control,
                         bool (*is_known)(void *self, uint64_t incarnation), void *self)
{
	uint32_t swept = 0;

	for (uint32_t page = PAGES_FIRST; page < PAGES_END; page++) {
		uint64_t owner = page_owner(control, page);

		if (owner == 0 || is_known(self, owner) ||
		    !page_process_is_dead(&control->counters[page]))
			continue;
		dsr_counters_retire(control, page);
		swept++;
	}
	return swept;
}

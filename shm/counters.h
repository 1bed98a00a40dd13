/* SPDX-License-Identifier: Apache-2.0 */
/* Counters pages: one writer each, sums for readers. */
#ifndef DSR_SHM_COUNTERS_H
#define DSR_SHM_COUNTERS_H

#include "control.h"
#include "roles.h"

/* Adds to a counter of the caller's own page. page may be NULL (not attached): nothing happens. */
void dsr_counter_add(struct dsr_counters_page *page, enum dsr_counter counter, uint64_t n);
/* Takes over a page that is not in use: sets owner, keeps the values (a restarted actor goes on).
 */
void dsr_counters_claim(struct dsr_counters_page *page, enum dsr_role role, uint64_t incarnation,
                        int32_t pid);
/* Adds a dead process's page to the retired page and clears it. The scheduler alone calls it, after
 * the owner is confirmed dead. */
void dsr_counters_retire(struct dsr_control *control, uint32_t page_index);
/* Sum over all pages. */
uint64_t dsr_counters_sum(const struct dsr_control *control, enum dsr_counter counter);

struct dsr_counter_info {
	const char *metric; /* "daser_l1_hits_total" */
	const char *labels; /* "op=\"load\"" or "" */
	const char *help;
	const char *type; /* "counter" or "gauge" */
	const char *name; /* "L1_HITS" */
};
/* Static description; NULL when out of range. */
const struct dsr_counter_info *dsr_counter_info(unsigned counter);
/* Static names; "?" when out of range. */
const char *dsr_reason_name(unsigned reason);
const char *dsr_role_name(unsigned role);
const char *dsr_actor_state_name(unsigned state);

#endif

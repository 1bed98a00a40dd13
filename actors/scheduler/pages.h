/* SPDX-License-Identifier: Apache-2.0 */
/* Counters pages of engine processes: given to a process when it joins, folded into the retired
 * page when it is dead. A process finds its page again after a restart of the scheduler. */
#ifndef DSR_SCHEDULER_PAGES_H
#define DSR_SCHEDULER_PAGES_H

#include "counters.h"

/* The page of this process, a new one when it has none; -EAGAIN when all are taken. */
int dsr_pages_get(struct dsr_control *control, enum dsr_role role, uint64_t incarnation,
                  int32_t pid, uint32_t *ret_page);
/* Folds the page of a dead process; nothing happens when it has none. */
void dsr_pages_put(struct dsr_control *control, uint64_t incarnation);
/* After a restart of the scheduler: folds pages of processes that died meanwhile. is_known tells
 * whether a process has joined since then. Returns how many. */
uint32_t dsr_pages_sweep(struct dsr_control *control,
                         bool (*is_known)(void *self, uint64_t incarnation), void *self);

#endif

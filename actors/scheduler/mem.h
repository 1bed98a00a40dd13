/* SPDX-License-Identifier: Apache-2.0 */
/* Large private tables, sized once at open: pages that are never touched cost nothing. */
#ifndef DSR_SCHEDULER_MEM_H
#define DSR_SCHEDULER_MEM_H

#include <stddef.h>

/* Zeroed memory, or NULL. Free it with the same size. */
void *dsr_mem_map(size_t bytes);
/* The same, for a table that is read all over: in huge pages where the system has them to give. */
void *dsr_mem_map_huge(size_t bytes);
/* NULL is fine. */
void dsr_mem_unmap(void *memory, size_t bytes);

#endif

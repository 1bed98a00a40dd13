/* SPDX-License-Identifier: Apache-2.0 */
/* A min-heap of numbered things, each in it at most once: O(log n) to add, move and remove, O(1) to
 * ask whether one is in it. Fixed memory. Of equal ranks the lower number is the lesser. */
#ifndef DSR_SCHEDULER_HEAP_H
#define DSR_SCHEDULER_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define DSR_HEAP_NONE UINT32_MAX

struct dsr_heap;

/* For numbers 0 .. count-1. -EINVAL (count 0), -ENOMEM. */
int dsr_heap_new(uint32_t count, struct dsr_heap **ret_heap);
void dsr_heap_free(struct dsr_heap **heap);

/* Puts it in with this rank, or gives it this rank. */
void dsr_heap_set(struct dsr_heap *heap, uint32_t number, uint64_t rank);
/* Nothing happens when it is not in the heap. */
void dsr_heap_remove(struct dsr_heap *heap, uint32_t number);
bool dsr_heap_has(const struct dsr_heap *heap, uint32_t number);
/* The one with the least rank (ret_rank may be NULL), or DSR_HEAP_NONE. It stays in. */
uint32_t dsr_heap_first(const struct dsr_heap *heap, uint64_t *ret_rank);
uint32_t dsr_heap_size(const struct dsr_heap *heap);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "heap.h"

#include <errno.h>
#include <stdlib.h>

#include "log.h"
#include "mem.h"

struct heap_node {
	uint64_t rank;
	uint32_t number;
};

struct dsr_heap {
	struct heap_node *nodes; /* owned */
	uint32_t *places;        /* owned: position + 1 of each number, 0 = not in the heap */
	uint32_t count;
	uint32_t size;
};

int dsr_heap_new(uint32_t count, struct dsr_heap **ret_heap)
{
	struct dsr_heap *heap;

	if (count == 0 || count == DSR_HEAP_NONE)
		return -EINVAL;
	heap = calloc(1, sizeof(*heap));
	if (heap == NULL)
		return -ENOMEM;
	heap->count = count;
	heap->nodes = dsr_mem_map(count * sizeof(*heap->nodes));
	heap->places = dsr_mem_map(count * sizeof(*heap->places));
	if (heap->nodes == NULL || heap->places == NULL) {
		dsr_heap_free(&heap);
		return -ENOMEM;
	}
	*ret_heap = heap;
	return 0;
}

void dsr_heap_free(struct dsr_heap **heap)
{
	if (heap == NULL || *heap == NULL)
		return;
	dsr_mem_unmap((*heap)->nodes, (*heap)->count * sizeof(*(*heap)->nodes));
	dsr_mem_unmap((*heap)->places, (*heap)->count * sizeof(*(*heap)->places));
	free(*heap);
	*heap = NULL;
}

static bool node_is_less(const struct heap_node *a, const struct heap_node *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->number < b->number;
}

static void heap_place(struct dsr_heap *heap, uint32_t at, struct heap_node node)
{
	heap->nodes[at] = node;
	heap->places[node.number] = at + 1;
}

static void heap_up(struct dsr_heap *heap, uint32_t at, struct heap_node node)
{
	while (at > 0 && node_is_less(&node, &heap->nodes[(at - 1) / 2])) {
		heap_place(heap, at, heap->nodes[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_place(heap, at, node);
}

static void heap_down(struct dsr_heap *heap, uint32_t at, struct heap_node node)
{
	for (;;) {
		uint64_t child = UINT64_C(2) * at + 1;

		if (child >= heap->size)
			break;
		if (child + 1 < heap->size &&
		    node_is_less(&heap->nodes[child + 1], &heap->nodes[child]))
			child++;
		if (!node_is_less(&heap->nodes[child], &node))
			break;
		heap_place(heap, at, heap->nodes[child]);
		at = (uint32_t)child;
	}
	heap_place(heap, at, node);
}

/* The place `at` is empty: `node` goes there or to where it belongs. */
static void heap_fill(struct dsr_heap *heap, uint32_t at, struct heap_node node)
{
	if (at > 0 && node_is_less(&node, &heap->nodes[(at - 1) / 2]))
		heap_up(heap, at, node);
	else
		heap_down(heap, at, node);
}

void dsr_heap_set(struct dsr_heap *heap, uint32_t number, uint64_t rank)
{
	struct heap_node node = {.rank = rank, .number = number};

	dsr_assert(number < heap->count);
	if (heap->places[number] != 0)
		heap_fill(heap, heap->places[number] - 1, node);
	else
		heap_up(heap, heap->size++, node);
}

void dsr_heap_remove(struct dsr_heap *heap, uint32_t number)
{
	uint32_t at;

	dsr_assert(number < heap->count);
	if (heap->places[number] == 0)
		return;
	at = heap->places[number] - 1;
	heap->places[number] = 0;
	heap->size--;
	if (at != heap->size)
		heap_fill(heap, at, heap->nodes[heap->size]);
}

bool dsr_heap_has(const struct dsr_heap *heap, uint32_t number)
{
	return heap->places[number] != 0;
}

uint32_t dsr_heap_first(const struct dsr_heap *heap, uint64_t *ret_rank)
{
	if (heap->size == 0)
		return DSR_HEAP_NONE;
	if (ret_rank != NULL)
		*ret_rank = heap->nodes[0].rank;
	return heap->nodes[0].number;
}

uint32_t dsr_heap_size(const struct dsr_heap *heap)
{
	return heap->size;
}

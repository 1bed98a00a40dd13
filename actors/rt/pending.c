/* SPDX-License-Identifier: Apache-2.0 */
/* A request's number is (serial << 16 | place): the place is found at once, and the serial tells a
 * late reply from the reply to the place's next request. */
#include "pending.h"

#include <errno.h>
#include <stdlib.h>

#include "log.h"

#define PLACE_BITS 16
#define PLACE_MASK (DSR_PENDING_MAX - 1)

struct place {
	struct dsr_request request;
	uint32_t next, before; /* of the same peer, place + 1; next is also the free list's */
	uint32_t heap_index;
	bool is_used;
};

struct dsr_pending {
	struct place *places; /* owned; the kernel gives its pages as they are first used */
	uint32_t *heap;       /* owned: places, a min-heap by deadline */
	uint32_t count;
	uint32_t fresh; /* places from here on were never used */
	uint32_t free;  /* place + 1 of the first free one below `fresh`, 0 = none */
	uint64_t serial;
};

int dsr_pending_new(struct dsr_pending **ret_pending)
{
	struct dsr_pending *pending = calloc(1, sizeof(*pending));

	if (!pending)
		return -ENOMEM;
	pending->places = calloc(DSR_PENDING_MAX, sizeof(*pending->places));
	pending->heap = calloc(DSR_PENDING_MAX, sizeof(*pending->heap));
	if (!pending->places || !pending->heap) {
		dsr_pending_free(&pending);
		return -ENOMEM;
	}
	*ret_pending = pending;
	return 0;
}

void dsr_pending_free(struct dsr_pending **pending)
{
	if (!*pending)
		return;
	free((*pending)->places);
	free((*pending)->heap);
	free(*pending);
	*pending = NULL;
}

/* ---- the heap ---- */

static uint64_t at_of(const struct dsr_pending *pending, uint32_t heap_index)
{
	return pending->places[pending->heap[heap_index]].request.at_ns;
}

static void heap_put(struct dsr_pending *pending, uint32_t i, uint32_t place)
{
	pending->heap[i] = place;
	pending->places[place].heap_index = i;
}

static void sift_up(struct dsr_pending *pending, uint32_t i, uint32_t place)
{
	uint64_t at_ns = pending->places[place].request.at_ns;

	while (i > 0 && at_ns < at_of(pending, (i - 1) / 2)) {
		heap_put(pending, i, pending->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(pending, i, place);
}

static void sift_down(struct dsr_pending *pending, uint32_t i, uint32_t place)
{
	uint64_t at_ns = pending->places[place].request.at_ns;
	uint32_t child;

	while ((child = 2 * i + 1) < pending->count) {
		if (child + 1 < pending->count && at_of(pending, child + 1) < at_of(pending, child))
			child++;
		if (at_ns <= at_of(pending, child))
			break;
		heap_put(pending, i, pending->heap[child]);
		i = child;
	}
	heap_put(pending, i, place);
}

/* Closes the gap at heap place i; count is lowered already. */
static void heap_remove(struct dsr_pending *pending, uint32_t i)
{
	uint32_t last = pending->heap[pending->count];

	if (i == pending->count)
		return;
	if (i > 0 && pending->places[last].request.at_ns < at_of(pending, (i - 1) / 2))
		sift_up(pending, i, last);
	else
		sift_down(pending, i, last);
}

/* ---- requests ---- */

int dsr_pending_add(struct dsr_pending *pending, const struct dsr_request *request,
                    uint64_t *ret_req)
{
	struct place *place;
	uint32_t i;

	if (pending->count == DSR_PENDING_MAX)
		return -EAGAIN;
	if (pending->free) {
		i = pending->free - 1;
		pending->free = pending->places[i].next;
	} else {
		i = pending->fresh++;
	}
	place = &pending->places[i];
	*place = (struct place){.request = *request, .next = request->list->first, .is_used = true};
	place->request.req = ++pending->serial << PLACE_BITS | i;
	if (place->next)
		pending->places[place->next - 1].before = i + 1;
	request->list->first = i + 1;
	sift_up(pending, pending->count++, i);
	*ret_req = place->request.req;
	return 0;
}

static void take(struct dsr_pending *pending, uint32_t i, struct dsr_request *ret_request)
{
	struct place *place = &pending->places[i];

	dsr_assert(place->is_used);
	if (place->next)
		pending->places[place->next - 1].before = place->before;
	if (place->before)
		pending->places[place->before - 1].next = place->next;
	else
		place->request.list->first = place->next;
	pending->count--;
	heap_remove(pending, place->heap_index);
	*ret_request = place->request;
	place->is_used = false;
	place->next = pending->free;
	pending->free = i + 1;
}

bool dsr_pending_take(struct dsr_pending *pending, const struct dsr_pending_list *list,
                      uint64_t req, uint32_t type, struct dsr_request *ret_request)
{
	uint32_t i = (uint32_t)(req & PLACE_MASK);
	const struct place *place = &pending->places[i];

	if (i >= pending->fresh || !place->is_used || place->request.req != req ||
	    place->request.list != list || place->request.type != type)
		return false;
	take(pending, i, ret_request);
	return true;
}

bool dsr_pending_take_due(struct dsr_pending *pending, uint64_t now_ns,
                          struct dsr_request *ret_request)
{
	if (pending->count == 0 || at_of(pending, 0) > now_ns)
		return false;
	take(pending, pending->heap[0], ret_request);
	return true;
}

bool dsr_pending_take_first(struct dsr_pending *pending, const struct dsr_pending_list *list,
                            struct dsr_request *ret_request)
{
	if (list->first == 0)
		return false;
	take(pending, list->first - 1, ret_request);
	return true;
}

uint64_t dsr_pending_next_ns(const struct dsr_pending *pending)
{
	return pending->count > 0 ? at_of(pending, 0) : UINT64_MAX;
}

uint32_t dsr_pending_count(const struct dsr_pending *pending)
{
	return pending->count;
}

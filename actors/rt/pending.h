/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for their reply: found by number, by deadline and by peer. A fixed number of
 * them; nothing is allocated after dsr_pending_new. Used by link.c. */
#ifndef DSR_RT_PENDING_H
#define DSR_RT_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#define DSR_PENDING_MAX 65536

struct dsr_pending;

/* The requests to one peer; part of that peer. Zeroed means none. */
struct dsr_pending_list {
	uint32_t first; /* place + 1, 0 = none */
};

struct dsr_request {
	uint64_t req;
	struct dsr_pending_list *list; /* borrowed until the request is taken */
	uint64_t at_ns;                /* deadline */
	uint64_t cookie;
	uint32_t type;
	bool is_internal; /* the link's own: its owner is told nothing */
};

int dsr_pending_new(struct dsr_pending **ret_pending);
void dsr_pending_free(struct dsr_pending **pending);

/* Adds a request (req of it is ignored); *ret_req is its number, never used before and never 0.
 * -EAGAIN when DSR_PENDING_MAX wait. */
int dsr_pending_add(struct dsr_pending *pending, const struct dsr_request *request,
                    uint64_t *ret_req);
/* Each takes a request out; false: there is none such. */
bool dsr_pending_take(struct dsr_pending *pending, const struct dsr_pending_list *list,
                      uint64_t req, uint32_t type, struct dsr_request *ret_request);
bool dsr_pending_take_due(struct dsr_pending *pending, uint64_t now_ns,
                          struct dsr_request *ret_request);
bool dsr_pending_take_first(struct dsr_pending *pending, const struct dsr_pending_list *list,
                            struct dsr_request *ret_request);
/* The nearest deadline, UINT64_MAX when nothing waits. */
uint64_t dsr_pending_next_ns(const struct dsr_pending *pending);
uint32_t dsr_pending_count(const struct dsr_pending *pending);

#endif

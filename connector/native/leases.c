/* SPDX-License-Identifier: Apache-2.0 */
/* From a lookup to the end of a load, as the scheduler object sees it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lifecycle.h"

#define LEASE_KEYS_MAX 65536u
/* An answer older than this is asked for again: requests may wait long, and others store. */
#define LOOKUP_FRESH_NS UINT64_C(10000000)
/* A promise made now is kept by a lease that lives at least as long. */
#define LEASE_MARGIN_NS UINT64_C(50000000)
#define MATCH_TRIES 3

/* ---- lookup ---- */

void dsr_lookup_ask(struct dsr_lifecycle *lc, struct dsr_engine_request *request)
{
	struct dsr_lookup *lookup = &request->lookup;

	if (request->count == 0 || request->skips_load) {
		*lookup = (struct dsr_lookup){.state = DSR_ASK_DONE};
		return;
	}
	lookup->id = dsr_requests_next_id(&lc->requests, request);
	lookup->state = DSR_ASK_ASKED;
	lookup->asked_ns = dsr_lifecycle_now(lc);
	if (!lc->is_attached || dsr_outbox_put(lc, DSR_OUT_LOOKUP, lookup->id, NULL) < 0)
		dsr_lookup_answer(lc, request, -ENOTCONN, 0);
}

void dsr_lookup_answer(struct dsr_lifecycle *lc, struct dsr_engine_request *request, int err,
                       uint32_t hits)
{
	struct dsr_lookup *lookup = &request->lookup;

	lookup->state = DSR_ASK_DONE;
	lookup->answered_ns = dsr_lifecycle_now(lc);
	lookup->hits = err < 0 ? 0 : hits < request->count ? hits : request->count;
	if (err < 0)
		return;
	lc->stats.lookups++;
	lc->stats.lookup_blocks += request->count;
	lc->stats.lookup_hit_blocks += lookup->hits;
	dsr_histogram_add(&lc->lookup_ns, lookup->answered_ns - lookup->asked_ns);
}

void dsr_lifecycle_on_lookup(struct dsr_lifecycle *lc, uint64_t cookie,
                             const struct dsr_msg_lookup_reply *reply)
{
	struct dsr_engine_request *request = dsr_requests_at(&lc->requests, cookie);

	if (request == NULL || request->lookup.id != cookie ||
	    request->lookup.state != DSR_ASK_ASKED)
		return;
	dsr_lookup_answer(lc, request, reply->err, reply->hits);
}

/* ---- lease ---- */

void dsr_lease_ask(struct dsr_lifecycle *lc, struct dsr_engine_request *request, uint32_t first,
                   uint32_t count)
{
	struct dsr_lease *lease = &request->lease;

	lease->id = dsr_requests_next_id(&lc->requests, request);
	lease->state = DSR_LEASE_ASKED;
	lease->scheduler = lc->scheduler;
	lease->asked_ns = dsr_lifecycle_now(lc);
	lease->first = first;
	lease->asked = count < LEASE_KEYS_MAX ? count : LEASE_KEYS_MAX;
	lease->granted = 0;
	lease->err = 0;
	if (dsr_outbox_put(lc, DSR_OUT_LEASE, lease->id, NULL) < 0) {
		lease->state = DSR_LEASE_NONE;
		lease->err = -EAGAIN;
	}
}

void dsr_lease_release(struct dsr_lifecycle *lc, struct dsr_engine_request *request)
{
	struct dsr_lease *lease = &request->lease;

	/* Messages are sent in order: a LEASE that was not sent yet is, or is skipped, before it.
	 */
	if ((lease->state == DSR_LEASE_ASKED || lease->state == DSR_LEASE_LIVE) && !lc->is_gone &&
	    lease->scheduler == lc->scheduler)
		(void)dsr_outbox_put(lc, DSR_OUT_RELEASE, lease->id, NULL);
	lease->state = DSR_LEASE_NONE;
	lease->id = 0;
	lease->granted = 0;
}

/* Takes over the references of a grant. */
static int lease_grant(struct dsr_lease *lease, const struct dsr_refs *refs)
{
	struct dsr_ref *grown;

	if (refs->n > lease->asked)
		return -EBADMSG;
	if (refs->n > lease->capacity) {
		grown = realloc(lease->refs, refs->n * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		lease->refs = grown;
		lease->capacity = refs->n;
	}
	if (refs->n > 0)
		memcpy(lease->refs, refs->v, refs->n * sizeof(*refs->v));
	lease->granted = refs->n;
	return 0;
}

void dsr_lifecycle_on_lease(struct dsr_lifecycle *lc, uint64_t cookie,
                            const struct dsr_msg_lease_reply *reply)
{
	struct dsr_engine_request *request = dsr_requests_at(&lc->requests, cookie);
	struct dsr_lease *lease;
	int r = reply->err;

	/* One that is not wanted any more was released behind its LEASE. */
	if (request == NULL || request->lease.id != cookie)
		return;
	lease = &request->lease;
	lease->ttl_ns = (uint64_t)reply->ttl_ms * 1000000;
	if (lease->state == DSR_LEASE_LIVE) { /* renewed */
		if (r == 0)
			lease->expires_ns = lease->asked_ns + lease->ttl_ns;
		return;
	}
	if (lease->state != DSR_LEASE_ASKED)
		return;
	if (r == 0)
		r = lease_grant(lease, &reply->refs);
	if (r < 0 || lease->granted == 0) {
		lease->err = r;
		if (r == 0 || r == reply->err)
			lease->state = DSR_LEASE_NONE; /* there is none to release */
		else
			lc->stats.errors++;
		dsr_lease_release(lc, request);
		return;
	}
	lease->state = DSR_LEASE_LIVE;
	lease->expires_ns = lease->asked_ns + lease->ttl_ns;
}

static void lease_renew(struct dsr_lifecycle *lc, struct dsr_engine_request *request, uint64_t now)
{
	struct dsr_lease *lease = &request->lease;

	if (request->load.state == DSR_LOAD_NONE || lease->state != DSR_LEASE_LIVE ||
	    lease->scheduler != lc->scheduler || now - lease->asked_ns < lease->ttl_ns / 2)
		return;
	if (dsr_outbox_put(lc, DSR_OUT_LEASE, lease->id, NULL) == 0)
		lease->asked_ns = now;
}

void dsr_lifecycle_tick(struct dsr_lifecycle *lc)
{
	uint64_t now = dsr_lifecycle_now(lc);

	for (uint32_t i = 0; lc->is_attached && i < lc->requests.place_count; i++)
		if (lc->requests.places[i] != NULL)
			lease_renew(lc, lc->requests.places[i], now);
}

/* ---- match ---- */

enum match { MATCH_WAIT, MATCH_DONE, MATCH_LATER };

/* What a match asked for in this call. */
struct match_asked {
	bool lookup, lease;
};

static bool lease_may_be_promised(const struct dsr_lifecycle *lc, const struct dsr_lease *lease,
                                  uint32_t computed)
{
	return lease->first == computed && lease->scheduler == lc->scheduler &&
	       (lease->state == DSR_LEASE_ASKED ||
	        (lease->state == DSR_LEASE_LIVE &&
	         lease->expires_ns > dsr_lifecycle_now(lc) + LEASE_MARGIN_NS));
}

/* How many leading blocks to ask a lease for, from the lookup. */
static enum match match_lookup(struct dsr_lifecycle *lc, struct dsr_engine_request *request,
                               struct match_asked *asked, uint32_t *ret_hits)
{
	struct dsr_lookup *lookup = &request->lookup;
	bool is_old = dsr_lifecycle_now(lc) - lookup->answered_ns > LOOKUP_FRESH_NS;

	if (lookup->state == DSR_ASK_ASKED)
		return MATCH_WAIT;
	if (!asked->lookup &&
	    (lookup->state == DSR_ASK_NONE || (is_old && request->tries < MATCH_TRIES))) {
		asked->lookup = true;
		dsr_lookup_ask(lc, request);
		if (lookup->state == DSR_ASK_ASKED)
			return MATCH_WAIT;
	}
	*ret_hits = lookup->hits < request->limit ? lookup->hits : request->limit;
	return MATCH_DONE;
}

static enum match match_once(struct dsr_lifecycle *lc, struct dsr_engine_request *request,
                             uint32_t computed, struct match_asked *asked, uint32_t *ret_blocks)
{
	struct dsr_lease *lease = &request->lease;
	uint32_t hits = 0;
	enum match match;

	if (lease->state != DSR_LEASE_NONE && !lease_may_be_promised(lc, lease, computed))
		dsr_lease_release(lc, request);
	if (lease->state == DSR_LEASE_LIVE) {
		*ret_blocks = lease->granted;
		return MATCH_DONE;
	}
	if (lease->state == DSR_LEASE_ASKED)
		return MATCH_WAIT;
	if (asked->lease) { /* and it was not granted */
		*ret_blocks = 0;
		return lease->err == -EAGAIN ? MATCH_LATER : MATCH_DONE;
	}
	match = match_lookup(lc, request, asked, &hits);
	if (match != MATCH_DONE)
		return match;
	if (hits <= computed) {
		*ret_blocks = 0;
		return MATCH_DONE;
	}
	asked->lease = true;
	dsr_lease_ask(lc, request, computed, hits - computed);
	return lease->state == DSR_LEASE_ASKED ? MATCH_WAIT : MATCH_LATER;
}

int dsr_lifecycle_match(struct dsr_lifecycle *lc, const char *name, uint32_t computed,
                        uint32_t *ret_blocks)
{
	struct dsr_engine_request *request = dsr_requests_find(&lc->requests, name);
	struct match_asked asked = {0};
	enum match match;
	uint64_t deadline;
	bool is_late = false;

	if (request == NULL)
		return -ENOENT;
	if (!lc->is_attached || request->skips_load || request->load.state != DSR_LOAD_NONE ||
	    computed >= request->count || computed >= request->limit) {
		*ret_blocks = 0;
		return 0;
	}
	deadline = dsr_lifecycle_now(lc) + (uint64_t)lc->options.lookup_wait_us * 1000;
	while ((match = match_once(lc, request, computed, &asked, ret_blocks)) == MATCH_WAIT &&
	       !is_late)
		is_late = !lc->options.port->wait(lc->options.self, deadline);
	if (match == MATCH_DONE)
		return 0;
	if (request->tries < MATCH_TRIES) {
		request->tries++;
		return -EAGAIN;
	}
	*ret_blocks = 0;
	return 0;
}

/* ---- load ---- */

static int load_queue_add(struct dsr_lifecycle *lc, struct dsr_engine_request *request)
{
	struct dsr_engine_request **grown;
	uint32_t capacity;

	if (lc->load_count == lc->load_capacity) {
		capacity = lc->load_capacity == 0 ? 16 : lc->load_capacity * 2;
		grown = realloc(lc->load_queue, capacity * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		lc->load_queue = grown;
		lc->load_capacity = capacity;
	}
	lc->load_queue[lc->load_count++] = request;
	request->users++;
	return 0;
}

/* The engine took fewer blocks than promised: a lease of these alone, then the end of the other;
 * the blocks are pinned throughout. */
static void lease_shrink(struct dsr_lifecycle *lc, struct dsr_engine_request *request,
                         uint32_t count)
{
	struct dsr_lease *lease = &request->lease;
	uint64_t old = lease->id;

	lease->granted = count;
	if (lease->state != DSR_LEASE_LIVE || lease->scheduler != lc->scheduler || !lc->is_attached)
		return;
	lease->id = dsr_requests_next_id(&lc->requests, request);
	lease->asked = count;
	lease->asked_ns = dsr_lifecycle_now(lc);
	if (dsr_outbox_put(lc, DSR_OUT_LEASE, lease->id, NULL) == 0)
		(void)dsr_outbox_put(lc, DSR_OUT_RELEASE, old, NULL);
	else
		lease->id = old;
}

int dsr_load_begin(struct dsr_lifecycle *lc, struct dsr_engine_request *request, uint32_t external)
{
	struct dsr_request_load *load = &request->load;
	uint8_t *failed;
	int r;

	failed = calloc(external, 1);
	if (failed == NULL)
		return -ENOMEM;
	r = load_queue_add(lc, request);
	if (r < 0) {
		free(failed);
		return r;
	}
	free(load->failed);
	load->failed = failed;
	load->failures = 0;
	load->ended = 0;
	memset(load->ranks, 0, lc->requests.world_words * sizeof(*load->ranks));
	load->id = dsr_requests_next_id(&lc->requests, request);
	load->first = request->lease.first;
	load->count = external;
	load->state = DSR_LOAD_QUEUED;
	if (external < request->lease.granted)
		lease_shrink(lc, request, external);
	return 0;
}

static void load_end(struct dsr_lifecycle *lc, struct dsr_engine_request *request)
{
	struct dsr_request_load *load = &request->load;
	const struct dsr_lifecycle_port *port = lc->options.port;
	uint32_t hits = load->count - load->failures;

	lc->stats.loads++;
	lc->stats.load_blocks += load->count;
	lc->stats.load_failed_blocks += load->failures;
	lc->stats.l1_hits += hits;
	lc->stats.l1_misses += load->failures;
	port->count(lc->options.self, DSR_COUNTER_L1_HITS, hits);
	port->count(lc->options.self, DSR_COUNTER_L1_MISSES, load->failures);
	for (uint32_t i = 0; i < load->count; i++) {
		if (load->failed[i] == 0)
			continue;
		if (load->first + i < request->limit)
			request->limit = load->first + i;
		break;
	}
	load->state = DSR_LOAD_NONE;
	free(load->failed);
	load->failed = NULL;
	dsr_lease_release(lc, request);
	dsr_requests_put(&lc->requests, request);
}

void dsr_load_report(struct dsr_lifecycle *lc, uint32_t rank, const struct dsr_output_load *report)
{
	struct dsr_engine_request *request = dsr_requests_at(&lc->requests, report->id);
	struct dsr_request_load *load = request == NULL ? NULL : &request->load;

	if (load == NULL || load->id != report->id || load->state != DSR_LOAD_ISSUED ||
	    load->count != report->count || !dsr_bits_set(load->ranks, rank)) {
		lc->stats.errors++;
		lc->options.port->count(lc->options.self, DSR_COUNTER_ENGINE_ERRORS, 1);
		return;
	}
	for (uint32_t i = 0; i < report->failed_count; i++) {
		uint32_t position = dsr_le32(report->failed + (size_t)i * 8);

		if (load->failed[position] == 0)
			load->failures++;
		load->failed[position] = 1;
	}
	if (++load->ended == lc->options.world)
		load_end(lc, request);
}

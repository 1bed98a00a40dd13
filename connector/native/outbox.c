/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler object has to say, in order, until it is said. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lifecycle.h"
#include "reason.h"

#define OUTBOX_MIN 64u
/* A lookup, a lease and its release of each request, and each save. */
#define OUTBOX_MAX (1u << 18)
#define RELEASE_BATCH 64
#define LOOKUP_KEYS_MAX 65536u /* half of the longest frame */

static int outbox_grow(struct dsr_outbox *outbox)
{
	uint32_t capacity = outbox->capacity == 0 ? OUTBOX_MIN : outbox->capacity * 2;
	struct dsr_out *grown;

	if (capacity > OUTBOX_MAX)
		return -EAGAIN;
	grown = malloc(capacity * sizeof(*grown));
	if (grown == NULL)
		return -EAGAIN;
	for (uint32_t i = 0; i < outbox->count; i++)
		grown[i] = outbox->v[(outbox->head + i) & (outbox->capacity - 1)];
	free(outbox->v);
	outbox->v = grown;
	outbox->capacity = capacity;
	outbox->head = 0;
	return 0;
}

int dsr_outbox_put(struct dsr_lifecycle *lc, enum dsr_out_kind kind, uint64_t id,
                   struct dsr_abandon *abandon)
{
	struct dsr_outbox *outbox = &lc->outbox;
	uint32_t place;

	if (outbox->count == outbox->capacity && outbox_grow(outbox) < 0) {
		free(abandon);
		lc->stats.errors++;
		return -EAGAIN;
	}
	place = (outbox->head + outbox->count++) & (outbox->capacity - 1);
	outbox->v[place] = (struct dsr_out){.kind = kind, .id = id, .abandon = abandon};
	if (outbox->count == 1)
		lc->options.port->wake(lc->options.self);
	return 0;
}

static struct dsr_out *outbox_at(const struct dsr_outbox *outbox, uint32_t index)
{
	return &outbox->v[(outbox->head + index) & (outbox->capacity - 1)];
}

static void outbox_pop(struct dsr_outbox *outbox, uint32_t count)
{
	outbox->head = (outbox->head + count) & (outbox->capacity - 1);
	outbox->count -= count;
}

static void abandons_free(struct dsr_abandon **list)
{
	struct dsr_abandon *abandon;

	while ((abandon = *list) != NULL) {
		*list = abandon->next;
		free(abandon);
	}
}

void dsr_outbox_done(struct dsr_outbox *outbox)
{
	for (uint32_t i = 0; i < outbox->count; i++)
		free(outbox_at(outbox, i)->abandon);
	abandons_free(&outbox->sent);
	free(outbox->v);
	*outbox = (struct dsr_outbox){0};
}

/* ---- sending ---- */

static int send_msg(struct dsr_lifecycle *lc, uint32_t type, const void *msg, uint64_t cookie)
{
	return lc->options.port->send(lc->options.self, type, msg, cookie);
}

static struct dsr_bin parent_bin(const struct dsr_engine_request *request, uint32_t block)
{
	const struct dsr_key *key = dsr_request_parent(request, block);

	return key == NULL ? (struct dsr_bin){0}
	                   : (struct dsr_bin){.p = key->b, .n = sizeof(key->b)};
}

static int send_lookup(struct dsr_lifecycle *lc, uint64_t id)
{
	struct dsr_engine_request *request = dsr_requests_at(&lc->requests, id);
	struct dsr_msg_lookup msg;
	int r;

	if (request == NULL || !request->is_live || request->lookup.id != id ||
	    request->lookup.state != DSR_ASK_ASKED)
		return 0;
	msg.keys.v = request->keys;
	msg.keys.n = request->count < LOOKUP_KEYS_MAX ? request->count : LOOKUP_KEYS_MAX;
	r = send_msg(lc, DSR_MSG_LOOKUP, &msg, id);
	if (r < 0 && r != -EAGAIN)
		dsr_lookup_answer(lc, request, r, 0);
	return r;
}

/* Of a lease that was asked for, or is renewed. */
static int send_lease(struct dsr_lifecycle *lc, uint64_t id)
{
	struct dsr_engine_request *request = dsr_requests_at(&lc->requests, id);
	struct dsr_lease *lease;
	struct dsr_msg_lease msg;
	int r;

	if (request == NULL || request->lease.id != id ||
	    (request->lease.state != DSR_LEASE_ASKED && request->lease.state != DSR_LEASE_LIVE))
		return 0;
	lease = &request->lease;
	msg.lease = id;
	msg.keys = (struct dsr_keys){.v = request->keys + lease->first, .n = lease->asked};
	msg.parent = parent_bin(request, lease->first);
	msg.ttl_ms = lc->options.lease_ttl_ms;
	r = send_msg(lc, DSR_MSG_LEASE, &msg, id);
	if (r < 0 && r != -EAGAIN && lease->state == DSR_LEASE_ASKED) {
		lease->state = DSR_LEASE_NONE;
		lease->err = r;
	}
	return r;
}

static int send_reserve(struct dsr_lifecycle *lc, uint64_t id)
{
	struct dsr_save *save = dsr_saves_at(lc, id);
	struct dsr_msg_reserve msg;
	int r;

	if (save == NULL || save->state != DSR_SAVE_ASKED)
		return 0;
	msg.reservation = id;
	msg.keys = (struct dsr_keys){.v = save->request->keys + save->first, .n = save->count};
	msg.parent = parent_bin(save->request, save->first);
	msg.depth = save->first;
	r = send_msg(lc, DSR_MSG_RESERVE, &msg, id);
	if (r == 0)
		dsr_saves_sent(lc, save);
	else if (r != -EAGAIN)
		dsr_saves_fail(lc, save, DSR_REASON_DETACHED, false);
	return r;
}

static int send_abandon(struct dsr_lifecycle *lc, struct dsr_out *out)
{
	struct dsr_abandon *abandon = out->abandon;
	struct dsr_msg_abandon msg;
	int r = 0;

	/* A scheduler that died has no reservations: its successor cancels them all. */
	if (abandon->scheduler == lc->scheduler) {
		msg.reservation = abandon->reservation;
		msg.refs = (struct dsr_refs){.v = abandon->refs, .n = abandon->count};
		msg.reason = abandon->reason;
		r = send_msg(lc, DSR_MSG_ABANDON, &msg, out->id);
		if (r == -EAGAIN)
			return r;
	}
	out->abandon = NULL;
	if (r < 0 || abandon->scheduler != lc->scheduler) {
		free(abandon);
		return r;
	}
	abandon->next = lc->outbox.sent;
	lc->outbox.sent = abandon;
	return 0;
}

/* The releases at the head together. Returns how many, or negative. */
static int send_releases(struct dsr_lifecycle *lc)
{
	uint64_t ids[RELEASE_BATCH];
	struct dsr_msg_release msg;
	uint32_t n = 0;
	int r;

	while (n < RELEASE_BATCH && n < lc->outbox.count &&
	       outbox_at(&lc->outbox, n)->kind == DSR_OUT_RELEASE) {
		ids[n] = outbox_at(&lc->outbox, n)->id;
		n++;
	}
	msg.leases = (struct dsr_u64s){.v = ids, .n = n};
	r = send_msg(lc, DSR_MSG_RELEASE, &msg, 0);
	return r == -EAGAIN ? r : (int)n;
}

/* Sends what the head is about. Returns the entries done with, or -EAGAIN. */
static int send_head(struct dsr_lifecycle *lc)
{
	struct dsr_out *out = outbox_at(&lc->outbox, 0);
	int r = 0;

	switch (out->kind) {
	case DSR_OUT_LOOKUP:
		r = send_lookup(lc, out->id);
		break;
	case DSR_OUT_LEASE:
		r = send_lease(lc, out->id);
		break;
	case DSR_OUT_RELEASE:
		return send_releases(lc);
	case DSR_OUT_RESERVE:
		r = send_reserve(lc, out->id);
		break;
	case DSR_OUT_ABANDON:
		r = send_abandon(lc, out);
		break;
	}
	return r == -EAGAIN ? r : 1;
}

bool dsr_lifecycle_flush(struct dsr_lifecycle *lc)
{
	int n;

	while (lc->outbox.count > 0) {
		if (!lc->is_attached) {
			dsr_outbox_fail(lc);
			return false;
		}
		n = send_head(lc);
		if (n < 0)
			return true;
		outbox_pop(&lc->outbox, (uint32_t)n);
	}
	return false;
}

/* ---- not sent ---- */

static void fail_one(struct dsr_lifecycle *lc, const struct dsr_out *out)
{
	struct dsr_save *save;

	switch (out->kind) {
	case DSR_OUT_LOOKUP:
	case DSR_OUT_LEASE:
		dsr_lifecycle_on_failed(
			lc, out->kind == DSR_OUT_LOOKUP ? DSR_MSG_LOOKUP : DSR_MSG_LEASE, out->id,
			-ENOTCONN);
		break;
	case DSR_OUT_RESERVE:
		save = dsr_saves_at(lc, out->id);
		if (save != NULL && !save->is_sent)
			dsr_saves_fail(lc, save, DSR_REASON_DETACHED, false);
		break;
	case DSR_OUT_RELEASE:
	case DSR_OUT_ABANDON:
		break; /* who died holds nothing */
	}
}

void dsr_outbox_fail(struct dsr_lifecycle *lc)
{
	struct dsr_outbox *outbox = &lc->outbox;
	struct dsr_out out;

	for (uint32_t left = outbox->count; left > 0; left--) {
		out = *outbox_at(outbox, 0);
		outbox_pop(outbox, 1);
		if (!lc->is_gone && (out.kind == DSR_OUT_RELEASE || out.kind == DSR_OUT_ABANDON)) {
			*outbox_at(outbox, outbox->count++) = out;
			continue;
		}
		fail_one(lc, &out);
		free(out.abandon);
	}
	if (lc->is_gone)
		abandons_free(&outbox->sent);
}

/* ---- abandoning ---- */

void dsr_abandon_put(struct dsr_lifecycle *lc, const struct dsr_save *save,
                     const struct dsr_ref *refs, uint32_t count, uint32_t reason)
{
	struct dsr_abandon *abandon;

	if (lc->is_gone || save->scheduler != lc->scheduler)
		return;
	abandon = malloc(sizeof(*abandon) + count * sizeof(abandon->refs[0]));
	if (abandon == NULL) {
		lc->stats.errors++;
		return;
	}
	abandon->next = NULL;
	abandon->cookie = ++lc->last_id;
	abandon->reservation = save->id;
	abandon->scheduler = save->scheduler;
	abandon->reason = reason;
	abandon->count = count;
	if (count > 0)
		memcpy(abandon->refs, refs, count * sizeof(refs[0]));
	(void)dsr_outbox_put(lc, DSR_OUT_ABANDON, abandon->cookie, abandon);
}

/* Takes the abandon of a cookie out of the list of those that were sent. The list is short: an
 * answer takes a round trip. */
static struct dsr_abandon *abandon_take(struct dsr_outbox *outbox, uint64_t cookie)
{
	struct dsr_abandon **p = &outbox->sent;
	struct dsr_abandon *abandon;

	while (*p != NULL && (*p)->cookie != cookie)
		p = &(*p)->next;
	abandon = *p;
	if (abandon != NULL)
		*p = abandon->next;
	return abandon;
}

void dsr_lifecycle_on_abandon(struct dsr_lifecycle *lc, uint64_t cookie)
{
	free(abandon_take(&lc->outbox, cookie));
}

void dsr_lifecycle_on_failed(struct dsr_lifecycle *lc, uint32_t type, uint64_t cookie, int err)
{
	struct dsr_engine_request *request = dsr_requests_at(&lc->requests, cookie);
	struct dsr_abandon *abandon;
	struct dsr_save *save;

	switch (type) {
	case DSR_MSG_LOOKUP:
		if (request != NULL && request->lookup.id == cookie)
			dsr_lookup_answer(lc, request, err, 0);
		break;
	case DSR_MSG_LEASE:
		if (request != NULL && request->lease.id == cookie &&
		    request->lease.state == DSR_LEASE_ASKED) {
			request->lease.err = err;
			dsr_lease_release(lc, request);
		}
		break;
	case DSR_MSG_RESERVE:
		save = dsr_saves_at(lc, cookie);
		if (save != NULL)
			dsr_saves_fail(lc, save, dsr_reason_of(err), true);
		break;
	case DSR_MSG_ABANDON:
		abandon = abandon_take(&lc->outbox, cookie);
		if (abandon != NULL)
			(void)dsr_outbox_put(lc, DSR_OUT_ABANDON, cookie, abandon);
		break;
	default:
		break; /* a release that was not answered ends by its time to live */
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching staging to the load and the store actor. The actor reads a pattern from the first
 * buffer and tells its digest: only then is it known that both see the same memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "digest.h"
#include "files.h"
#include "runtime.h"
#include "util.h"

#define ATTACH_DEADLINE_MS 5000
#define DETACH_DEADLINE_MS 2000
#define RETRY_SOON_NS UINT64_C(20000000)
#define RETRY_NS UINT64_C(500000000)

struct dsr_mover_side *dsr_mover_of(struct daser_worker *w, enum dsr_role role)
{
	if (role == DSR_ROLE_LOAD)
		return &w->load_side;
	return role == DSR_ROLE_STORE ? &w->store_side : NULL;
}

/* Not while the pattern is still being written to it: then a later turn does it. */
static void buffer_put(struct dsr_mover_side *side)
{
	if (side->buffer == NULL || !dsr_event_done(side->written))
		return;
	dsr_buffers_put(side->buffers, side->buffer);
	side->buffer = NULL;
}

static bool is_ready_to_attach(const struct daser_worker *w, const struct dsr_mover_side *side)
{
	return side->state == DSR_MOVER_WANTED && w->is_accepted && w->has_pool &&
	       w->pool.epoch == w->pool_epoch;
}

static void retry_at(struct dsr_mover_side *side, uint64_t after_ns, const char *why)
{
	buffer_put(side);
	side->state = DSR_MOVER_WANTED;
	side->retry_ns = dsr_now_ns() + after_ns;
	(void)dsr_copy_string(side->reason, sizeof(side->reason), why);
}

void dsr_mover_ready(struct daser_worker *w, struct dsr_mover_side *side, struct dsr_peer *peer)
{
	(void)w;
	side->peer = peer;
	retry_at(side, 0, "attaching");
}

static void detach(struct daser_worker *w, const struct dsr_mover_side *side,
                   enum dsr_reason reason)
{
	if (side->role == DSR_ROLE_LOAD)
		dsr_load_pipeline_detach(&w->loads, reason);
	else
		dsr_store_pipeline_detach(&w->stores, reason);
}

void dsr_mover_renew(struct daser_worker *w, struct dsr_mover_side *side)
{
	if (side->state == DSR_MOVER_ABSENT)
		return;
	detach(w, side, DSR_REASON_STALE);
	retry_at(side, 0, "attaching again");
}

void dsr_mover_dead(struct daser_worker *w, struct dsr_mover_side *side)
{
	buffer_put(side);
	side->peer = NULL;
	side->state = DSR_MOVER_ABSENT;
	side->reason[0] = '\0';
	detach(w, side, DSR_REASON_ACTOR_GONE);
}

/* Puts the pattern into the first buffer, once nobody else has it. */
static void write_pattern(struct daser_worker *w, struct dsr_mover_side *side)
{
	struct dsr_copy copy = {.src = w->pattern, .bytes = sizeof(w->pattern)};
	int r;

	if (dsr_now_ns() < side->retry_ns)
		return;
	if (copy.bytes > side->buffers->bytes)
		copy.bytes = side->buffers->bytes;
	if (side->buffer == NULL)
		side->buffer = dsr_buffers_take_index(side->buffers, 0, NULL);
	if (side->buffer == NULL) {
		side->retry_ns = dsr_now_ns() + RETRY_SOON_NS;
		return;
	}
	copy.dst = side->buffer->base;
	r = dsr_stream_copy(side->stream, &copy, 1);
	if (r == 0)
		r = dsr_stream_record(side->stream, &side->written);
	if (r < 0)
		retry_at(side, RETRY_SOON_NS, strerror(-r));
	else
		side->state = DSR_MOVER_WRITING;
}

static uint32_t canary_bytes(const struct dsr_mover_side *side)
{
	return side->buffers->bytes < DSR_CANARY_BYTES ? (uint32_t)side->buffers->bytes
	                                               : DSR_CANARY_BYTES;
}

static void send_attach(struct daser_worker *w, struct dsr_mover_side *side)
{
	char object[128];
	uint8_t handle[DSR_DEVICE_HANDLE_MAX];
	size_t handle_bytes = 0;
	struct dsr_msg_attach msg = {
		.engine = {.p = w->config.engine, .n = (uint32_t)strlen(w->config.engine)},
		.rank = w->config.rank,
		.lane = w->config.lane,
		.pool_epoch = w->pool_epoch,
		.buffer_bytes = side->buffers->bytes,
		.buffers = side->buffers->count,
		.canary = dsr_digest_of(w->pattern, canary_bytes(side), 0),
		.canary_bytes = canary_bytes(side),
	};
	int r;

	if (!dsr_event_done(side->written))
		return;
	r = dsr_event_error(side->written);
	if (r == 0)
		r = dsr_device_export(w->device, side->memory, handle, &handle_bytes);
	if (r == 0 && handle_bytes == 0) {
		(void)snprintf(object, sizeof(object), DSR_OBJECT_STAGING,
		               (unsigned long long)w->client.incarnation,
		               dsr_role_name(side->role));
		msg.object = (struct dsr_str){.p = object, .n = (uint32_t)strlen(object)};
	}
	msg.handle = (struct dsr_bin){.p = handle, .n = (uint32_t)handle_bytes};
	if (r == 0)
		r = dsr_peer_request(w->client.link, side->peer, DSR_MSG_ATTACH, &msg,
		                     ATTACH_DEADLINE_MS, 0);
	if (r < 0)
		retry_at(side, RETRY_SOON_NS, strerror(-r));
	else
		side->state = DSR_MOVER_ASKED;
}

void dsr_mover_on_attach(struct daser_worker *w, struct dsr_mover_side *side,
                         const struct dsr_msg_attach_reply *reply)
{
	char why[DSR_REASON_TEXT];

	if (side->state != DSR_MOVER_ASKED)
		return;
	if (reply->err < 0) {
		(void)snprintf(why, sizeof(why), "the %s actor of `%s` says: %.*s (%s)",
		               dsr_role_name(side->role), w->config.device, (int)reply->reason.n,
		               reply->reason.n > 0 ? reply->reason.p : "", strerror(-reply->err));
		retry_at(side,
		         reply->err == -EAGAIN || reply->err == -ESTALE ? RETRY_SOON_NS : RETRY_NS,
		         why);
		return;
	}
	if (reply->canary != dsr_digest_of(w->pattern, canary_bytes(side), 0)) {
		(void)snprintf(why, sizeof(why),
		               "the %s actor of `%s` reads other bytes than were "
		               "written to staging",
		               dsr_role_name(side->role), w->config.device);
		retry_at(side, RETRY_NS, why);
		return;
	}
	buffer_put(side);
	side->state = DSR_MOVER_ATTACHED;
	side->reason[0] = '\0';
	if (w->is_closing)
		return;
	if (side->role == DSR_ROLE_LOAD)
		dsr_load_pipeline_attach(&w->loads);
	else
		dsr_store_pipeline_attach(&w->stores);
}

void dsr_mover_on_failed(struct dsr_mover_side *side, uint32_t type)
{
	if (type == DSR_MSG_ATTACH && side->state == DSR_MOVER_ASKED)
		retry_at(side, RETRY_SOON_NS, "ATTACH was not answered");
	if (type == DSR_MSG_DETACH)
		side->state = DSR_MOVER_ABSENT;
}

/* With nothing of ours at the actor: it closes its mapping before the memory goes. */
static void send_detach(struct daser_worker *w, struct dsr_mover_side *side)
{
	const struct dsr_msg_detach msg = {0};
	bool is_idle = side->role == DSR_ROLE_LOAD ? dsr_load_pipeline_is_idle(&w->loads)
	                                           : dsr_store_pipeline_is_idle(&w->stores);

	if (!is_idle)
		return;
	side->state = DSR_MOVER_LEAVING;
	if (dsr_peer_request(w->client.link, side->peer, DSR_MSG_DETACH, &msg, DETACH_DEADLINE_MS,
	                     0) < 0)
		side->state = DSR_MOVER_ABSENT;
}

void dsr_mover_turn(struct daser_worker *w, struct dsr_mover_side *side)
{
	if (w->is_closing) {
		if (side->state == DSR_MOVER_ATTACHED)
			send_detach(w, side);
		else if (side->state == DSR_MOVER_WANTED)
			side->state = DSR_MOVER_ABSENT;
		else if (side->state == DSR_MOVER_WRITING)
			side->state = DSR_MOVER_ABSENT;
	}
	if (side->state != DSR_MOVER_WRITING && side->state != DSR_MOVER_ASKED)
		buffer_put(side);
	if (is_ready_to_attach(w, side))
		write_pattern(w, side);
	if (side->state == DSR_MOVER_WRITING)
		send_attach(w, side);
}

uint64_t dsr_mover_deadline(const struct daser_worker *w, const struct dsr_mover_side *side)
{
	return is_ready_to_attach(w, side) ? side->retry_ns : UINT64_MAX;
}

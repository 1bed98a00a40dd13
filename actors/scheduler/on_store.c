/* SPDX-License-Identifier: Apache-2.0 */
/* Store actors report: COMMIT, ABORT; and answer CANCEL. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "scheduler.h"

/* Lanes that the sender writes for the engine with this process; 0: none, its report is stale. */
static uint64_t sender_lanes(const struct scheduler *s, const struct dsr_peer *peer,
                             uint64_t engine_incarnation)
{
	uint32_t engine = dsr_engines_of_process(&s->engines, engine_incarnation);
	uint32_t device = dsr_engines_device(&s->engines, peer->device);

	if (engine == DSR_ENGINE_NONE || device == DSR_DEVICE_NONE)
		return 0;
	return dsr_engines_lanes(&s->engines, engine, device);
}

static bool has_lane(uint64_t lanes, uint32_t lane)
{
	return lane < DSR_LANES_MAX && (lanes >> lane & 1) != 0;
}

void dsr_scheduler_on_commit(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                             const struct dsr_msg_commit *m)
{
	struct dsr_lane_report report = {
		.owner = m->engine,
		.id = m->reservation,
		.lane = m->lane,
		.refs = m->refs.v,
		.count = m->refs.n,
	};
	struct dsr_msg_commit_reply answer = {0};

	if (peer->role != DSR_ROLE_STORE)
		answer.err = -EINVAL;
	else if (has_lane(sender_lanes(s, peer, m->engine), m->lane))
		dsr_reservations_commit(s->reservations, &report, &answer.committed,
		                        &answer.visible);
	(void)dsr_peer_reply(s->rt->link, peer, env, &answer);
	dsr_scheduler_settle(s);
}

void dsr_scheduler_on_abort(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_abort *m)
{
	struct dsr_lane_report report = {
		.owner = m->engine,
		.id = m->reservation,
		.lane = m->lane,
		.refs = m->refs.v,
		.count = m->refs.n,
	};
	struct dsr_msg_abort_reply answer = {0};
	uint64_t lanes = sender_lanes(s, peer, m->engine);
	uint32_t except = 0;

	if (peer->role != DSR_ROLE_STORE) {
		answer.err = -EINVAL;
	} else if (has_lane(lanes, m->lane)) {
		/* It writes nothing else of these blocks, so it need not be asked. */
		if (lanes == UINT64_C(1) << m->lane)
			except = UINT32_C(1) << dsr_engines_device(&s->engines, peer->device);
		answer.aborted = dsr_reservations_abort(s->reservations, &report, except);
	}
	(void)dsr_peer_reply(s->rt->link, peer, env, &answer);
	dsr_scheduler_settle(s);
}

static struct dsr_peer *store_of(const struct scheduler *s, uint32_t device)
{
	uint64_t incarnation = s->engines.devices[device].store;

	for (uint32_t i = 0; incarnation != 0 && i < DSR_ACTOR_ROWS; i++)
		if (s->stores[i] != NULL && s->stores[i]->incarnation == incarnation)
			return s->stores[i];
	return NULL;
}

int dsr_scheduler_send_cancel(void *self, uint32_t device, uint64_t cookie,
                              const struct dsr_ref *refs, uint32_t count)
{
	struct scheduler *s = self;
	struct dsr_msg_cancel cancel = {
		.scheduler = s->rt->incarnation,
		.refs = {.v = refs, .n = count},
	};
	struct dsr_peer *store = store_of(s, device);

	/* It was connected when the slots were reserved, so it is dead. */
	if (store == NULL)
		return -EOWNERDEAD;
	return dsr_peer_request(s->rt->link, store, DSR_MSG_CANCEL, &cancel, SCHEDULER_CANCEL_MS,
	                        cookie);
}

void dsr_scheduler_ask_writers(struct scheduler *s)
{
	/* Reservations of every scheduler before this one. */
	struct dsr_msg_cancel cancel = {.scheduler = s->rt->incarnation - 1};

	for (uint32_t i = 0; s->quarantine.left > 0 && i < DSR_ACTOR_ROWS; i++) {
		struct dsr_peer *store = s->stores[i];
		uint32_t writer;

		if (store == NULL)
			continue;
		writer = dsr_quarantine_meet(&s->quarantine, store->device, store->incarnation);
		if (writer == DSR_ACTOR_ROWS || s->is_asked[writer])
			continue;
		s->is_asked[writer] = dsr_peer_request(s->rt->link, store, DSR_MSG_CANCEL, &cancel,
		                                       SCHEDULER_CANCEL_MS,
		                                       SCHEDULER_COOKIE_QUARANTINE | writer) == 0;
	}
}

void dsr_scheduler_end_quarantine(struct scheduler *s)
{
	uint32_t freed;

	if (s->quarantine.left > 0)
		return;
	freed = dsr_cache_end_quarantine(s->cache);
	if (freed > 0)
		dsr_log(DSR_LOG_INFO, "quarantine is over, freed slots %" PRIu32, freed);
}

/* A CANCEL got an answer or none. */
static void cancel_over(struct scheduler *s, const struct dsr_peer *peer, uint64_t cookie, int err)
{
	uint32_t device = dsr_engines_device(&s->engines, peer->device);
	uint32_t writer = (uint32_t)cookie;

	if ((cookie & SCHEDULER_COOKIE_QUARANTINE) != 0) {
		if (writer < DSR_ACTOR_ROWS)
			s->is_asked[writer] = false; /* asked again at the next look */
		if (err == 0)
			dsr_quarantine_end(&s->quarantine, writer);
		dsr_scheduler_end_quarantine(s);
	} else if (device == DSR_DEVICE_NONE) {
		return;
	} else if (err == 0 || err == -EOWNERDEAD) {
		dsr_reservations_answered(s->reservations, cookie, device);
	} else {
		dsr_reservations_unanswered(s->reservations, cookie, device);
	}
	dsr_scheduler_settle(s);
}

void dsr_scheduler_on_cancel_reply(struct scheduler *s, struct dsr_peer *peer,
                                   const struct dsr_env *env, const struct dsr_msg_cancel_reply *m)
{
	(void)env;
	cancel_over(s, peer, dsr_link_cookie(s->rt->link), m->err);
}

void dsr_scheduler_request_failed(void *self, struct dsr_peer *peer, uint32_t type, uint64_t cookie,
                                  int err)
{
	if (type == DSR_MSG_CANCEL)
		cancel_over(self, peer, cookie, err);
}

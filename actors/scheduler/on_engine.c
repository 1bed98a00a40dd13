/* SPDX-License-Identifier: Apache-2.0 */
/* Engines and workers join: ENGINE, REGISTER, WORKER_READY. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pages.h"
#include "scheduler.h"

static_assert(DSR_ENGINES_MAX == DSR_RESERVATION_OWNERS, "engines own reservations by number");
static_assert(DSR_DEVICES_MAX <= 32, "reservations have one bit for each device");

static struct dsr_engine_request engine_request(const struct dsr_peer *peer, struct dsr_str name,
                                                struct dsr_bin fingerprint, uint32_t world)
{
	return (struct dsr_engine_request){
		.name = name.p,
		.name_bytes = name.n,
		.fingerprint = fingerprint.p,
		.fingerprint_bytes = fingerprint.n,
		.world = world,
		.incarnation = peer->incarnation,
	};
}

static struct dsr_str str_of(const char *text)
{
	return (struct dsr_str){.p = text, .n = (uint32_t)strlen(text)};
}

/* Bounded tables that were full, by what the check said. */
static void count_refusal(struct scheduler *s, int err, enum dsr_counter counter)
{
	if (err == -EAGAIN)
		dsr_counter_add(s->rt->counters, counter, 1);
}

static int take_page(struct scheduler *s, const struct dsr_peer *peer, uint32_t *ret_page,
                     char *ret_why)
{
	int r = dsr_pages_get(&s->rt->control, peer->role, peer->incarnation, peer->pid, ret_page);

	count_refusal(s, r, DSR_COUNTER_REFUSED_PAGES);
	if (r < 0)
		(void)snprintf(ret_why, SCHEDULER_WHY_BYTES, "all %d counters pages are in use",
		               DSR_ENGINE_PAGES);
	return r;
}

/* The role stands in HELLO; another one has no business here. */
static int check_role(const struct dsr_peer *peer, enum dsr_role role, char *ret_why)
{
	if (peer->role == role)
		return 0;
	(void)snprintf(ret_why, SCHEDULER_WHY_BYTES, "sender is a `%s`, expected a `%s`",
	               dsr_role_name(peer->role), dsr_role_name(role));
	return -EINVAL;
}

void dsr_scheduler_on_engine(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                             const struct dsr_msg_engine *m)
{
	struct dsr_engine_request request =
		engine_request(peer, m->engine, m->fingerprint, m->world);
	struct dsr_msg_engine_reply reply = {.page = DSR_PAGE_NONE};
	char why[SCHEDULER_WHY_BYTES] = "";
	uint32_t engine;

	reply.err = check_role(peer, DSR_ROLE_ENGINE, why);
	if (reply.err == 0) {
		reply.err = dsr_engines_check_engine(&s->engines, &request, scheduler_geometry(s),
		                                     why, sizeof(why));
		count_refusal(s, reply.err, DSR_COUNTER_REFUSED_ENGINES);
	}
	if (reply.err == 0)
		reply.err = take_page(s, peer, &reply.page, why);
	if (reply.err == 0) {
		engine = dsr_engines_join_engine(&s->engines, &request);
		s->engines.engines[engine].page = reply.page;
		dsr_reservations_owner_begin(s->reservations, engine, peer->incarnation);
		dsr_log(DSR_LOG_INFO, "engine `%s` joined, ranks %" PRIu32,
		        s->engines.engines[engine].name, m->world);
		dsr_scheduler_settle(s);
	} else {
		dsr_log(DSR_LOG_WARN, "engine of process %" PRId32 " refused: %s", peer->pid, why);
	}
	reply.reason = str_of(why);
	(void)dsr_peer_reply(s->rt->link, peer, env, &reply);
}

/* Takes the worker in: pool, page and actors of its device first, each undone when the next one
 * cannot be had. */
static int register_join(struct scheduler *s, const struct dsr_peer *peer,
                         const struct dsr_rank_request *request, uint32_t *ret_page, char *why)
{
	bool has_made = !scheduler_has_pool(s);
	uint32_t engine;
	int r;

	r = take_page(s, peer, ret_page, why);
	if (r < 0)
		return r;
	if (has_made) {
		r = dsr_scheduler_make_pool(s, request, why, SCHEDULER_WHY_BYTES);
		if (r < 0)
			goto err_page;
	}
	if (dsr_engines_device(&s->engines, request->device) == DSR_DEVICE_NONE ||
	    s->engines.devices[dsr_engines_device(&s->engines, request->device)].is_retired) {
		r = dsr_broker_spawn(s->rt->broker, request->device);
		if (r < 0) {
			(void)snprintf(why, SCHEDULER_WHY_BYTES,
			               "supervisor does not start actors for `%s`: %s",
			               request->device, strerrordesc_np(-r));
			goto err_pool;
		}
	}
	engine = dsr_engines_join_rank(&s->engines, request);
	s->engines.engines[engine].ranks[request->rank].page = *ret_page;
	dsr_scheduler_meet_store(s, s->engines.engines[engine].ranks[request->rank].device);
	return 0;

err_pool:
	if (has_made)
		dsr_scheduler_drop_pool(s);
err_page:
	/* A worker that joined before keeps its page. */
	if (dsr_engines_of_worker(&s->engines, peer->incarnation, &engine) == DSR_ENGINE_NONE)
		dsr_pages_put(&s->rt->control, peer->incarnation);
	return r;
}

static int register_check(struct scheduler *s, const struct dsr_peer *peer,
                          const struct dsr_rank_request *request, char *why)
{
	int r;

	r = check_role(peer, DSR_ROLE_WORKER, why);
	if (r < 0)
		return r;
	r = dsr_engines_check_rank(&s->engines, request, scheduler_geometry(s), why,
	                           SCHEDULER_WHY_BYTES);
	count_refusal(s, r,
	              dsr_engines_count(&s->engines) == DSR_ENGINES_MAX
	                      ? DSR_COUNTER_REFUSED_ENGINES
	                      : DSR_COUNTER_REFUSED_DEVICES);
	if (r < 0 || scheduler_has_pool(s))
		return r;
	return dsr_scheduler_plan_pool(s, request, why, SCHEDULER_WHY_BYTES);
}

void dsr_scheduler_on_register(struct scheduler *s, struct dsr_peer *peer,
                               const struct dsr_env *env, const struct dsr_msg_register_worker *m)
{
	struct dsr_rank_request request = {
		.engine = engine_request(peer, m->engine, m->fingerprint, m->world),
		.rank = m->rank,
		.lane = m->lane,
		.lanes = m->lanes,
		.writer = m->writer,
		.slot_bytes = m->slot_bytes,
		.block_tokens = m->block_tokens,
	};
	struct dsr_msg_register_worker_reply reply = {.page = DSR_PAGE_NONE};
	char why[SCHEDULER_WHY_BYTES] = "";

	/* A name that is too long stays empty, which the check refuses. */
	if (m->device.n < sizeof(request.device))
		memcpy(request.device, m->device.p, m->device.n);
	reply.err = register_check(s, peer, &request, why);
	if (reply.err == 0)
		reply.err = register_join(s, peer, &request, &reply.page, why);
	if (reply.err == 0) {
		reply.pool_epoch = s->pool.epoch;
		reply.slots = s->geometry.slots;
		dsr_log(DSR_LOG_INFO,
		        "rank %" PRIu32 " of engine `%.*s` joined on `%s`, lane %" PRIu32, m->rank,
		        (int)m->engine.n, m->engine.p, request.device, m->lane);
		dsr_scheduler_settle(s);
	} else {
		reply.page = DSR_PAGE_NONE;
		dsr_log(DSR_LOG_WARN, "worker of process %" PRId32 " refused: %s", peer->pid, why);
	}
	reply.reason = str_of(why);
	(void)dsr_peer_reply(s->rt->link, peer, env, &reply);
}

void dsr_scheduler_on_worker_ready(struct scheduler *s, struct dsr_peer *peer,
                                   const struct dsr_env *env, const struct dsr_msg_worker_ready *m)
{
	struct dsr_engine_request engine = engine_request(peer, m->engine, (struct dsr_bin){0}, 0);
	struct dsr_msg_worker_ready_reply reply = {
		.err = dsr_engines_set_ready(&s->engines, &engine, m->rank, m->load, m->store,
	                                     m->canary == 1)};

	if (reply.err == 0)
		dsr_log(DSR_LOG_INFO,
		        "rank %" PRIu32 " of engine `%.*s`: load %s, store %s, canary %s", m->rank,
		        (int)m->engine.n, m->engine.p, m->load != 0 ? "attached" : "detached",
		        m->store != 0 ? "attached" : "detached", m->canary == 1 ? "passed" : "not");
	(void)dsr_peer_reply(s->rt->link, peer, env, &reply);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What operators ask: DRAIN and RESET. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler.h"
#include "util.h"

void dsr_scheduler_on_drain(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_drain *m)
{
	struct dsr_drain drain = {
		.peer = peer,
		.req = env->req,
		.upto = dsr_reservations_newest(s->reservations),
		.end_ns = dsr_now_ns() + m->timeout_ms * UINT64_C(1000000),
	};
	int r = dsr_drainlist_add(&s->drains, &drain);

	if (r < 0) {
		dsr_counter_add(s->rt->counters, DSR_COUNTER_REFUSED_DRAINS, 1);
		(void)dsr_peer_reply_err(s->rt->link, peer, env, r);
	}
	dsr_scheduler_settle(s);
}

/* What keeps the geometry, or NULL. */
static const char *reset_obstacle(const struct scheduler *s, uint64_t *ret_count)
{
	struct dsr_cache_counts counts;

	dsr_cache_count(s->cache, &counts);
	*ret_count = dsr_engines_count(&s->engines);
	if (*ret_count > 0)
		return "engines";
	*ret_count = dsr_leases_count(s->leases);
	if (*ret_count > 0)
		return "leases";
	*ret_count = dsr_reservations_live(s->reservations);
	if (*ret_count > 0)
		return "reservations";
	*ret_count = counts.slots_quarantined;
	return *ret_count > 0 ? "quarantined slots" : NULL;
}

void dsr_scheduler_on_reset(struct scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_reset *m)
{
	struct dsr_msg_reset_reply answer = {0};
	char reason[SCHEDULER_WHY_BYTES] = "";
	struct dsr_cache_counts counts;
	const char *obstacle = NULL;
	uint64_t count;

	if (m->entries_only == 0)
		obstacle = reset_obstacle(s, &count);
	dsr_cache_count(s->cache, &counts);
	if (obstacle != NULL) {
		answer.err = -EBUSY;
		(void)snprintf(reason, sizeof(reason), "%s %" PRIu64 ", expected 0", obstacle,
		               count);
	} else if (m->entries_only != 0) {
		answer.entries = dsr_cache_forget(s->cache);
	} else {
		answer.entries = counts.visible;
		dsr_scheduler_drop_pool(s);
	}
	if (answer.err == 0)
		dsr_log(DSR_LOG_INFO, "reset, forgot blocks %" PRIu64, answer.entries);
	answer.reason = (struct dsr_str){.p = reason, .n = (uint32_t)strlen(reason)};
	(void)dsr_peer_reply(s->rt->link, peer, env, &answer);
	dsr_scheduler_settle(s);
}

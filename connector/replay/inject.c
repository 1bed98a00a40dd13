/* SPDX-License-Identifier: Apache-2.0 */
/* Aborts and preemptions at seeded moments. */
#include <errno.h>

#include "engine.h"

#define FORCED_MAX 8    /* preemptions of one request: it must end some time */
#define LOADING_STEPS 4 /* an abort while loading comes within so many steps */

void replay_inject_plan(struct replay_engine *engine, struct replay_request *request)
{
	if (engine->settings->abort_rate == 0 ||
	    replay_rng_unit(&engine->rng) >= engine->settings->abort_rate)
		return;
	request->abort =
		(enum replay_abort)(1 + replay_rng_below(&engine->rng, REPLAY_ABORT_KINDS - 1));
	if (request->abort == REPLAY_ABORT_LOADING)
		request->abort_at = 1 + replay_rng_below(&engine->rng, LOADING_STEPS);
	if (request->abort == REPLAY_ABORT_PREFILL)
		request->abort_at = replay_rng_below(&engine->rng, request->tokens);
}

static int abort_request(struct replay_engine *engine, struct replay_request *request)
{
	request->is_aborted = true;
	request->abort = REPLAY_ABORT_NEVER;
	engine->phase->aborted++;
	replay_ledger_lost(engine->ledger, request->keys, request->full, REPLAY_ABORTED);
	return replay_request_finish(engine, request);
}

/* True when the abort comes now, between two steps. One whose moment never comes (nothing to load,
 * prefill in one step) becomes an abort at the end. */
static bool is_due(struct replay_request *request)
{
	switch (request->abort) {
	case REPLAY_ABORT_ARRIVAL:
		return true;
	case REPLAY_ABORT_PROMISED:
		return request->is_abort_due;
	case REPLAY_ABORT_LOADING:
		if (request->state == REPLAY_LOADING || request->state == REPLAY_READY)
			return --request->abort_at == 0;
		if (request->state == REPLAY_RUNNING)
			request->abort = REPLAY_ABORT_ENDING;
		return false;
	case REPLAY_ABORT_PREFILL:
		if (request->state != REPLAY_RUNNING || request->generated > 0)
			return false;
		return request->computed >= request->abort_at;
	case REPLAY_ABORT_NEVER:
	case REPLAY_ABORT_ENDING:
	case REPLAY_ABORT_KINDS:
		break;
	}
	return false;
}

static int abort_due(struct replay_engine *engine, enum replay_state state)
{
	struct replay_request *request = TAILQ_FIRST(&engine->lists[state]);

	while (request) {
		struct replay_request *next = TAILQ_NEXT(request, link);
		int r = is_due(request) ? abort_request(engine, request) : 0;

		if (r < 0)
			return r;
		request = next;
	}
	return 0;
}

int replay_inject_before(struct replay_engine *engine)
{
	static const enum replay_state live[] = {REPLAY_WAITING, REPLAY_LOADING, REPLAY_READY,
	                                         REPLAY_RUNNING};
	int r = 0;

	for (uint32_t i = 0; r == 0 && engine->settings->abort_rate > 0 && i < 4; i++)
		r = abort_due(engine, live[i]);
	if (r < 0 || engine->settings->preempt_rate == 0)
		return r;
	struct replay_request *last = TAILQ_LAST(&engine->lists[REPLAY_RUNNING], replay_list);

	if (!last || last->forced == FORCED_MAX ||
	    replay_rng_unit(&engine->rng) >= engine->settings->preempt_rate)
		return 0;
	last->forced++;
	return replay_schedule_preempt(engine, last);
}

int replay_inject_after(struct replay_engine *engine)
{
	struct replay_request *request = TAILQ_FIRST(&engine->lists[REPLAY_RUNNING]);

	while (request && engine->settings->abort_rate > 0) {
		struct replay_request *next = TAILQ_NEXT(request, link);
		bool is_ending =
			request->now > 0 && request->computed + request->now == request->tokens;
		bool is_meant = request->abort == REPLAY_ABORT_ENDING ||
		                request->abort == REPLAY_ABORT_PREFILL;

		if (is_ending && is_meant) {
			request->has_computed = true;
			int r = abort_request(engine, request);

			if (r < 0)
				return r;
		}
		request = next;
	}
	return 0;
}

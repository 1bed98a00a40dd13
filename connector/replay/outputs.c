/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks reported in one step, taken in vLLM's order: failed blocks, tokens (and the ends
 * of requests), libdaser's own bytes, ended loads, ended saves. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine.h"
#include "util.h"

#define MISMATCHES_SAID 10
#define EVENTS_AT_ONCE 256

/* The parked request whose load writes to block `id`, and that block's place in its table. */
static struct replay_request *loading_owner(struct replay_engine *engine, uint32_t id,
                                            uint32_t rank, uint32_t *ret_block)
{
	static const enum replay_state parked[] = {REPLAY_LOADING, REPLAY_LEAVING};

	for (uint32_t i = 0; i < 2; i++) {
		struct replay_request *request;

		TAILQ_FOREACH(request, &engine->lists[parked[i]], link)
		{
			const uint32_t *ids = request->table + request->load_first;

			for (uint32_t n = 0; n < request->load_count; n++)
				if (ids[n] == id && !(request->received >> rank & 1)) {
					*ret_block = request->load_first + n;
					return request;
				}
		}
	}
	return NULL;
}

static int take_failed_blocks(struct replay_engine *engine, uint32_t rank)
{
	const struct replay_done *done = &engine->done[rank];

	for (uint32_t i = 0; i < done->failed_count; i++) {
		uint32_t id = replay_u32_at(done->failed, i), block = 0;
		struct replay_request *request = loading_owner(engine, id, rank, &block);

		if (!request)
			return replay_engine_fail(
				engine, -EPROTO,
				"rank %u reports block id %u as failed: no load in flight "
				"there writes to it",
				rank, id);
		if (block < request->first_bad)
			request->first_bad = block;
	}
	return 0;
}

static int take_tokens(struct replay_engine *engine)
{
	struct replay_request *request = TAILQ_FIRST(&engine->lists[REPLAY_RUNNING]);

	while (request) {
		struct replay_request *next = TAILQ_NEXT(request, link);

		if (request->now > 0) {
			request->computed += request->now;
			request->now = 0;
			request->has_computed = true;
			while (request->cached < request->full &&
			       (request->cached + 1) * engine->block_tokens <= request->computed) {
				replay_kvcache_cache(engine->cache, request->table[request->cached],
				                     &request->keys[request->cached]);
				request->cached++;
			}
			if (request->computed == request->tokens) {
				request->tokens++;
				request->generated++;
			}
			if (request->generated == request->target) {
				int r = replay_request_finish(engine, request);

				if (r < 0)
					return r;
			}
		}
		request = next;
	}
	return 0;
}

/* Every rank reported the load of `request`. */
static void load_ended(struct replay_engine *engine, struct replay_request *request)
{
	uint32_t end = request->load_first + request->load_count;
	uint32_t valid = request->first_bad < end ? request->first_bad : end;

	if (request->state == REPLAY_LEAVING) {
		replay_request_release(engine, request);
		return;
	}
	if (!request->has_computed)
		request->l1_hits = valid - request->load_first;
	if (valid < end) {
		request->is_load_failed = true;
		replay_request_note(engine, request, valid);
	}
	if (valid == 0) {
		/* nothing to go on from: it starts over and asks again */
		replay_request_put_blocks(engine, request);
		replay_request_retreat(engine, request);
		return;
	}
	replay_ledger_loaded(engine->ledger, request->keys + request->load_first,
	                     valid - request->load_first);
	for (uint32_t i = request->load_first; i < valid; i++)
		replay_kvcache_cache(engine->cache, request->table[i], &request->keys[i]);
	request->cached = valid;
	request->computed = valid * engine->block_tokens;
	if (request->computed >= request->tokens)
		request->computed = request->tokens - 1; /* a step must compute something */
	replay_request_move(engine, request, REPLAY_READY);
}

static uint64_t all_ranks(const struct replay_engine *engine)
{
	return engine->world == 64 ? UINT64_MAX : (UINT64_C(1) << engine->world) - 1;
}

static int take_received(struct replay_engine *engine, uint32_t rank, const char *name)
{
	struct replay_request *request = replay_request_find(engine, name);
	uint64_t bit = UINT64_C(1) << rank;

	if (!request)
		return replay_engine_fail(engine, -EPROTO,
		                          "rank %u: finished_recving of unknown request `%s`", rank,
		                          name);
	if (request->state != REPLAY_LOADING && request->state != REPLAY_LEAVING)
		return replay_engine_fail(engine, -EPROTO,
		                          "rank %u: finished_recving of %s, which is %s", rank,
		                          name, replay_state_name(request->state));
	if (request->received & bit)
		return replay_engine_fail(engine, -EPROTO, "rank %u: finished_recving of %s twice",
		                          rank, name);
	request->received |= bit;
	replay_engine_progress(engine);
	if (request->received == all_ranks(engine))
		load_ended(engine, request);
	return 0;
}

static int take_sent(struct replay_engine *engine, uint32_t rank, const char *name)
{
	struct replay_request *request = replay_request_find(engine, name);
	uint64_t bit = UINT64_C(1) << rank;

	if (!request)
		return replay_engine_fail(engine, -EPROTO,
		                          "rank %u: finished_sending of unknown request `%s`", rank,
		                          name);
	if (request->state != REPLAY_HELD)
		return replay_engine_fail(
			engine, -EPROTO,
			"rank %u: finished_sending of %s, which is %s: nobody delayed it", rank,
			name, replay_state_name(request->state));
	if (!request->is_told)
		return replay_engine_fail(
			engine, -EPROTO,
			"rank %u: finished_sending of %s before the rank was told that "
			"it finished",
			rank, name);
	if (request->sent & bit)
		return replay_engine_fail(engine, -EPROTO, "rank %u: finished_sending of %s twice",
		                          rank, name);
	request->sent |= bit;
	replay_engine_progress(engine);
	if (request->sent == all_ranks(engine))
		replay_request_release(engine, request);
	return 0;
}

static int take_names(struct replay_engine *engine, bool is_sending)
{
	for (uint32_t rank = 0; rank < engine->world; rank++) {
		const struct replay_done *done = &engine->done[rank];
		struct replay_view view = is_sending ? done->sending : done->recving;
		uint32_t count = is_sending ? done->sending_count : done->recving_count;

		for (uint32_t i = 0; i < count; i++) {
			const char *name = replay_get_text(&view);
			int r = is_sending ? take_sent(engine, rank, name)
			                   : take_received(engine, rank, name);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int take_bytes(struct replay_engine *engine)
{
	for (uint32_t rank = 0; rank < engine->world; rank++) {
		engine->outputs[rank] = engine->done[rank].bytes;
		engine->lengths[rank] = engine->done[rank].length;
	}
	int r = daser_scheduler_update(engine->scheduler, engine->outputs, engine->lengths,
	                               engine->world);

	if (r < 0)
		return replay_engine_fail(engine, r, "daser_scheduler_update: %s", strerror(-r));
	return 0;
}

static void take_mismatches(struct replay_engine *engine, uint32_t rank)
{
	const struct replay_done *done = &engine->done[rank];
	struct replay_view view = done->mismatches;
	struct replay_mismatch m;

	engine->phase->mismatched_bytes += done->wrong_bytes;
	for (uint32_t i = 0; i < done->mismatch_count && replay_mismatch_get(&view, &m) == 0; i++) {
		if (engine->mismatches_said++ >= MISMATCHES_SAID)
			continue;
		replay_progress_clear(&engine->progress);
		(void)fprintf(stderr,
		              "daser-replay: rank %u, request %u, block %u (id %u): %" PRIu64
		              " bytes differ %s, the first one at offset %" PRIu64 "\n",
		              rank, m.request, m.block, m.id, m.bytes,
		              m.after_load ? "after its load" : "when it is read", m.first);
	}
}

int replay_outputs_events(struct replay_engine *engine)
{
	struct daser_block_event events[EVENTS_AT_ONCE];
	uint32_t count = EVENTS_AT_ONCE;

	while (count == EVENTS_AT_ONCE) {
		int r = daser_scheduler_take_events(engine->scheduler, events, EVENTS_AT_ONCE,
		                                    &count);

		if (r < 0)
			return replay_engine_fail(engine, r, "daser_scheduler_take_events: %s",
			                          strerror(-r));
		uint64_t now = dsr_now_ns();

		for (uint32_t i = 0; i < count; i++)
			replay_ledger_event(engine->ledger, &events[i], now);
		if (count > 0)
			replay_engine_progress(engine);
	}
	return 0;
}

int replay_outputs_take(struct replay_engine *engine)
{
	int r = 0;

	for (uint32_t rank = 0; r == 0 && rank < engine->world; rank++) {
		const struct replay_done *done = &engine->done[rank];

		if (done->error < 0)
			return replay_engine_fail(engine, done->error, "rank %u: %s: %s", rank,
			                          done->reason, strerror(-done->error));
		take_mismatches(engine, rank);
		for (uint32_t i = 0; i < done->sample_count; i++)
			(void)replay_samples_add(&engine->load_ns, replay_u64_at(done->samples, i));
		r = take_failed_blocks(engine, rank);
	}
	if (r == 0)
		r = take_tokens(engine);
	if (r == 0)
		r = take_bytes(engine);
	if (r == 0)
		r = take_names(engine, false);
	if (r == 0)
		r = take_names(engine, true);
	return r == 0 ? replay_outputs_events(engine) : r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of one step: running requests first, then those whose load is over, then those that
 * wait, while tokens, blocks and places last. */
#include <errno.h>
#include <string.h>

#include "engine.h"

enum { NO_ROOM = 0, TAKEN = 1, NOT_NOW = 2 };

static uint32_t blocks_for(const struct replay_engine *engine, uint32_t tokens)
{
	return (tokens + engine->block_tokens - 1) / engine->block_tokens;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* New blocks at the end of the request's table. */
static int take_blocks(struct replay_engine *engine, struct replay_request *request, uint32_t count)
{
	uint32_t *ids = request->table + request->table_count;
	int r = replay_kvcache_take(engine->cache, count, ids);

	if (r < 0)
		return replay_engine_fail(engine, r, "%s: no blocks where there was room",
		                          request->name);
	for (uint32_t i = 0; i < count; i++)
		replay_put_u32(&engine->step.poison, ids[i]);
	engine->step.poison_count += count;
	request->table_count += count;
	return 0;
}

/* Blocks [first, first + count) of the request for a list of the step; `from` and `to` are tokens
 * within the first and the last block. */
static void put_run(struct replay_engine *engine, struct replay_buf *list,
                    const struct replay_request *request, uint32_t first, uint32_t count,
                    const uint32_t tokens[2])
{
	replay_put_text(list, request->name);
	replay_put_u32(list, request->index);
	replay_put_u32(list, first);
	replay_put_u32(list, tokens[0]);
	replay_put_u32(list, tokens[1]);
	replay_put_u32(list, count);
	replay_put_raw(list, request->table + first, count * sizeof(*request->table));
	for (uint32_t i = 0; i < count; i++)
		replay_put_u64(list, replay_request_seed(engine, request, first + i));
}

/* Tokens [computed, computed + count) are computed in this step. */
static void compute(struct replay_engine *engine, struct replay_request *request, uint32_t count)
{
	uint32_t end = request->computed + count;
	uint32_t first = request->computed / engine->block_tokens;
	uint32_t last = (end - 1) / engine->block_tokens;
	uint32_t tokens[2] = {request->computed % engine->block_tokens,
	                      end - last * engine->block_tokens};
	uint32_t all[2] = {0, tokens[1]};

	request->now = count;
	engine->budget -= count;
	engine->computed += count;
	put_run(engine, &engine->step.fills, request, first, last - first + 1, tokens);
	engine->step.fill_count++;
	/* attention reads all of it in every step; it is checked when its prompt ends and at its
	 * end */
	if (end == request->tokens &&
	    (request->must_check || request->generated + 1 == request->target)) {
		put_run(engine, &engine->step.checks, request, 0, last + 1, all);
		engine->step.check_count++;
		request->must_check = false;
	}
}

static int tell_allocated(struct replay_engine *engine, struct replay_request *request,
                          uint32_t computed, uint32_t external)
{
	int r = daser_scheduler_allocated(engine->scheduler, request->name, request->table,
	                                  request->table_count, computed, external);

	if (r < 0)
		return replay_engine_fail(engine, r, "daser_scheduler_allocated of %s: %s",
		                          request->name, strerror(-r));
	return TAKEN;
}

int replay_schedule_preempt(struct replay_engine *engine, struct replay_request *request)
{
	int r = daser_scheduler_preempted(engine->scheduler, request->name);

	if (r < 0)
		return replay_engine_fail(engine, r, "daser_scheduler_preempted of %s: %s",
		                          request->name, strerror(-r));
	replay_ledger_lost(engine->ledger, request->keys, request->full, REPLAY_PREEMPTED);
	replay_request_put_blocks(engine, request);
	replay_request_retreat(engine, request);
	request->now = 0;
	request->again = 0; /* it asks anew */
	request->preemptions++;
	engine->phase->preemptions++;
	engine->has_preempted = true;
	return 0;
}

/* Preempts from the end of the running ones until `request` can have `count` blocks. NO_ROOM: it
 * was preempted itself. */
static int make_room(struct replay_engine *engine, struct replay_request *request, uint32_t count)
{
	while (replay_kvcache_free_count(engine->cache) < count) {
		struct replay_request *victim =
			TAILQ_LAST(&engine->lists[REPLAY_RUNNING], replay_list);
		int r = replay_schedule_preempt(engine, victim);

		if (r < 0)
			return r;
		if (victim == request)
			return NO_ROOM;
	}
	return TAKEN;
}

/* Tokens of this step, and the blocks that they need beyond the table. */
static uint32_t want(const struct replay_engine *engine, const struct replay_request *request,
                     uint32_t *ret_blocks)
{
	uint32_t count = lesser(request->tokens - request->computed, engine->budget);
	uint32_t blocks = blocks_for(engine, request->computed + count);

	*ret_blocks = blocks > request->table_count ? blocks - request->table_count : 0;
	return count;
}

static int schedule_running(struct replay_engine *engine)
{
	struct replay_request *request = TAILQ_FIRST(&engine->lists[REPLAY_RUNNING]);

	while (request && engine->budget > 0) {
		uint32_t blocks = 0;
		uint32_t count = want(engine, request, &blocks);
		int r = make_room(engine, request, blocks);

		if (r <= 0)
			return r;
		r = take_blocks(engine, request, blocks);
		if (r < 0)
			return r;
		compute(engine, request, count);
		request = TAILQ_NEXT(request, link);
	}
	return 0;
}

/* A request whose load is over computes what is left. */
static int start(struct replay_engine *engine, struct replay_request *request)
{
	uint32_t blocks = 0;
	uint32_t count = want(engine, request, &blocks);

	if (replay_kvcache_free_count(engine->cache) < blocks)
		return NO_ROOM;
	int r = take_blocks(engine, request, blocks);
	if (r < 0)
		return r;
	r = tell_allocated(engine, request, request->computed / engine->block_tokens, 0);
	if (r < 0)
		return r;
	replay_request_move(engine, request, REPLAY_RUNNING);
	compute(engine, request, count);
	return TAKEN;
}

/* Parked requests cannot be preempted: together they may never need more than there is, or each
 * would wait for the blocks of the others. */
static bool parking_is_safe(const struct replay_engine *engine,
                            const struct replay_request *request)
{
	static const enum replay_state parked[] = {REPLAY_LOADING, REPLAY_READY};
	uint64_t blocks = request->table_capacity;

	for (uint32_t i = 0; i < 2; i++) {
		const struct replay_request *other;

		TAILQ_FOREACH(other, &engine->lists[parked[i]], link)
		blocks += other->table_capacity;
	}
	return blocks <= engine->kv_blocks;
}

/* `local` blocks at the head of the table are cached here, `external` more can be loaded. */
static int park(struct replay_engine *engine, struct replay_request *request, uint32_t local,
                uint32_t external)
{
	uint32_t tokens[2] = {0, engine->block_tokens};

	if (!parking_is_safe(engine, request) ||
	    !replay_kvcache_fits(engine->cache, request->table, local, external))
		return NO_ROOM;
	replay_kvcache_touch(engine->cache, request->table, local);
	request->table_count = local;
	int r = take_blocks(engine, request, external);
	if (r < 0)
		return r;
	request->cached = local;
	request->load_first = local;
	request->load_count = external;
	request->first_bad = REPLAY_NONE;
	request->received = 0;
	r = tell_allocated(engine, request, local, external);
	if (r < 0)
		return r;
	put_run(engine, &engine->step.loads, request, local, external, tokens);
	engine->step.load_count++;
	replay_request_move(engine, request, REPLAY_LOADING);
	return TAKEN;
}

/* Asks what can be loaded beyond `local` blocks. TAKEN, NOT_NOW. */
static int match(struct replay_engine *engine, struct replay_request *request, uint32_t local,
                 uint32_t *ret_external)
{
	int r = daser_scheduler_match(engine->scheduler, request->name, local, ret_external);

	if (r == -EAGAIN) {
		engine->is_again = true;
		if (++request->again > 3)
			return replay_engine_fail(
				engine, -EPROTO,
				"%s: daser_scheduler_match said -EAGAIN more than 3 times",
				request->name);
		return NOT_NOW;
	}
	if (r < 0)
		return replay_engine_fail(engine, r, "daser_scheduler_match of %s: %s",
		                          request->name, strerror(-r));
	if (*ret_external > request->full - lesser(local, request->full))
		return replay_engine_fail(
			engine, -EPROTO,
			"%s: daser_scheduler_match promises %u blocks beyond %u of %u",
			request->name, *ret_external, local, request->full);
	if (request->abort == REPLAY_ABORT_PROMISED && !request->is_abort_due) {
		request->is_abort_due = true; /* before the next schedule */
		return NOT_NOW;
	}
	return TAKEN;
}

static int admit(struct replay_engine *engine, struct replay_request *request)
{
	uint32_t most = lesser(request->full, (request->tokens - 1) / engine->block_tokens);
	uint32_t local = replay_kvcache_match(engine->cache, request->keys, most, request->table);
	uint32_t external = 0, blocks = 0;
	int r = match(engine, request, local, &external);

	if (r != TAKEN)
		return r;
	request->must_check = true;
	request->computed = local * engine->block_tokens;
	request->table_count = local;
	uint32_t count = want(engine, request, &blocks);

	request->computed = request->table_count = 0;
	if (external > 0)
		r = park(engine, request, local, external);
	else
		r = replay_kvcache_fits(engine->cache, request->table, local, blocks) ? TAKEN
		                                                                      : NO_ROOM;
	if (r != TAKEN)
		return r;
	if (!request->has_computed) {
		request->engine_hits = local;
		request->l1_hits = 0;
	}
	replay_request_note(engine, request, local + external);
	if (external > 0)
		return TAKEN;
	replay_kvcache_touch(engine->cache, request->table, local);
	request->computed = local * engine->block_tokens;
	request->cached = request->table_count = local;
	r = take_blocks(engine, request, blocks);
	if (r < 0)
		return r;
	r = tell_allocated(engine, request, local, 0);
	if (r < 0)
		return r;
	replay_request_move(engine, request, REPLAY_RUNNING);
	compute(engine, request, count);
	return TAKEN;
}

static int schedule_ready(struct replay_engine *engine)
{
	struct replay_request *request;

	while ((request = TAILQ_FIRST(&engine->lists[REPLAY_READY])) && engine->budget > 0) {
		int r = start(engine, request);

		if (r <= 0)
			return r;
	}
	return TAKEN;
}

static int schedule_waiting(struct replay_engine *engine)
{
	struct replay_request *request = TAILQ_FIRST(&engine->lists[REPLAY_WAITING]);

	while (request && engine->budget > 0) {
		struct replay_request *next = TAILQ_NEXT(request, link);
		uint32_t busy = engine->counts[REPLAY_RUNNING] + engine->counts[REPLAY_LOADING] +
		                engine->counts[REPLAY_READY];

		if (busy >= engine->settings->concurrency)
			return 0;
		int r = admit(engine, request);

		if (r <= 0)
			return r;
		request = next;
	}
	return 0;
}

/* Blocks that hold valid KV after this step may be stored. */
static int tell_scheduled(struct replay_engine *engine)
{
	struct replay_request *request;

	TAILQ_FOREACH(request, &engine->lists[REPLAY_RUNNING], link)
	{
		uint32_t whole = (request->computed + request->now) / engine->block_tokens;

		if (request->now == 0)
			continue;
		int r = daser_scheduler_scheduled(engine->scheduler, request->name, request->table,
		                                  request->table_count,
		                                  lesser(whole, request->full));

		if (r < 0)
			return replay_engine_fail(engine, r, "daser_scheduler_scheduled of %s: %s",
			                          request->name, strerror(-r));
	}
	return 0;
}

int replay_schedule(struct replay_engine *engine)
{
	engine->budget = (uint32_t)engine->settings->token_budget;
	engine->computed = 0;
	engine->is_again = false;
	int r = schedule_running(engine);

	if (r == 0 && !engine->has_preempted) {
		r = schedule_ready(engine);
		if (r == TAKEN)
			r = schedule_waiting(engine);
	}
	engine->has_preempted = false;
	return r < 0 ? r : tell_scheduled(engine);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One request's life in the engine, its keys, and its line in the log. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "util.h"

#define MATCH_TRIES 3 /* times that libdaser may say: ask again */
/* libdaser looks up again when its answer is older than about this; only tells two causes apart */
#define LOOKUP_AGE_NS UINT64_C(20000000)

const char *replay_state_name(enum replay_state state)
{
	static const char *const names[REPLAY_STATES] = {
		[REPLAY_NEW] = "new",
		[REPLAY_WAITING] = "waiting",
		[REPLAY_LOADING] = "loading",
		[REPLAY_READY] = "loaded",
		[REPLAY_RUNNING] = "running",
		[REPLAY_HELD] = "finished, held",
		[REPLAY_LEAVING] = "aborted, loading",
		[REPLAY_GONE] = "gone",
	};

	return names[state];
}

/* Keys, block table and abort plan; the lookup goes out. */
int replay_request_begin(struct replay_engine *engine, struct replay_request *request)
{
	uint32_t index = request->index;
	const struct replay_item *item = &engine->workload->items[index];
	uint32_t limit = (uint32_t)engine->settings->output_tokens;

	request->full = replay_full_blocks(item, engine->block_tokens);
	request->tokens = item->input_length;
	request->target = item->output_length < limit ? item->output_length : limit;
	if (request->target == 0)
		request->target = 1; /* the prompt's last step gives a token */
	request->table_capacity =
		(item->input_length + request->target + engine->block_tokens - 1) /
		engine->block_tokens;
	request->missing = REPLAY_NONE;
	request->first_bad = REPLAY_NONE;
	(void)snprintf(request->name, sizeof(request->name), "p%u.%u", engine->phase_number, index);
	request->keys = calloc(request->full + 1, sizeof(*request->keys));
	request->table = calloc(request->table_capacity, sizeof(*request->table));
	if (!request->keys || !request->table)
		return replay_engine_fail(engine, -ENOMEM, "request %u: out of memory", index);
	replay_workload_keys(engine->workload, index, engine->block_tokens, request->keys);
	request->ticket = ++engine->tickets;
	int r = replay_ledger_arrive(engine->ledger, request->keys, request->full, request->ticket,
	                             &request->seen);
	if (r < 0)
		return replay_engine_fail(engine, r, "request %u: out of memory", index);
	request->lookup_ns = dsr_now_ns();
	r = daser_scheduler_new_request(engine->scheduler, request->name, request->keys,
	                                request->full, sizeof(*request->keys), NULL, 0, 0);
	if (r < 0)
		return replay_engine_fail(engine, r, "daser_scheduler_new_request of %s: %s",
		                          request->name, strerror(-r));
	replay_inject_plan(engine, request);
	engine->phase->requests++;
	engine->phase->prompt_tokens += item->input_length;
	replay_request_move(engine, request, REPLAY_WAITING);
	return 0;
}

void replay_request_free(struct replay_request *request)
{
	free(request->keys);
	free(request->table);
	request->keys = NULL;
	request->table = NULL;
}

static bool has_list(enum replay_state state)
{
	return state != REPLAY_NEW && state != REPLAY_GONE;
}

static void leave_list(struct replay_engine *engine, struct replay_request *request)
{
	if (has_list(request->state))
		TAILQ_REMOVE(&engine->lists[request->state], request, link);
	engine->counts[request->state]--;
}

void replay_request_move(struct replay_engine *engine, struct replay_request *request,
                         enum replay_state state)
{
	leave_list(engine, request);
	request->state = state;
	engine->counts[state]++;
	if (has_list(state))
		TAILQ_INSERT_TAIL(&engine->lists[state], request, link);
}

void replay_request_retreat(struct replay_engine *engine, struct replay_request *request)
{
	leave_list(engine, request);
	request->state = REPLAY_WAITING;
	engine->counts[REPLAY_WAITING]++;
	TAILQ_INSERT_HEAD(&engine->lists[REPLAY_WAITING], request, link);
}

struct replay_request *replay_request_find(struct replay_engine *engine, const char *name)
{
	const char *dot = strchr(name, '.');

	if (!dot || dot[1] < '0' || dot[1] > '9')
		return NULL;
	unsigned long index = strtoul(dot + 1, NULL, 10);

	if (index >= engine->workload->count || strcmp(engine->requests[index].name, name) != 0)
		return NULL;
	return &engine->requests[index];
}

uint64_t replay_request_seed(const struct replay_engine *engine,
                             const struct replay_request *request, uint32_t block)
{
	if (block < request->full)
		return request->keys[block].lo;
	/* nobody else's: the partial end of the prompt and what was generated */
	uint64_t own = replay_mix((uint64_t)engine->phase_number << 32 | request->index);

	return replay_mix(own + replay_mix(block + 1));
}

void replay_request_note(struct replay_engine *engine, struct replay_request *request,
                         uint32_t missing)
{
	if (request->has_computed)
		return;
	request->missing = missing < request->full ? missing : REPLAY_NONE;
	if (missing >= request->full || missing >= request->seen) {
		request->cause = REPLAY_FIRST_USE;
		return;
	}
	uint64_t recent = dsr_now_ns() - LOOKUP_AGE_NS;

	request->cause =
		replay_ledger_cause(engine->ledger, &request->keys[missing], request->ticket,
	                            request->lookup_ns > recent ? request->lookup_ns : recent);
	/* the cache may have it: it was not asked in time, or could not give it */
	if (request->is_load_failed ||
	    (request->again >= MATCH_TRIES && request->cause == REPLAY_EVICTION_ORDER))
		request->cause = REPLAY_OTHER;
}

void replay_request_put_blocks(struct replay_engine *engine, struct replay_request *request)
{
	replay_kvcache_put(engine->cache, request->table, request->table_count);
	request->table_count = 0;
	request->computed = 0;
	request->cached = 0;
}

int replay_request_finish(struct replay_engine *engine, struct replay_request *request)
{
	int delay = 0;
	int r = daser_scheduler_finished(engine->scheduler, request->name, &delay);

	if (r < 0)
		return replay_engine_fail(engine, r, "daser_scheduler_finished of %s: %s",
		                          request->name, strerror(-r));
	request->now = 0;
	engine->ended++;
	replay_engine_progress(engine);
	if (request->state == REPLAY_LOADING) {
		if (delay)
			return replay_engine_fail(
				engine, -EPROTO,
				"%s: daser_scheduler_finished delays a request whose load "
				"is in flight",
				request->name);
		replay_request_move(engine, request, REPLAY_LEAVING);
		return 0;
	}
	if (!delay) {
		replay_request_release(engine, request);
		return 0;
	}
	replay_put_text(&engine->step.finished, request->name);
	engine->step.finished_count++;
	replay_request_move(engine, request, REPLAY_HELD);
	return 0;
}

static void log_line(struct replay_engine *engine, const struct replay_request *r)
{
	const struct replay_item *item = &engine->workload->items[r->index];

	(void)fprintf(
		engine->log,
		"{\"phase\":%u,\"name\":\"%s\",\"index\":%u,\"input_length\":%u,\"full_blocks\":%u,"
		"\"engine_hit_blocks\":%u,\"l1_hit_blocks\":%u,\"seen_blocks\":%u,\"aborted\":%s,"
		"\"computed\":%s,\"preempted\":%u,",
		engine->phase_number, engine->phase->name, r->index, item->input_length, r->full,
		r->engine_hits, r->l1_hits, r->seen, r->is_aborted ? "true" : "false",
		r->has_computed ? "true" : "false", r->preemptions);
	if (r->missing == REPLAY_NONE)
		(void)fputs("\"missing_block\":null,\"cause\":null}\n", engine->log);
	else
		(void)fprintf(engine->log, "\"missing_block\":%u,\"cause\":\"%s\"}\n", r->missing,
		              replay_cause_name(r->cause));
}

void replay_request_release(struct replay_engine *engine, struct replay_request *request)
{
	struct replay_phase *phase = engine->phase;

	replay_request_put_blocks(engine, request);
	if (!request->has_computed) {
		/* only an abort ends a request before it computed anything */
		request->engine_hits = request->l1_hits = 0;
		request->missing = request->full > 0 ? 0 : REPLAY_NONE;
		request->cause = request->seen > 0 ? REPLAY_ABORTED : REPLAY_FIRST_USE;
	} else {
		uint32_t hits = request->engine_hits + request->l1_hits;

		phase->engine_tokens += (uint64_t)request->engine_hits * engine->block_tokens;
		phase->l1_tokens += (uint64_t)request->l1_hits * engine->block_tokens;
		phase->seen_blocks += request->seen;
		phase->seen_hit_blocks += hits < request->seen ? hits : request->seen;
		if (request->missing != REPLAY_NONE)
			phase->missed[request->cause] += request->full - hits;
	}
	if (!request->is_aborted)
		phase->full_block_tokens += (uint64_t)request->full * engine->block_tokens;
	replay_ledger_leave(engine->ledger, request->keys, request->full, request->ticket,
	                    request->is_aborted);
	if (engine->log)
		log_line(engine, request);
	replay_request_free(request);
	replay_request_move(engine, request, REPLAY_GONE);
}

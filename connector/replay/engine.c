/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>

#include "util.h"

#define LIVE_MAX 4000                 /* requests that libdaser knows at once; its limit is 4096 */
#define IDLE_FIRST_NS UINT64_C(50000) /* an idle step waits for news, longer each time */
#define IDLE_LAST_NS UINT64_C(5000000)
#define DRAIN_POLL_MS 20
#define NS_PER_MS UINT64_C(1000000)

int replay_engine_fail(struct replay_engine *engine, int error, const char *format, ...)
{
	va_list args;

	if (engine->error[0] == '\0') {
		va_start(args, format);
		(void)vsnprintf(engine->error, sizeof(engine->error), format, args);
		va_end(args);
	}
	return error;
}

void replay_engine_progress(struct replay_engine *engine)
{
	engine->progress_ns = dsr_now_ns();
	engine->idle_steps = 0;
}

/* ---- steps ---- */

static uint64_t idle_wait(const struct replay_engine *engine)
{
	uint32_t doublings = engine->idle_steps < 16 ? engine->idle_steps : 16;
	uint64_t wait = IDLE_FIRST_NS << doublings;

	return wait < IDLE_LAST_NS ? wait : IDLE_LAST_NS;
}

static int send_step(struct replay_engine *engine, bool is_idle)
{
	const void *meta = NULL;
	size_t meta_length = 0;
	char why[256] = "";
	int r = daser_scheduler_build_meta(engine->scheduler, &meta, &meta_length);

	if (r < 0)
		return replay_engine_fail(engine, r, "daser_scheduler_build_meta: %s",
		                          strerror(-r));
	replay_buf_clear(&engine->frame);
	replay_step_put(&engine->frame, &engine->step, is_idle ? idle_wait(engine) : 0, meta,
	                meta_length);
	replay_step_clear(&engine->step);
	struct replay_request *request;

	TAILQ_FOREACH(request, &engine->lists[REPLAY_HELD], link)
	request->is_told = true;
	r = replay_ranks_step(engine->ranks, &engine->frame, is_idle,
	                      (uint32_t)engine->settings->hang_ms, engine->done, why, sizeof(why));
	if (r < 0)
		return replay_engine_fail(engine, r, "%s", why);
	return 0;
}

int replay_engine_step(struct replay_engine *engine)
{
	int r = replay_inject_before(engine);

	if (r == 0)
		r = replay_schedule(engine);
	if (r < 0)
		return r;
	bool is_idle = engine->computed == 0 && !engine->is_again;

	if (engine->computed > 0)
		replay_engine_progress(engine);
	else
		engine->idle_steps++;
	engine->phase->steps++;
	r = send_step(engine, is_idle);
	if (r == 0)
		r = replay_inject_after(engine);
	return r < 0 ? r : replay_outputs_take(engine);
}

static uint32_t outstanding(const struct replay_engine *engine)
{
	return engine->counts[REPLAY_WAITING] + engine->counts[REPLAY_LOADING] +
	       engine->counts[REPLAY_READY] + engine->counts[REPLAY_RUNNING];
}

static uint32_t holding(const struct replay_engine *engine)
{
	return engine->counts[REPLAY_HELD] + engine->counts[REPLAY_LEAVING];
}

static void say_where_all_are(struct replay_engine *engine)
{
	replay_progress_clear(&engine->progress);
	for (uint32_t state = REPLAY_WAITING; state < REPLAY_GONE; state++) {
		struct replay_request *request;
		uint32_t said = 0;

		TAILQ_FOREACH(request, &engine->lists[state], link)
		{
			if (said++ == 20) {
				(void)fprintf(stderr, "  and %u more %s\n",
				              engine->counts[state] - 20,
				              replay_state_name((enum replay_state)state));
				break;
			}
			(void)fprintf(stderr,
			              "  %s: %s, %u of %u tokens computed, load of %u blocks from "
			              "%u (ranks "
			              "%" PRIx64 " reported), saves (ranks %" PRIx64 " reported)\n",
			              request->name, replay_state_name(request->state),
			              request->computed, request->tokens, request->load_count,
			              request->load_first, request->received, request->sent);
		}
	}
}

static int check_hang(struct replay_engine *engine)
{
	uint64_t silent = dsr_now_ns() - engine->progress_ns;

	if (silent < engine->settings->hang_ms * NS_PER_MS)
		return 0;
	engine->phase->hung = outstanding(engine) + holding(engine);
	(void)fprintf(stderr,
	              "daser-replay: no progress for %" PRIu64 " ms; pending %d, service %s%s\n",
	              silent / NS_PER_MS, daser_scheduler_pending(engine->scheduler),
	              daser_scheduler_state(engine->scheduler) == DASER_ATTACHED ? "attached"
	                                                                         : "not attached: ",
	              daser_scheduler_reason(engine->scheduler));
	say_where_all_are(engine);
	return replay_engine_fail(engine, -ETIMEDOUT, "hung: no progress for %" PRIu64 " ms",
	                          silent / NS_PER_MS);
}

/* ---- phases ---- */

/* Statistics of both sides at one moment. */
struct totals {
	struct daser_scheduler_stats scheduler;
	uint64_t load_bytes, store_bytes;
	uint64_t load_busy_ns[64], store_busy_ns[64];
};

static int take_totals(struct replay_engine *engine, struct totals *ret_totals)
{
	struct daser_worker_stats workers[64];
	char why[256] = "";

	*ret_totals = (struct totals){.scheduler.size = sizeof(ret_totals->scheduler)};
	int r = daser_scheduler_get_stats(engine->scheduler, &ret_totals->scheduler);
	if (r < 0)
		return replay_engine_fail(engine, r, "daser_scheduler_get_stats: %s", strerror(-r));
	r = replay_ranks_stats(engine->ranks, (uint32_t)engine->settings->hang_ms, workers, why,
	                       sizeof(why));
	if (r < 0)
		return replay_engine_fail(engine, r, "%s", why);
	for (uint32_t i = 0; i < engine->world; i++) {
		ret_totals->load_bytes += workers[i].load_bytes;
		ret_totals->store_bytes += workers[i].store_bytes;
		ret_totals->load_busy_ns[i] = workers[i].load_busy_ns;
		ret_totals->store_busy_ns[i] = workers[i].store_busy_ns;
	}
	return 0;
}

/* What happened between two moments. Busy time is that of the busiest rank: they work at once. */
static void fill_in(struct replay_engine *engine, const struct totals *a, const struct totals *b)
{
	struct replay_phase *p = engine->phase;

	p->bytes_loaded = b->load_bytes - a->load_bytes;
	p->bytes_stored = b->store_bytes - a->store_bytes;
	for (uint32_t i = 0; i < engine->world; i++) {
		uint64_t load = b->load_busy_ns[i] - a->load_busy_ns[i];
		uint64_t store = b->store_busy_ns[i] - a->store_busy_ns[i];

		p->load_busy_ns = load > p->load_busy_ns ? load : p->load_busy_ns;
		p->store_busy_ns = store > p->store_busy_ns ? store : p->store_busy_ns;
	}
	p->lookup_p50_ns = b->scheduler.lookup_p50_ns;
	p->lookup_p99_ns = b->scheduler.lookup_p99_ns;
	p->load_p50_ns = replay_samples_percentile(&engine->load_ns, 0.5);
	p->load_p99_ns = replay_samples_percentile(&engine->load_ns, 0.99);
	p->l1_hits = b->scheduler.l1_hits - a->scheduler.l1_hits;
	p->l1_misses = b->scheduler.l1_misses - a->scheduler.l1_misses;
	p->l2_reads = b->scheduler.l2_reads - a->scheduler.l2_reads;
	p->load_failed_blocks = b->scheduler.load_failed_blocks - a->scheduler.load_failed_blocks;
	for (uint32_t i = 0; i < REPLAY_REASONS_MAX; i++)
		p->drops[i] = b->scheduler.drops[i] - a->scheduler.drops[i];
}

/* True when the next request comes now. */
static bool is_arriving(const struct replay_engine *engine)
{
	const struct replay_item *item = &engine->workload->items[engine->next];
	double speed = engine->settings->speed;

	if (engine->next == engine->workload->count ||
	    outstanding(engine) + holding(engine) >= LIVE_MAX)
		return false;
	if (item->after != REPLAY_NONE) {
		enum replay_state state = engine->requests[item->after].state;

		if (state != REPLAY_HELD && state != REPLAY_LEAVING && state != REPLAY_GONE)
			return false;
	}
	if (speed == 0)
		return outstanding(engine) < engine->settings->concurrency;
	return (double)(dsr_now_ns() - engine->start_ns) >=
	       (double)item->timestamp_ms * 1e6 / speed;
}

/* While an actor restarts nobody can tell whether all is committed: asked again until it can. */
static int drain(struct replay_engine *engine, uint64_t *ret_left)
{
	uint64_t end = dsr_now_ns() + engine->settings->drain_ms * NS_PER_MS;

	for (;;) {
		uint64_t now = dsr_now_ns();
		uint32_t left_ms = now < end ? (uint32_t)((end - now) / NS_PER_MS) + 1 : 1;
		int r = daser_drain(engine->settings->run_dir, left_ms, ret_left);

		if (r != -ENOTCONN || !engine->is_attached || now >= end)
			return r;
		(void)poll(NULL, 0, DRAIN_POLL_MS);
	}
}

/* Nothing was reserved since the last drain: there is nothing to wait for. */
static bool is_drained(struct replay_engine *engine, uint64_t *ret_reserved)
{
	struct daser_scheduler_stats stats = {.size = sizeof(stats)};

	if (daser_scheduler_get_stats(engine->scheduler, &stats) < 0)
		return false;
	*ret_reserved = stats.reserved_blocks;
	return stats.reserved_blocks == engine->drained_blocks;
}

/* Until no save is outstanding; then until the service has committed everything. */
static int settle(struct replay_engine *engine, bool must_drain)
{
	uint64_t left = 0, reserved = 0;
	int r = 0;

	while (r == 0 && (holding(engine) > 0 || daser_scheduler_pending(engine->scheduler) == 1)) {
		r = replay_engine_step(engine);
		if (r == 0)
			r = check_hang(engine);
	}
	if (r < 0 || (is_drained(engine, &reserved) && !must_drain))
		return r;
	r = drain(engine, &left);
	if (r < 0)
		return replay_engine_fail(engine, r, "drain failed: %s, %" PRIu64 " blocks left",
		                          strerror(-r), left);
	engine->drained_blocks = reserved;
	replay_engine_progress(engine);
	return replay_outputs_events(engine);
}

/* With --settle requests come in groups of --concurrency, each after all stores of the last. */
static int arrive(struct replay_engine *engine)
{
	int r = 0;

	if (engine->settings->settle && engine->next > 0) {
		if (outstanding(engine) > 0)
			return 0;
		r = settle(engine, false);
	}
	while (r == 0 && is_arriving(engine)) {
		struct replay_request *request = &engine->requests[engine->next++];

		r = replay_request_begin(engine, request);
		replay_engine_progress(engine);
	}
	return r;
}

static int run_all(struct replay_engine *engine)
{
	uint32_t count = engine->workload->count;

	while (engine->next < count || outstanding(engine) > 0 || holding(engine) > 0) {
		int r = engine->next < count ? arrive(engine) : 0;

		if (r < 0)
			return r;
		replay_progress_show(&engine->progress, engine->phase->name, engine->ended, count);
		if (outstanding(engine) + holding(engine) == 0 && engine->next < count) {
			(void)poll(NULL, 0, 1); /* --speed: the next one comes later */
			replay_engine_progress(engine);
			continue;
		}
		r = replay_engine_step(engine);
		if (r == 0)
			r = check_hang(engine);
		if (r < 0)
			return r;
	}
	return engine->settings->settle ? settle(engine, false) : 0;
}

static void phase_begin(struct replay_engine *engine, struct replay_phase *phase)
{
	engine->phase = phase;
	engine->next = 0;
	engine->ended = 0;
	engine->start_ns = dsr_now_ns();
	replay_samples_clear(&engine->load_ns);
	replay_engine_progress(engine);
}

/* Results, whether or not all went well. */
static int phase_end(struct replay_engine *engine, int r, const struct totals *before)
{
	struct totals after;

	engine->phase->seconds = (double)(dsr_now_ns() - engine->start_ns) / 1e9;
	if (r < 0) {
		/* the ranks may be gone: what is known without them */
		if (r == -ETIMEDOUT && engine->phase->hung == 0)
			engine->phase->hung = outstanding(engine) + holding(engine);
		if (engine->phase->hung == 0)
			engine->phase->failed = outstanding(engine);
		return r;
	}
	r = take_totals(engine, &after);
	if (r == 0)
		fill_in(engine, before, &after);
	return r;
}

int replay_engine_run(struct replay_engine *engine, struct replay_phase *phase)
{
	struct totals before;

	phase_begin(engine, phase);
	for (uint32_t i = 0; i < engine->workload->count; i++) {
		engine->requests[i] = (struct replay_request){.index = i};
		engine->counts[REPLAY_NEW]++;
	}
	replay_kvcache_forget(engine->cache);
	int r = take_totals(engine, &before);

	if (r == 0)
		r = run_all(engine);
	r = phase_end(engine, r, &before);
	if (r == 0) {
		engine->counts[REPLAY_GONE] = 0;
		engine->phase_number++;
	}
	replay_progress_clear(&engine->progress);
	return r;
}

int replay_engine_drain(struct replay_engine *engine, struct replay_phase *phase)
{
	struct totals before;

	phase_begin(engine, phase);
	int r = take_totals(engine, &before);

	if (r == 0)
		r = settle(engine, true);
	r = phase_end(engine, r, &before);
	if (r == 0)
		engine->phase_number++;
	return r;
}

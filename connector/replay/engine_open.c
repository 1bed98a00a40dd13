/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the engine: its cache, libdaser, the ranks, the wait for the service. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "util.h"

#define ATTACH_POLL_MS 2
#define NS_PER_MS UINT64_C(1000000)

static uint32_t largest_request(const struct replay_workload *workload, uint32_t block_tokens,
                                uint64_t output_tokens, uint32_t *ret_index)
{
	uint64_t most = 1;

	*ret_index = 0;
	for (uint32_t i = 0; i < workload->count; i++) {
		const struct replay_item *item = &workload->items[i];
		uint64_t output =
			item->output_length < output_tokens ? item->output_length : output_tokens;
		uint64_t tokens = item->input_length + (output ? output : 1);
		uint64_t blocks = (tokens + block_tokens - 1) / block_tokens;

		if (blocks > most) {
			most = blocks;
			*ret_index = i;
		}
	}
	return (uint32_t)most;
}

static int size_cache(struct replay_engine *engine, char *why, size_t why_bytes)
{
	uint32_t index = 0;
	uint32_t largest = largest_request(engine->workload, engine->block_tokens,
	                                   engine->settings->output_tokens, &index);

	engine->kv_blocks = (uint32_t)engine->settings->kv_blocks;
	if (engine->kv_blocks == 0)
		engine->kv_blocks = 2 * largest;
	if (engine->kv_blocks < largest) {
		(void)snprintf(why, why_bytes, "--kv-blocks %u: request %u alone needs %u blocks",
		               engine->kv_blocks, index, largest);
		return -EINVAL;
	}
	return 0;
}

static int open_scheduler(struct replay_engine *engine, const char *name,
                          const uint8_t *fingerprint, char *why, size_t why_bytes)
{
	const struct replay_settings *s = engine->settings;
	struct daser_scheduler_options options = {
		.size = sizeof(options),
		.run_dir = s->run_dir,
		.engine = name,
		.fingerprint = fingerprint,
		.world = engine->world,
		.block_tokens = engine->block_tokens,
		.lookup_wait_us = s->wait_us,
		.load_deadline_ms = (uint32_t)s->deadline_ms,
	};
	int r = daser_scheduler_open(&options, &engine->scheduler);

	if (r < 0)
		(void)snprintf(why, why_bytes, "daser_scheduler_open: %s", strerror(-r));
	return r;
}

static int start_ranks(struct replay_engine *engine, const char *name, const char *fingerprint_text,
                       char *why, size_t why_bytes)
{
	const struct replay_settings *s = engine->settings;
	struct replay_setup setup = {
		.run_dir = s->run_dir,
		.engine = name,
		.fingerprint_text = fingerprint_text,
		.staging_mode = s->staging_mode,
		.block_bytes = s->block_bytes,
		.staging_ceiling = s->staging_ceiling,
		.world = engine->world,
		.lanes = s->replicated ? 1 : engine->world,
		.block_tokens = engine->block_tokens,
		.blocks = engine->kv_blocks + 1, /* and the null block */
		.layers = strcmp(s->layout, "layer") == 0 ? (uint32_t)s->layers : 0,
		.load_deadline_ms = (uint32_t)s->deadline_ms,
		.save_deadline_ms = (uint32_t)s->save_deadline_ms,
	};

	return replay_ranks_start(&setup, (uint32_t)s->device_base, &engine->ranks, why, why_bytes);
}

/* Waits until the service serves every rank and the engine. A service that is not there or says no
 * is no error: the engine says so and runs without it. */
static int attach(struct replay_engine *engine, char *why, size_t why_bytes)
{
	uint64_t end = dsr_now_ns() + engine->settings->attach_ms * NS_PER_MS;
	int r = replay_ranks_attach(engine->ranks, (uint32_t)engine->settings->attach_ms, why,
	                            why_bytes);

	while (r == 0) {
		enum daser_state state = daser_scheduler_state(engine->scheduler);

		if (state == DASER_ATTACHED)
			break;
		if (state == DASER_REFUSED)
			r = -EPERM;
		else if (dsr_now_ns() >= end)
			r = -ETIMEDOUT;
		if (r < 0)
			(void)snprintf(why, why_bytes, "engine: %s",
			               daser_scheduler_reason(engine->scheduler));
		else
			(void)poll(NULL, 0, ATTACH_POLL_MS);
	}
	engine->is_attached = r == 0;
	if (r != -EPERM && r != -ETIMEDOUT)
		return r;
	(void)fprintf(stderr, "daser-replay: %s, running without: %s\n",
	              r == -EPERM ? "the service refuses this engine" : "no service", why);
	return 0;
}

static int open_log(struct replay_engine *engine, char *why, size_t why_bytes)
{
	const char *path = engine->settings->requests_log;

	if (path[0] == '\0')
		return 0;
	engine->log = fopen(path, "we");
	if (engine->log)
		return 0;
	(void)snprintf(why, why_bytes, "--requests-log `%s`: %s", path, strerror(errno));
	return -EINVAL;
}

static int open_memory(struct replay_engine *engine)
{
	engine->done = calloc(engine->world, sizeof(*engine->done));
	engine->outputs = calloc(engine->world, sizeof(*engine->outputs));
	engine->lengths = calloc(engine->world, sizeof(*engine->lengths));
	engine->requests = calloc(engine->workload->count, sizeof(*engine->requests));
	if (!engine->done || !engine->outputs || !engine->lengths || !engine->requests)
		return -ENOMEM;
	int r = replay_kvcache_new(engine->kv_blocks, &engine->cache);

	return r < 0 ? r : replay_ledger_new(&engine->ledger);
}

int replay_engine_open(const struct replay_settings *settings,
                       const struct replay_workload *workload, struct replay_engine **ret_engine,
                       char *ret_why, size_t why_bytes)
{
	char name[80], fingerprint_text[256], ignored[256];
	uint8_t fingerprint[DASER_NAMESPACE_BYTES];
	struct replay_engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return -ENOMEM;
	engine->settings = settings;
	engine->workload = workload;
	engine->block_tokens = (uint32_t)settings->block_tokens;
	engine->world = (uint32_t)settings->tp;
	engine->rng.state = settings->seed;
	for (uint32_t i = 0; i < REPLAY_STATES; i++)
		TAILQ_INIT(&engine->lists[i]);
	replay_progress_init(&engine->progress, strcmp(settings->progress, "auto") == 0);
	if (settings->engine[0] != '\0')
		(void)snprintf(name, sizeof(name), "%s", settings->engine);
	else
		(void)snprintf(name, sizeof(name), "replay-%d", (int)getpid());
	/* the geometry is no part of it: the service compares that, and names what differs */
	(void)snprintf(fingerprint_text, sizeof(fingerprint_text), "daser-replay 1 %s",
	               settings->name_space);
	daser_fingerprint(fingerprint_text, strlen(fingerprint_text), fingerprint);
	int r = size_cache(engine, ret_why, why_bytes);

	if (r == 0) {
		r = open_memory(engine);
		if (r < 0)
			(void)snprintf(ret_why, why_bytes, "out of memory");
	}
	if (r == 0)
		r = open_log(engine, ret_why, why_bytes);
	if (r == 0)
		r = open_scheduler(engine, name, fingerprint, ret_why, why_bytes);
	if (r == 0)
		r = start_ranks(engine, name, fingerprint_text, ret_why, why_bytes);
	if (r == 0)
		r = attach(engine, ret_why, why_bytes);
	if (r < 0) {
		(void)replay_engine_close(&engine, ignored, sizeof(ignored));
		return r;
	}
	*ret_engine = engine;
	return 0;
}

int replay_engine_close(struct replay_engine **engine, char *ret_why, size_t why_bytes)
{
	if (!engine || !*engine)
		return 0;
	struct replay_engine *e = *engine;

	replay_progress_clear(&e->progress);
	int r = replay_ranks_stop(&e->ranks, ret_why, why_bytes);

	daser_scheduler_close(&e->scheduler);
	if (e->log && fclose(e->log) != 0 && r == 0) {
		r = -EIO;
		(void)snprintf(ret_why, why_bytes, "--requests-log `%s` cannot be written",
		               e->settings->requests_log);
	}
	for (uint32_t i = 0; e->requests && i < e->workload->count; i++)
		replay_request_free(&e->requests[i]);
	free(e->requests);
	replay_kvcache_free(&e->cache);
	replay_ledger_free(&e->ledger);
	replay_step_done(&e->step);
	replay_buf_done(&e->frame);
	replay_samples_done(&e->load_ns);
	free(e->done);
	free(e->outputs);
	free(e->lengths);
	free(e);
	*engine = NULL;
	return r;
}

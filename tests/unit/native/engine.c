/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "util.h"

#define LOOK_MS 5 /* how long one look for something that gives no sign takes */

static const uint8_t fingerprint[DASER_NAMESPACE_BYTES] = {4, 5, 6};

/* ---- fixtures ---- */

/* Descriptors that this process has open. */
static uint32_t open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		n++;
	(void)closedir(dir);
	return n;
}

static void open_objects(struct engine *e)
{
	const struct daser_scheduler_options scheduler = {
		.size = sizeof(scheduler),
		.run_dir = fake_service_run_dir(e->service),
		.engine = "engine-0",
		.fingerprint = fingerprint,
		.world = 1,
		.block_tokens = 16,
		.lookup_wait_us = 1000000,
	};
	const struct daser_piece piece = {.base = e->kv,
	                                  .block_stride = ENGINE_BLOCK_BYTES,
	                                  .bytes = ENGINE_BLOCK_BYTES,
	                                  .count = 1};
	const struct daser_geometry geometry = {.size = sizeof(geometry),
	                                        .pieces = &piece,
	                                        .piece_count = 1,
	                                        .blocks = ENGINE_BLOCKS};

	e->options = (struct daser_worker_options){
		.size = sizeof(e->options),
		.run_dir = scheduler.run_dir,
		.engine = "engine-0",
		.fingerprint = fingerprint,
		.device = FAKE_DEVICE,
		.world = 1,
		.lanes = 1,
		.writer = 1,
		.block_tokens = 16,
	};
	assert_int_equal(daser_scheduler_open(&scheduler, &e->scheduler), 0);
	assert_int_equal(daser_worker_open(&e->options, &e->worker), 0);
	assert_int_equal(daser_worker_register(e->worker, &geometry), 0);
	assert_int_equal(daser_worker_register(e->worker, &geometry), -EALREADY);
}

int engine_open_alone(void **state)
{
	struct engine *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	e->open_files = open_files();
	e->kv = calloc(ENGINE_BLOCKS, ENGINE_BLOCK_BYTES);
	assert_non_null(e->kv);
	e->service = fake_service_open();
	assert_non_null(e->service);
	open_objects(e);
	*state = e;
	return 0;
}

int engine_open(void **state)
{
	int r = engine_open_alone(state);
	struct engine *e = *state;

	fake_service_start_all(e->service);
	engine_wait(e, engine_is_attached, false);
	return r;
}

int engine_close(void **state)
{
	struct engine *e = *state;

	daser_scheduler_close(&e->scheduler);
	daser_worker_close(&e->worker);
	assert_null(e->scheduler);
	assert_null(e->worker);
	fake_service_close(&e->service);
	assert_int_equal(open_files(), e->open_files);
	free(e->kv);
	free(e);
	return 0;
}

/* ---- waiting ---- */

bool engine_is_attached(struct engine *e)
{
	return daser_scheduler_state(e->scheduler) == DASER_ATTACHED &&
	       daser_worker_state(e->worker) == DASER_ATTACHED;
}

bool engine_is_detached(struct engine *e)
{
	return daser_scheduler_state(e->scheduler) == DASER_DETACHED &&
	       daser_worker_state(e->worker) == DASER_DETACHED;
}

void engine_wait(struct engine *e, bool (*is_so)(struct engine *engine), bool steps)
{
	struct pollfd pollfd = {.fd = daser_worker_fd(e->worker), .events = POLLIN};
	uint64_t deadline = dsr_now_ns() + ENGINE_WAIT_NS;

	while (!is_so(e)) {
		assert_true(dsr_now_ns() < deadline);
		/* Without steps nobody reads it: then only the time passes. */
		(void)poll(steps ? &pollfd : NULL, steps ? 1 : 0, LOOK_MS);
		if (steps)
			engine_step(e, NULL);
	}
}

/* ---- content ---- */

static void payload_of(const char *name, uint32_t block, uint8_t *ret_payload)
{
	uint64_t x = dsr_digest_of(name, strlen(name), 99 + block);

	for (uint32_t i = 0; i < ENGINE_BLOCK_BYTES; i++) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		ret_payload[i] = (uint8_t)(x >> 56);
	}
}

void engine_fill(struct engine *e, const char *name, uint32_t count, uint32_t id)
{
	for (uint32_t i = 0; i < count; i++)
		payload_of(name, i, e->kv + (size_t)(id + i) * ENGINE_BLOCK_BYTES);
}

bool engine_holds(const struct engine *e, const char *name, uint32_t block, uint32_t id)
{
	uint8_t expected[ENGINE_BLOCK_BYTES];

	payload_of(name, block, expected);
	return memcmp(e->kv + (size_t)id * ENGINE_BLOCK_BYTES, expected, sizeof(expected)) == 0;
}

void engine_request(struct engine *e, const char *request, const char *name, uint32_t count)
{
	uint64_t hashes[ENGINE_BLOCKS];

	for (uint32_t i = 0; i < count; i++)
		hashes[i] = dsr_digest_of(name, strlen(name), i);
	assert_int_equal(daser_scheduler_new_request(e->scheduler, request, hashes, count,
	                                             sizeof(hashes[0]), NULL, 0, 0),
	                 0);
}

/* ---- steps ---- */

static void note_output(struct engine *e, const struct daser_worker_output *output)
{
	for (uint32_t i = 0; i < output->finished_sending_count; i++, e->sent++)
		(void)snprintf(e->last_sent, sizeof(e->last_sent), "%s",
		               output->finished_sending[i]);
	for (uint32_t i = 0; i < output->finished_recving_count; i++, e->received++)
		(void)snprintf(e->last_received, sizeof(e->last_received), "%s",
		               output->finished_recving[i]);
	for (uint32_t i = 0; i < output->failed_block_count; i++)
		e->failed[e->failed_count++] = output->failed_blocks[i];
	/* A block that failed is told with the end of its load, never later. */
	if (output->failed_block_count > 0)
		assert_true(output->finished_recving_count > 0);
}

void engine_step(struct engine *e, const char *finished)
{
	struct daser_worker_output output = {.size = sizeof(output)};
	const void *meta, *bytes;
	size_t length;

	assert_int_equal(daser_scheduler_build_meta(e->scheduler, &meta, &length), 0);
	assert_int_equal(daser_worker_preemptions(e->worker, meta, length), 0);
	assert_int_equal(daser_worker_bind(e->worker, meta, length), 0);
	assert_int_equal(daser_worker_bind(e->worker, meta, length), -EALREADY);
	assert_int_equal(daser_worker_start_load(e->worker, NULL), 0);
	assert_int_equal(daser_worker_wait_for_save(e->worker, NULL), 0);
	assert_int_equal(
		daser_worker_output(e->worker, &finished, finished == NULL ? 0 : 1, &output), 0);
	note_output(e, &output);
	bytes = output.bytes;
	assert_int_equal(daser_scheduler_update(e->scheduler, &bytes, &output.length, 1), 0);
}

static void table_of(uint32_t *ids, uint32_t id)
{
	for (uint32_t i = 0; i < ENGINE_BLOCKS; i++)
		ids[i] = id + i;
}

void engine_compute(struct engine *e, const char *request, uint32_t count, uint32_t id)
{
	uint32_t ids[ENGINE_BLOCKS];

	table_of(ids, id);
	assert_int_equal(daser_scheduler_allocated(e->scheduler, request, ids, count, 0, 0), 0);
	assert_int_equal(daser_scheduler_scheduled(e->scheduler, request, ids, count, count), 0);
}

static bool has_nothing_pending(struct engine *e)
{
	return daser_scheduler_pending(e->scheduler) == 0;
}

void engine_store(struct engine *e, const char *name, uint32_t count, uint32_t id)
{
	int delay;

	engine_request(e, name, name, count);
	engine_fill(e, name, count, id);
	engine_compute(e, name, count, id);
	engine_wait(e, has_nothing_pending, true);
	assert_int_equal(daser_scheduler_finished(e->scheduler, name, &delay), 0);
	assert_int_equal(delay, 0);
}

void engine_load(struct engine *e, const char *request, uint32_t count, uint32_t id)
{
	uint32_t ids[ENGINE_BLOCKS], blocks = 0;
	uint64_t deadline = dsr_now_ns() + ENGINE_WAIT_NS;
	int r;

	table_of(ids, id);
	do {
		r = daser_scheduler_match(e->scheduler, request, 0, &blocks);
	} while (r == -EAGAIN && dsr_now_ns() < deadline);
	assert_int_equal(r, 0);
	assert_int_equal(blocks, count);
	assert_int_equal(daser_scheduler_allocated(e->scheduler, request, ids, count + 1, 0, count),
	                 0);
}

void engine_clear(struct engine *e)
{
	e->sent = e->received = e->failed_count = 0;
	e->last_sent[0] = e->last_received[0] = '\0';
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One engine with one rank against the fake service: both objects of libdaser, a KV cache of plain
 * memory, and steps as an engine makes them. */
#ifndef DSR_TEST_NATIVE_ENGINE_H
#define DSR_TEST_NATIVE_ENGINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daser/scheduler.h"
#include "daser/worker.h"
#include "fake_service.h"

#define ENGINE_BLOCK_BYTES 4100
#define ENGINE_BLOCKS 128
#define ENGINE_WAIT_NS UINT64_C(20000000000) /* ends a test that hangs; nothing waits so long */

struct engine {
	struct fake_service *service; /* owned */
	struct daser_scheduler *scheduler;
	struct daser_worker *worker;
	struct daser_worker_options options; /* of the worker */
	uint8_t *kv;
	uint32_t open_files; /* before it was opened */
	/* since engine_clear */
	uint32_t sent, received; /* times that a request was reported */
	char last_sent[64], last_received[64];
	uint32_t failed[ENGINE_BLOCKS], failed_count;
};

int engine_open(void **state);       /* attached, all of it */
int engine_open_alone(void **state); /* no actor runs */
int engine_close(void **state);

/* Waits until it is so, by wake-ups of the output's descriptor and short ones of its own; steps
 * meanwhile when asked to. */
void engine_wait(struct engine *engine, bool (*is_so)(struct engine *engine), bool steps);
bool engine_is_attached(struct engine *engine);
bool engine_is_detached(struct engine *engine);

/* A request of `count` blocks; block i of chain `name`. */
void engine_request(struct engine *engine, const char *request, const char *name, uint32_t count);
void engine_fill(struct engine *engine, const char *name, uint32_t count, uint32_t id);
bool engine_holds(const struct engine *engine, const char *name, uint32_t block, uint32_t id);
/* One step: metadata to the worker, its output back. `finished` may be NULL. */
void engine_step(struct engine *engine, const char *finished);
/* Computes all `count` blocks of the request at ids [id, ...). */
void engine_compute(struct engine *engine, const char *request, uint32_t count, uint32_t id);
/* Stores a chain: request, compute, steps until it is stored; the request ends. */
void engine_store(struct engine *engine, const char *name, uint32_t count, uint32_t id);
/* Promise and load of `count` blocks into ids [id, ...); the load is in the next step. */
void engine_load(struct engine *engine, const char *request, uint32_t count, uint32_t id);
void engine_clear(struct engine *engine);

#endif

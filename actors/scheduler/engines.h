/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses the cache: engines by name, each with one scheduling process and `world` worker ranks,
 * and the devices on which they run. Decides who may join, who is served, and who is gone. Knows
 * processes by incarnation alone; the structs are open since handlers and tests walk over them. */
#ifndef DSR_SCHEDULER_ENGINES_H
#define DSR_SCHEDULER_ENGINES_H

#include <stdbool.h>
#include <stddef.h>

#include "layout.h"

#define DSR_ENGINES_MAX 32
#define DSR_RANKS_MAX 64
#define DSR_DEVICES_MAX 31 /* a load and a store row each, beside scheduler's and metrics' */
#define DSR_ENGINE_NAME_MAX 128
#define DSR_ENGINE_NONE UINT32_MAX
#define DSR_DEVICE_NONE UINT32_MAX
#define DSR_PAGE_NONE UINT32_MAX
#define DSR_ACTOR_UP_NS UINT64_C(2000000000) /* without progress for longer: counts as down */

struct dsr_rank {
	uint64_t incarnation; /* of its live process; 0: none yet, or dead */
	uint64_t load;        /* incarnations of the actors that it is attached to; 0: none */
	uint64_t store;
	uint32_t device; /* DSR_DEVICE_NONE: never registered */
	uint32_t lane;
	uint32_t page;
	bool is_writer;
	bool is_ready; /* its canaries passed */
};

struct dsr_engine {
	char name[DSR_ENGINE_NAME_MAX]; /* "": this row is free */
	uint8_t fingerprint[DSR_NAMESPACE_BYTES];
	uint32_t world;
	uint32_t page;        /* of the scheduling process */
	uint64_t incarnation; /* of the scheduling process; 0: none yet, or dead */
	struct dsr_rank ranks[DSR_RANKS_MAX];
};

struct dsr_engine_device {
	char name[DSR_DEVICE_NAME_MAX]; /* "": this row is free */
	uint64_t store;    /* incarnation of its store actor, connected to us; 0: none */
	uint32_t load_row; /* of the actor table, as last looked up */
	uint32_t store_row;
	bool is_retired; /* nobody runs there; the row stays until its store actor is dead */
};

struct dsr_engines {
	struct dsr_engine engines[DSR_ENGINES_MAX];
	struct dsr_engine_device devices[DSR_DEVICES_MAX];
	const struct dsr_actor_row *rows; /* borrowed: DSR_ACTOR_ROWS of them */
};

void dsr_engines_init(struct dsr_engines *engines, const struct dsr_actor_row *rows);

struct dsr_engine_request {
	const char *name; /* not terminated */
	uint32_t name_bytes;
	const uint8_t *fingerprint;
	uint32_t fingerprint_bytes;
	uint32_t world;
	uint64_t incarnation;
};
struct dsr_rank_request {
	struct dsr_engine_request engine;
	uint32_t rank;
	uint32_t lane, lanes;
	uint32_t writer;
	uint64_t slot_bytes;
	uint32_t block_tokens;
	char device[DSR_DEVICE_NAME_MAX];
};

/* Whether a scheduling process may join: 0, or why not, for people, in ret_why (256 bytes):
 * -EINVAL (a value), -EXDEV (another fingerprint or world than this engine or the pool has; pool
 * may be NULL), -EEXIST (another live process has the name), -EAGAIN (too many engines). Changes
 * nothing. */
int dsr_engines_check_engine(const struct dsr_engines *engines,
                             const struct dsr_engine_request *request,
                             const struct dsr_pool_geometry *pool, char *ret_why, size_t why_bytes);
/* The same for a worker: -EXDEV also for the geometry, -EEXIST when another live process has the
 * rank, -EAGAIN when there are too many devices. */
int dsr_engines_check_rank(const struct dsr_engines *engines,
                           const struct dsr_rank_request *request,
                           const struct dsr_pool_geometry *pool, char *ret_why, size_t why_bytes);
/* After a check that said 0: takes it in, a repeat too. Returns the engine. */
uint32_t dsr_engines_join_engine(struct dsr_engines *engines,
                                 const struct dsr_engine_request *request);
uint32_t dsr_engines_join_rank(struct dsr_engines *engines, const struct dsr_rank_request *request);
/* A worker's state. -ENOENT when this process is not that rank. */
int dsr_engines_set_ready(struct dsr_engines *engines, const struct dsr_engine_request *engine,
                          uint32_t rank, uint64_t load, uint64_t store, bool is_ready);

/* Looks up where the actors of each device are in the actor table; set_ready does so too. */
void dsr_engines_locate(struct dsr_engines *engines);

/* By name, by the incarnation of the scheduling process, by that of a worker; DSR_ENGINE_NONE. */
uint32_t dsr_engines_find(const struct dsr_engines *engines, const char *name, size_t name_bytes);
uint32_t dsr_engines_of_process(const struct dsr_engines *engines, uint64_t incarnation);
uint32_t dsr_engines_of_worker(const struct dsr_engines *engines, uint64_t incarnation,
                               uint32_t *ret_rank);
uint32_t dsr_engines_device(const struct dsr_engines *engines, const char *device);
uint32_t dsr_engines_count(const struct dsr_engines *engines);

/* 0 when hits may be promised to the engine: every rank is registered, attached to actors that are
 * the present ones of its device, and these make progress. For writing each of `lanes` lanes must
 * have a writer whose store actor is connected to us, too. -ENOTCONN otherwise. */
int dsr_engines_is_served(const struct dsr_engines *engines, uint32_t engine, uint32_t lanes,
                          uint64_t now_ns);
int dsr_engines_is_written(const struct dsr_engines *engines, uint32_t engine, uint32_t lanes,
                           uint64_t now_ns);
/* Lanes that the store actor of a device writes for an engine, and the devices with such lanes. */
uint64_t dsr_engines_lanes(const struct dsr_engines *engines, uint32_t engine, uint32_t device);
uint32_t dsr_engines_devices(const struct dsr_engines *engines, uint32_t engine);

/* A process died. Its engine stays until all its processes have. */
void dsr_engines_process_dead(struct dsr_engines *engines, uint32_t engine);
/* Returns the lanes that it wrote. */
uint64_t dsr_engines_worker_dead(struct dsr_engines *engines, uint32_t engine, uint32_t rank);
/* Forgets the engine when all its processes are dead: true then. */
bool dsr_engines_forget(struct dsr_engines *engines, uint32_t engine);
/* A device on which no rank of any engine is left (the rank may be dead while its engine lives) and
 * that is not retired, or DSR_DEVICE_NONE. */
uint32_t dsr_engines_idle_device(const struct dsr_engines *engines);
/* Forgets a retired device on which nobody runs. */
void dsr_engines_drop_device(struct dsr_engines *engines, uint32_t device);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "engines.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "control.h"
#include "roles.h"

static const struct dsr_rank empty_rank = {.device = DSR_DEVICE_NONE, .page = DSR_PAGE_NONE};

static void engine_clear(struct dsr_engine *engine)
{
	*engine = (struct dsr_engine){.page = DSR_PAGE_NONE};
	for (uint32_t rank = 0; rank < DSR_RANKS_MAX; rank++)
		engine->ranks[rank] = empty_rank;
}

void dsr_engines_init(struct dsr_engines *engines, const struct dsr_actor_row *rows)
{
	for (uint32_t engine = 0; engine < DSR_ENGINES_MAX; engine++)
		engine_clear(&engines->engines[engine]);
	for (uint32_t device = 0; device < DSR_DEVICES_MAX; device++)
		engines->devices[device] = (struct dsr_engine_device){0};
	engines->rows = rows;
}

/* ---- finding ---- */

uint32_t dsr_engines_find(const struct dsr_engines *engines, const char *name, size_t name_bytes)
{
	for (uint32_t engine = 0; engine < DSR_ENGINES_MAX; engine++) {
		const char *have = engines->engines[engine].name;

		if (name_bytes > 0 && strlen(have) == name_bytes &&
		    memcmp(have, name, name_bytes) == 0)
			return engine;
	}
	return DSR_ENGINE_NONE;
}

uint32_t dsr_engines_of_process(const struct dsr_engines *engines, uint64_t incarnation)
{
	for (uint32_t engine = 0; incarnation != 0 && engine < DSR_ENGINES_MAX; engine++)
		if (engines->engines[engine].incarnation == incarnation)
			return engine;
	return DSR_ENGINE_NONE;
}

uint32_t dsr_engines_of_worker(const struct dsr_engines *engines, uint64_t incarnation,
                               uint32_t *ret_rank)
{
	for (uint32_t engine = 0; incarnation != 0 && engine < DSR_ENGINES_MAX; engine++) {
		for (uint32_t rank = 0; rank < engines->engines[engine].world; rank++) {
			if (engines->engines[engine].ranks[rank].incarnation != incarnation)
				continue;
			*ret_rank = rank;
			return engine;
		}
	}
	return DSR_ENGINE_NONE;
}

uint32_t dsr_engines_device(const struct dsr_engines *engines, const char *device)
{
	for (uint32_t i = 0; device[0] != '\0' && i < DSR_DEVICES_MAX; i++)
		if (strncmp(engines->devices[i].name, device, DSR_DEVICE_NAME_MAX) == 0)
			return i;
	return DSR_DEVICE_NONE;
}

uint32_t dsr_engines_count(const struct dsr_engines *engines)
{
	uint32_t count = 0;

	for (uint32_t engine = 0; engine < DSR_ENGINES_MAX; engine++)
		count += engines->engines[engine].name[0] != '\0';
	return count;
}

/* ---- joining ---- */

static uint32_t engine_take(struct dsr_engines *engines, const struct dsr_engine_request *request)
{
	uint32_t at = dsr_engines_find(engines, request->name, request->name_bytes);
	struct dsr_engine *engine;

	if (at != DSR_ENGINE_NONE)
		return at;
	for (at = 0; engines->engines[at].name[0] != '\0';)
		at++;
	engine = &engines->engines[at];
	engine_clear(engine);
	memcpy(engine->name, request->name, request->name_bytes);
	memcpy(engine->fingerprint, request->fingerprint, DSR_NAMESPACE_BYTES);
	engine->world = request->world;
	return at;
}

uint32_t dsr_engines_join_engine(struct dsr_engines *engines,
                                 const struct dsr_engine_request *request)
{
	uint32_t engine = engine_take(engines, request);

	engines->engines[engine].incarnation = request->incarnation;
	return engine;
}

static uint32_t device_take(struct dsr_engines *engines, const char *device)
{
	uint32_t at = dsr_engines_device(engines, device);

	if (at != DSR_DEVICE_NONE) {
		engines->devices[at].is_retired = false;
		return at;
	}
	for (at = 0; engines->devices[at].name[0] != '\0';)
		at++;
	engines->devices[at] = (struct dsr_engine_device){0};
	memcpy(engines->devices[at].name, device, DSR_DEVICE_NAME_MAX);
	return at;
}

uint32_t dsr_engines_join_rank(struct dsr_engines *engines, const struct dsr_rank_request *request)
{
	uint32_t engine = engine_take(engines, &request->engine);
	struct dsr_rank *rank = &engines->engines[engine].ranks[request->rank];
	uint32_t device = device_take(engines, request->device);

	if (rank->incarnation == request->engine.incarnation)
		return engine; /* it keeps what WORKER_READY said */
	*rank = (struct dsr_rank){
		.incarnation = request->engine.incarnation,
		.device = device,
		.lane = request->lane,
		.page = DSR_PAGE_NONE,
		.is_writer = request->writer != 0,
	};
	return engine;
}

int dsr_engines_set_ready(struct dsr_engines *engines, const struct dsr_engine_request *engine,
                          uint32_t rank, uint64_t load, uint64_t store, bool is_ready)
{
	uint32_t at = dsr_engines_find(engines, engine->name, engine->name_bytes);
	struct dsr_rank *worker;

	if (at == DSR_ENGINE_NONE || rank >= engines->engines[at].world)
		return -ENOENT;
	worker = &engines->engines[at].ranks[rank];
	if (worker->incarnation != engine->incarnation)
		return -ENOENT;
	worker->load = load;
	worker->store = store;
	worker->is_ready = is_ready;
	dsr_engines_locate(engines);
	return 0;
}

/* ---- serving ---- */

static bool row_is_of(const struct dsr_engines *engines, uint32_t row, uint32_t role,
                      const char *device)
{
	/* An actor writes its row before its incarnation: one that is just starting is not there.
	 */
	return atomic_load_explicit(&engines->rows[row].incarnation, memory_order_acquire) != 0 &&
	       engines->rows[row].role == role &&
	       strncmp(engines->rows[row].device, device, DSR_DEVICE_NAME_MAX) == 0;
}

static uint32_t row_find(const struct dsr_engines *engines, uint32_t role, const char *device,
                         uint32_t hint)
{
	if (row_is_of(engines, hint, role, device))
		return hint;
	for (uint32_t row = 0; row < DSR_ACTOR_ROWS; row++)
		if (row_is_of(engines, row, role, device))
			return row;
	return hint;
}

void dsr_engines_locate(struct dsr_engines *engines)
{
	for (uint32_t i = 0; i < DSR_DEVICES_MAX; i++) {
		struct dsr_engine_device *device = &engines->devices[i];

		if (device->name[0] == '\0')
			continue;
		device->load_row = row_find(engines, DSR_ROLE_LOAD, device->name, device->load_row);
		device->store_row =
			row_find(engines, DSR_ROLE_STORE, device->name, device->store_row);
	}
}

/* `row` is where the actor was last; its incarnation tells whether it still is there. */
static bool actor_is_up(const struct dsr_engines *engines, uint32_t row, uint64_t incarnation,
                        uint64_t now_ns)
{
	return incarnation != 0 &&
	       atomic_load_explicit(&engines->rows[row].incarnation, memory_order_acquire) ==
	               incarnation &&
	       dsr_actor_row_is_up(&engines->rows[row], now_ns, DSR_ACTOR_UP_NS);
}

static bool rank_is_served(const struct dsr_engines *engines, const struct dsr_rank *rank,
                           uint64_t now_ns)
{
	const struct dsr_engine_device *device;

	if (rank->incarnation == 0 || !rank->is_ready)
		return false;
	device = &engines->devices[rank->device];
	return actor_is_up(engines, device->load_row, rank->load, now_ns) &&
	       (!rank->is_writer || actor_is_up(engines, device->store_row, rank->store, now_ns));
}

int dsr_engines_is_served(const struct dsr_engines *engines, uint32_t engine, uint32_t lanes,
                          uint64_t now_ns)
{
	const struct dsr_engine *served = &engines->engines[engine];

	if (lanes == 0)
		return -ENOTCONN;
	for (uint32_t i = 0; i < served->world; i++)
		if (served->ranks[i].lane >= lanes ||
		    !rank_is_served(engines, &served->ranks[i], now_ns))
			return -ENOTCONN;
	return 0;
}

int dsr_engines_is_written(const struct dsr_engines *engines, uint32_t engine, uint32_t lanes,
                           uint64_t now_ns)
{
	const struct dsr_engine *served = &engines->engines[engine];
	uint64_t written = 0;

	if (dsr_engines_is_served(engines, engine, lanes, now_ns) < 0)
		return -ENOTCONN;
	for (uint32_t i = 0; i < served->world; i++) {
		const struct dsr_rank *rank = &served->ranks[i];

		if (!rank->is_writer)
			continue;
		if (engines->devices[rank->device].store != rank->store)
			return -ENOTCONN;
		written |= UINT64_C(1) << rank->lane;
	}
	return written == ~UINT64_C(0) >> (64 - lanes) ? 0 : -ENOTCONN;
}

uint64_t dsr_engines_lanes(const struct dsr_engines *engines, uint32_t engine, uint32_t device)
{
	const struct dsr_engine *of = &engines->engines[engine];
	uint64_t lanes = 0;

	for (uint32_t i = 0; i < of->world; i++)
		if (of->ranks[i].device == device && of->ranks[i].is_writer)
			lanes |= UINT64_C(1) << of->ranks[i].lane;
	return lanes;
}

uint32_t dsr_engines_devices(const struct dsr_engines *engines, uint32_t engine)
{
	const struct dsr_engine *of = &engines->engines[engine];
	uint32_t devices = 0;

	for (uint32_t i = 0; i < of->world; i++)
		if (of->ranks[i].device != DSR_DEVICE_NONE && of->ranks[i].is_writer)
			devices |= UINT32_C(1) << of->ranks[i].device;
	return devices;
}

/* ---- leaving ---- */

void dsr_engines_process_dead(struct dsr_engines *engines, uint32_t engine)
{
	engines->engines[engine].incarnation = 0;
	engines->engines[engine].page = DSR_PAGE_NONE;
}

uint64_t dsr_engines_worker_dead(struct dsr_engines *engines, uint32_t engine, uint32_t rank)
{
	struct dsr_rank *dead = &engines->engines[engine].ranks[rank];

	dead->incarnation = 0;
	dead->page = DSR_PAGE_NONE;
	dead->is_ready = false;
	return dead->is_writer ? UINT64_C(1) << dead->lane : 0;
}

bool dsr_engines_forget(struct dsr_engines *engines, uint32_t engine)
{
	struct dsr_engine *gone = &engines->engines[engine];

	if (gone->incarnation != 0)
		return false;
	for (uint32_t rank = 0; rank < gone->world; rank++)
		if (gone->ranks[rank].incarnation != 0)
			return false;
	engine_clear(gone);
	return true;
}

static bool device_is_used(const struct dsr_engines *engines, uint32_t device)
{
	for (uint32_t engine = 0; engine < DSR_ENGINES_MAX; engine++)
		for (uint32_t rank = 0; rank < engines->engines[engine].world; rank++)
			if (engines->engines[engine].ranks[rank].device == device)
				return true;
	return false;
}

uint32_t dsr_engines_idle_device(const struct dsr_engines *engines)
{
	for (uint32_t device = 0; device < DSR_DEVICES_MAX; device++)
		if (engines->devices[device].name[0] != '\0' &&
		    !engines->devices[device].is_retired && !device_is_used(engines, device))
			return device;
	return DSR_DEVICE_NONE;
}

void dsr_engines_drop_device(struct dsr_engines *engines, uint32_t device)
{
	if (engines->devices[device].is_retired && !device_is_used(engines, device))
		engines->devices[device] = (struct dsr_engine_device){0};
}

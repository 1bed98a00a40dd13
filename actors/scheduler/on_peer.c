/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes and who is gone. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "pages.h"
#include "scheduler.h"

/* The store actor that wrote for this device is dead: what lacks its lanes is aborted, and nobody
 * waits for its answers. */
static void store_lost(struct scheduler *s, uint32_t device)
{
	uint64_t lanes[DSR_RESERVATION_OWNERS];
	uint32_t aborted;

	s->engines.devices[device].store = 0;
	for (uint32_t engine = 0; engine < DSR_ENGINES_MAX; engine++)
		lanes[engine] = dsr_engines_lanes(&s->engines, engine, device);
	aborted = dsr_reservations_device_dead(s->reservations, device, lanes);
	dsr_log(DSR_LOG_INFO, "store actor `%s` is gone, aborted blocks %" PRIu32,
	        s->engines.devices[device].name, aborted);
}

void dsr_scheduler_meet_store(struct scheduler *s, uint32_t device)
{
	struct dsr_engine_device *known = &s->engines.devices[device];
	uint64_t newest = 0;

	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++)
		if (s->stores[i] != NULL && strcmp(s->stores[i]->device, known->name) == 0 &&
		    s->stores[i]->incarnation > newest)
			newest = s->stores[i]->incarnation;
	if (newest == known->store)
		return;
	if (known->store != 0)
		store_lost(s, device); /* replaced: the role lock has one holder at a time */
	known->store = newest;
}

void dsr_scheduler_peer_ready(void *self, struct dsr_peer *peer)
{
	struct scheduler *s = self;
	uint32_t device, i = 0;

	if (peer->role != DSR_ROLE_STORE)
		return;
	while (i < DSR_ACTOR_ROWS && s->stores[i] != NULL)
		i++;
	if (i == DSR_ACTOR_ROWS) {
		dsr_log(DSR_LOG_WARN, "store actor `%s`: %d are connected already, ignoring it",
		        peer->device, DSR_ACTOR_ROWS);
		return;
	}
	s->stores[i] = peer;
	device = dsr_engines_device(&s->engines, peer->device);
	if (device != DSR_DEVICE_NONE)
		dsr_scheduler_meet_store(s, device);
	dsr_scheduler_ask_writers(s);
	dsr_scheduler_end_quarantine(s);
	dsr_scheduler_settle(s);
}

void dsr_scheduler_retire_devices(struct scheduler *s)
{
	uint32_t device;

	while ((device = dsr_engines_idle_device(&s->engines)) != DSR_DEVICE_NONE) {
		struct dsr_engine_device *idle = &s->engines.devices[device];
		int r = dsr_broker_retire(s->rt->broker, idle->name);

		if (r < 0)
			dsr_log(DSR_LOG_WARN, "supervisor does not retire `%s`: %s", idle->name,
			        strerrordesc_np(-r));
		else
			dsr_log(DSR_LOG_INFO, "device `%s` has no worker any more", idle->name);
		idle->is_retired = true;
		/* Its number is used in reservations until its store actor is dead. */
		if (idle->store == 0)
			dsr_engines_drop_device(&s->engines, device);
	}
}

static void peer_forget_engine(struct scheduler *s, uint32_t engine)
{
	if (!dsr_engines_forget(&s->engines, engine))
		return;
	dsr_log(DSR_LOG_INFO, "engine %" PRIu32 " is gone with all its processes", engine);
	dsr_scheduler_retire_devices(s);
}

static void engine_dead(struct scheduler *s, const struct dsr_peer *peer)
{
	uint32_t engine = dsr_engines_of_process(&s->engines, peer->incarnation), leases;

	dsr_pages_put(&s->rt->control, peer->incarnation);
	if (engine == DSR_ENGINE_NONE)
		return;
	leases = dsr_leases_release_owner(s->leases, peer->incarnation);
	dsr_reservations_owner_end(s->reservations, engine);
	dsr_log(DSR_LOG_INFO, "scheduling process of engine `%s` is gone, released leases %" PRIu32,
	        s->engines.engines[engine].name, leases);
	dsr_engines_process_dead(&s->engines, engine);
	peer_forget_engine(s, engine);
}

static void worker_dead(struct scheduler *s, const struct dsr_peer *peer)
{
	uint32_t rank, engine = dsr_engines_of_worker(&s->engines, peer->incarnation, &rank);
	uint32_t aborted = 0;
	uint64_t lanes;

	dsr_pages_put(&s->rt->control, peer->incarnation);
	if (engine == DSR_ENGINE_NONE)
		return;
	lanes = dsr_engines_worker_dead(&s->engines, engine, rank);
	if (lanes != 0)
		aborted = dsr_reservations_lanes_dead(s->reservations, engine, lanes);
	dsr_log(DSR_LOG_INFO, "worker %" PRIu32 " of engine `%s` is gone, aborted blocks %" PRIu32,
	        rank, s->engines.engines[engine].name, aborted);
	peer_forget_engine(s, engine);
}

static void store_dead(struct scheduler *s, const struct dsr_peer *peer)
{
	uint32_t device = dsr_engines_device(&s->engines, peer->device);
	uint32_t writer;

	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++)
		if (s->stores[i] == peer)
			s->stores[i] = NULL;
	writer = dsr_quarantine_meet(&s->quarantine, peer->device, peer->incarnation);
	dsr_quarantine_end(&s->quarantine, writer);
	dsr_scheduler_end_quarantine(s);
	if (device == DSR_DEVICE_NONE)
		return;
	if (s->engines.devices[device].store == peer->incarnation)
		store_lost(s, device);
	dsr_scheduler_meet_store(s, device);
	if (s->engines.devices[device].store == 0)
		dsr_engines_drop_device(&s->engines, device);
}

void dsr_scheduler_peer_dead(void *self, struct dsr_peer *peer)
{
	struct scheduler *s = self;

	dsr_drainlist_forget(&s->drains, peer);
	if (peer->role == DSR_ROLE_ENGINE)
		engine_dead(s, peer);
	else if (peer->role == DSR_ROLE_WORKER)
		worker_dead(s, peer);
	else if (peer->role == DSR_ROLE_STORE)
		store_dead(s, peer);
	dsr_scheduler_settle(s);
}

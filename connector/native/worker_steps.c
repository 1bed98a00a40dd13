/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's steps: metadata in, loads and saves submitted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"
#include "util.h"

#define FENCE_NS UINT64_C(10000000000) /* gathers are memory copies: this is a stuck machine */

static int check_worker(const struct daser_worker *worker)
{
	return worker == NULL || !worker->is_registered ? -EINVAL : 0;
}

static int parse(const struct daser_worker *w, const void *bytes, size_t length,
                 struct dsr_meta *ret_meta)
{
	int r;

	r = dsr_meta_parse(bytes, length, ret_meta);
	if (r < 0)
		return r;
	if (ret_meta->world != w->config.world || ret_meta->engine.n != strlen(w->config.engine) ||
	    memcmp(ret_meta->engine.p, w->config.engine, ret_meta->engine.n) != 0)
		return -EBADMSG;
	return 0;
}

/* ---- blocks that change hands ---- */

/* Gathers that were launched on blocks that the engine takes back. */
struct fence {
	struct dsr_event events[DSR_STAGING_BUFFERS_MAX];
	uint32_t count;
};

static bool is_named(void *self, const struct dsr_store *store)
{
	const struct dsr_str *name = self;

	return strlen(store->blocks.name) == name->n &&
	       memcmp(store->blocks.name, name->p, name->n) == 0;
}

static void drop_named(struct daser_worker *w, uint32_t count, struct dsr_wire names,
                       enum dsr_reason reason, struct fence *fence)
{
	struct dsr_str name;

	for (uint32_t i = 0; i < count; i++) {
		name = dsr_meta_next_name(&names);
		dsr_store_pipeline_drop(&w->stores, is_named, &name, reason, fence->events,
		                        &fence->count);
	}
}

/* The save reads, or will read, a block that another request has now. */
static bool is_taken(void *self, const struct dsr_store *store)
{
	const struct daser_worker *w = self;
	uint32_t first = store->unlaunched, taker;
	struct dsr_str name;

	if (store->phase == DSR_STORE_GATHERING)
		first = store->buffer->first;
	for (uint32_t i = first; i < store->blocks.count; i++) {
		taker = w->takers[store->blocks.ids[i]];
		if (taker == 0)
			continue;
		name = w->taker_names[taker - 1];
		if (strlen(store->blocks.name) != name.n ||
		    memcmp(store->blocks.name, name.p, name.n) != 0)
			return true;
	}
	return false;
}

static void takers_set(struct daser_worker *w, const struct dsr_meta *meta, bool is_set)
{
	struct dsr_wire place = meta->taken;
	struct dsr_meta_taken taken;
	uint32_t id;

	for (uint32_t i = 0; i < meta->taken_count; i++) {
		taken = dsr_meta_next_taken(&place);
		w->taker_names[i] = taken.request;
		for (uint32_t j = 0; j < taken.count; j++) {
			id = dsr_meta_id(taken.ids, j);
			if (id < w->layout.blocks)
				w->takers[id] = is_set ? i + 1 : 0;
		}
	}
}

static bool takers_reserve(struct daser_worker *w, uint32_t count)
{
	struct dsr_str *grown;

	if (count <= w->taker_capacity)
		return true;
	grown = realloc(w->taker_names, count * sizeof(*grown));
	if (grown == NULL)
		return false;
	w->taker_names = grown;
	w->taker_capacity = count;
	return true;
}

static bool is_any(void *self, const struct dsr_store *store)
{
	(void)self, (void)store;
	return true;
}

static void drop_taken(struct daser_worker *w, const struct dsr_meta *meta, struct fence *fence)
{
	/* Without the memory to tell which, none is safe. */
	bool is_known = takers_reserve(w, meta->taken_count);

	if (is_known)
		takers_set(w, meta, true);
	dsr_store_pipeline_drop(&w->stores, is_known ? is_taken : is_any, w, DSR_REASON_PREEMPTED,
	                        fence->events, &fence->count);
	if (is_known)
		takers_set(w, meta, false);
}

/* With the lock. */
static void drop_lost(struct daser_worker *w, const struct dsr_meta *meta, struct fence *fence)
{
	fence->count = 0;
	if (w->stores.count == 0)
		return;
	drop_named(w, meta->preempted_count, meta->preempted, DSR_REASON_PREEMPTED, fence);
	drop_named(w, meta->freed_count, meta->freed, DSR_REASON_ABORTED, fence);
	if (meta->taken_count > 0)
		drop_taken(w, meta, fence);
}

/* Without the lock. Gathers are memory copies: this is short. */
static int fence_wait(const struct fence *fence)
{
	uint64_t deadline = dsr_now_ns() + FENCE_NS;
	int r = 0;

	for (uint32_t i = 0; i < fence->count && r == 0; i++)
		r = dsr_event_wait(fence->events[i], deadline);
	return r;
}

int daser_worker_preemptions(struct daser_worker *worker, const void *meta, size_t length)
{
	struct dsr_meta m;
	struct fence fence;
	int r;

	r = check_worker(worker);
	if (r == 0)
		r = parse(worker, meta, length, &m);
	if (r < 0 || m.preempted_count + m.freed_count + m.taken_count == 0)
		return r;
	dsr_client_lock(&worker->client);
	drop_lost(worker, &m, &fence);
	dsr_client_unlock(&worker->client);
	dsr_client_wake(&worker->client);
	return fence_wait(&fence);
}

/* ---- jobs ---- */

/* What a step's metadata brings, made before anything is taken over. */
struct jobs {
	struct dsr_load *loads;
	struct dsr_store *stores;
};

static void jobs_free(struct jobs *jobs)
{
	struct dsr_load *load;
	struct dsr_store *store;

	while ((load = jobs->loads) != NULL) {
		jobs->loads = load->next;
		dsr_load_free(&load);
	}
	while ((store = jobs->stores) != NULL) {
		jobs->stores = store->next;
		dsr_store_free(&store);
	}
}

static int job_check(const struct daser_worker *w, const struct dsr_meta_job *job)
{
	for (uint32_t i = 0; i < job->count; i++)
		if (dsr_meta_id(job->ids, i) >= w->layout.blocks)
			return -EBADMSG;
	return 0;
}

static int make_loads(const struct daser_worker *w, const struct dsr_meta *meta, struct jobs *jobs)
{
	struct dsr_load **end = &jobs->loads;
	struct dsr_wire place = meta->loads;
	struct dsr_meta_job job;
	int r = 0;

	for (uint32_t i = 0; i < meta->load_count && r == 0; i++) {
		job = dsr_meta_next_job(&place);
		r = job_check(w, &job);
		if (r == 0)
			r = dsr_load_new(&job, meta->incarnation, w->config.lane, end);
		if (r == 0)
			end = &(*end)->next;
	}
	return r;
}

static int make_stores(const struct daser_worker *w, const struct dsr_meta *meta, struct jobs *jobs)
{
	struct dsr_store **end = &jobs->stores;
	struct dsr_wire place = meta->saves;
	struct dsr_meta_job job;
	int r = 0;

	for (uint32_t i = 0; i < meta->save_count && r == 0; i++) {
		job = dsr_meta_next_job(&place);
		r = job_check(w, &job);
		if (r == 0)
			r = dsr_store_new(&job, meta->incarnation, w->config.lane, end);
		if (r == 0)
			end = &(*end)->next;
	}
	return r;
}

/* Which ended requests still wait for saves, as of this step. */
static bool waiting_set(struct daser_worker *w, const struct dsr_meta *meta)
{
	struct dsr_wire place = meta->waiting;
	uint64_t *grown;

	w->waiting_count = 0;
	if (meta->waiting_count > w->waiting_capacity) {
		grown = realloc(w->waiting, meta->waiting_count * sizeof(*grown));
		if (grown == NULL)
			return false;
		w->waiting = grown;
		w->waiting_capacity = meta->waiting_count;
	}
	for (uint32_t i = 0; i < meta->waiting_count; i++) {
		struct dsr_str name = dsr_meta_next_name(&place);

		w->waiting[w->waiting_count++] = dsr_name_hash(name.p, name.n);
	}
	return true;
}

/* A save that comes after its request's end has the deadline that the end gave. */
static void deadline_inherit(const struct daser_worker *w, struct dsr_store *store)
{
	for (const struct dsr_sending *s = w->sending; s != NULL; s = s->next) {
		if (!dsr_blocks_named(&store->blocks, s->name, s->name_hash))
			continue;
		store->has_deadline = true;
		store->deadline_ns = s->deadline_ns;
	}
}

/* With the lock. */
static void jobs_bind(struct daser_worker *w, struct jobs *jobs)
{
	struct dsr_load *load;
	struct dsr_store *store;

	while ((load = jobs->loads) != NULL) {
		jobs->loads = load->next;
		dsr_load_pipeline_bind(&w->loads, load);
	}
	while ((store = jobs->stores) != NULL) {
		jobs->stores = store->next;
		deadline_inherit(w, store);
		if (w->config.is_writer)
			dsr_store_pipeline_bind(&w->stores, store);
		else
			dsr_outputs_spared(w, store);
	}
}

int daser_worker_bind(struct daser_worker *worker, const void *meta, size_t length)
{
	struct jobs jobs = {0};
	struct dsr_meta m;
	struct fence fence;
	int r;

	r = check_worker(worker);
	if (r == 0)
		r = parse(worker, meta, length, &m);
	if (r < 0)
		return r;
	if (m.incarnation == worker->meta_incarnation && m.step <= worker->meta_step)
		return -EALREADY;
	r = make_loads(worker, &m, &jobs);
	if (r == 0)
		r = make_stores(worker, &m, &jobs);
	if (r < 0) {
		jobs_free(&jobs);
		return r;
	}
	dsr_client_lock(&worker->client);
	if (!waiting_set(worker, &m)) {
		dsr_client_unlock(&worker->client);
		jobs_free(&jobs);
		return -ENOMEM;
	}
	/* Again: an engine that has nothing to preempt may leave that call out. */
	drop_lost(worker, &m, &fence);
	jobs_bind(worker, &jobs);
	worker->meta_incarnation = m.incarnation;
	worker->meta_step = m.step;
	worker->meta_deadline_ms = m.load_deadline_ms;
	dsr_client_unlock(&worker->client);
	return fence_wait(&fence);
}

/* The engine's event, or one that has happened. */
static struct dsr_event event_of(const void *event)
{
	return event == NULL ? (struct dsr_event){0} : *(const struct dsr_event *)event;
}

int daser_worker_start_load(struct daser_worker *worker, void *event)
{
	uint32_t deadline_ms;
	bool has_loads;
	int r;

	r = check_worker(worker);
	if (r < 0)
		return r;
	dsr_client_lock(&worker->client);
	deadline_ms = worker->config.load_deadline_ms;
	if (worker->meta_deadline_ms > 0 && worker->meta_deadline_ms < deadline_ms)
		deadline_ms = worker->meta_deadline_ms;
	has_loads = worker->loads.bound.count > 0;
	dsr_load_pipeline_start(&worker->loads, event_of(event),
	                        dsr_now_ns() + (uint64_t)deadline_ms * 1000000);
	dsr_client_unlock(&worker->client);
	if (has_loads)
		dsr_client_wake(&worker->client);
	return 0;
}

int daser_worker_wait_for_save(struct daser_worker *worker, void *event)
{
	bool has_stores;
	int r;

	r = check_worker(worker);
	if (r < 0)
		return r;
	dsr_client_lock(&worker->client);
	has_stores = worker->stores.count > 0;
	dsr_store_pipeline_submit(&worker->stores, event_of(event));
	dsr_client_unlock(&worker->client);
	if (has_stores)
		dsr_client_wake(&worker->client);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The worker object: options, staging, the beginning and the end. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "log.h"
#include "runtime.h"
#include "util.h"

#define DEFAULT_CEILING (UINT64_C(6144) << 20)
#define DEFAULT_LOAD_DEADLINE_MS 10000
#define DEFAULT_SAVE_DEADLINE_MS 1000
#define DEFAULT_STORE_QUEUE 65536
#define CLOSE_NS UINT64_C(3000000000) /* and up to 2 s for a supervisor that does not answer */

/* ---- options ---- */

/* One refused option: the name, the value, what was expected. */
static int refuse_option(const char *name, uint64_t value, const char *expected)
{
	dsr_log(DSR_LOG_ERROR, "option `%s` is %" PRIu64 ", expected %s", name, value, expected);
	return -EINVAL;
}

static int refuse_text(const char *name, const char *value, const char *expected)
{
	dsr_log(DSR_LOG_ERROR, "option `%s` is `%.64s`, expected %s", name,
	        value == NULL ? "" : value, expected);
	return -EINVAL;
}

static int check_shape(const struct daser_worker_options *o)
{
	if (o->world == 0 || o->world > DSR_WORLD_MAX)
		return refuse_option("world", o->world, "1 to 4096");
	if (o->rank >= o->world)
		return refuse_option("rank", o->rank, "less than world");
	if (o->lanes == 0 || o->lanes > DSR_LANES_MAX)
		return refuse_option("lanes", o->lanes, "1 to 64");
	if (o->lane >= o->lanes)
		return refuse_option("lane", o->lane, "less than lanes");
	if (o->writer > 1)
		return refuse_option("writer", o->writer, "0 or 1");
	if (o->block_tokens == 0)
		return refuse_option("block_tokens", 0, "1 or more");
	if (o->load_deadline_ms > 600000)
		return refuse_option("load_deadline_ms", o->load_deadline_ms, "0 to 600000");
	if (o->save_deadline_ms > 600000)
		return refuse_option("save_deadline_ms", o->save_deadline_ms, "0 to 600000");
	return 0;
}

static int config_fill(struct dsr_worker_config *c, const struct daser_worker_options *o)
{
	if (o->engine == NULL || o->engine[0] == '\0' ||
	    dsr_copy_string(c->engine, sizeof(c->engine), o->engine) < 0)
		return refuse_text("engine", o->engine, "a name of 1 to 127 bytes");
	if (o->device == NULL || o->device[0] == '\0' ||
	    dsr_copy_string(c->device, sizeof(c->device), o->device) < 0)
		return refuse_text("device", o->device, "a device name such as host:0");
	if (o->fingerprint == NULL)
		return refuse_option("fingerprint", 0, "32 bytes");
	if (o->staging_mode != NULL && strcmp(o->staging_mode, "classic") == 0)
		c->staging_mode = DSR_STAGING_CLASSIC;
	else if (o->staging_mode != NULL && strcmp(o->staging_mode, "lean") != 0)
		return refuse_text("staging_mode", o->staging_mode, "lean or classic");
	memcpy(c->fingerprint, o->fingerprint, sizeof(c->fingerprint));
	c->rank = o->rank;
	c->world = o->world;
	c->lane = o->lane;
	c->lanes = o->lanes;
	c->is_writer = o->writer == 1;
	c->block_tokens = o->block_tokens;
	c->staging_ceiling = o->staging_ceiling == 0 ? DEFAULT_CEILING : o->staging_ceiling;
	c->device_total = o->device_total;
	c->device_free = o->device_free;
	c->load_deadline_ms =
		o->load_deadline_ms == 0 ? DEFAULT_LOAD_DEADLINE_MS : o->load_deadline_ms;
	c->save_deadline_ms =
		o->save_deadline_ms == 0 ? DEFAULT_SAVE_DEADLINE_MS : o->save_deadline_ms;
	c->store_queue = o->store_queue == 0 ? DEFAULT_STORE_QUEUE : o->store_queue;
	return 0;
}

/* ---- open ---- */

int daser_worker_open(const struct daser_worker_options *options, struct daser_worker **ret_worker)
{
	struct daser_worker_options o = {0};
	struct daser_worker *w;
	int r;

	if (options == NULL || ret_worker == NULL || options->size == 0)
		return -EINVAL;
	memcpy(&o, options, options->size < sizeof(o) ? options->size : sizeof(o));
	r = check_shape(&o);
	if (r < 0)
		return r;
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	w->load_memory.fd = w->store_memory.fd = -1;
	dsr_outputs_init(w);
	r = config_fill(&w->config, &o);
	if (r < 0)
		goto err_free;
	r = dsr_device_open(w->config.device, &w->device);
	if (r < 0) {
		dsr_log(DSR_LOG_ERROR, "device `%s`: %s", w->config.device, strerror(-r));
		goto err_free;
	}
	w->output_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->output_fd == -1) {
		r = -errno;
		goto err_device;
	}
	r = dsr_client_init(&w->client, o.run_dir, DSR_ROLE_WORKER, w->config.device,
	                    &dsr_worker_client_ops, w);
	if (r < 0)
		goto err_fd;
	*ret_worker = w;
	return 0;

err_fd:
	dsr_close(&w->output_fd);
err_device:
	dsr_device_close(&w->device);
err_free:
	free(w);
	return r;
}

/* ---- register ---- */

static int make_layout(struct daser_worker *w, const struct daser_geometry *geometry)
{
	char why[DSR_REASON_TEXT] = "";
	struct dsr_piece *pieces;
	int r;

	if (geometry->pieces == NULL || geometry->piece_count == 0)
		return refuse_option("piece_count", geometry->piece_count, "1 or more");
	pieces = calloc(geometry->piece_count, sizeof(*pieces));
	if (pieces == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < geometry->piece_count; i++) {
		const struct daser_piece *from = &geometry->pieces[i];

		pieces[i] = (struct dsr_piece){
			.base = from->base,
			.block_stride = from->block_stride,
			.bytes = from->bytes,
			.stride = from->count == 1 ? from->bytes : from->stride,
			.count = from->count,
		};
	}
	r = dsr_kv_layout_init(&w->layout, pieces, geometry->piece_count, geometry->blocks, why,
	                       sizeof(why));
	free(pieces);
	if (r < 0)
		dsr_log(DSR_LOG_ERROR, "geometry: %s", why);
	return r;
}

static int make_plan(struct daser_worker *w)
{
	struct dsr_worker_config *c = &w->config;
	char why[DSR_REASON_TEXT] = "";
	uint64_t total, available;
	int r = 0;

	if (c->device_total == 0 || c->device_free == 0) {
		r = dsr_device_memory(w->device, &total, &available);
		if (r < 0) {
			dsr_log(DSR_LOG_ERROR, "memory of device `%s`: %s", c->device,
			        strerror(-r));
			return r;
		}
		c->device_total = c->device_total == 0 ? total : c->device_total;
		c->device_free = c->device_free == 0 ? available : c->device_free;
	}
	r = dsr_staging_plan(c->staging_mode, w->layout.payload_bytes, c->device_total,
	                     c->device_free, c->staging_ceiling, &w->plan, why, sizeof(why));
	if (r < 0) {
		dsr_log(DSR_LOG_ERROR, "staging: %s", why);
		return r;
	}
	/* Actors take no more of one worker. */
	if (w->plan.load_buffers > DSR_STAGING_BUFFERS_MAX)
		w->plan.load_buffers = DSR_STAGING_BUFFERS_MAX;
	if (w->plan.store_buffers > DSR_STAGING_BUFFERS_MAX)
		w->plan.store_buffers = DSR_STAGING_BUFFERS_MAX;
	if (!c->is_writer)
		w->plan.store_buffers = 0;
	return 0;
}

static int make_staging(struct daser_worker *w)
{
	const struct dsr_staging_plan *plan = &w->plan;
	int r;

	r = dsr_device_alloc(w->device, plan->buffer_bytes * plan->load_buffers, &w->load_memory);
	if (r == 0 && plan->store_buffers > 0)
		r = dsr_device_alloc(w->device, plan->buffer_bytes * plan->store_buffers,
		                     &w->store_memory);
	if (r == 0)
		r = dsr_stream_open(w->device, &w->load_stream);
	if (r == 0)
		r = dsr_stream_open(w->device, &w->store_stream);
	if (r < 0)
		dsr_log(DSR_LOG_ERROR,
		        "staging of %" PRIu32 " + %" PRIu32 " buffers of %" PRIu64 " bytes: %s",
		        plan->load_buffers, plan->store_buffers, plan->buffer_bytes, strerror(-r));
	return r;
}

static int make_pipelines(struct daser_worker *w)
{
	const struct dsr_load_options loads = {
		.stream = w->load_stream,
		.layout = &w->layout,
		.staging = w->load_memory.base,
		.buffer_bytes = w->plan.buffer_bytes,
		.buffers = w->plan.load_buffers,
		.port = &dsr_worker_load_port,
		.self = w,
	};
	const struct dsr_store_options stores = {
		.stream = w->store_stream,
		.layout = &w->layout,
		.staging = w->store_memory.base,
		.buffer_bytes = w->plan.buffer_bytes,
		.buffers = w->plan.store_buffers,
		.queue_blocks = w->config.store_queue,
		.port = &dsr_worker_store_port,
		.self = w,
	};
	int r;

	w->takers = calloc(w->layout.blocks, sizeof(*w->takers));
	if (w->takers == NULL)
		return -ENOMEM;
	r = dsr_pack_new(&w->pack);
	r = r < 0 ? r : dsr_load_pipeline_init(&w->loads, &loads);
	return r < 0 ? r : dsr_store_pipeline_init(&w->stores, &stores);
}

/* A pattern that no other worker has: another's memory cannot pass for ours. */
static void make_sides(struct daser_worker *w)
{
	uint64_t x = w->client.incarnation;

	for (size_t i = 0; i < sizeof(w->pattern); i++) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		w->pattern[i] = (uint8_t)(x >> 56);
	}
	w->load_side = (struct dsr_mover_side){
		.role = DSR_ROLE_LOAD,
		.buffers = &w->loads.buffers,
		.stream = w->load_stream,
		.memory = &w->load_memory,
	};
	w->store_side = (struct dsr_mover_side){
		.role = DSR_ROLE_STORE,
		.buffers = &w->stores.buffers,
		.stream = w->store_stream,
		.memory = &w->store_memory,
	};
}

/* What register made, also half of it. */
static void unmake(struct daser_worker *w)
{
	dsr_stream_close(&w->load_stream);
	dsr_stream_close(&w->store_stream);
	dsr_load_pipeline_done(&w->loads);
	dsr_store_pipeline_done(&w->stores);
	dsr_pack_free(&w->pack);
	free(w->takers);
	w->takers = NULL;
	if (w->load_memory.base != NULL)
		dsr_device_release(w->device, &w->load_memory);
	if (w->store_memory.base != NULL)
		dsr_device_release(w->device, &w->store_memory);
	dsr_kv_layout_done(&w->layout);
}

int daser_worker_register(struct daser_worker *worker, const struct daser_geometry *geometry)
{
	struct daser_geometry g = {0};
	int r;

	if (worker == NULL || geometry == NULL || geometry->size == 0)
		return -EINVAL;
	if (worker->is_registered)
		return -EALREADY;
	memcpy(&g, geometry, geometry->size < sizeof(g) ? geometry->size : sizeof(g));
	r = make_layout(worker, &g);
	if (r < 0)
		return r;
	r = make_plan(worker);
	r = r < 0 ? r : make_staging(worker);
	r = r < 0 ? r : make_pipelines(worker);
	if (r < 0)
		goto err_unmake;
	make_sides(worker);
	r = dsr_client_start(&worker->client);
	if (r < 0)
		goto err_unmake;
	worker->is_registered = true;
	return 0;

err_unmake:
	unmake(worker);
	return r;
}

/* ---- close ---- */

static bool is_quiet(const struct daser_worker *w)
{
	return dsr_load_pipeline_is_idle(&w->loads) && dsr_store_pipeline_is_idle(&w->stores) &&
	       w->load_side.buffer == NULL && w->store_side.buffer == NULL;
}

static bool has_left(const struct daser_worker *w)
{
	return is_quiet(w) && w->load_side.state == DSR_MOVER_ABSENT &&
	       w->store_side.state == DSR_MOVER_ABSENT;
}

/* Lets everything end. False: something may still run. */
static bool shut(struct daser_worker *w)
{
	uint64_t deadline = dsr_now_ns() + CLOSE_NS;
	bool is_over;

	if (!w->is_registered)
		return true;
	dsr_client_lock(&w->client);
	w->is_closing = true;
	dsr_load_pipeline_cancel(&w->loads);
	dsr_store_pipeline_cancel(&w->stores);
	dsr_client_wake(&w->client);
	while (!has_left(w) && dsr_client_wait(&w->client, deadline))
		;
	is_over = is_quiet(w);
	dsr_client_unlock(&w->client);
	dsr_client_stop(&w->client);
	return is_over;
}

void daser_worker_close(struct daser_worker **worker)
{
	struct daser_worker *w;

	if (worker == NULL || *worker == NULL)
		return;
	w = *worker;
	*worker = NULL;
	if (!shut(w)) {
		/* An actor or a stream may still copy: nothing of it is freed. */
		dsr_log(DSR_LOG_WARN, "copies are still under way, leaving staging in place");
		return;
	}
	unmake(w);
	dsr_outputs_done(w);
	free(w->taker_names);
	if (w->has_pool)
		dsr_pool_detach(&w->pool);
	dsr_client_done(&w->client);
	dsr_device_close(&w->device);
	dsr_close(&w->output_fd);
	free(w);
}

/* ---- reports ---- */

enum daser_state daser_worker_state(struct daser_worker *worker)
{
	enum daser_state state;

	if (worker == NULL)
		return DASER_DETACHED;
	dsr_client_lock(&worker->client);
	state = worker->client.state;
	dsr_client_unlock(&worker->client);
	return state;
}

const char *daser_worker_reason(struct daser_worker *worker)
{
	if (worker == NULL)
		return "no object";
	dsr_client_lock(&worker->client);
	memcpy(worker->reason, worker->client.reason, sizeof(worker->reason));
	dsr_client_unlock(&worker->client);
	return worker->reason;
}

int daser_worker_fd(struct daser_worker *worker)
{
	return worker == NULL ? -EINVAL : worker->output_fd;
}

int daser_worker_get_stats(struct daser_worker *worker, struct daser_worker_stats *ret_stats)
{
	struct daser_worker_stats stats;
	uint64_t now = dsr_now_ns();
	size_t size;

	if (worker == NULL || ret_stats == NULL)
		return -EINVAL;
	dsr_client_lock(&worker->client);
	stats = worker->stats;
	stats.load_p50_ns = dsr_histogram_percentile(&worker->load_ns, 50);
	stats.load_p99_ns = dsr_histogram_percentile(&worker->load_ns, 99);
	stats.load_busy_ns = dsr_busy_ns(&worker->loads.busy, now);
	stats.store_busy_ns = dsr_busy_ns(&worker->stores.busy, now);
	stats.loads_in_flight_max = worker->loads.busy.count_max;
	stats.stores_in_flight_max = worker->stores.busy.count_max;
	stats.load_buffer_bytes = worker->plan.buffer_bytes;
	stats.store_buffer_bytes = worker->plan.store_buffers > 0 ? worker->plan.buffer_bytes : 0;
	stats.load_buffers = worker->plan.load_buffers;
	stats.store_buffers = worker->plan.store_buffers;
	dsr_client_unlock(&worker->client);
	size = ret_stats->size == 0 || ret_stats->size > sizeof(stats) ? sizeof(stats)
	                                                               : ret_stats->size;
	stats.size = size;
	memcpy(ret_stats, &stats, size);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "load_pipeline.h"

#include <errno.h>
#include <stdlib.h>

#include "reason.h"

/* A segment is what the actor copies before it tells: small enough that the scatter of one hides
 * behind the copy of the next, large enough that the message costs nothing. */
#define SEGMENT_BYTES (UINT64_C(4) << 20)

enum block_state {
	BLOCK_WAITING, /* not sent */
	BLOCK_SENT,
	BLOCK_ARRIVED, /* in staging, in the ring */
	BLOCK_LOADED,
	BLOCK_FAILED, /* results has the reason */
};

/* ---- life ---- */

int dsr_load_pipeline_init(struct dsr_load_pipeline *p, const struct dsr_load_options *options)
{
	uint64_t batch = options->buffer_bytes / options->layout->payload_bytes;
	int r;

	*p = (struct dsr_load_pipeline){.options = *options};
	if (batch == 0)
		return -EINVAL;
	p->batch_blocks = batch < DSR_BATCH_BLOCKS_MAX ? (uint32_t)batch : DSR_BATCH_BLOCKS_MAX;
	/* At worst each block in staging is scattered alone. */
	p->ring_size = p->batch_blocks * options->buffers;
	p->ring = calloc(p->ring_size, sizeof(*p->ring));
	p->bad = calloc(p->batch_blocks, sizeof(*p->bad));
	r = p->ring == NULL || p->bad == NULL
	            ? -ENOMEM
	            : dsr_buffers_init(&p->buffers, options->staging, options->buffer_bytes,
	                               options->buffers);
	if (r < 0)
		dsr_load_pipeline_done(p);
	return r;
}

static void list_add(struct dsr_load_list *list, struct dsr_load *load)
{
	load->prev = list->last;
	load->next = NULL;
	if (list->last != NULL)
		list->last->next = load;
	else
		list->first = load;
	list->last = load;
	list->count++;
}

static void list_remove(struct dsr_load_list *list, struct dsr_load *load)
{
	if (load->prev != NULL)
		load->prev->next = load->next;
	else
		list->first = load->next;
	if (load->next != NULL)
		load->next->prev = load->prev;
	else
		list->last = load->prev;
	list->count--;
}

static void list_free(struct dsr_load_list *list)
{
	struct dsr_load *load;

	while ((load = list->first) != NULL) {
		list_remove(list, load);
		dsr_load_free(&load);
	}
}

void dsr_load_pipeline_done(struct dsr_load_pipeline *p)
{
	list_free(&p->bound);
	list_free(&p->started);
	dsr_buffers_done(&p->buffers);
	free(p->ring);
	free(p->bad);
	*p = (struct dsr_load_pipeline){0};
}

int dsr_load_new(const struct dsr_meta_job *job, uint64_t engine, uint32_t lane,
                 struct dsr_load **ret_load)
{
	struct dsr_load *load = calloc(1, sizeof(*load));
	int r;

	if (load == NULL)
		return -ENOMEM;
	r = dsr_blocks_init(&load->blocks, job, lane);
	if (r < 0) {
		free(load);
		return r;
	}
	load->id = job->id;
	load->engine = engine;
	load->left = job->count;
	*ret_load = load;
	return 0;
}

void dsr_load_free(struct dsr_load **load)
{
	if (load == NULL || *load == NULL)
		return;
	dsr_blocks_done(&(*load)->blocks);
	free(*load);
	*load = NULL;
}

bool dsr_load_block_failed(const struct dsr_load *load, uint32_t index)
{
	return load->blocks.states[index] == BLOCK_FAILED;
}

/* ---- results ---- */

static uint64_t now_ns(const struct dsr_load_pipeline *p)
{
	return p->options.port->now_ns(p->options.self);
}

static void block_loaded(struct dsr_load *load, uint32_t index)
{
	load->blocks.states[index] = BLOCK_LOADED;
	load->left--;
}

static void block_failed(struct dsr_load *load, uint32_t index, enum dsr_reason reason)
{
	load->blocks.states[index] = BLOCK_FAILED;
	load->blocks.results[index] = (uint8_t)reason;
	load->reasons |= 1u << reason;
	load->failed++;
	load->left--;
}

/* Blocks [first, first + count) that are in that state fail. */
static void blocks_fail(struct dsr_load *load, uint32_t first, uint32_t count,
                        enum block_state state, enum dsr_reason reason)
{
	for (uint32_t i = first; i < first + count; i++)
		if (load->blocks.states[i] == state)
			block_failed(load, i, reason);
}

/* ---- turns: loads with blocks to send, each for one batch ---- */

static void turn_add(struct dsr_load_pipeline *p, struct dsr_load *load)
{
	load->turn = NULL;
	load->has_turn = true;
	if (p->turn_last != NULL)
		p->turn_last->turn = load;
	else
		p->turn_first = load;
	p->turn_last = load;
}

static void turn_remove(struct dsr_load_pipeline *p, struct dsr_load *load)
{
	struct dsr_load **at = &p->turn_first, *before = NULL;

	if (!load->has_turn)
		return;
	while (*at != load) {
		before = *at;
		at = &(*at)->turn;
	}
	*at = load->turn;
	if (p->turn_last == load)
		p->turn_last = before;
	load->has_turn = false;
}

/* Nothing more is sent of it. */
static void load_stop(struct dsr_load_pipeline *p, struct dsr_load *load, enum dsr_reason reason)
{
	turn_remove(p, load);
	blocks_fail(load, load->unsent, load->blocks.count - load->unsent, BLOCK_WAITING, reason);
	load->unsent = load->blocks.count;
}

static void load_check_end(struct dsr_load_pipeline *p, struct dsr_load *load)
{
	if (load->left > 0 || load->pending > 0 || load->lends > 0)
		return;
	list_remove(&p->started, load);
	dsr_busy_end(&p->busy, now_ns(p));
	p->options.port->ended(p->options.self, load);
}

/* ---- sending ---- */

static uint32_t segment_blocks(const struct dsr_load_pipeline *p, uint32_t count)
{
	uint64_t n = SEGMENT_BYTES / p->options.layout->payload_bytes;
	uint32_t half = (count + 1) / 2; /* at least two where there are two blocks */

	return n == 0 ? 1 : n < half ? (uint32_t)n : half;
}

/* One batch of the load into a buffer that was taken for it. */
static int send_batch(struct dsr_load_pipeline *p, struct dsr_load *load, struct dsr_buffer *buffer)
{
	uint32_t left = load->blocks.count - load->unsent;
	uint32_t n = left < p->batch_blocks ? left : p->batch_blocks;
	const struct dsr_msg_load msg = {
		.buffer = buffer->index,
		.lend = buffer->lend,
		.segment_blocks = segment_blocks(p, n),
		.refs = {.v = load->blocks.refs + load->unsent, .n = n},
	};
	int r;

	r = p->options.port->load(p->options.self, &msg, buffer->lend);
	if (r < 0) {
		dsr_buffers_put(&p->buffers, buffer);
		return r;
	}
	if (load->times.opened_ns == 0)
		load->times.opened_ns = now_ns(p);
	buffer->first = load->unsent;
	buffer->count = n;
	dsr_buffers_lend(&p->buffers, buffer);
	for (uint32_t i = 0; i < n; i++)
		load->blocks.states[load->unsent + i] = BLOCK_SENT;
	load->unsent += n;
	load->lends++;
	return 0;
}

static void send_batches(struct dsr_load_pipeline *p)
{
	struct dsr_buffer *buffer;
	struct dsr_load *load;
	int r;

	p->is_blocked = false;
	while (p->is_attached && (load = p->turn_first) != NULL) {
		buffer = dsr_buffers_take(&p->buffers, load);
		if (buffer == NULL)
			return;
		r = send_batch(p, load, buffer);
		if (r == -EAGAIN) {
			p->is_blocked = true;
			return;
		}
		if (r < 0) {
			load_stop(p, load, dsr_reason_of(r));
			load_check_end(p, load);
			continue;
		}
		turn_remove(p, load);
		if (load->unsent < load->blocks.count)
			turn_add(p, load);
	}
}

/* ---- scattering ---- */

static struct dsr_scatter *ring_at(const struct dsr_load_pipeline *p, uint64_t number)
{
	return &p->ring[number % p->ring_size];
}

/* A buffer that is ours again and that no scatter reads is free. */
static void buffer_check_free(struct dsr_load_pipeline *p, struct dsr_buffer *buffer)
{
	if (buffer->state == DSR_BUFFER_HELD && buffer->readers == 0)
		dsr_buffers_put(&p->buffers, buffer);
}

static int scatter_enqueue(struct dsr_load_pipeline *p, struct dsr_scatter *scatter)
{
	struct dsr_load *load = scatter->load;
	const struct dsr_buffer *buffer = scatter->buffer;
	const struct dsr_kv_layout *layout = p->options.layout;
	int r;

	if (!load->is_ordered) {
		r = dsr_stream_wait(p->options.stream, load->after);
		if (r < 0)
			return r;
		load->is_ordered = true;
	}
	if (!scatter->is_enqueued) {
		r = dsr_stream_scatter(p->options.stream, layout, load->blocks.ids + scatter->first,
		                       load->blocks.seeds + scatter->first, scatter->count,
		                       buffer->base + (scatter->first - buffer->first) *
		                                              layout->payload_bytes,
		                       load->blocks.digests + scatter->first);
		if (r < 0)
			return r;
		scatter->is_enqueued = true;
		scatter->launched_ns = now_ns(p);
	}
	return dsr_stream_record(p->options.stream, &scatter->event);
}

/* It will not run, or not be known to have run. */
static void scatter_skip(struct dsr_scatter *scatter, enum dsr_reason reason)
{
	struct dsr_load *load = scatter->load;

	blocks_fail(load, scatter->first, scatter->count, BLOCK_ARRIVED, reason);
	load->pending--;
	scatter->load = NULL;
}

/* Launches what lies in the ring, in order, as far as the stream takes it. */
static void scatters_launch(struct dsr_load_pipeline *p)
{
	struct dsr_scatter *scatter;
	struct dsr_load *load;
	int r;

	while (p->ring_launched != p->ring_put) {
		scatter = ring_at(p, p->ring_launched);
		load = scatter->load;
		r = load == NULL ? 0 : scatter_enqueue(p, scatter);
		if (r == -EAGAIN || (r < 0 && scatter->is_enqueued))
			return; /* asked again when something of the stream has ended */
		p->ring_launched++;
		if (r < 0) {
			scatter_skip(scatter, DSR_REASON_UNREADABLE);
			load_check_end(p, load);
		}
	}
}

/* The digests of what a scatter wrote against those of what was stored. */
static void scatter_verify(struct dsr_load_pipeline *p, const struct dsr_scatter *scatter)
{
	const struct dsr_load_port *port = p->options.port;
	struct dsr_load *load = scatter->load;
	uint32_t bad = 0;
	int r;

	for (uint32_t i = scatter->first; i < scatter->first + scatter->count; i++) {
		r = port->check(p->options.self, &load->blocks.refs[i], load->blocks.digests[i]);
		if (r == 0) {
			block_loaded(load, i);
			continue;
		}
		block_failed(load, i, r == -ESTALE ? DSR_REASON_EVICTED : DSR_REASON_DIGEST);
		if (r != -ESTALE)
			p->bad[bad++] = load->blocks.refs[i];
	}
	if (bad > 0)
		port->mismatch(p->options.self, p->bad, bad);
}

static void scatter_done(struct dsr_load_pipeline *p, struct dsr_scatter *scatter)
{
	struct dsr_load *load = scatter->load;
	uint64_t now = now_ns(p);
	uint64_t began =
		scatter->launched_ns > p->last_done_ns ? scatter->launched_ns : p->last_done_ns;

	load->times.kv_ns += now - began;
	load->times.sync_ns = began - scatter->launched_ns;
	load->times.segments++;
	p->last_done_ns = now;
	if (dsr_event_error(scatter->event) < 0)
		blocks_fail(load, scatter->first, scatter->count, BLOCK_ARRIVED,
		            DSR_REASON_UNREADABLE);
	else
		scatter_verify(p, scatter);
	load->pending--;
	load_check_end(p, load);
}

static void scatters_reap(struct dsr_load_pipeline *p)
{
	struct dsr_scatter *scatter;

	while (p->ring_reaped != p->ring_launched) {
		scatter = ring_at(p, p->ring_reaped);
		if (scatter->load != NULL) {
			if (!dsr_event_done(scatter->event))
				return;
			scatter_done(p, scatter);
		}
		scatter->buffer->readers--;
		buffer_check_free(p, scatter->buffer);
		p->ring_reaped++;
	}
}

static void ring_add(struct dsr_load_pipeline *p, struct dsr_load *load, struct dsr_buffer *buffer,
                     uint32_t first, uint32_t count)
{
	*ring_at(p, p->ring_put++) = (struct dsr_scatter){
		.load = load, .buffer = buffer, .first = first, .count = count};
	load->pending++;
	buffer->readers++;
}

void dsr_load_pipeline_on_segment(struct dsr_load_pipeline *p, const struct dsr_msg_segment *msg)
{
	struct dsr_buffer *buffer = dsr_buffers_lent(&p->buffers, msg->buffer, msg->lend);
	struct dsr_load *load = buffer == NULL ? NULL : buffer->owner;
	uint32_t run = 0, block = 0;

	/* A late one finds another lending, or no owner. */
	if (load == NULL || msg->first > buffer->count || msg->errs.n > buffer->count - msg->first)
		return;
	for (uint32_t i = 0; i < msg->errs.n; i++) {
		block = buffer->first + msg->first + i;
		if (load->blocks.states[block] == BLOCK_SENT && msg->errs.v[i] == 0) {
			load->blocks.states[block] = BLOCK_ARRIVED;
			run++;
			continue;
		}
		if (run > 0)
			ring_add(p, load, buffer, block - run, run);
		run = 0;
		if (load->blocks.states[block] == BLOCK_SENT)
			block_failed(load, block, dsr_reason_of_segment(msg->errs.v[i]));
	}
	if (run > 0)
		ring_add(p, load, buffer, block + 1 - run, run);
	scatters_launch(p);
}

/* ---- buffers come back ---- */

/* What of a batch did not arrive never will. */
static void batch_returned(struct dsr_load_pipeline *p, struct dsr_buffer *buffer,
                           enum dsr_reason reason)
{
	struct dsr_load *load = buffer->owner;

	dsr_buffers_returned(&p->buffers, buffer);
	buffer->owner = NULL;
	if (load != NULL) {
		blocks_fail(load, buffer->first, buffer->count, BLOCK_SENT, reason);
		load->lends--;
	}
	buffer_check_free(p, buffer);
	if (load != NULL)
		load_check_end(p, load);
}

void dsr_load_pipeline_on_reply(struct dsr_load_pipeline *p, uint64_t cookie,
                                const struct dsr_msg_load_reply *reply)
{
	struct dsr_buffer *buffer = dsr_buffers_by_lend(&p->buffers, cookie);
	struct dsr_load *load = buffer == NULL ? NULL : buffer->owner;

	if (buffer == NULL)
		return;
	if (load != NULL) {
		load->times.wait_ns += reply->wait_ns;
		load->times.copy_ns += reply->copy_ns;
		load->times.copies += reply->copies;
		load->times.runs += reply->runs;
	}
	batch_returned(p, buffer,
	               reply->err < 0 ? dsr_reason_of(reply->err) : DSR_REASON_UNREADABLE);
}

void dsr_load_pipeline_on_failed(struct dsr_load_pipeline *p, uint64_t cookie, int err)
{
	struct dsr_buffer *buffer = dsr_buffers_by_lend(&p->buffers, cookie);

	if (buffer != NULL && err == -EOWNERDEAD)
		batch_returned(p, buffer, DSR_REASON_ACTOR_GONE);
}

/* ---- starting and stopping ---- */

void dsr_load_pipeline_bind(struct dsr_load_pipeline *p, struct dsr_load *load)
{
	list_add(&p->bound, load);
}

void dsr_load_pipeline_start(struct dsr_load_pipeline *p, struct dsr_event after,
                             uint64_t deadline_ns)
{
	uint64_t now = now_ns(p);
	struct dsr_load *load;

	while ((load = p->bound.first) != NULL) {
		list_remove(&p->bound, load);
		list_add(&p->started, load);
		load->after = after;
		load->deadline_ns = deadline_ns;
		load->times.queued_ns = now;
		dsr_busy_begin(&p->busy, now);
		if (p->is_attached) {
			turn_add(p, load);
			continue;
		}
		load_stop(p, load, DSR_REASON_DETACHED);
		load_check_end(p, load);
	}
}

/* Ends what no scatter was launched for. Buffers that are out stay out, without an owner. */
static void load_retire(struct dsr_load_pipeline *p, struct dsr_load *load, enum dsr_reason reason)
{
	struct dsr_buffer *buffer;

	load_stop(p, load, reason);
	for (uint64_t i = p->ring_launched; i != p->ring_put; i++)
		if (ring_at(p, i)->load == load && !ring_at(p, i)->is_enqueued)
			scatter_skip(ring_at(p, i), reason);
	for (uint32_t i = 0; i < p->buffers.count; i++) {
		buffer = &p->buffers.v[i];
		if (buffer->owner != load || buffer->state != DSR_BUFFER_LENT)
			continue;
		blocks_fail(load, buffer->first, buffer->count, BLOCK_SENT, reason);
		dsr_buffers_quarantine(&p->buffers, buffer);
	}
	load->lends = 0;
	load_check_end(p, load);
}

static void retire_late(struct dsr_load_pipeline *p)
{
	uint64_t now = now_ns(p);
	struct dsr_load *load, *next;

	for (load = p->started.first; load != NULL; load = next) {
		next = load->next;
		if (load->deadline_ns > now)
			continue;
		load->deadline_ns = UINT64_MAX; /* only its launched scatters are waited for */
		load_retire(p, load, DSR_REASON_DEADLINE);
	}
}

void dsr_load_pipeline_pump(struct dsr_load_pipeline *p)
{
	scatters_reap(p);
	scatters_launch(p);
	retire_late(p);
	send_batches(p);
}

void dsr_load_pipeline_attach(struct dsr_load_pipeline *p)
{
	p->is_attached = true;
}

void dsr_load_pipeline_detach(struct dsr_load_pipeline *p, enum dsr_reason reason)
{
	struct dsr_load *load;

	p->is_attached = false;
	while ((load = p->turn_first) != NULL) {
		load_stop(p, load, reason);
		load_check_end(p, load);
	}
}

void dsr_load_pipeline_cancel(struct dsr_load_pipeline *p)
{
	struct dsr_load *load, *next;

	p->is_attached = false;
	while ((load = p->bound.first) != NULL) {
		list_remove(&p->bound, load);
		dsr_load_free(&load);
	}
	for (load = p->started.first; load != NULL; load = next) {
		next = load->next;
		load_retire(p, load, DSR_REASON_CANCELLED);
	}
}

uint64_t dsr_load_pipeline_deadline(const struct dsr_load_pipeline *p)
{
	uint64_t least = UINT64_MAX;

	for (const struct dsr_load *load = p->started.first; load != NULL; load = load->next)
		if (load->deadline_ns < least)
			least = load->deadline_ns;
	return least;
}

bool dsr_load_pipeline_is_idle(const struct dsr_load_pipeline *p)
{
	return p->ring_reaped == p->ring_put && p->buffers.free == p->buffers.count;
}

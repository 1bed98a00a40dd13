/* SPDX-License-Identifier: Apache-2.0 */
#include "store_pipeline.h"

#include <errno.h>
#include <stdlib.h>

#include "reason.h"

#define RESULT_NONE 0xff

/* ---- life ---- */

int dsr_store_pipeline_init(struct dsr_store_pipeline *p, const struct dsr_store_options *options)
{
	uint64_t batch = options->buffer_bytes / options->layout->payload_bytes;

	*p = (struct dsr_store_pipeline){.options = *options};
	if (batch == 0)
		return -EINVAL;
	p->batch_blocks = batch < DSR_BATCH_BLOCKS_MAX ? (uint32_t)batch : DSR_BATCH_BLOCKS_MAX;
	return dsr_buffers_init(&p->buffers, options->staging, options->buffer_bytes,
	                        options->buffers);
}

static void list_remove(struct dsr_store_pipeline *p, struct dsr_store *store)
{
	if (store->prev != NULL)
		store->prev->next = store->next;
	else
		p->first = store->next;
	if (store->next != NULL)
		store->next->prev = store->prev;
	else
		p->last = store->prev;
	p->count--;
}

void dsr_store_pipeline_done(struct dsr_store_pipeline *p)
{
	struct dsr_store *store;

	while ((store = p->first) != NULL) {
		list_remove(p, store);
		dsr_store_free(&store);
	}
	dsr_buffers_done(&p->buffers);
	*p = (struct dsr_store_pipeline){0};
}

int dsr_store_new(const struct dsr_meta_job *job, uint64_t engine, uint32_t lane,
                  struct dsr_store **ret_store)
{
	struct dsr_store *store = calloc(1, sizeof(*store));
	int r;

	if (store == NULL)
		return -ENOMEM;
	r = dsr_blocks_init(&store->blocks, job, lane);
	if (r < 0) {
		free(store);
		return r;
	}
	store->id = job->id;
	store->scheduler = job->scheduler;
	store->engine = engine;
	store->left = job->count;
	for (uint32_t i = 0; i < job->count; i++)
		store->blocks.results[i] = RESULT_NONE;
	*ret_store = store;
	return 0;
}

void dsr_store_free(struct dsr_store **store)
{
	if (store == NULL || *store == NULL)
		return;
	dsr_blocks_done(&(*store)->blocks);
	free(*store);
	*store = NULL;
}

/* ---- results ---- */

static uint64_t now_ns(const struct dsr_store_pipeline *p)
{
	return p->options.port->now_ns(p->options.self);
}

static void block_result(struct dsr_store *store, uint32_t index, uint8_t result)
{
	if (store->blocks.results[index] == RESULT_NONE)
		store->left--;
	store->blocks.results[index] = result;
}

static void block_dropped(struct dsr_store *store, uint32_t index, enum dsr_reason reason,
                          unsigned kind)
{
	block_result(store, index, (uint8_t)(kind | reason));
	store->dropped++;
	store->reasons |= 1u << reason;
}

static void batch_dropped(struct dsr_store *store, enum dsr_reason reason, unsigned kind)
{
	const struct dsr_buffer *buffer = store->buffer;

	for (uint32_t i = buffer->first; i < buffer->first + buffer->count; i++)
		block_dropped(store, i, reason, kind);
}

static void store_check_end(struct dsr_store_pipeline *p, struct dsr_store *store)
{
	if (store->left > 0 || store->buffer != NULL || store->drop == DSR_DROP_WANTED ||
	    store->drop == DSR_DROP_SENT)
		return;
	list_remove(p, store);
	if (store->times.opened_ns != 0)
		dsr_busy_end(&p->busy, now_ns(p));
	p->options.port->ended(p->options.self, store);
}

/* Drops what was not launched. The save may be over then: only the caller ends it. */
static void drop_rest(struct dsr_store_pipeline *p, struct dsr_store *store, enum dsr_reason reason)
{
	uint32_t first = store->unlaunched;
	uint32_t count = store->blocks.count - first;

	if (count == 0)
		return;
	store->unlaunched = store->blocks.count;
	p->queued -= count;
	for (uint32_t i = 0; i < count; i++)
		block_dropped(store, first + i, reason,
		              p->is_attached ? DSR_RESULT_DROPPED : DSR_RESULT_UNTOLD);
	if (p->is_attached) {
		p->is_blocked = true; /* until pump has told it */
		store->drop = DSR_DROP_WANTED;
		store->drop_first = first;
		store->drop_count = count;
		store->drop_reason = reason;
	}
	if (store->buffer == NULL)
		store->phase = DSR_STORE_CLOSING;
	p->options.port->released(p->options.self);
}

/* Nobody took the DROP: the scheduler object is to abandon the blocks. */
static void drop_untold(struct dsr_store *store)
{
	store->drop = DSR_DROP_ANSWERED;
	for (uint32_t i = 0; i < store->drop_count; i++)
		block_result(store, store->drop_first + i,
		             (uint8_t)(DSR_RESULT_UNTOLD | store->drop_reason));
}

/* ---- gathering ---- */

static int gather_enqueue(struct dsr_store_pipeline *p, struct dsr_store *store,
                          struct dsr_buffer *buffer, uint32_t count)
{
	uint32_t first = store->unlaunched;
	int r;

	if (!store->is_ordered) {
		r = dsr_stream_wait(p->options.stream, store->after);
		if (r < 0)
			return r;
		store->is_ordered = true;
	}
	r = dsr_stream_gather(p->options.stream, p->options.layout, store->blocks.ids + first,
	                      store->blocks.seeds + first, count, buffer->base,
	                      store->blocks.digests + first);
	return r < 0 ? r : dsr_stream_record(p->options.stream, &store->event);
}

/* Launches the gather of the next batch into a buffer that is held for the save. -EAGAIN: the
 * stream is full. */
static int launch(struct dsr_store_pipeline *p, struct dsr_store *store, struct dsr_buffer *buffer)
{
	uint32_t left = store->blocks.count - store->unlaunched;
	uint32_t n = left < p->batch_blocks ? left : p->batch_blocks;
	int r;

	r = gather_enqueue(p, store, buffer, n);
	if (r < 0)
		return r;
	store->launched_ns = now_ns(p);
	if (store->times.opened_ns == 0) {
		store->times.opened_ns = store->launched_ns;
		dsr_busy_begin(&p->busy, store->launched_ns);
	}
	buffer->first = store->unlaunched;
	buffer->count = n;
	store->unlaunched += n;
	p->queued -= n;
	store->buffer = buffer;
	store->phase = DSR_STORE_GATHERING;
	return 0;
}

/* The save goes on with its buffer, or gives it back. */
static void batch_next(struct dsr_store_pipeline *p, struct dsr_store *store)
{
	struct dsr_buffer *buffer = store->buffer;
	int r = -ENODATA;

	store->buffer = NULL;
	store->phase = DSR_STORE_CLOSING;
	if (store->unlaunched < store->blocks.count) {
		dsr_buffers_relend(&p->buffers, buffer);
		store->phase = DSR_STORE_QUEUED;
		r = launch(p, store, buffer);
		if (r < 0 && r != -EAGAIN)
			drop_rest(p, store, DSR_REASON_UNREADABLE);
	}
	if (r < 0)
		dsr_buffers_put(&p->buffers, buffer);
	store_check_end(p, store);
}

static void store_send(struct dsr_store_pipeline *p, struct dsr_store *store)
{
	struct dsr_buffer *buffer = store->buffer;
	const struct dsr_msg_store msg = {
		.buffer = buffer->index,
		.lend = buffer->lend,
		.reservation = store->id,
		.scheduler = store->scheduler,
		.engine = store->engine,
		.refs = {.v = store->blocks.refs + buffer->first, .n = buffer->count},
		.digests = {.v = store->blocks.digests + buffer->first, .n = buffer->count},
	};
	int r = -ENOTCONN;

	if (p->is_attached)
		r = p->options.port->store(p->options.self, &msg, buffer->lend);
	if (r == 0) {
		dsr_buffers_lend(&p->buffers, buffer);
		store->phase = DSR_STORE_STORING;
		return;
	}
	if (r == -EAGAIN) {
		p->is_blocked = true;
		return;
	}
	batch_dropped(store, DSR_REASON_ACTOR_GONE, DSR_RESULT_UNTOLD);
	batch_next(p, store);
}

static void gather_done(struct dsr_store_pipeline *p, struct dsr_store *store)
{
	uint64_t now = now_ns(p);
	uint64_t began =
		store->launched_ns > p->last_done_ns ? store->launched_ns : p->last_done_ns;

	store->times.kv_ns += now - began;
	store->times.sync_ns += began - store->launched_ns;
	store->times.segments++;
	p->last_done_ns = now;
	store->phase = DSR_STORE_GATHERED;
	p->options.port->released(p->options.self);
	if (dsr_event_error(store->event) == 0) {
		store_send(p, store);
		return;
	}
	batch_dropped(store, DSR_REASON_UNREADABLE, DSR_RESULT_UNTOLD);
	batch_next(p, store);
}

/* ---- answers ---- */

static void batch_returned(struct dsr_store_pipeline *p, struct dsr_buffer *buffer)
{
	struct dsr_store *store = buffer->owner;

	dsr_buffers_returned(&p->buffers, buffer);
	batch_next(p, store);
}

/* What became of one block of a STORE. */
static void store_answered(struct dsr_store *store, uint32_t index, int err, bool is_accepted)
{
	/* The actor aborts what it accepted and gave up. */
	unsigned kind = is_accepted ? DSR_RESULT_DROPPED : DSR_RESULT_UNTOLD;

	if (err == 0) {
		block_result(store, index, DSR_RESULT_STORED);
		store->times.copies++;
		return;
	}
	block_dropped(store, index, dsr_reason_of(err), kind);
}

void dsr_store_pipeline_on_reply(struct dsr_store_pipeline *p, uint64_t cookie,
                                 const struct dsr_msg_store_reply *reply)
{
	struct dsr_buffer *buffer = dsr_buffers_by_lend(&p->buffers, cookie);
	struct dsr_store *store;
	int err;

	if (buffer == NULL)
		return;
	store = buffer->owner;
	store->times.wait_ns += reply->wait_ns;
	store->times.copy_ns += reply->copy_ns;
	store->times.runs += reply->runs;
	for (uint32_t i = 0; i < buffer->count; i++) {
		err = reply->err;
		if (err == 0)
			err = i < reply->errs.n ? reply->errs.v[i] : -EPROTO;
		store_answered(store, buffer->first + i, err, reply->err == 0);
	}
	batch_returned(p, buffer);
}

void dsr_store_pipeline_on_failed(struct dsr_store_pipeline *p, uint64_t cookie, int err)
{
	struct dsr_buffer *buffer = dsr_buffers_by_lend(&p->buffers, cookie);

	if (buffer == NULL || err != -EOWNERDEAD)
		return;
	/* The scheduler aborts what a dead store actor did not commit. */
	batch_dropped(buffer->owner, DSR_REASON_ACTOR_GONE, DSR_RESULT_DROPPED);
	batch_returned(p, buffer);
}

void dsr_store_pipeline_on_dropped(struct dsr_store_pipeline *p, uint64_t cookie, int err)
{
	struct dsr_store *store = p->first;

	while (store != NULL && (store->serial != cookie || store->drop != DSR_DROP_SENT))
		store = store->next;
	if (store == NULL)
		return;
	store->drop = DSR_DROP_ANSWERED;
	if (err < 0)
		drop_untold(store);
	store_check_end(p, store);
}

/* ---- the queue ---- */

void dsr_store_pipeline_bind(struct dsr_store_pipeline *p, struct dsr_store *store)
{
	store->serial = ++p->last_serial;
	store->phase = DSR_STORE_BOUND;
	store->times.queued_ns = now_ns(p);
	store->prev = p->last;
	store->next = NULL;
	if (p->last != NULL)
		p->last->next = store;
	else
		p->first = store;
	p->last = store;
	p->count++;
	p->queued += store->blocks.count;
	if (p->queued <= p->options.queue_blocks)
		return;
	drop_rest(p, store, DSR_REASON_QUEUE_FULL);
	store_check_end(p, store);
}

void dsr_store_pipeline_submit(struct dsr_store_pipeline *p, struct dsr_event after)
{
	struct dsr_store *store, *next;

	for (store = p->first; store != NULL; store = next) {
		next = store->next;
		if (store->phase != DSR_STORE_BOUND)
			continue;
		store->after = after;
		store->phase = DSR_STORE_QUEUED;
		if (p->is_attached)
			continue;
		drop_rest(p, store, DSR_REASON_DETACHED);
		store_check_end(p, store);
	}
}

static void send_drop(struct dsr_store_pipeline *p, struct dsr_store *store)
{
	const struct dsr_msg_drop msg = {
		.reservation = store->id,
		.scheduler = store->scheduler,
		.engine = store->engine,
		.refs = {.v = store->blocks.refs + store->drop_first, .n = store->drop_count},
		.reason = store->drop_reason,
	};
	int r = -ENOTCONN;

	if (p->is_attached)
		r = p->options.port->drop(p->options.self, &msg, store->serial);
	if (r == 0) {
		store->drop = DSR_DROP_SENT;
	} else if (r == -EAGAIN) {
		p->is_blocked = true;
	} else {
		drop_untold(store);
		store_check_end(p, store);
	}
}

/* Gathers that ended, STOREs and DROPs that wait, deadlines. */
static void pump_one(struct dsr_store_pipeline *p, struct dsr_store *store, uint64_t now)
{
	bool has_drop;

	if (store->has_deadline && now >= store->deadline_ns) {
		store->has_deadline = false;
		drop_rest(p, store, DSR_REASON_DEADLINE);
	}
	/* With a DROP to tell it cannot be over before. */
	has_drop = store->drop == DSR_DROP_WANTED;
	if (store->phase == DSR_STORE_GATHERING && dsr_event_done(store->event))
		gather_done(p, store);
	else if (store->phase == DSR_STORE_GATHERED)
		store_send(p, store);
	else if (store->phase == DSR_STORE_CLOSING && !has_drop)
		store_check_end(p, store);
	if (has_drop)
		send_drop(p, store);
}

static void launch_queued(struct dsr_store_pipeline *p)
{
	struct dsr_store *store, *next;
	struct dsr_buffer *buffer;
	int r;

	for (store = p->first; store != NULL; store = next) {
		next = store->next;
		if (store->phase != DSR_STORE_QUEUED)
			continue;
		buffer = dsr_buffers_take(&p->buffers, store);
		if (buffer == NULL)
			return;
		r = launch(p, store, buffer);
		if (r == 0)
			continue;
		dsr_buffers_put(&p->buffers, buffer);
		if (r == -EAGAIN)
			return; /* asked again when something of the stream has ended */
		drop_rest(p, store, DSR_REASON_UNREADABLE);
		store_check_end(p, store);
	}
}

void dsr_store_pipeline_pump(struct dsr_store_pipeline *p)
{
	struct dsr_store *store, *next;
	uint64_t now = now_ns(p);

	p->is_blocked = false;
	for (store = p->first; store != NULL; store = next) {
		next = store->next;
		pump_one(p, store, now);
	}
	launch_queued(p);
}

/* ---- attaching ---- */

void dsr_store_pipeline_attach(struct dsr_store_pipeline *p)
{
	p->is_attached = true;
}

static void drop_all(struct dsr_store_pipeline *p, enum dsr_reason reason)
{
	struct dsr_store *store, *next;

	for (store = p->first; store != NULL; store = next) {
		next = store->next;
		drop_rest(p, store, reason);
		if (!p->is_attached && store->drop == DSR_DROP_WANTED)
			drop_untold(store);
		store_check_end(p, store);
	}
}

void dsr_store_pipeline_detach(struct dsr_store_pipeline *p, enum dsr_reason reason)
{
	p->is_attached = false;
	drop_all(p, reason);
}

void dsr_store_pipeline_cancel(struct dsr_store_pipeline *p)
{
	drop_all(p, DSR_REASON_CANCELLED);
}

/* ---- dropping by request or block ---- */

/* A gather that runs is waited for once, however often it is meant. */
static void fence_add(struct dsr_event event, struct dsr_event *events, uint32_t *event_count)
{
	if (dsr_event_done(event))
		return;
	for (uint32_t i = 0; i < *event_count; i++)
		if (events[i].seq == event.seq)
			return;
	events[(*event_count)++] = event;
}

void dsr_store_pipeline_drop(struct dsr_store_pipeline *p, dsr_store_predicate *is_meant,
                             void *self, enum dsr_reason reason, struct dsr_event *events,
                             uint32_t *event_count)
{
	struct dsr_store *store, *next;

	for (store = p->first; store != NULL; store = next) {
		next = store->next;
		if (!is_meant(self, store))
			continue;
		if (store->phase == DSR_STORE_GATHERING)
			fence_add(store->event, events, event_count);
		drop_rest(p, store, reason);
		store_check_end(p, store);
	}
}

void dsr_store_pipeline_finish(struct dsr_store_pipeline *p, const char *name, uint64_t name_hash,
                               uint64_t deadline_ns)
{
	for (struct dsr_store *store = p->first; store != NULL; store = store->next) {
		if (!dsr_blocks_named(&store->blocks, name, name_hash))
			continue;
		store->has_deadline = true;
		store->deadline_ns = deadline_ns;
	}
}

bool dsr_store_pipeline_reads(const struct dsr_store_pipeline *p, const char *name,
                              uint64_t name_hash)
{
	for (const struct dsr_store *store = p->first; store != NULL; store = store->next)
		if ((store->unlaunched < store->blocks.count ||
		     store->phase == DSR_STORE_GATHERING) &&
		    dsr_blocks_named(&store->blocks, name, name_hash))
			return true;
	return false;
}

uint64_t dsr_store_pipeline_deadline(const struct dsr_store_pipeline *p)
{
	uint64_t least = UINT64_MAX;

	for (const struct dsr_store *store = p->first; store != NULL; store = store->next)
		if (store->has_deadline && store->deadline_ns < least)
			least = store->deadline_ns;
	return least;
}

bool dsr_store_pipeline_is_idle(const struct dsr_store_pipeline *p)
{
	return p->count == 0 && p->buffers.free == p->buffers.count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the host device: one thread each.
 *
 * A stream is a FIFO of numbered work; its thread carries it out in order and publishes the number
 * of the last done. An event is such a number. Work is copied into nodes of a fixed pool; a node
 * keeps its buffer, and the most recently used node is taken first, so that the buffers of the few
 * nodes in use grow to what is needed and nothing is allocated after that. */
#include "device.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device_host.h"
#include "digest.h"

#define STREAM_DEPTH 1024   /* work that is queued or running; more is -EAGAIN */
#define NODE_BYTES_MIN 4096 /* first size of a node's buffer */

enum work_kind { WORK_COPY, WORK_GATHER, WORK_SCATTER, WORK_WAIT };

struct work {
	enum work_kind kind;
	bool has_signal; /* an event was recorded behind it: wake the device's poller */
	uint32_t count;
	uint64_t seq;
	struct work *next; /* in the queue or among the free ones */
	void *buffer;      /* owned; the arrays below are in it */
	size_t capacity;
	struct dsr_copy *copies;
	uint64_t *seeds;
	uint32_t *ids;
	const struct dsr_kv_layout *layout; /* borrowed until done */
	uint8_t *staging;                   /* borrowed until done; scatter only reads it */
	uint64_t *digests;                  /* borrowed until done */
	struct dsr_event event;             /* WORK_WAIT: its stream is a reference */
};

/* `lock` guards all but the atomics and a node that is being filled or carried out. */
struct dsr_stream {
	struct dsr_device *device; /* borrowed: outlives its streams */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t has_work;
	pthread_cond_t has_done;
	uint32_t waiters; /* on has_done */
	bool is_stopping;
	struct work *nodes; /* owned, STREAM_DEPTH */
	struct work *free_nodes;
	struct work *head, *tail; /* queued */
	struct work *newest;      /* holds the work numbered `enqueued`, until that is done */
	uint64_t enqueued;
	_Atomic uint64_t done;      /* W: thread, release */
	int error;                  /* first one, before error_seq */
	_Atomic uint64_t error_seq; /* its work, 0 = none; W: thread, release */
	_Atomic uint32_t refs;      /* opener, and waits of other streams that name it */
};

static void stream_put(struct dsr_stream *stream)
{
	/* Release: our use of it; acquire: everybody's, before it is freed. */
	if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1)
		return;
	(void)pthread_cond_destroy(&stream->has_done);
	(void)pthread_cond_destroy(&stream->has_work);
	(void)pthread_mutex_destroy(&stream->lock);
	free(stream);
}

static struct dsr_stream *stream_get(struct dsr_stream *stream)
{
	atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
	return stream;
}

/* Returns whether `seq` is done; waits for it until the deadline, NULL = none. */
static bool stream_await(struct dsr_stream *stream, uint64_t seq, const struct timespec *deadline)
{
	bool is_done;
	int r = 0;

	(void)pthread_mutex_lock(&stream->lock);
	stream->waiters++;
	while (atomic_load_explicit(&stream->done, memory_order_relaxed) < seq && r == 0)
		r = deadline == NULL
		            ? pthread_cond_wait(&stream->has_done, &stream->lock)
		            : pthread_cond_timedwait(&stream->has_done, &stream->lock, deadline);
	is_done = atomic_load_explicit(&stream->done, memory_order_relaxed) >= seq;
	stream->waiters--;
	(void)pthread_mutex_unlock(&stream->lock);
	return is_done;
}

static void run_copies(const struct work *work)
{
	for (uint32_t i = 0; i < work->count; i++)
		memcpy(work->copies[i].dst, work->copies[i].src, work->copies[i].bytes);
}

/* Moves one block and returns its digest. */
static uint64_t run_block(const struct work *work, uint32_t index)
{
	const struct dsr_kv_layout *layout = work->layout;
	uint8_t *staging = work->staging + index * layout->payload_bytes;
	struct dsr_digest digest;

	dsr_digest_init(&digest, work->seeds[index]);
	for (uint32_t p = 0; p < layout->piece_count; p++) {
		const struct dsr_piece *piece = &layout->pieces[p];
		uint8_t *kv = piece->base + work->ids[index] * piece->block_stride;

		for (uint64_t i = 0; i < piece->count; i++) {
			if (work->kind == WORK_GATHER)
				dsr_digest_copy(&digest, staging, kv, piece->bytes);
			else
				dsr_digest_copy(&digest, kv, staging, piece->bytes);
			staging += piece->bytes;
			kv += piece->stride;
		}
	}
	return dsr_digest_value(&digest);
}

/* What waited for failed work has failed itself. */
static int run_wait(struct dsr_event event)
{
	int r;

	(void)stream_await(event.stream, event.seq, NULL);
	r = dsr_event_error(event);
	stream_put(event.stream);
	return r;
}

static int work_run(const struct work *work)
{
	switch (work->kind) {
	case WORK_COPY:
		run_copies(work);
		return 0;
	case WORK_GATHER:
	case WORK_SCATTER:
		for (uint32_t i = 0; i < work->count; i++)
			work->digests[i] = run_block(work, i);
		return 0;
	case WORK_WAIT:
		return run_wait(work->event);
	}
	return -EINVAL;
}

/* Called by the stream's thread, locked. */
static void stream_note_error(struct dsr_stream *stream, uint64_t seq, int error)
{
	if (error == 0 || atomic_load_explicit(&stream->error_seq, memory_order_relaxed) != 0)
		return;
	stream->error = error;
	/* Partner: the acquire load in dsr_event_error. */
	atomic_store_explicit(&stream->error_seq, seq, memory_order_release);
}

/* Called by the stream's thread, locked. Returns whether the device is to be signalled. */
static bool stream_finish(struct dsr_stream *stream, struct work *work, int error)
{
	bool has_signal = work->has_signal;

	stream_note_error(stream, work->seq, error);
	if (stream->newest == work)
		stream->newest = NULL;
	/* Partner: the acquire load in dsr_event_done: who sees the number sees the bytes. */
	atomic_store_explicit(&stream->done, work->seq, memory_order_release);
	work->next = stream->free_nodes;
	stream->free_nodes = work;
	if (stream->waiters > 0)
		(void)pthread_cond_broadcast(&stream->has_done);
	return has_signal;
}

static void *stream_main(void *arg)
{
	struct dsr_stream *stream = arg;
	struct work *work;
	bool has_signal;
	int error;

	(void)pthread_mutex_lock(&stream->lock);
	for (;;) {
		while (stream->head == NULL && !stream->is_stopping)
			(void)pthread_cond_wait(&stream->has_work, &stream->lock);
		work = stream->head;
		if (work == NULL)
			break;
		stream->head = work->next;
		if (stream->head == NULL)
			stream->tail = NULL;
		(void)pthread_mutex_unlock(&stream->lock);
		error = work_run(work);
		(void)pthread_mutex_lock(&stream->lock);
		has_signal = stream_finish(stream, work, error);
		if (!has_signal)
			continue;
		(void)pthread_mutex_unlock(&stream->lock);
		dsr_device_signal(stream->device);
		(void)pthread_mutex_lock(&stream->lock);
	}
	(void)pthread_mutex_unlock(&stream->lock);
	return NULL;
}

/* Deadlines are CLOCK_MONOTONIC. */
static int stream_init_locks(struct dsr_stream *stream)
{
	pthread_condattr_t attributes;
	int r;

	r = pthread_condattr_init(&attributes);
	if (r != 0)
		return -r;
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	r = pthread_mutex_init(&stream->lock, NULL);
	if (r != 0)
		goto err_attributes;
	r = pthread_cond_init(&stream->has_work, NULL);
	if (r != 0)
		goto err_mutex;
	r = pthread_cond_init(&stream->has_done, &attributes);
	if (r != 0)
		goto err_has_work;
	(void)pthread_condattr_destroy(&attributes);
	return 0;

err_has_work:
	(void)pthread_cond_destroy(&stream->has_work);
err_mutex:
	(void)pthread_mutex_destroy(&stream->lock);
err_attributes:
	(void)pthread_condattr_destroy(&attributes);
	return -r;
}

/* The thread takes no signal: it may live in an engine's process. */
static int stream_start(struct dsr_stream *stream)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all);
	r = pthread_sigmask(SIG_SETMASK, &all, &old);
	if (r != 0)
		return -r;
	r = pthread_create(&stream->thread, NULL, stream_main, stream);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r != 0)
		return -r;
	(void)pthread_setname_np(stream->thread, "daser-stream");
	return 0;
}

int dsr_stream_open(struct dsr_device *device, struct dsr_stream **ret_stream)
{
	struct dsr_stream *stream;
	int r;

	stream = calloc(1, sizeof(*stream));
	if (stream == NULL)
		return -ENOMEM;
	stream->device = device;
	atomic_init(&stream->refs, 1);
	stream->nodes = calloc(STREAM_DEPTH, sizeof(*stream->nodes));
	if (stream->nodes == NULL) {
		free(stream);
		return -ENOMEM;
	}
	for (size_t i = STREAM_DEPTH; i-- > 0;) {
		stream->nodes[i].next = stream->free_nodes;
		stream->free_nodes = &stream->nodes[i];
	}
	r = stream_init_locks(stream);
	if (r < 0) {
		free(stream->nodes);
		free(stream);
		return r;
	}
	r = stream_start(stream);
	if (r < 0) {
		free(stream->nodes);
		stream_put(stream);
		return r;
	}
	atomic_fetch_add(&device->streams, 1);
	*ret_stream = stream;
	return 0;
}

void dsr_stream_close(struct dsr_stream **stream)
{
	struct dsr_stream *s;

	if (stream == NULL || *stream == NULL)
		return;
	s = *stream;
	*stream = NULL;
	(void)pthread_mutex_lock(&s->lock);
	s->is_stopping = true;
	(void)pthread_cond_signal(&s->has_work);
	(void)pthread_mutex_unlock(&s->lock);
	(void)pthread_join(s->thread, NULL);
	for (size_t i = 0; i < STREAM_DEPTH; i++)
		free(s->nodes[i].buffer);
	free(s->nodes);
	atomic_fetch_sub(&s->device->streams, 1);
	stream_put(s);
}

static void stream_return_node(struct dsr_stream *stream, struct work *work)
{
	(void)pthread_mutex_lock(&stream->lock);
	work->next = stream->free_nodes;
	stream->free_nodes = work;
	(void)pthread_mutex_unlock(&stream->lock);
}

/* A node with room for `bytes`: NULL and *ret_error when there is none. */
static struct work *stream_take_node(struct dsr_stream *stream, size_t bytes, int *ret_error)
{
	struct work *work;
	size_t capacity;
	void *buffer;

	(void)pthread_mutex_lock(&stream->lock);
	work = stream->free_nodes;
	if (work != NULL)
		stream->free_nodes = work->next;
	(void)pthread_mutex_unlock(&stream->lock);
	if (work == NULL) {
		*ret_error = -EAGAIN;
		return NULL;
	}
	if (bytes <= work->capacity)
		return work;
	for (capacity = NODE_BYTES_MIN; capacity < bytes; capacity *= 2)
		;
	buffer = malloc(capacity);
	if (buffer == NULL) {
		stream_return_node(stream, work);
		*ret_error = -ENOMEM;
		return NULL;
	}
	free(work->buffer);
	work->buffer = buffer;
	work->capacity = capacity;
	return work;
}

static void stream_submit(struct dsr_stream *stream, struct work *work)
{
	work->next = NULL;
	work->has_signal = false;
	(void)pthread_mutex_lock(&stream->lock);
	work->seq = ++stream->enqueued;
	if (stream->tail != NULL)
		stream->tail->next = work;
	else
		stream->head = work;
	stream->tail = work;
	stream->newest = work;
	(void)pthread_cond_signal(&stream->has_work);
	(void)pthread_mutex_unlock(&stream->lock);
}

int dsr_stream_copy(struct dsr_stream *stream, const struct dsr_copy *copies, uint32_t count)
{
	struct work *work;
	int r = 0;

	for (uint32_t i = 0; i < count; i++)
		if (copies[i].dst == NULL || copies[i].src == NULL)
			return -EINVAL;
	if (count == 0)
		return 0;
	work = stream_take_node(stream, count * sizeof(*copies), &r);
	if (work == NULL)
		return r;
	work->kind = WORK_COPY;
	work->count = count;
	work->copies = work->buffer;
	memcpy(work->copies, copies, count * sizeof(*copies));
	stream_submit(stream, work);
	return 0;
}

/* All that gather and scatter tell. */
struct move {
	enum work_kind kind;
	uint32_t count;
	const struct dsr_kv_layout *layout;
	const uint32_t *ids;
	const uint64_t *seeds;
	uint8_t *staging;
	uint64_t *digests;
};

static int stream_move(struct dsr_stream *stream, const struct move *move)
{
	struct work *work;
	int r = 0;

	if (move->count == 0)
		return 0;
	if (move->layout == NULL || move->ids == NULL || move->seeds == NULL ||
	    move->staging == NULL || move->digests == NULL)
		return -EINVAL;
	for (uint32_t i = 0; i < move->count; i++)
		if (move->ids[i] >= move->layout->blocks)
			return -EINVAL;
	work = stream_take_node(stream, move->count * (sizeof(*work->seeds) + sizeof(*work->ids)),
	                        &r);
	if (work == NULL)
		return r;
	work->kind = move->kind;
	work->count = move->count;
	work->layout = move->layout;
	work->staging = move->staging;
	work->digests = move->digests;
	work->seeds = work->buffer; /* first: the larger alignment */
	work->ids = (uint32_t *)(work->seeds + move->count);
	memcpy(work->seeds, move->seeds, move->count * sizeof(*work->seeds));
	memcpy(work->ids, move->ids, move->count * sizeof(*work->ids));
	stream_submit(stream, work);
	return 0;
}

int dsr_stream_gather(struct dsr_stream *stream, const struct dsr_kv_layout *layout,
                      const uint32_t *ids, const uint64_t *seeds, uint32_t count, uint8_t *staging,
                      uint64_t *digests)
{
	const struct move move = {WORK_GATHER, count, layout, ids, seeds, staging, digests};

	return stream_move(stream, &move);
}

int dsr_stream_scatter(struct dsr_stream *stream, const struct dsr_kv_layout *layout,
                       const uint32_t *ids, const uint64_t *seeds, uint32_t count,
                       const uint8_t *staging, uint64_t *digests)
{
	/* Through the address: a node serves both ways, and a scatter does not write there. */
	const struct move move = {
		WORK_SCATTER, count, layout, ids, seeds, (uint8_t *)(uintptr_t)staging, digests};

	return stream_move(stream, &move);
}

/* Takes no node: it marks the newest one, so recording never fails for a full queue. */
int dsr_stream_record(struct dsr_stream *stream, struct dsr_event *ret_event)
{
	bool is_done;

	(void)pthread_mutex_lock(&stream->lock);
	*ret_event = (struct dsr_event){.stream = stream, .seq = stream->enqueued};
	is_done = stream->newest == NULL;
	if (!is_done)
		stream->newest->has_signal = true;
	(void)pthread_mutex_unlock(&stream->lock);
	if (is_done)
		dsr_device_signal(stream->device);
	return 0;
}

int dsr_stream_wait(struct dsr_stream *stream, struct dsr_event event)
{
	struct work *work;
	bool is_known;
	int r = 0;

	if (event.stream == NULL || event.stream == stream)
		return 0; /* a stream is in order with itself */
	(void)pthread_mutex_lock(&event.stream->lock);
	is_known = event.seq <= event.stream->enqueued;
	(void)pthread_mutex_unlock(&event.stream->lock);
	if (!is_known)
		return -EINVAL;
	if (dsr_event_done(event) && dsr_event_error(event) == 0)
		return 0;
	work = stream_take_node(stream, 0, &r);
	if (work == NULL)
		return r;
	work->kind = WORK_WAIT;
	work->count = 0;
	work->event = (struct dsr_event){stream_get(event.stream), event.seq};
	stream_submit(stream, work);
	return 0;
}

bool dsr_event_done(struct dsr_event event)
{
	/* Partner: the release store in stream_finish. */
	return event.stream == NULL ||
	       atomic_load_explicit(&event.stream->done, memory_order_acquire) >= event.seq;
}

int dsr_event_error(struct dsr_event event)
{
	uint64_t seq;

	if (event.stream == NULL)
		return 0;
	/* Partner: the release store in stream_note_error. */
	seq = atomic_load_explicit(&event.stream->error_seq, memory_order_acquire);
	return seq != 0 && seq <= event.seq ? event.stream->error : 0;
}

int dsr_event_wait(struct dsr_event event, uint64_t deadline_ns)
{
	const struct timespec deadline = {
		.tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000)),
		.tv_nsec = (long)(deadline_ns % UINT64_C(1000000000)),
	};

	if (dsr_event_done(event))
		return 0;
	return stream_await(event.stream, event.seq, &deadline) ? 0 : -ETIMEDOUT;
}

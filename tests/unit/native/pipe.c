/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"

#define WAIT_MS 20000 /* ends a test that hangs; nothing waits so long */
#define SECOND_NS UINT64_C(1000000000)

/* ---- events that do not end ---- */

bool __real_dsr_event_done(struct dsr_event event);
bool __wrap_dsr_event_done(struct dsr_event event);

static const struct dsr_stream *_Atomic held_stream;

bool __wrap_dsr_event_done(struct dsr_event event)
{
	if (event.stream != NULL && event.stream == atomic_load(&held_stream))
		return false;
	return __real_dsr_event_done(event);
}

void pipe_hold(struct pipe *pipe, bool is_held)
{
	atomic_store(&held_stream, is_held ? pipe->stream : NULL);
}

/* ---- ports ---- */

static int port_load(void *self, const struct dsr_msg_load *msg, uint64_t cookie)
{
	struct pipe *pipe = self;
	struct pipe_sent *sent = &pipe->loads_sent[pipe->load_count];

	if (pipe->send_error < 0)
		return pipe->send_error;
	assert_true(pipe->load_count < PIPE_SENT_MAX && msg->refs.n <= PIPE_SLOTS);
	*sent = (struct pipe_sent){.buffer = msg->buffer,
	                           .segment_blocks = msg->segment_blocks,
	                           .count = msg->refs.n,
	                           .cookie = cookie,
	                           .lend = msg->lend};
	memcpy(sent->refs, msg->refs.v, msg->refs.n * sizeof(*msg->refs.v));
	pipe->load_count++;
	return 0;
}

static int port_check(void *self, const struct dsr_ref *ref, uint64_t digest)
{
	struct pipe *pipe = self;

	if (pipe->l1_seqs[ref->slot] != ref->slot_seq)
		return -ESTALE;
	return pipe->l1_digests[ref->slot] == digest ? 0 : -EBADMSG;
}

static void port_mismatch(void *self, const struct dsr_ref *refs, uint32_t count)
{
	struct pipe *pipe = self;

	(void)refs;
	pipe->mismatches += count;
}

static void port_load_ended(void *self, struct dsr_load *load)
{
	struct pipe *pipe = self;

	assert_true(pipe->ended_load_count < PIPE_SENT_MAX);
	pipe->ended_loads[pipe->ended_load_count++] = load;
}

static int port_store(void *self, const struct dsr_msg_store *msg, uint64_t cookie)
{
	struct pipe *pipe = self;
	struct pipe_sent *sent = &pipe->stores_sent[pipe->store_count];

	if (pipe->send_error < 0)
		return pipe->send_error;
	assert_true(pipe->store_count < PIPE_SENT_MAX && msg->refs.n <= PIPE_SLOTS);
	assert_int_equal(msg->digests.n, msg->refs.n);
	*sent = (struct pipe_sent){.buffer = msg->buffer,
	                           .count = msg->refs.n,
	                           .cookie = cookie,
	                           .lend = msg->lend,
	                           .reservation = msg->reservation};
	memcpy(sent->refs, msg->refs.v, msg->refs.n * sizeof(*msg->refs.v));
	memcpy(sent->digests, msg->digests.v, msg->digests.n * sizeof(*msg->digests.v));
	pipe->store_count++;
	return 0;
}

static int port_drop(void *self, const struct dsr_msg_drop *msg, uint64_t cookie)
{
	struct pipe *pipe = self;
	struct pipe_sent *sent = &pipe->drops_sent[pipe->drop_count];

	if (pipe->send_error < 0)
		return pipe->send_error;
	assert_true(pipe->drop_count < PIPE_SENT_MAX);
	*sent = (struct pipe_sent){.count = msg->refs.n,
	                           .cookie = cookie,
	                           .reservation = msg->reservation,
	                           .reason = msg->reason};
	pipe->drop_count++;
	return 0;
}

static void port_store_ended(void *self, struct dsr_store *store)
{
	struct pipe *pipe = self;

	assert_true(pipe->ended_store_count < PIPE_SENT_MAX);
	pipe->ended_stores[pipe->ended_store_count++] = store;
}

static void port_released(void *self)
{
	struct pipe *pipe = self;

	pipe->releases++;
}

static uint64_t port_now_ns(void *self)
{
	struct pipe *pipe = self;

	return ++pipe->now_ns; /* time passes between any two looks */
}

static const struct dsr_load_port load_port = {
	.load = port_load,
	.check = port_check,
	.mismatch = port_mismatch,
	.ended = port_load_ended,
	.now_ns = port_now_ns,
};

static const struct dsr_store_port store_port = {
	.store = port_store,
	.drop = port_drop,
	.ended = port_store_ended,
	.released = port_released,
	.now_ns = port_now_ns,
};

/* ---- fixtures ---- */

/* Two pieces: runs with gaps, and an odd tail somewhere else. */
static struct pipe *open_pipe(void)
{
	struct pipe *pipe = calloc(1, sizeof(*pipe));
	struct dsr_piece pieces[2];
	char why[256];

	assert_non_null(pipe);
	pipe->kv = calloc(PIPE_BLOCKS, PIPE_RUNS * (PIPE_RUN_BYTES + 16) + 64);
	pipe->staging = calloc(PIPE_BUFFERS, PIPE_BUFFER_BYTES);
	assert_non_null(pipe->kv);
	assert_non_null(pipe->staging);
	pieces[0] = (struct dsr_piece){.base = pipe->kv,
	                               .block_stride = PIPE_RUN_BYTES + 16,
	                               .bytes = PIPE_RUN_BYTES,
	                               .stride = (PIPE_RUN_BYTES + 16) * PIPE_BLOCKS,
	                               .count = PIPE_RUNS};
	pieces[1] = (struct dsr_piece){.base = pipe->kv + (size_t)PIPE_BLOCKS * PIPE_RUNS *
	                                                          (PIPE_RUN_BYTES + 16),
	                               .block_stride = 64,
	                               .bytes = 5,
	                               .stride = 5,
	                               .count = 1};
	assert_int_equal(
		dsr_kv_layout_init(&pipe->layout, pieces, 2, PIPE_BLOCKS, why, sizeof(why)), 0);
	assert_int_equal(pipe->layout.payload_bytes, PIPE_PAYLOAD);
	assert_int_equal(dsr_device_open("host:0", &pipe->device), 0);
	assert_int_equal(dsr_stream_open(pipe->device, &pipe->stream), 0);
	pipe->now_ns = SECOND_NS;
	for (uint32_t i = 0; i < PIPE_SLOTS; i++)
		pipe->l1_seqs[i] = 1000 + i;
	return pipe;
}

static int open_loads(void **state, uint32_t buffers)
{
	struct pipe *pipe = open_pipe();
	const struct dsr_load_options options = {
		.stream = pipe->stream,
		.layout = &pipe->layout,
		.staging = pipe->staging,
		.buffer_bytes = PIPE_BUFFER_BYTES,
		.buffers = buffers,
		.port = &load_port,
		.self = pipe,
	};

	assert_int_equal(dsr_load_pipeline_init(&pipe->loads, &options), 0);
	dsr_load_pipeline_attach(&pipe->loads);
	*state = pipe;
	return 0;
}

int pipe_open_loads(void **state)
{
	return open_loads(state, PIPE_BUFFERS);
}

int pipe_open_loads_one(void **state)
{
	return open_loads(state, 1);
}

static int open_stores(void **state, uint32_t buffers)
{
	struct pipe *pipe = open_pipe();
	const struct dsr_store_options options = {
		.stream = pipe->stream,
		.layout = &pipe->layout,
		.staging = pipe->staging,
		.buffer_bytes = PIPE_BUFFER_BYTES,
		.buffers = buffers,
		.queue_blocks = 32,
		.port = &store_port,
		.self = pipe,
	};

	assert_int_equal(dsr_store_pipeline_init(&pipe->stores, &options), 0);
	dsr_store_pipeline_attach(&pipe->stores);
	*state = pipe;
	return 0;
}

int pipe_open_stores(void **state)
{
	return open_stores(state, PIPE_BUFFERS);
}

int pipe_open_stores_one(void **state)
{
	return open_stores(state, 1);
}

int pipe_close(void **state)
{
	struct pipe *pipe = *state;

	pipe_hold(pipe, false);
	dsr_stream_close(&pipe->stream);
	for (uint32_t i = 0; i < pipe->ended_load_count; i++)
		dsr_load_free(&pipe->ended_loads[i]);
	for (uint32_t i = 0; i < pipe->ended_store_count; i++)
		dsr_store_free(&pipe->ended_stores[i]);
	dsr_load_pipeline_done(&pipe->loads);
	dsr_store_pipeline_done(&pipe->stores);
	dsr_device_close(&pipe->device);
	dsr_kv_layout_done(&pipe->layout);
	free(pipe->kv);
	free(pipe->staging);
	free(pipe);
	return 0;
}

/* ---- content ---- */

static struct dsr_key key_of(const char *name, uint32_t block)
{
	struct dsr_key key;
	uint64_t x = dsr_digest_of(name, strlen(name), block);

	for (uint32_t i = 0; i < DSR_KEY_BYTES; i++)
		key.b[i] = (uint8_t)(x >> (8 * (i % 8)));
	return key;
}

static void make_payload(const char *name, uint32_t block, uint8_t *ret_payload)
{
	uint64_t x = dsr_digest_of(name, strlen(name), 7000 + block);

	for (uint32_t i = 0; i < PIPE_PAYLOAD; i++) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		ret_payload[i] = (uint8_t)(x >> 56);
	}
}

/* Copies a payload between a block of the KV cache and plain memory, the slow way. */
static void kv_move(const struct pipe *pipe, uint32_t id, uint8_t *payload, bool is_read)
{
	for (uint32_t p = 0; p < pipe->layout.piece_count; p++) {
		const struct dsr_piece *piece = &pipe->layout.pieces[p];

		for (uint64_t i = 0; i < piece->count; i++) {
			uint8_t *kv = piece->base + id * piece->block_stride + i * piece->stride;

			memcpy(is_read ? payload : kv, is_read ? kv : payload, piece->bytes);
			payload += piece->bytes;
		}
	}
}

void pipe_fill_slot(struct pipe *pipe, uint32_t slot, const char *name, uint32_t block)
{
	struct dsr_key key = key_of(name, block);

	make_payload(name, block, pipe->l1[slot]);
	pipe->l1_digests[slot] =
		dsr_digest_of(pipe->l1[slot], PIPE_PAYLOAD, dsr_digest_seed(&key, PIPE_LANE));
}

void pipe_fill_kv(struct pipe *pipe, uint32_t id, const char *name, uint32_t block)
{
	uint8_t payload[PIPE_PAYLOAD];

	make_payload(name, block, payload);
	kv_move(pipe, id, payload, false);
}

bool pipe_kv_holds(const struct pipe *pipe, uint32_t id, const char *name, uint32_t block)
{
	uint8_t payload[PIPE_PAYLOAD], expected[PIPE_PAYLOAD];

	kv_move(pipe, id, payload, true);
	make_payload(name, block, expected);
	return memcmp(payload, expected, sizeof(payload)) == 0;
}

bool pipe_slot_holds(const struct pipe *pipe, uint32_t slot, const char *name, uint32_t block)
{
	uint8_t expected[PIPE_PAYLOAD];

	make_payload(name, block, expected);
	return memcmp(pipe->l1[slot], expected, sizeof(expected)) == 0;
}

struct dsr_ref pipe_ref(const struct pipe *pipe, uint32_t slot)
{
	return (struct dsr_ref){
		.generation = 1, .slot_seq = pipe->l1_seqs[slot], .entry = slot, .slot = slot};
}

/* ---- jobs ---- */

/* A job as the metadata has it: keys, refs and ids packed. */
struct packed {
	uint8_t keys[PIPE_SLOTS * 32], refs[PIPE_SLOTS * 24], ids[PIPE_SLOTS * 4];
};

static void put_le(uint8_t *p, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> (8 * i));
}

static struct dsr_meta_job pack_job(const struct pipe *pipe, struct packed *packed,
                                    const char *name, uint32_t count, uint32_t id, uint32_t slot)
{
	struct dsr_key key;
	struct dsr_ref ref;

	assert_true(count <= PIPE_SLOTS);
	for (uint32_t i = 0; i < count; i++) {
		key = key_of(name, i);
		ref = pipe_ref(pipe, slot + i);
		memcpy(packed->keys + (size_t)i * 32, key.b, 32);
		put_le(packed->refs + (size_t)i * 24, ref.generation, 8);
		put_le(packed->refs + (size_t)i * 24 + 8, ref.slot_seq, 8);
		put_le(packed->refs + (size_t)i * 24 + 16, ref.entry, 4);
		put_le(packed->refs + (size_t)i * 24 + 20, ref.slot, 4);
		put_le(packed->ids + (size_t)i * 4, id + i, 4);
	}
	return (struct dsr_meta_job){.request = {.p = name, .n = (uint32_t)strlen(name)},
	                             .id = 100 + id,
	                             .scheduler = 9,
	                             .keys = packed->keys,
	                             .refs = packed->refs,
	                             .ids = packed->ids,
	                             .count = count};
}

struct dsr_load *pipe_bind_load(struct pipe *pipe, const char *name, uint32_t count, uint32_t id,
                                uint32_t slot)
{
	struct packed packed;
	struct dsr_meta_job job = pack_job(pipe, &packed, name, count, id, slot);
	struct dsr_load *load;

	for (uint32_t i = 0; i < count; i++)
		pipe_fill_slot(pipe, slot + i, name, i);
	assert_int_equal(dsr_load_new(&job, 5, PIPE_LANE, &load), 0);
	dsr_load_pipeline_bind(&pipe->loads, load);
	return load;
}

struct dsr_store *pipe_bind_store(struct pipe *pipe, const char *name, uint32_t count, uint32_t id,
                                  uint32_t slot)
{
	struct packed packed;
	struct dsr_meta_job job = pack_job(pipe, &packed, name, count, id, slot);
	struct dsr_store *store;

	for (uint32_t i = 0; i < count; i++)
		pipe_fill_kv(pipe, id + i, name, i);
	assert_int_equal(dsr_store_new(&job, 5, PIPE_LANE, &store), 0);
	dsr_store_pipeline_bind(&pipe->stores, store);
	return store;
}

void pipe_start(struct pipe *pipe)
{
	dsr_load_pipeline_start(&pipe->loads, (struct dsr_event){0}, pipe->now_ns + SECOND_NS);
	dsr_load_pipeline_pump(&pipe->loads);
}

void pipe_submit(struct pipe *pipe)
{
	dsr_store_pipeline_submit(&pipe->stores, (struct dsr_event){0});
	dsr_store_pipeline_pump(&pipe->stores);
}

static void pump(struct pipe *pipe)
{
	if (pipe->loads.options.stream != NULL)
		dsr_load_pipeline_pump(&pipe->loads);
	else
		dsr_store_pipeline_pump(&pipe->stores);
}

void pipe_settle(struct pipe *pipe)
{
	struct pollfd pollfd = {.fd = dsr_device_fd(pipe->device), .events = POLLIN};
	struct dsr_event event;

	do {
		assert_int_equal(dsr_stream_record(pipe->stream, &event), 0);
		while (!__real_dsr_event_done(event)) {
			assert_int_equal(poll(&pollfd, 1, WAIT_MS), 1);
			dsr_device_ack(pipe->device);
		}
		pump(pipe);
		assert_int_equal(dsr_stream_record(pipe->stream, &event), 0);
	} while (!__real_dsr_event_done(event));
}

/* ---- the actor ---- */

void pipe_segment(struct pipe *pipe, const struct pipe_sent *load, uint32_t first, uint32_t count)
{
	const int32_t errs[PIPE_SLOTS] = {0};
	const struct dsr_msg_segment msg = {.buffer = load->buffer,
	                                    .lend = load->lend,
	                                    .first = first,
	                                    .errs = {.v = errs, .n = count}};

	for (uint32_t i = first; i < first + count; i++)
		memcpy(pipe->staging + load->buffer * PIPE_BUFFER_BYTES + i * PIPE_PAYLOAD,
		       pipe->l1[load->refs[i].slot], PIPE_PAYLOAD);
	dsr_load_pipeline_on_segment(&pipe->loads, &msg);
}

void pipe_segment_err(struct pipe *pipe, const struct pipe_sent *load, uint32_t first, int err)
{
	const int32_t errs[] = {err};
	const struct dsr_msg_segment msg = {.buffer = load->buffer,
	                                    .lend = load->lend,
	                                    .first = first,
	                                    .errs = {.v = errs, .n = 1}};

	dsr_load_pipeline_on_segment(&pipe->loads, &msg);
}

void pipe_load_reply(struct pipe *pipe, const struct pipe_sent *load, int err)
{
	const struct dsr_msg_load_reply reply = {.err = err,
	                                         .lend = load->lend,
	                                         .copies = err == 0 ? load->count : 0,
	                                         .runs = err == 0 ? 1 : 0,
	                                         .wait_ns = 10,
	                                         .copy_ns = 20};

	dsr_load_pipeline_on_reply(&pipe->loads, load->cookie, &reply);
	dsr_load_pipeline_pump(&pipe->loads);
}

void pipe_serve_load(struct pipe *pipe, const struct pipe_sent *load)
{
	const struct pipe_sent sent = *load; /* a later LOAD may take its place */

	for (uint32_t i = 0; i < sent.count; i += sent.segment_blocks)
		pipe_segment(pipe, &sent, i,
		             sent.count - i < sent.segment_blocks ? sent.count - i
		                                                  : sent.segment_blocks);
	pipe_load_reply(pipe, &sent, 0);
}

void pipe_store_reply(struct pipe *pipe, const struct pipe_sent *store, int err,
                      const int32_t *errs)
{
	const struct dsr_msg_store_reply reply = {
		.err = err,
		.lend = store->lend,
		.errs = {.v = errs, .n = errs == NULL ? 0 : store->count},
		.runs = 1,
		.wait_ns = 10,
		.copy_ns = 20};

	dsr_store_pipeline_on_reply(&pipe->stores, store->cookie, &reply);
	dsr_store_pipeline_pump(&pipe->stores);
}

void pipe_serve_store(struct pipe *pipe, const struct pipe_sent *store)
{
	const int32_t errs[PIPE_SLOTS] = {0};
	const struct pipe_sent sent = *store;

	for (uint32_t i = 0; i < sent.count; i++) {
		memcpy(pipe->l1[sent.refs[i].slot],
		       pipe->staging + sent.buffer * PIPE_BUFFER_BYTES + i * PIPE_PAYLOAD,
		       PIPE_PAYLOAD);
		pipe->l1_digests[sent.refs[i].slot] = sent.digests[i];
	}
	pipe_store_reply(pipe, &sent, 0, errs);
}

void pipe_drop_reply(struct pipe *pipe, const struct pipe_sent *drop, int err)
{
	dsr_store_pipeline_on_dropped(&pipe->stores, drop->cookie, err);
}

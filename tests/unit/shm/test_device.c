/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "digest.h"
#include "shm_test.h"

#define DEADLINE_NS UINT64_C(20000000000)

struct fixture {
	struct dsr_device *device;
	struct dsr_stream *stream;
	char why[256];
};

static int set_up(void **state)
{
	struct fixture *f = test_calloc(1, sizeof(*f));

	*state = f;
	assert_int_equal(dsr_device_open("host:0", &f->device), 0);
	assert_int_equal(dsr_stream_open(f->device, &f->stream), 0);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	dsr_stream_close(&f->stream);
	assert_null(f->stream);
	dsr_stream_close(&f->stream);
	dsr_stream_close(NULL);
	dsr_device_close(&f->device);
	assert_null(f->device);
	dsr_device_close(&f->device);
	dsr_device_close(NULL);
	test_free(f);
	return 0;
}

/* Waits for all that was enqueued. */
static void finish(struct dsr_stream *stream)
{
	struct dsr_event event;

	assert_int_equal(dsr_stream_record(stream, &event), 0);
	assert_int_equal(dsr_event_wait(event, test_now_ns() + DEADLINE_NS), 0);
	assert_true(dsr_event_done(event));
	assert_int_equal(dsr_event_error(event), 0);
}

static bool is_readable(struct dsr_device *device, int timeout_ms)
{
	struct pollfd fd = {.fd = dsr_device_fd(device), .events = POLLIN};

	return poll(&fd, 1, timeout_ms) == 1;
}

static void layout_sums_the_payload_and_joins_runs_that_touch(void **state)
{
	struct fixture *f = *state;
	uint8_t base[1];
	const struct dsr_piece pieces[] = {
		{.base = base, .block_stride = 4096, .bytes = 100, .stride = 100, .count = 5},
		{.base = base, .block_stride = 4096, .bytes = 100, .stride = 101, .count = 5},
		{.base = base, .block_stride = 4096, .bytes = 7, .stride = 0, .count = 1},
	};
	struct dsr_kv_layout layout;

	assert_int_equal(dsr_kv_layout_init(&layout, pieces, 3, 10, f->why, sizeof(f->why)), 0);
	assert_int_equal(layout.payload_bytes, 1007);
	assert_int_equal(layout.blocks, 10);
	assert_int_equal(layout.piece_count, 3);
	assert_int_equal(layout.pieces[0].count, 1);
	assert_int_equal(layout.pieces[0].bytes, 500);
	assert_int_equal(layout.pieces[1].count, 5);
	dsr_kv_layout_done(&layout);
	assert_null(layout.pieces);
	dsr_kv_layout_done(&layout);
	dsr_kv_layout_done(NULL);
}

static void layout_refuses_pieces_that_are_not_sound(void **state)
{
	static uint8_t base[1];
	static const struct {
		struct dsr_piece piece;
		const char *text;
	} bad[] = {
		{{.base = NULL, .block_stride = 8, .bytes = 8, .stride = 8, .count = 1}, "base"},
		{{.base = base, .block_stride = 8, .bytes = 0, .stride = 8, .count = 1}, "bytes 0"},
		{{.base = base, .block_stride = 8, .bytes = 8, .stride = 8, .count = 0}, "count 0"},
		{{.base = base, .block_stride = 8, .bytes = 8, .stride = 7, .count = 2},
	         "stride 7"},
		{{.base = base, .block_stride = 7, .bytes = 8, .stride = 8, .count = 1},
	         "block_stride 7"},
		{{.base = base,
	          .block_stride = UINT64_MAX / 9,
	          .bytes = 8,
	          .stride = 8,
	          .count = 1},
	         "address space"},
		{{.base = base,
	          .block_stride = 8,
	          .bytes = 8,
	          .stride = UINT64_MAX / 2,
	          .count = 3},
	         "address space"},
		{{.base = base,
	          .block_stride = UINT64_MAX / 16,
	          .bytes = UINT64_MAX / 16,
	          .stride = UINT64_MAX / 16,
	          .count = 17},
	         "address space"},
	};
	struct fixture *f = *state;
	struct dsr_kv_layout layout = {.blocks = 77};

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		assert_int_equal(
			dsr_kv_layout_init(&layout, &bad[i].piece, 1, 10, f->why, sizeof(f->why)),
			-EINVAL);
		if (strstr(f->why, bad[i].text) == NULL)
			fail_msg("`%s` does not say `%s`", f->why, bad[i].text);
		assert_non_null(strstr(f->why, "expected"));
	}
	assert_int_equal(dsr_kv_layout_init(&layout, NULL, 1, 10, NULL, 0), -EINVAL);
	assert_int_equal(dsr_kv_layout_init(&layout, &bad[0].piece, 0, 10, NULL, 0), -EINVAL);
	assert_int_equal(dsr_kv_layout_init(&layout, &bad[0].piece, 1, 0, f->why, sizeof(f->why)),
	                 -EINVAL);
	assert_non_null(strstr(f->why, "of 0 blocks"));
	assert_int_equal(layout.blocks, 77);
}

static void a_stream_with_no_work_is_done(void **state)
{
	struct fixture *f = *state;
	const struct dsr_event none = {0};
	struct dsr_event event;

	assert_false(is_readable(f->device, 0));
	assert_int_equal(dsr_stream_record(f->stream, &event), 0);
	assert_true(dsr_event_done(event));
	assert_int_equal(dsr_event_wait(event, 0), 0);
	assert_true(is_readable(f->device, 0));
	dsr_device_ack(f->device);
	assert_false(is_readable(f->device, 0));
	dsr_device_ack(f->device);
	assert_true(dsr_event_done(none));
	assert_int_equal(dsr_event_wait(none, 0), 0);
	assert_int_equal(dsr_event_error(none), 0);
}

static void copies_arrive_and_wake_the_poller(void **state)
{
	struct fixture *f = *state;
	uint8_t from[3][1000], to[3][1000] = {{0}};
	const struct dsr_copy copies[] = {
		{to[2], from[0], 1000}, {to[1], from[1], 1}, {to[0], from[2], 0}};
	struct dsr_event event;

	for (int i = 0; i < 3; i++)
		memset(from[i], i + 1, sizeof(from[i]));
	for (int round = 0; round < 100; round++) {
		memset(to, 0, sizeof(to));
		assert_int_equal(dsr_stream_copy(f->stream, copies, 3), 0);
		assert_int_equal(dsr_stream_record(f->stream, &event), 0);
		while (!dsr_event_done(event)) {
			assert_true(is_readable(f->device, 20000));
			dsr_device_ack(f->device);
		}
		assert_memory_equal(to[2], from[0], 1000);
		assert_int_equal(to[1][0], 2);
		assert_int_equal(to[1][1], 0);
		assert_int_equal(to[0][0], 0);
	}
}

static void nothing_to_do_takes_no_place(void **state)
{
	struct fixture *f = *state;
	struct dsr_event event;

	for (int i = 0; i < 5000; i++) {
		assert_int_equal(dsr_stream_copy(f->stream, NULL, 0), 0);
		assert_int_equal(dsr_stream_gather(f->stream, NULL, NULL, NULL, 0, NULL, NULL), 0);
	}
	assert_int_equal(dsr_stream_record(f->stream, &event), 0);
	assert_int_equal(event.seq, 0);
}

#define BLOCKS 13

struct cache {
	uint8_t *memory; /* owned */
	size_t bytes;
	struct dsr_piece pieces[8];
	uint32_t piece_count;
	struct dsr_kv_layout layout;
};

/* One tensor after the other; in each, blocks lie inside runs or runs inside blocks. */
static void cache_make(struct cache *cache, uint64_t *random)
{
	size_t at = 0;

	cache->piece_count = (uint32_t)(test_random(random) % COUNT_OF(cache->pieces)) + 1;
	cache->bytes = 1 << 20;
	cache->memory = test_malloc(cache->bytes);
	test_random_bytes(random, cache->memory, cache->bytes);
	for (uint32_t i = 0; i < cache->piece_count; i++) {
		struct dsr_piece *piece = &cache->pieces[i];
		uint64_t gap = test_random(random) % 2 * (test_random(random) % 20);

		piece->base = cache->memory + at;
		piece->bytes = test_random(random) % 200 + 1;
		piece->count = test_random(random) % 6 + 1;
		if (test_random(random) % 2 == 0) {
			piece->stride = piece->bytes + gap;
			piece->block_stride = piece->stride * piece->count;
			at += piece->block_stride * BLOCKS;
		} else {
			piece->block_stride = piece->bytes + gap;
			piece->stride = piece->block_stride * BLOCKS;
			at += piece->stride * piece->count;
		}
	}
	assert_true(at <= cache->bytes);
	assert_int_equal(dsr_kv_layout_init(&cache->layout, cache->pieces, cache->piece_count,
	                                    BLOCKS, NULL, 0),
	                 0);
}

static void cache_free(struct cache *cache)
{
	dsr_kv_layout_done(&cache->layout);
	test_free(cache->memory);
}

/* Byte `at` of block `id`'s payload. */
static uint8_t *cache_byte(struct cache *cache, uint32_t id, uint64_t at)
{
	for (uint32_t i = 0; i < cache->piece_count; i++) {
		struct dsr_piece *piece = &cache->pieces[i];

		if (at < piece->bytes * piece->count)
			return piece->base + id * piece->block_stride +
			       at / piece->bytes * piece->stride + at % piece->bytes;
		at -= piece->bytes * piece->count;
	}
	fail_msg("byte %llu is not in the payload", (unsigned long long)at);
	return NULL;
}

static void gather_takes_the_pieces_in_order_with_their_digests(void **state)
{
	struct fixture *f = *state;
	uint64_t random = 11;

	for (int round = 0; round < 60; round++) {
		uint32_t ids[BLOCKS];
		uint64_t seeds[BLOCKS], digests[BLOCKS], payload;
		struct cache cache;
		uint8_t *staging;

		cache_make(&cache, &random);
		payload = cache.layout.payload_bytes;
		staging = test_malloc(payload * BLOCKS + 1);
		staging[payload * BLOCKS] = 0x99;
		for (uint32_t i = 0; i < BLOCKS; i++) {
			ids[i] = (uint32_t)test_random(&random) % BLOCKS;
			seeds[i] = test_random(&random);
		}
		assert_int_equal(dsr_stream_gather(f->stream, &cache.layout, ids, seeds, BLOCKS,
		                                   staging, digests),
		                 0);
		finish(f->stream);
		for (uint32_t i = 0; i < BLOCKS; i++) {
			for (uint64_t at = 0; at < payload; at++)
				assert_int_equal(staging[i * payload + at],
				                 *cache_byte(&cache, ids[i], at));
			assert_int_equal(digests[i],
			                 dsr_digest_of(staging + i * payload, payload, seeds[i]));
		}
		assert_int_equal(staging[payload * BLOCKS], 0x99);
		test_free(staging);
		cache_free(&cache);
	}
}

static void scatter_writes_its_blocks_and_nothing_else(void **state)
{
	struct fixture *f = *state;
	uint64_t random = 12;

	for (int round = 0; round < 60; round++) {
		const uint32_t ids[] = {12, 0, 7, 5};
		uint64_t seeds[4], digests[4], payload;
		uint8_t *staging, *expected;
		struct cache cache;

		cache_make(&cache, &random);
		payload = cache.layout.payload_bytes;
		staging = test_malloc(payload * 4);
		expected = test_malloc(cache.bytes);
		test_random_bytes(&random, staging, payload * 4);
		test_random_bytes(&random, seeds, sizeof(seeds));
		memcpy(expected, cache.memory, cache.bytes);
		for (uint32_t i = 0; i < 4; i++)
			for (uint64_t at = 0; at < payload; at++)
				expected[cache_byte(&cache, ids[i], at) - cache.memory] =
					staging[i * payload + at];
		assert_int_equal(dsr_stream_scatter(f->stream, &cache.layout, ids, seeds, 4,
		                                    staging, digests),
		                 0);
		finish(f->stream);
		assert_memory_equal(cache.memory, expected, cache.bytes);
		for (uint32_t i = 0; i < 4; i++)
			assert_int_equal(digests[i],
			                 dsr_digest_of(staging + i * payload, payload, seeds[i]));
		test_free(expected);
		test_free(staging);
		cache_free(&cache);
	}
}

static void work_that_is_not_sound_is_refused_at_once(void **state)
{
	struct fixture *f = *state;
	uint8_t memory[64] = {0}, staging[64];
	const struct dsr_piece piece = {memory, 8, 8, 8, 1};
	const uint32_t good[] = {0, 7}, bad[] = {0, 8}, worse[] = {UINT32_MAX, 0};
	const struct dsr_copy no_dst = {NULL, memory, 8}, no_src = {memory, NULL, 8};
	uint64_t seeds[2] = {0}, digests[2];
	struct dsr_kv_layout layout;
	struct dsr_event event;

	assert_int_equal(dsr_kv_layout_init(&layout, &piece, 1, 8, NULL, 0), 0);
	assert_int_equal(dsr_stream_gather(f->stream, &layout, bad, seeds, 2, staging, digests),
	                 -EINVAL);
	assert_int_equal(dsr_stream_scatter(f->stream, &layout, worse, seeds, 2, staging, digests),
	                 -EINVAL);
	assert_int_equal(dsr_stream_gather(f->stream, NULL, good, seeds, 2, staging, digests),
	                 -EINVAL);
	assert_int_equal(dsr_stream_gather(f->stream, &layout, NULL, seeds, 2, staging, digests),
	                 -EINVAL);
	assert_int_equal(dsr_stream_gather(f->stream, &layout, good, NULL, 2, staging, digests),
	                 -EINVAL);
	assert_int_equal(dsr_stream_gather(f->stream, &layout, good, seeds, 2, NULL, digests),
	                 -EINVAL);
	assert_int_equal(dsr_stream_gather(f->stream, &layout, good, seeds, 2, staging, NULL),
	                 -EINVAL);
	assert_int_equal(dsr_stream_copy(f->stream, &no_dst, 1), -EINVAL);
	assert_int_equal(dsr_stream_copy(f->stream, &no_src, 1), -EINVAL);
	assert_int_equal(dsr_stream_record(f->stream, &event), 0);
	assert_int_equal(event.seq, 0);
	assert_int_equal(dsr_stream_gather(f->stream, &layout, good, seeds, 2, staging, digests),
	                 0);
	finish(f->stream);
	dsr_kv_layout_done(&layout);
}

static void a_wait_for_what_was_never_recorded_is_refused(void **state)
{
	struct fixture *f = *state;
	struct dsr_stream *other;
	struct dsr_event event;

	assert_int_equal(dsr_stream_open(f->device, &other), 0);
	event = (struct dsr_event){other, 1};
	assert_int_equal(dsr_stream_wait(f->stream, event), -EINVAL);
	assert_int_equal(dsr_stream_wait(f->stream, (struct dsr_event){other, 0}), 0);
	assert_int_equal(dsr_stream_wait(f->stream, (struct dsr_event){0}), 0);
	assert_int_equal(dsr_stream_wait(f->stream, (struct dsr_event){f->stream, 0}), 0);
	finish(f->stream);
	dsr_stream_close(&other);
}

#define RELAY_STREAMS 4
#define RELAY_ROUNDS 200
#define RELAY_BYTES 4096

/* Each stream copies from the one before it and waits for it: one missed order shows in the last
 * buffer, or to a thread sanitizer. */
static void streams_relay_bytes_in_the_order_of_their_events(void **state)
{
	struct fixture *f = *state;
	static uint8_t buffers[RELAY_STREAMS + 1][RELAY_BYTES];
	struct dsr_stream *streams[RELAY_STREAMS];
	struct dsr_event event, last = {0};

	for (int i = 0; i < RELAY_STREAMS; i++)
		assert_int_equal(dsr_stream_open(f->device, &streams[i]), 0);
	for (int round = 0; round < RELAY_ROUNDS; round++) {
		/* the buffers are free again when the last stream has passed on the round before */
		assert_int_equal(dsr_event_wait(last, test_now_ns() + DEADLINE_NS), 0);
		memset(buffers[0], round, RELAY_BYTES);
		event = (struct dsr_event){0};
		for (int i = 0; i < RELAY_STREAMS; i++) {
			const struct dsr_copy copy = {buffers[i + 1], buffers[i], RELAY_BYTES};

			assert_int_equal(dsr_stream_wait(streams[i], event), 0);
			assert_int_equal(dsr_stream_copy(streams[i], &copy, 1), 0);
			assert_int_equal(dsr_stream_record(streams[i], &event), 0);
		}
		last = event;
		assert_int_equal(dsr_event_wait(last, test_now_ns() + DEADLINE_NS), 0);
		assert_int_equal(buffers[RELAY_STREAMS][0], round % 256);
		assert_int_equal(buffers[RELAY_STREAMS][RELAY_BYTES - 1], round % 256);
	}
	for (int i = 0; i < RELAY_STREAMS; i++)
		dsr_stream_close(&streams[i]);
}

static void close_carries_out_what_is_queued(void **state)
{
	struct fixture *f = *state;
	static uint8_t from[1 << 16], to[200][1 << 16];
	struct dsr_stream *stream;

	memset(from, 3, sizeof(from));
	memset(to, 0, sizeof(to));
	assert_int_equal(dsr_stream_open(f->device, &stream), 0);
	for (size_t i = 0; i < COUNT_OF(to); i++) {
		const struct dsr_copy copy = {to[i], from, sizeof(from)};

		assert_int_equal(dsr_stream_copy(stream, &copy, 1), 0);
	}
	dsr_stream_close(&stream);
	for (size_t i = 0; i < COUNT_OF(to); i++)
		assert_memory_equal(to[i], from, sizeof(from));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(layout_sums_the_payload_and_joins_runs_that_touch),
		TEST(layout_refuses_pieces_that_are_not_sound),
		TEST(a_stream_with_no_work_is_done),
		TEST(copies_arrive_and_wake_the_poller),
		TEST(nothing_to_do_takes_no_place),
		TEST(gather_takes_the_pieces_in_order_with_their_digests),
		TEST(scatter_writes_its_blocks_and_nothing_else),
		TEST(work_that_is_not_sound_is_refused_at_once),
		TEST(a_wait_for_what_was_never_recorded_is_refused),
		TEST(streams_relay_bytes_in_the_order_of_their_events),
		TEST(close_carries_out_what_is_queued),
	};

	return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}

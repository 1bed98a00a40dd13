/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: where KV cache and staging lie, and the streams that move bytes there.
 *
 * A device is opened by name. "host:<n>" is host memory with a thread per stream, behaving as a GPU
 * does: work of a stream runs in order and asynchronously, completion is seen by events.
 * Streams and events belong to one thread; completion may be polled or waited for through
 * dsr_device_fd. Nothing here ever waits for the whole device.
 */
#ifndef DSR_SHM_DEVICE_H
#define DSR_SHM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dsr_device;
struct dsr_stream;

#define DSR_DEVICE_HANDLE_MAX 64

/* Pieces of a block: see struct daser_piece. */
struct dsr_piece {
	uint8_t *base;
	uint64_t block_stride;
	uint64_t bytes;
	uint64_t stride;
	uint64_t count;
};

/* A KV cache, checked: pieces copied in, payload summed. */
struct dsr_kv_layout {
	struct dsr_piece *pieces; /* owned */
	uint32_t piece_count;
	uint32_t blocks;
	uint64_t payload_bytes; /* of one block */
};

/* -EINVAL with ret_why: no pieces, zero sizes, overflow, runs that overlap (stride < bytes). */
int dsr_kv_layout_init(struct dsr_kv_layout *layout, const struct dsr_piece *pieces,
                       uint32_t piece_count, uint32_t blocks, char *ret_why, size_t why_bytes);
void dsr_kv_layout_done(struct dsr_kv_layout *layout);

/* name: "host:0". -EINVAL (not a device name), -ENODEV. */
int dsr_device_open(const char *name, struct dsr_device **ret_device);
/* All streams must be closed. */
void dsr_device_close(struct dsr_device **device);
/* Memory of the device, for staging plans: total and free bytes. */
int dsr_device_memory(struct dsr_device *device, uint64_t *ret_total, uint64_t *ret_free);
/* Readable when some stream of this device completed an event since the last dsr_device_ack. */
int dsr_device_fd(struct dsr_device *device);
void dsr_device_ack(struct dsr_device *device);

/* Staging memory. The exporter allocates; importers map it by handle bytes (CUDA) or by a
 * descriptor (host), whichever is set. */
struct dsr_device_memory {
	uint8_t *base; /* device address in this process */
	uint64_t bytes;
	int fd; /* owned: memfd of host memory, or -1 */
	bool imported;
};
int dsr_device_alloc(struct dsr_device *device, uint64_t bytes,
                     struct dsr_device_memory *ret_memory);
/* Handle bytes for a message (CUDA; *ret_bytes is 0 on the host device, whose fd travels by
 * broker). */
int dsr_device_export(struct dsr_device *device, const struct dsr_device_memory *memory,
                      uint8_t *ret_handle, size_t *ret_bytes);
/* fd is borrowed. -EINVAL when the object is smaller than `bytes` or not a sealed memfd. */
int dsr_device_import(struct dsr_device *device, const void *handle, size_t handle_bytes, int fd,
                      uint64_t bytes, struct dsr_device_memory *ret_memory);
/* Frees or unmaps. No work may be under way on it. */
void dsr_device_release(struct dsr_device *device, struct dsr_device_memory *memory);
/* Makes host memory (L1 pieces) fit for fast copies; the host device does nothing. */
int dsr_device_register_host(struct dsr_device *device, void *base, uint64_t bytes);
void dsr_device_unregister_host(struct dsr_device *device, void *base);

/* An event's completion is a number of its stream: plain value, freely copied. Not to be used after
 * its stream was closed. */
struct dsr_event {
	struct dsr_stream *stream; /* NULL: complete */
	uint64_t seq;
};

int dsr_stream_open(struct dsr_device *device, struct dsr_stream **ret_stream);
/* Waits for the work that is running; queued work is carried out first. */
void dsr_stream_close(struct dsr_stream **stream);

struct dsr_copy {
	void *dst;
	const void *src;
	uint64_t bytes;
};
/* All functions below enqueue and return; arrays are copied. -EAGAIN: the stream's queue is full.
 */
/* A batch of copies between staging and host memory. */
int dsr_stream_copy(struct dsr_stream *stream, const struct dsr_copy *copies, uint32_t count);
/* Blocks `ids` of the KV cache into consecutive payloads at `staging`, digests (seeded by seeds[i])
 * to digests[i]; digests and layout must live until the event after it completed. */
int dsr_stream_gather(struct dsr_stream *stream, const struct dsr_kv_layout *layout,
                      const uint32_t *ids, const uint64_t *seeds, uint32_t count, uint8_t *staging,
                      uint64_t *digests);
/* The way back: payloads at `staging` into blocks `ids`; digests[i] is of the bytes that were
 * written. */
int dsr_stream_scatter(struct dsr_stream *stream, const struct dsr_kv_layout *layout,
                       const uint32_t *ids, const uint64_t *seeds, uint32_t count,
                       const uint8_t *staging, uint64_t *digests);
/* Marks this point of the stream. Takes no place in its queue. */
int dsr_stream_record(struct dsr_stream *stream, struct dsr_event *ret_event);
/* Work enqueued later waits for `event` of another stream of the same process; if what it waited
 * for failed, that is this stream's error too. -EINVAL: `event` was never recorded. */
int dsr_stream_wait(struct dsr_stream *stream, struct dsr_event event);
bool dsr_event_done(struct dsr_event event);
/* First error of the stream's work up to the event, 0 when none. */
int dsr_event_error(struct dsr_event event);
/* Blocks until done or deadline (CLOCK_MONOTONIC ns): 0 or -ETIMEDOUT. For hooks that must order
 * the engine's own work (preemption), never for the loop. */
int dsr_event_wait(struct dsr_event event, uint64_t deadline_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* libdaser, worker side: WorkerRuntime with LoadPipeline and StorePipeline. One object per rank, in
 * the process that owns the rank's KV cache.
 *
 * Order of calls in each step, as vLLM's worker makes them:
 *   preemptions (metadata), bind (metadata), start_load, [forward], wait_for_save, output, next
 * step. Registration (daser_worker_register) comes once, before the first step, from the thread
 * that owns the device context. Gather and scatter run on streams of the library's own; they are
 * ordered after the compute events given to start_load and wait_for_save, and never synchronise the
 * device.
 */
#ifndef DASER_WORKER_H
#define DASER_WORKER_H

#include "daser.h"

struct daser_worker;

struct daser_worker_options {
	size_t size;                /* sizeof(struct daser_worker_options) */
	const char *run_dir;        /* NULL or "": DASER_RUN_DIR or the default */
	const char *engine;         /* as in the scheduler's options */
	const uint8_t *fingerprint; /* DASER_NAMESPACE_BYTES */
	const char *device;         /* "host:<n>" */
	uint32_t rank, world;
	uint32_t lane, lanes; /* the KV shard of this rank, and how many there are */
	uint32_t writer;      /* 1: this rank stores its lane */
	uint32_t block_tokens;
	const char *staging_mode;           /* "lean" (default when NULL) or "classic" */
	uint64_t staging_ceiling;           /* bytes; 0: 6144 MiB */
	uint64_t device_total, device_free; /* bytes; 0: ask the device */
	uint32_t load_deadline_ms;          /* 0: 10000 */
	uint32_t save_deadline_ms; /* 0: 1000: a finished request's saves are dropped after it */
	uint32_t store_queue;      /* deferred saves at most, in blocks; 0: 65536 */
};

/* A part of one block in the KV cache: `count` runs of `bytes` bytes, `stride` bytes apart, the
 * first at base + block id * block_stride. A block's payload is its pieces in the order given, each
 * piece its runs in order. No piece may overlap another. */
struct daser_piece {
	void *base; /* device address; borrowed until daser_worker_close */
	uint64_t block_stride;
	uint64_t bytes;
	uint64_t stride; /* ignored when count is 1 */
	uint64_t count;
};

struct daser_geometry {
	size_t size;
	const struct daser_piece *pieces; /* borrowed for the call */
	uint32_t piece_count;
	uint32_t blocks; /* block ids are 0 .. blocks-1 */
};

/* One step's results. Pointers are the object's, valid until the next output call. */
struct daser_worker_output {
	size_t size;
	const char *const *finished_sending; /* requests whose saves are over, each exactly once */
	uint32_t finished_sending_count;
	const char *const *finished_recving; /* requests whose load is over, each exactly once */
	uint32_t finished_recving_count;
	const uint32_t *failed_blocks; /* block ids whose content is not valid, of these loads */
	uint32_t failed_block_count;
	const void *bytes; /* for daser_scheduler_update */
	size_t length;
};

struct daser_worker_stats {
	size_t size;
	uint64_t loads, load_bytes, load_blocks, load_failed_blocks;
	uint64_t stores, store_bytes, store_blocks;
	uint64_t load_p50_ns, load_p99_ns;    /* submit to visible, one rank */
	uint64_t load_busy_ns, store_busy_ns; /* time with at least one under way */
	uint64_t stores_in_flight_max, loads_in_flight_max;
	uint64_t load_buffer_bytes, store_buffer_bytes;
	uint32_t load_buffers, store_buffers;
	uint64_t drops[32];    /* by enum dsr_reason, blocks of this rank */
	uint64_t failures[32]; /* by enum dsr_reason, blocks of this rank */
};

/* Checks options; creates nothing in the device. -EINVAL (stderr says which), -ENODEV, -ENOMEM. */
DASER_API int daser_worker_open(const struct daser_worker_options *options,
                                struct daser_worker **ret_worker);
/* Finishes copies under way, detaches, frees staging, ends threads. Waits at most 5 s; memory under
 * a running copy is then kept until the process ends. NULL is fine. */
DASER_API void daser_worker_close(struct daser_worker **worker);

/* Gives the KV cache, allocates staging, starts the runtime's thread and looks for the service.
 * Blocks while memory is allocated. -EINVAL (pieces), -ENOMEM or -E2BIG (staging does not fit:
 * stderr gives the numbers), -EALREADY. */
DASER_API int daser_worker_register(struct daser_worker *worker,
                                    const struct daser_geometry *geometry);
DASER_API enum daser_state daser_worker_state(struct daser_worker *worker);
DASER_API const char *daser_worker_reason(struct daser_worker *worker);

/* Before anything of this step can overwrite a block: drops gathers of preempted or reallocated
 * blocks that are not launched, and orders the compute stream after launched ones (host device:
 * waits for them). Never waits for an actor. */
DASER_API int daser_worker_preemptions(struct daser_worker *worker, const void *meta,
                                       size_t length);
/* Takes over the step's metadata: queues its loads and saves. -EBADMSG: not ours, nothing queued.
 */
DASER_API int daser_worker_bind(struct daser_worker *worker, const void *meta, size_t length);
/* Submits the queued loads; their scatters come after `event`: a device event recorded on the
 * compute stream, on the host device a struct dsr_event (shm/device.h), which is copied. NULL:
 * everything before is done. */
DASER_API int daser_worker_start_load(struct daser_worker *worker, void *event);
/* Submits the queued saves; their gathers come after `event`. */
DASER_API int daser_worker_wait_for_save(struct daser_worker *worker, void *event);
/* Collects what has ended. `finished` names requests that finished since the last call and for
 * which daser_scheduler_finished said delay. Does not block. */
DASER_API int daser_worker_output(struct daser_worker *worker, const char *const *finished,
                                  uint32_t finished_count, struct daser_worker_output *ret_output);
/* Readable when output may have something new; for an idle engine. Owned by the object. */
DASER_API int daser_worker_fd(struct daser_worker *worker);
DASER_API int daser_worker_get_stats(struct daser_worker *worker,
                                     struct daser_worker_stats *ret_stats);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A pipeline on the host device whose actor is the test: it sees LOADs and STOREs, copies when it
 * wants to, and answers what it wants. Programs that use it are linked with
 * --wrap=dsr_event_done, so that work can be kept from ending. */
#ifndef DSR_TEST_NATIVE_PIPE_H
#define DSR_TEST_NATIVE_PIPE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "load_pipeline.h"
#include "store_pipeline.h"

#define PIPE_RUNS 3
#define PIPE_RUN_BYTES 112 /* no multiple of 16, nor is the payload */
#define PIPE_PAYLOAD (PIPE_RUNS * PIPE_RUN_BYTES + 5)
#define PIPE_BLOCKS 64 /* of the KV cache */
#define PIPE_SLOTS 64  /* of L1 */
#define PIPE_BATCH 4   /* blocks of a buffer */
#define PIPE_BUFFERS 4
#define PIPE_BUFFER_BYTES (PIPE_BATCH * PIPE_PAYLOAD + 7)
#define PIPE_SENT_MAX 64
#define PIPE_LANE 3

/* A LOAD, STORE or DROP that was sent. */
struct pipe_sent {
	uint32_t buffer, segment_blocks, count, reason;
	uint64_t cookie, lend, reservation;
	struct dsr_ref refs[PIPE_SLOTS];
	uint64_t digests[PIPE_SLOTS];
};

struct pipe {
	struct dsr_device *device;
	struct dsr_stream *stream;
	struct dsr_kv_layout layout;
	uint8_t *kv;
	uint8_t *staging;
	uint8_t l1[PIPE_SLOTS][PIPE_PAYLOAD];
	uint64_t l1_digests[PIPE_SLOTS];
	uint64_t l1_seqs[PIPE_SLOTS];
	struct dsr_load_pipeline loads;
	struct dsr_store_pipeline stores;
	uint64_t now_ns;
	int send_error;
	struct pipe_sent loads_sent[PIPE_SENT_MAX], stores_sent[PIPE_SENT_MAX],
		drops_sent[PIPE_SENT_MAX];
	uint32_t load_count, store_count, drop_count;
	struct dsr_load *ended_loads[PIPE_SENT_MAX];
	struct dsr_store *ended_stores[PIPE_SENT_MAX];
	uint32_t ended_load_count, ended_store_count;
	uint32_t mismatches, releases;
};

/* Keeps the events of the stream from being seen as done. */
void pipe_hold(struct pipe *pipe, bool is_held);

int pipe_open_loads(void **state);     /* PIPE_BUFFERS buffers */
int pipe_open_loads_one(void **state); /* 1 buffer */
int pipe_open_stores(void **state);
int pipe_open_stores_one(void **state);
int pipe_close(void **state);

/* Puts a block with the content of `block` of chain `name` into an L1 slot. */
void pipe_fill_slot(struct pipe *pipe, uint32_t slot, const char *name, uint32_t block);
/* The same into a block of the KV cache. */
void pipe_fill_kv(struct pipe *pipe, uint32_t id, const char *name, uint32_t block);
bool pipe_kv_holds(const struct pipe *pipe, uint32_t id, const char *name, uint32_t block);
bool pipe_slot_holds(const struct pipe *pipe, uint32_t slot, const char *name, uint32_t block);
struct dsr_ref pipe_ref(const struct pipe *pipe, uint32_t slot);

/* Blocks 0 .. count-1 of chain `name`, between ids [id, ...) and slots [slot, ...). Binds. */
struct dsr_load *pipe_bind_load(struct pipe *pipe, const char *name, uint32_t count, uint32_t id,
                                uint32_t slot);
struct dsr_store *pipe_bind_store(struct pipe *pipe, const char *name, uint32_t count, uint32_t id,
                                  uint32_t slot);
/* Starts what is bound, with a deadline 1 s from now, and pumps. */
void pipe_start(struct pipe *pipe);
/* Submits what is bound, and pumps. */
void pipe_submit(struct pipe *pipe);

/* Pumps until the stream has nothing to do any more. */
void pipe_settle(struct pipe *pipe);

/* The actor's side of a LOAD: copies blocks [first, first + count) to staging and tells. */
void pipe_segment(struct pipe *pipe, const struct pipe_sent *load, uint32_t first, uint32_t count);
void pipe_segment_err(struct pipe *pipe, const struct pipe_sent *load, uint32_t first, int err);
void pipe_load_reply(struct pipe *pipe, const struct pipe_sent *load, int err);
/* All of it, in segments as asked for. */
void pipe_serve_load(struct pipe *pipe, const struct pipe_sent *load);
/* The actor's side of a STORE: copies to L1 and answers. */
void pipe_serve_store(struct pipe *pipe, const struct pipe_sent *store);
void pipe_store_reply(struct pipe *pipe, const struct pipe_sent *store, int err,
                      const int32_t *errs);
void pipe_drop_reply(struct pipe *pipe, const struct pipe_sent *drop, int err);

#endif

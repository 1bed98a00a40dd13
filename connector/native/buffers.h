/* SPDX-License-Identifier: Apache-2.0 */
/* A fixed pool of staging buffers and their lendings.
 *
 *   FREE --take--> HELD --lend--> LENT --returned--> HELD --put--> FREE
 *                                   \--quarantine--> QUARANTINED --returned, put--> FREE
 *
 * HELD: ours, work of our own stream may run on it. LENT: an actor may copy from or to it; it comes
 * back with the actor's reply or its confirmed death, never by time. QUARANTINED: lent, and nobody
 * waits for it any more. Each taking gives a new lend number, greater than all before. */
#ifndef DSR_NATIVE_BUFFERS_H
#define DSR_NATIVE_BUFFERS_H

#include <stdint.h>

/* Blocks of one batch at most, however small they are: bounds messages and tables. */
#define DSR_BATCH_BLOCKS_MAX 8192u

enum dsr_buffer_state {
	DSR_BUFFER_FREE,
	DSR_BUFFER_HELD,
	DSR_BUFFER_LENT,
	DSR_BUFFER_QUARANTINED,
};

struct dsr_buffer {
	uint8_t *base; /* borrowed: part of the staging memory */
	uint32_t index;
	enum dsr_buffer_state state;
	uint64_t lend;    /* number of the present or last lending */
	void *owner;      /* borrowed: the job it works for; NULL: none */
	uint32_t first;   /* of the owner's blocks, the first in it */
	uint32_t count;   /* blocks in it */
	uint32_t readers; /* segments that our stream will still read from it */
};

struct dsr_buffers {
	struct dsr_buffer *v; /* owned */
	uint32_t count;
	uint32_t free;
	uint32_t quarantined;
	uint64_t bytes; /* of each */
	uint64_t last_lend;
};

/* -ENOMEM. base: memory of count * bytes, borrowed. */
int dsr_buffers_init(struct dsr_buffers *buffers, uint8_t *base, uint64_t bytes, uint32_t count);
void dsr_buffers_done(struct dsr_buffers *buffers);

/* A free buffer, HELD, with a new lend number; NULL: none. */
struct dsr_buffer *dsr_buffers_take(struct dsr_buffers *buffers, void *owner);
/* That one; NULL: it is not free. */
struct dsr_buffer *dsr_buffers_take_index(struct dsr_buffers *buffers, uint32_t index, void *owner);
void dsr_buffers_put(struct dsr_buffers *buffers, struct dsr_buffer *buffer);
/* A new lend number for a buffer that is HELD and goes out once more. */
void dsr_buffers_relend(struct dsr_buffers *buffers, struct dsr_buffer *buffer);
void dsr_buffers_lend(struct dsr_buffers *buffers, struct dsr_buffer *buffer);
/* LENT or QUARANTINED -> HELD. */
void dsr_buffers_returned(struct dsr_buffers *buffers, struct dsr_buffer *buffer);
/* LENT -> QUARANTINED, without an owner. */
void dsr_buffers_quarantine(struct dsr_buffers *buffers, struct dsr_buffer *buffer);
/* The buffer of that lending, if it is still out; else NULL: a late or foreign answer. */
struct dsr_buffer *dsr_buffers_lent(struct dsr_buffers *buffers, uint32_t index, uint64_t lend);
/* The same by the lend number alone. */
struct dsr_buffer *dsr_buffers_by_lend(struct dsr_buffers *buffers, uint64_t lend);

#endif

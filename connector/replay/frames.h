/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between the engine and the processes of its ranks: frames on a socket pair, each a length,
 * a type and a body of little fields. Both ends are one executable: host byte order, no versions.
 */
#ifndef REPLAY_FRAMES_H
#define REPLAY_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_FRAME_MAX (256u << 20)

/* A growing body. After memory ran out every put is ignored and `failed` is set. */
struct replay_buf {
	uint8_t *data; /* owned */
	size_t length;
	size_t capacity;
	bool failed;
};

void replay_buf_done(struct replay_buf *buf);
void replay_buf_clear(struct replay_buf *buf); /* keeps the memory */
void replay_put_u32(struct replay_buf *buf, uint32_t value);
void replay_put_u64(struct replay_buf *buf, uint64_t value);
void replay_put_raw(struct replay_buf *buf, const void *data, size_t length);
/* With its length before and a NUL after it. */
void replay_put_bytes(struct replay_buf *buf, const void *data, size_t length);
void replay_put_text(struct replay_buf *buf, const char *text);

/* A body being read. Past its end everything is 0 and `failed` is set. */
struct replay_view {
	const uint8_t *at; /* borrowed */
	const uint8_t *end;
	bool failed;
};

struct replay_view replay_view_of(const struct replay_buf *buf);
uint32_t replay_get_u32(struct replay_view *view);
uint64_t replay_get_u64(struct replay_view *view);
/* `count` things of `size` bytes; may be unaligned. NULL when there are fewer. */
const uint8_t *replay_get_raw(struct replay_view *view, uint64_t count, size_t size);
const void *replay_get_bytes(struct replay_view *view, size_t *ret_length);
/* Terminated; "" when there is none. */
const char *replay_get_text(struct replay_view *view);

/* Element `index` of an unaligned array. */
uint32_t replay_u32_at(const uint8_t *array, uint32_t index);
uint64_t replay_u64_at(const uint8_t *array, uint32_t index);

/* Sends a whole frame, waiting for room. -EPIPE when the peer is gone, -ENOMEM when body failed,
 * -EMSGSIZE. */
int replay_frame_send(int fd, uint32_t type, const struct replay_buf *body);

/* A frame being received from a socket. */
struct replay_inbox {
	uint8_t header[8];
	size_t have; /* bytes of header and body read so far */
	uint32_t type;
	struct replay_buf body;
};

void replay_inbox_done(struct replay_inbox *inbox);
/* Reads what is there without waiting. 1: a frame is complete (type, body), valid until the next
 * call; 0: not yet; -EPIPE at the end of the stream, -EMSGSIZE, other errno. */
int replay_inbox_read(struct replay_inbox *inbox, int fd);
/* Waits for a frame: 1, -ETIMEDOUT after timeout_ms (-1: never), or as above. */
int replay_inbox_wait(struct replay_inbox *inbox, int fd, int timeout_ms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "frames.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void replay_buf_done(struct replay_buf *buf)
{
	free(buf->data);
	*buf = (struct replay_buf){0};
}

void replay_buf_clear(struct replay_buf *buf)
{
	buf->length = 0;
	buf->failed = false;
}

/* Room for `more` bytes at the end, NULL when memory is short. */
static uint8_t *reserve(struct replay_buf *buf, size_t more)
{
	if (buf->failed)
		return NULL;
	if (buf->capacity - buf->length < more) {
		size_t capacity = buf->capacity ? buf->capacity : 256;

		while (capacity - buf->length < more)
			capacity *= 2;
		uint8_t *data = realloc(buf->data, capacity);

		if (!data) {
			buf->failed = true;
			return NULL;
		}
		buf->data = data;
		buf->capacity = capacity;
	}
	return buf->data + buf->length;
}

void replay_put_raw(struct replay_buf *buf, const void *data, size_t length)
{
	uint8_t *to = reserve(buf, length);

	if (!to || length == 0)
		return;
	(void)memcpy(to, data, length);
	buf->length += length;
}

void replay_put_u32(struct replay_buf *buf, uint32_t value)
{
	replay_put_raw(buf, &value, sizeof(value));
}

void replay_put_u64(struct replay_buf *buf, uint64_t value)
{
	replay_put_raw(buf, &value, sizeof(value));
}

void replay_put_bytes(struct replay_buf *buf, const void *data, size_t length)
{
	replay_put_u32(buf, (uint32_t)length);
	replay_put_raw(buf, data, length);
	replay_put_raw(buf, "", 1);
}

void replay_put_text(struct replay_buf *buf, const char *text)
{
	replay_put_bytes(buf, text, strlen(text));
}

struct replay_view replay_view_of(const struct replay_buf *buf)
{
	static const uint8_t nothing;

	if (!buf->data)
		return (struct replay_view){.at = &nothing, .end = &nothing};
	return (struct replay_view){.at = buf->data, .end = buf->data + buf->length};
}

const uint8_t *replay_get_raw(struct replay_view *view, uint64_t count, size_t size)
{
	uint64_t left = (uint64_t)(view->end - view->at);

	if (view->failed || count > left / size) {
		view->failed = true;
		return NULL;
	}
	const uint8_t *at = view->at;

	view->at += count * size;
	return at;
}

uint32_t replay_get_u32(struct replay_view *view)
{
	const uint8_t *at = replay_get_raw(view, 1, sizeof(uint32_t));

	return at ? replay_u32_at(at, 0) : 0;
}

uint64_t replay_get_u64(struct replay_view *view)
{
	const uint8_t *at = replay_get_raw(view, 1, sizeof(uint64_t));

	return at ? replay_u64_at(at, 0) : 0;
}

const void *replay_get_bytes(struct replay_view *view, size_t *ret_length)
{
	uint32_t length = replay_get_u32(view);
	const uint8_t *at = replay_get_raw(view, (uint64_t)length + 1, 1);

	if (!at || at[length] != '\0') {
		view->failed = true;
		length = 0;
	}
	*ret_length = length;
	return view->failed ? NULL : at;
}

const char *replay_get_text(struct replay_view *view)
{
	size_t length = 0;
	const char *text = replay_get_bytes(view, &length);

	return text ? text : "";
}

uint32_t replay_u32_at(const uint8_t *array, uint32_t index)
{
	uint32_t value;

	(void)memcpy(&value, array + (size_t)index * sizeof(value), sizeof(value));
	return value;
}

uint64_t replay_u64_at(const uint8_t *array, uint32_t index)
{
	uint64_t value;

	(void)memcpy(&value, array + (size_t)index * sizeof(value), sizeof(value));
	return value;
}

static int send_all(int fd, const void *data, size_t length)
{
	const uint8_t *at = data;

	while (length > 0) {
		ssize_t n = send(fd, at, length, MSG_NOSIGNAL);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return errno == ECONNRESET ? -EPIPE : -errno;
		at += n;
		length -= (size_t)n;
	}
	return 0;
}

int replay_frame_send(int fd, uint32_t type, const struct replay_buf *body)
{
	uint32_t length = body ? (uint32_t)body->length : 0;
	uint32_t header[2] = {length, type};

	if (body && body->failed)
		return -ENOMEM;
	if (body && body->length > REPLAY_FRAME_MAX)
		return -EMSGSIZE;
	int r = send_all(fd, header, sizeof(header));

	return r < 0 || length == 0 ? r : send_all(fd, body->data, length);
}

void replay_inbox_done(struct replay_inbox *inbox)
{
	replay_buf_done(&inbox->body);
	inbox->have = 0;
}

/* Up to `length` bytes without waiting: count, 0 when none are there, -EPIPE at the end. */
static ssize_t receive(int fd, void *to, size_t length)
{
	for (;;) {
		ssize_t n = recv(fd, to, length, MSG_DONTWAIT);

		if (n > 0)
			return n;
		if (n == 0 || errno == ECONNRESET)
			return -EPIPE;
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

int replay_inbox_read(struct replay_inbox *inbox, int fd)
{
	for (;;) {
		size_t head = sizeof(inbox->header);

		if (inbox->have == 0)
			replay_buf_clear(&inbox->body);
		if (inbox->have < head) {
			ssize_t n = receive(fd, inbox->header + inbox->have, head - inbox->have);

			if (n <= 0)
				return (int)n;
			inbox->have += (size_t)n;
			continue;
		}
		size_t length = replay_u32_at(inbox->header, 0);
		size_t left = length - inbox->body.length;

		inbox->type = replay_u32_at(inbox->header, 1);
		if (length > REPLAY_FRAME_MAX)
			return -EMSGSIZE;
		if (left == 0) {
			inbox->have = 0;
			return 1;
		}
		uint8_t *to = reserve(&inbox->body, left);

		if (!to)
			return -ENOMEM;
		ssize_t n = receive(fd, to, left);

		if (n <= 0)
			return (int)n;
		inbox->body.length += (size_t)n;
	}
}

int replay_inbox_wait(struct replay_inbox *inbox, int fd, int timeout_ms)
{
	for (;;) {
		int r = replay_inbox_read(inbox, fd);
		struct pollfd item = {.fd = fd, .events = POLLIN};

		if (r != 0)
			return r;
		r = poll(&item, 1, timeout_ms);
		if (r == 0)
			return -ETIMEDOUT;
		if (r == -1 && errno != EINTR)
			return -errno;
	}
}

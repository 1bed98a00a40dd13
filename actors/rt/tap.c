/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "codec.h"
#include "files.h"
#include "util.h"

#define TAP_HWM 1000 /* messages a slow subscriber may be behind */
#define LINE_BYTES 256
#define TURN_MAX 256 /* messages taken in one turn of the loop */

static int tap_path(const char *run_dir, enum dsr_role role, const char *device, char *ret_url,
                    size_t url_bytes)
{
	char path[128];
	int r = dsr_role_path(run_dir, "tap-", role, device, ".sock", path, sizeof(path));

	if (r < 0)
		return r;
	return (size_t)snprintf(ret_url, url_bytes, "ipc://%s", path) < url_bytes ? 0 : -E2BIG;
}

static int set_int(void *socket, int option, int value)
{
	return zmq_setsockopt(socket, option, &value, sizeof(value)) == -1 ? -errno : 0;
}

/* ---- publishing ---- */

struct dsr_tap {
	struct dsr_loop *loop; /* borrowed */
	void *socket;          /* owned XPUB */
	int subscriptions;     /* of different prefixes */
};

/* An XPUB hands up the first subscription and the last unsubscription of each prefix. */
static void on_subscription(void *self)
{
	struct dsr_tap *tap = self;
	char message[LINE_BYTES];

	while (zmq_recv(tap->socket, message, sizeof(message), ZMQ_DONTWAIT) > 0) {
		if (message[0] == 1)
			tap->subscriptions++;
		else if (message[0] == 0 && tap->subscriptions > 0)
			tap->subscriptions--;
	}
}

int dsr_tap_bind(struct dsr_loop *loop, void *zmq, const char *run_dir, enum dsr_role role,
                 const char *device, struct dsr_tap **ret_tap)
{
	struct dsr_tap *tap = calloc(1, sizeof(*tap));
	char url[160];
	int r;

	if (!tap)
		return -ENOMEM;
	tap->loop = loop;
	r = tap_path(run_dir, role, device, url, sizeof(url));
	if (r < 0)
		goto err_free;
	tap->socket = zmq_socket(zmq, ZMQ_XPUB);
	if (!tap->socket) {
		r = -errno;
		goto err_free;
	}
	r = set_int(tap->socket, ZMQ_LINGER, 0);
	r = r ? r : set_int(tap->socket, ZMQ_SNDHWM, TAP_HWM);
	(void)unlink(url + strlen("ipc://"));
	if (r == 0 && zmq_bind(tap->socket, url) == -1)
		r = -errno;
	r = r ? r : dsr_loop_add_zmq(loop, tap->socket, on_subscription, tap);
	if (r < 0)
		goto err_free;
	*ret_tap = tap;
	return 0;

err_free:
	dsr_tap_unbind(&tap);
	return r;
}

void dsr_tap_unbind(struct dsr_tap **tap)
{
	if (!*tap)
		return;
	if ((*tap)->socket) {
		dsr_loop_remove_zmq((*tap)->loop, (*tap)->socket);
		(void)zmq_close((*tap)->socket);
	}
	free(*tap);
	*tap = NULL;
}

bool dsr_tap_is_watched(const struct dsr_tap *tap)
{
	return tap && tap->subscriptions > 0;
}

void dsr_tap_publish(struct dsr_tap *tap, const char *line, const void *frame, size_t bytes)
{
	/* A publisher never blocks: what a subscriber has no room for is lost to it. */
	if (zmq_send(tap->socket, line, strlen(line), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
		(void)zmq_send(tap->socket, frame, bytes, ZMQ_DONTWAIT);
}

/* ---- watching ---- */

struct dsr_tap_reader {
	struct dsr_loop *loop; /* borrowed */
	void *zmq;             /* owned */
	void *socket;          /* owned SUB */
	dsr_tap_fn *fn;
	void *self;      /* borrowed */
	uint8_t *buffer; /* owned, DSR_FRAME_MAX bytes */
};

static void on_tapped(void *self)
{
	struct dsr_tap_reader *reader = self;
	char line[LINE_BYTES];
	int left = TURN_MAX;
	int n;
	int bytes;

	while (left-- > 0 && (n = zmq_recv(reader->socket, line, LINE_BYTES, ZMQ_DONTWAIT)) >= 0) {
		bytes = zmq_recv(reader->socket, reader->buffer, DSR_FRAME_MAX, ZMQ_DONTWAIT);
		if (n >= LINE_BYTES || bytes < 0 || bytes > (int)DSR_FRAME_MAX)
			continue;
		line[n] = '\0';
		reader->fn(reader->self, line, reader->buffer, (size_t)bytes);
	}
}

int dsr_tap_open(struct dsr_loop *loop, const char *run_dir, enum dsr_role role, const char *device,
                 const char *prefix, dsr_tap_fn *fn, void *self, struct dsr_tap_reader **ret_reader)
{
	struct dsr_tap_reader *reader = calloc(1, sizeof(*reader));
	char url[160];
	int r;

	if (!reader)
		return -ENOMEM;
	reader->loop = loop;
	reader->fn = fn;
	reader->self = self;
	r = tap_path(run_dir, role, device, url, sizeof(url));
	if (r < 0)
		goto err_close;
	r = -ENOMEM;
	reader->buffer = malloc(DSR_FRAME_MAX);
	reader->zmq = zmq_ctx_new();
	if (!reader->buffer || !reader->zmq)
		goto err_close;
	reader->socket = zmq_socket(reader->zmq, ZMQ_SUB);
	r = reader->socket ? set_int(reader->socket, ZMQ_LINGER, 0) : -errno;
	if (r == 0 && zmq_setsockopt(reader->socket, ZMQ_SUBSCRIBE, prefix, strlen(prefix)) == -1)
		r = -errno;
	if (r == 0 && zmq_connect(reader->socket, url) == -1)
		r = -errno;
	r = r ? r : dsr_loop_add_zmq(loop, reader->socket, on_tapped, reader);
	if (r < 0)
		goto err_close;
	*ret_reader = reader;
	return 0;

err_close:
	dsr_tap_close(&reader);
	return r;
}

void dsr_tap_close(struct dsr_tap_reader **reader)
{
	struct dsr_tap_reader *t = *reader;

	if (!t)
		return;
	if (t->socket) {
		dsr_loop_remove_zmq(t->loop, t->socket);
		(void)zmq_close(t->socket);
	}
	if (t->zmq)
		(void)zmq_ctx_term(t->zmq);
	free(t->buffer);
	free(t);
	*reader = NULL;
}

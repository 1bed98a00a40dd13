/* SPDX-License-Identifier: Apache-2.0 */
/* Life and sockets of a link. Its messages are in link_messages.c, who is there in link_peers.c. */
#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "files.h"
#include "link_internal.h"
#include "log.h"
#include "util.h"

#define HWM 1024 /* messages queued for one peer */
#define RECONNECT_MS 20
#define HANDSHAKE_MS 2000
#define SWEEP_NS (1000 * DSR_LINK_MS)
#define CONNS_MAX 128

static int set_int(void *socket, int option, int value)
{
	return zmq_setsockopt(socket, option, &value, sizeof(value)) == -1 ? -errno : 0;
}

/* ---- life ---- */

void *dsr_link_context_new(void)
{
	return zmq_ctx_new();
}

void dsr_link_context_free(void **context)
{
	if (!*context)
		return;
	(void)zmq_ctx_term(*context);
	*context = NULL;
}

static int make_parts(struct dsr_link *link)
{
	int r = dsr_start_ticks(link->pid, &link->start_ticks);

	if (!link->zmq) {
		link->zmq = zmq_ctx_new();
		link->owns_zmq = link->zmq != NULL;
	}
	if (!link->zmq)
		return -ENOMEM;
	r = r ? r : dsr_codec_new(&link->tx);
	r = r ? r : dsr_codec_new(&link->rx);
	r = r ? r : dsr_pending_new(&link->pending);
	r = r ? r : dsr_timer_new(link->loop, dsr_link_on_deadline, link, &link->deadline_timer);
	r = r ? r : dsr_timer_new(link->loop, dsr_link_on_sweep, link, &link->sweep_timer);
	if (r == 0)
		dsr_timer_every(link->sweep_timer, SWEEP_NS);
	return r;
}

int dsr_link_new(struct dsr_loop *loop, const struct dsr_link_options *options,
                 struct dsr_link **ret_link)
{
	struct dsr_link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return -ENOMEM;
	link->loop = loop;
	link->zmq = options->zmq;
	link->use_inproc = options->use_inproc;
	link->has_tap = options->has_tap;
	link->role = options->role;
	link->incarnation = options->incarnation;
	link->pid = getpid();
	link->counters = options->counters;
	link->ops = options->ops;
	link->self = options->self;
	link->faults = options->faults;
	link->deadline_ns = UINT64_MAX;
	link->next_hello = UINT64_C(1) << 63; /* apart from the numbers of requests */
	r = dsr_copy_string(link->run_dir, sizeof(link->run_dir), options->run_dir);
	if (r < 0)
		r = -ENAMETOOLONG;
	r = r ? r : dsr_copy_string(link->device, sizeof(link->device), options->device);
	r = r ? r : make_parts(link);
	if (r < 0) {
		dsr_link_free(&link);
		return r;
	}
	*ret_link = link;
	return 0;
}

static void free_conn(struct dsr_link_conn *conn)
{
	dsr_link_conn_close(conn);
	dsr_timer_free(&conn->timer);
	free(conn);
}

static void free_peer(struct dsr_link_peer *peer)
{
	if (peer->pidfd != -1)
		dsr_loop_remove_fd(peer->link->loop, peer->pidfd);
	dsr_close(&peer->pidfd);
	dsr_timer_free(&peer->last_call);
	free(peer);
}

void dsr_link_enter(struct dsr_link *link)
{
	link->depth++;
}

void dsr_link_leave(struct dsr_link *link)
{
	struct dsr_link_peer *peer;
	struct dsr_link_conn *conn;

	if (--link->depth > 0)
		return;
	while ((peer = link->dead_peers)) {
		link->dead_peers = peer->next;
		free_peer(peer);
	}
	while ((conn = link->dead_conns)) {
		link->dead_conns = conn->next;
		free_conn(conn);
	}
}

void dsr_link_free(struct dsr_link **link)
{
	struct dsr_link *l = *link;
	struct dsr_link_peer *peer;
	struct dsr_link_conn *conn;

	if (!l)
		return;
	dsr_assert(l->depth == 0);
	while ((peer = l->peers)) {
		l->peers = peer->next;
		free_peer(peer);
	}
	while ((conn = l->conns)) {
		l->conns = conn->next;
		free_conn(conn);
	}
	if (l->router) {
		dsr_loop_remove_zmq(l->loop, l->router);
		(void)zmq_close(l->router);
	}
	dsr_tap_unbind(&l->tap);
	dsr_timer_free(&l->deadline_timer);
	dsr_timer_free(&l->sweep_timer);
	dsr_pending_free(&l->pending);
	dsr_codec_free(&l->rx);
	dsr_codec_free(&l->tx);
	if (l->owns_zmq)
		(void)zmq_ctx_term(l->zmq);
	free(l);
	*link = NULL;
}

void dsr_link_set_counters(struct dsr_link *link, struct dsr_counters_page *counters)
{
	link->counters = counters;
}

void dsr_link_count(struct dsr_link *link, enum dsr_counter counter)
{
	dsr_counter_add(link->counters, counter, 1);
}

/* ---- sockets ---- */

int dsr_link_endpoint(const char *run_dir, enum dsr_role role, const char *device, char *ret_text,
                      size_t text_bytes)
{
	char path[128];
	int r = dsr_role_path(run_dir, "", role, device, ".sock", path, sizeof(path));

	if (r < 0)
		return r;
	return (size_t)snprintf(ret_text, text_bytes, "ipc://%s", path) < text_bytes ? 0 : -E2BIG;
}

static void inproc_endpoint(enum dsr_role role, const char *device, char *ret_text, size_t bytes)
{
	(void)snprintf(ret_text, bytes, "inproc://%s-%s", dsr_role_name(role), device);
}

static int make_socket(struct dsr_link *link, int type, void **ret_socket)
{
	const int64_t frame_max = DSR_FRAME_MAX;
	void *socket = zmq_socket(link->zmq, type);
	int r;

	if (!socket)
		return -errno;
	r = set_int(socket, ZMQ_LINGER, 0);
	r = r ? r : set_int(socket, ZMQ_SNDHWM, HWM);
	r = r ? r : set_int(socket, ZMQ_RCVHWM, HWM);
	r = r ? r : set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
	if (r == 0 && zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_max, sizeof(frame_max)) == -1)
		r = -errno;
	if (r == 0 && type == ZMQ_ROUTER)
		r = set_int(socket, ZMQ_ROUTER_MANDATORY, 1);
	if (r == 0 && type == ZMQ_DEALER) {
		r = set_int(socket, ZMQ_IMMEDIATE, 1);
		r = r ? r : set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
	}
	if (r < 0) {
		(void)zmq_close(socket);
		return r;
	}
	*ret_socket = socket;
	return 0;
}

static void on_router(void *self)
{
	dsr_link_drain_router(self);
}

static void on_conn(void *self)
{
	dsr_link_drain_conn(self);
}

int dsr_link_bind(struct dsr_link *link)
{
	char url[160];
	void *socket;
	int r;

	if (link->router)
		return -EEXIST;
	r = dsr_link_endpoint(link->run_dir, link->role, link->device, url, sizeof(url));
	r = r ? r : make_socket(link, ZMQ_ROUTER, &socket);
	if (r < 0)
		return r;
	(void)unlink(url + strlen("ipc://"));
	if (zmq_bind(socket, url) == -1)
		r = -errno;
	if (r == 0 && link->use_inproc) {
		inproc_endpoint(link->role, link->device, url, sizeof(url));
		if (zmq_bind(socket, url) == -1)
			r = -errno;
	}
	r = r ? r : dsr_loop_add_zmq(link->loop, socket, on_router, link);
	if (r < 0) {
		(void)zmq_close(socket);
		return r;
	}
	link->router = socket;
	if (!link->has_tap)
		return 0;
	r = dsr_tap_bind(link->loop, link->zmq, link->run_dir, link->role, link->device,
	                 &link->tap);
	if (r < 0)
		dsr_log(DSR_LOG_WARN, "going on without a tap: %s", strerror(-r));
	return 0;
}

int dsr_link_conn_open(struct dsr_link_conn *conn)
{
	struct dsr_link *link = conn->link;
	char url[160];
	void *socket;
	int r;

	if (link->use_inproc) {
		inproc_endpoint(conn->role, conn->device, url, sizeof(url));
	} else {
		r = dsr_link_endpoint(link->run_dir, conn->role, conn->device, url, sizeof(url));
		if (r < 0)
			return r;
	}
	r = make_socket(link, ZMQ_DEALER, &socket);
	if (r < 0)
		return r;
	if (zmq_connect(socket, url) == -1)
		r = -errno;
	r = r ? r : dsr_loop_add_zmq(link->loop, socket, on_conn, conn);
	if (r < 0) {
		(void)zmq_close(socket);
		return r;
	}
	conn->socket = socket;
	conn->opened_ns = dsr_now_ns();
	return 0;
}

void dsr_link_conn_close(struct dsr_link_conn *conn)
{
	if (!conn->socket)
		return;
	dsr_loop_remove_zmq(conn->link->loop, conn->socket);
	(void)zmq_close(conn->socket);
	conn->socket = NULL;
}

static struct dsr_link_conn *find_conn(struct dsr_link *link, enum dsr_role role,
                                       const char *device)
{
	struct dsr_link_conn *conn;

	for (conn = link->conns; conn; conn = conn->next)
		if (conn->role == role && strcmp(conn->device, device) == 0)
			return conn;
	return NULL;
}

static unsigned count_conns(const struct dsr_link *link)
{
	const struct dsr_link_conn *conn;
	unsigned n = 0;

	for (conn = link->conns; conn; conn = conn->next)
		n++;
	return n;
}

int dsr_link_connect(struct dsr_link *link, enum dsr_role role, const char *device)
{
	struct dsr_link_conn *conn;
	int r;

	if (find_conn(link, role, device))
		return -EEXIST;
	if (count_conns(link) == CONNS_MAX)
		return -ENOSPC;
	if (device[0] && !dsr_device_name_ok(device))
		return -EINVAL;
	conn = calloc(1, sizeof(*conn));
	if (!conn)
		return -ENOMEM;
	conn->link = link;
	conn->role = role;
	conn->is_loggable = true;
	(void)dsr_copy_string(conn->device, sizeof(conn->device), device);
	r = dsr_timer_new(link->loop, dsr_link_on_hello_timer, conn, &conn->timer);
	r = r ? r : dsr_link_conn_open(conn);
	if (r < 0) {
		free_conn(conn);
		return r;
	}
	conn->next = link->conns;
	link->conns = conn;
	dsr_link_greet(conn);
	return 0;
}

void dsr_link_disconnect(struct dsr_link *link, enum dsr_role role, const char *device)
{
	struct dsr_link_conn *conn = find_conn(link, role, device);
	struct dsr_link_conn **p;

	if (!conn)
		return;
	dsr_link_enter(link);
	for (p = &link->conns; *p != conn; p = &(*p)->next)
		;
	*p = conn->next;
	conn->next = link->dead_conns;
	link->dead_conns = conn;
	conn->hello_req = 0;
	dsr_timer_set(conn->timer, UINT64_MAX);
	dsr_link_conn_close(conn);
	if (conn->peer)
		dsr_link_bury(conn->peer, -ECANCELED, false);
	dsr_link_leave(link);
}

struct dsr_peer *dsr_link_peer(struct dsr_link *link, enum dsr_role role, const char *device)
{
	struct dsr_link_conn *conn = find_conn(link, role, device);

	return conn && conn->peer ? &conn->peer->pub : NULL;
}

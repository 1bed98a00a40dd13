/* SPDX-License-Identifier: Apache-2.0 */
/* What a link sends and receives: envelopes checked, replies matched with requests. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zmq.h>

#include "link_internal.h"
#include "log.h"
#include "util.h"
#include "version.h"

#define TURN_MAX 256 /* messages taken in one turn of the loop: others wait no longer */
#define PING_DEADLINE_MS 2000

/* ---- sending ---- */

static struct dsr_link_peer *private_of(struct dsr_peer *peer)
{
	return (struct dsr_link_peer *)peer; /* its first member */
}

static void tap(struct dsr_link *link, const char *direction, const struct dsr_peer *who,
                const void *frame, size_t bytes)
{
	char line[160];

	if (who)
		(void)snprintf(line, sizeof(line), "%s %s %s %" PRIu64, direction,
		               dsr_role_name(who->role), who->device[0] ? who->device : "-",
		               who->incarnation);
	else
		(void)snprintf(line, sizeof(line), "%s ? - 0", direction);
	dsr_tap_publish(link->tap, line, frame, bytes);
}

int dsr_link_transmit(struct dsr_link *link, struct dsr_link_conn *conn, uint64_t rid,
                      const struct dsr_peer *who, const struct dsr_env *env, const void *msg)
{
	void *socket = conn ? conn->socket : link->router;
	const void *frame;
	size_t bytes;
	int r = dsr_codec_pack(link->tx, env, msg, &frame, &bytes);

	if (r < 0)
		return r;
	if (!socket)
		return -EHOSTUNREACH;
	/* A ROUTER refuses at the first part, the routing id; the second then has its place. */
	if (!conn && zmq_send(socket, &rid, DSR_LINK_RID_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT) == -1)
		return -errno;
	if (zmq_send(socket, frame, bytes, ZMQ_DONTWAIT) == -1)
		return -errno;
	dsr_link_count(link, DSR_COUNTER_MESSAGES_SENT);
	if (dsr_tap_is_watched(link->tap))
		tap(link, "out", who, frame, bytes);
	return 0;
}

int dsr_peer_send(struct dsr_link *link, struct dsr_peer *peer, uint32_t type, uint64_t req,
                  const void *msg)
{
	struct dsr_link_peer *p = private_of(peer);
	const struct dsr_env env = {.major = DSR_PROTOCOL_MAJOR,
	                            .type = type,
	                            .from = link->incarnation,
	                            .to = peer->incarnation,
	                            .req = req};
	int r;

	if (p->is_dead)
		return -EOWNERDEAD;
	r = dsr_link_transmit(link, p->conn, p->rid, peer, &env, msg);
	if (r == -EAGAIN)
		dsr_link_count(link, DSR_COUNTER_SEND_FULL);
	if (r == -EHOSTUNREACH) {
		dsr_link_count(link, DSR_COUNTER_SEND_UNREACHABLE);
		if (p->unreachable_ns == 0)
			p->unreachable_ns = dsr_now_ns();
	}
	return r;
}

static int request(struct dsr_link *link, struct dsr_link_peer *peer, uint32_t type,
                   const void *msg, uint64_t deadline_ms, uint64_t cookie, bool is_internal)
{
	struct dsr_request pending = {.list = &peer->list,
	                              .at_ns = dsr_now_ns() + deadline_ms * DSR_LINK_MS,
	                              .cookie = cookie,
	                              .type = type,
	                              .is_internal = is_internal};
	uint64_t req;
	int r;

	if (peer->is_dead)
		return -EOWNERDEAD;
	r = dsr_pending_add(link->pending, &pending, &req);
	if (r < 0) {
		dsr_link_count(link, DSR_COUNTER_SEND_FULL);
		return r;
	}
	r = dsr_peer_send(link, &peer->pub, type, req, msg);
	if (r < 0) {
		(void)dsr_pending_take(link->pending, &peer->list, req, type, &pending);
		return r;
	}
	if (pending.at_ns < link->deadline_ns) {
		link->deadline_ns = pending.at_ns;
		dsr_timer_set(link->deadline_timer, pending.at_ns);
	}
	return 0;
}

int dsr_peer_request(struct dsr_link *link, struct dsr_peer *peer, uint32_t type, const void *msg,
                     uint64_t deadline_ms, uint64_t cookie)
{
	return request(link, private_of(peer), type, msg, deadline_ms, cookie, false);
}

int dsr_link_ping(struct dsr_link_peer *peer)
{
	const struct dsr_msg_ping m = {.token = 0};

	return request(peer->link, peer, DSR_MSG_PING, &m, PING_DEADLINE_MS, 0, true);
}

uint64_t dsr_link_cookie(const struct dsr_link *link)
{
	return link->cookie;
}

int dsr_peer_reply_err(struct dsr_link *link, struct dsr_peer *peer, const struct dsr_env *env,
                       int err)
{
	union dsr_msg m;

	memset(&m, 0, sizeof(m));
	memcpy(&m, &err, sizeof(int32_t)); /* each reply begins with it */
	return dsr_peer_reply(link, peer, env, &m);
}

void dsr_link_on_deadline(void *self)
{
	struct dsr_link *link = self;
	uint64_t now_ns = dsr_now_ns();
	struct dsr_request due;
	struct dsr_link_peer *peer;

	dsr_link_enter(link);
	while (dsr_pending_take_due(link->pending, now_ns, &due)) {
		peer = (struct dsr_link_peer *)((char *)due.list -
		                                offsetof(struct dsr_link_peer, list));
		if (!due.is_internal && link->ops->request_failed)
			link->ops->request_failed(link->self, &peer->pub, due.type, due.cookie,
			                          -ETIMEDOUT);
	}
	link->deadline_ns = dsr_pending_next_ns(link->pending);
	dsr_timer_set(link->deadline_timer, link->deadline_ns);
	dsr_link_leave(link);
}

/* ---- receiving ---- */

/* A request that is not for the sender's peer, or from nobody: answered to the routing id. */
static void refuse_request(struct dsr_link *link, struct dsr_link_conn *conn, uint64_t rid,
                           const struct dsr_env *env, int32_t err)
{
	const struct dsr_msg_info *info = dsr_msg_info(env->type);
	const struct dsr_env reply = {.major = DSR_PROTOCOL_MAJOR,
	                              .type = env->type + 1,
	                              .from = link->incarnation,
	                              .to = env->from,
	                              .req = env->req};
	union dsr_msg m;

	if (!info || info->kind != DSR_KIND_REQUEST)
		return;
	memset(&m, 0, sizeof(m));
	memcpy(&m, &err, sizeof(err));
	(void)dsr_link_transmit(link, conn, rid, NULL, &reply, &m);
}

static void on_fault(struct dsr_link *link, struct dsr_link_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_fault *m)
{
	struct dsr_msg_fault_reply reply = {0};
	char why[256] = "";
	char spec[256];

	if (m->spec.n >= sizeof(spec)) {
		reply.err = -EINVAL;
	} else if (m->spec.n == 0) {
		dsr_faults_disarm(link->faults);
	} else {
		memcpy(spec, m->spec.p, m->spec.n);
		spec[m->spec.n] = '\0';
		reply.err = dsr_faults_arm(link->faults, spec, why, sizeof(why));
	}
	reply.reason = (struct dsr_str){why, (uint32_t)strlen(why)};
	(void)dsr_peer_reply(link, &peer->pub, env, &reply);
}

/* What every process answers by itself. */
static bool serve_builtin(struct dsr_link *link, struct dsr_link_peer *peer,
                          const struct dsr_env *env, const union dsr_msg *msg)
{
	if (env->type == DSR_MSG_PING) {
		const struct dsr_msg_ping_reply reply = {.token = msg->ping.token};

		(void)dsr_peer_reply(link, &peer->pub, env, &reply);
		return true;
	}
	if (env->type == DSR_MSG_FAULT && link->faults) {
		on_fault(link, peer, env, &msg->fault);
		return true;
	}
	return false;
}

static void on_reply(struct dsr_link *link, struct dsr_link_peer *peer, const struct dsr_env *env,
                     const union dsr_msg *msg)
{
	struct dsr_link_conn *conn = peer->conn;
	struct dsr_request request;
	int32_t err;

	memcpy(&err, msg, sizeof(err));
	/* It does not know us any more: the connection is a new one. */
	if (err == -EPROTO && conn && conn->hello_req == 0)
		dsr_link_greet(conn);
	if (!dsr_pending_take(link->pending, &peer->list, env->req, env->type - 1, &request)) {
		dsr_link_count(link, DSR_COUNTER_BAD_UNEXPECTED);
		return;
	}
	if (request.is_internal)
		return;
	if (!link->ops->on[env->type]) {
		dsr_link_count(link, DSR_COUNTER_BAD_UNEXPECTED);
		return;
	}
	link->cookie = request.cookie;
	link->ops->on[env->type](link->self, &peer->pub, env, msg);
	link->cookie = 0;
}

/* A message of a peer that said HELLO, or whose HELLO we said. */
static void dispatch(struct dsr_link *link, struct dsr_link_peer *peer, const struct dsr_env *env,
                     const union dsr_msg *msg)
{
	const struct dsr_msg_info *info = dsr_msg_info(env->type);

	if (env->to != link->incarnation || env->from != peer->pub.incarnation) {
		dsr_link_count(link, DSR_COUNTER_BAD_STALE);
		refuse_request(link, peer->conn, peer->rid, env, -ESTALE);
		return;
	}
	peer->heard_ns = dsr_now_ns();
	peer->unreachable_ns = 0;
	if (info->kind == DSR_KIND_REPLY) {
		on_reply(link, peer, env, msg);
		return;
	}
	if (link->ops->on[env->type]) {
		link->ops->on[env->type](link->self, &peer->pub, env, msg);
		return;
	}
	if (serve_builtin(link, peer, env, msg))
		return;
	dsr_link_count(link, DSR_COUNTER_BAD_UNEXPECTED);
	refuse_request(link, peer->conn, peer->rid, env, -EPROTO);
}

/* Counts a frame that is no message of ours, and logs the first of each peer. */
static void reject(struct dsr_link *link, const struct dsr_peer *who, bool *is_loggable,
                   size_t bytes, int err)
{
	dsr_link_count(link, err == -EPROTO            ? DSR_COUNTER_BAD_UNEXPECTED
	                     : err == -EPROTONOSUPPORT ? DSR_COUNTER_BAD_VERSION
	                                               : DSR_COUNTER_BAD_MALFORMED);
	if (is_loggable && !*is_loggable)
		return;
	if (is_loggable)
		*is_loggable = false;
	dsr_log(DSR_LOG_WARN, "dropping a message of %zu bytes from %s%s%s: %s", bytes,
	        who ? dsr_role_name(who->role) : "a stranger", who && who->device[0] ? " " : "",
	        who ? who->device : "", strerror(-err));
}

static void on_routed_frame(struct dsr_link *link, uint64_t rid, const void *frame, size_t bytes)
{
	struct dsr_link_peer *peer = dsr_link_find_routed(link, rid);
	struct dsr_env env;
	union dsr_msg msg;
	int r = dsr_codec_unpack(link->rx, frame, bytes, &env, &msg);

	if (dsr_tap_is_watched(link->tap))
		tap(link, "in", peer ? &peer->pub : NULL, frame, bytes);
	if (r < 0) {
		reject(link, peer ? &peer->pub : NULL, peer ? &peer->is_loggable : NULL, bytes, r);
		if (r == -EPROTONOSUPPORT && env.type == DSR_MSG_HELLO)
			dsr_link_refuse_hello(link, rid, &env, r);
	} else if (env.type == DSR_MSG_HELLO) {
		dsr_link_on_hello(link, rid, &env, &msg.hello);
	} else if (peer) {
		dispatch(link, peer, &env, &msg);
	} else {
		dsr_link_count(link, DSR_COUNTER_BAD_UNEXPECTED);
		refuse_request(link, NULL, rid, &env, -EPROTO);
	}
}

static void on_conn_frame(struct dsr_link_conn *conn, const void *frame, size_t bytes)
{
	struct dsr_link *link = conn->link;
	struct dsr_link_peer *peer = conn->peer;
	struct dsr_env env;
	union dsr_msg msg;
	int r = dsr_codec_unpack(link->rx, frame, bytes, &env, &msg);

	if (dsr_tap_is_watched(link->tap))
		tap(link, "in", peer ? &peer->pub : NULL, frame, bytes);
	if (r == -EPROTONOSUPPORT && !peer)
		dsr_link_on_version(conn, env.major);
	else if (r < 0)
		reject(link, peer ? &peer->pub : NULL, &conn->is_loggable, bytes, r);
	else if (env.type == DSR_MSG_HELLO_REPLY && env.to == link->incarnation)
		dsr_link_on_hello_reply(conn, &env, &msg.hello_reply);
	else if (peer)
		dispatch(link, peer, &env, &msg);
	else
		dsr_link_count(link, DSR_COUNTER_BAD_UNEXPECTED);
}

/* Drops the parts that follow: none of our messages has them. */
static void drop_parts(void *socket, zmq_msg_t *message)
{
	while (zmq_msg_more(message) && zmq_msg_recv(message, socket, ZMQ_DONTWAIT) != -1)
		;
}

/* One routed message: 1 taken, 0 there is none. */
static int take_routed(struct dsr_link *link, zmq_msg_t *message)
{
	uint64_t rid = 0;
	size_t rid_bytes;

	if (zmq_msg_recv(message, link->router, ZMQ_DONTWAIT) == -1)
		return 0;
	rid_bytes = zmq_msg_size(message);
	if (rid_bytes == DSR_LINK_RID_BYTES)
		memcpy(&rid, zmq_msg_data(message), DSR_LINK_RID_BYTES);
	if (!zmq_msg_more(message) || zmq_msg_recv(message, link->router, ZMQ_DONTWAIT) == -1)
		return 1;
	dsr_link_count(link, DSR_COUNTER_MESSAGES_RECEIVED);
	/* A routing id of its own choice: not one of us. */
	if (rid_bytes != DSR_LINK_RID_BYTES || zmq_msg_more(message)) {
		reject(link, NULL, NULL, zmq_msg_size(message), -EBADMSG);
		drop_parts(link->router, message);
		return 1;
	}
	on_routed_frame(link, rid, zmq_msg_data(message), zmq_msg_size(message));
	return 1;
}

void dsr_link_drain_router(struct dsr_link *link)
{
	int left = TURN_MAX;
	zmq_msg_t message;

	if (!link->router)
		return;
	dsr_link_enter(link);
	(void)zmq_msg_init(&message);
	while (left-- > 0 && take_routed(link, &message))
		;
	(void)zmq_msg_close(&message);
	dsr_link_leave(link);
}

void dsr_link_drain_conn(struct dsr_link_conn *conn)
{
	struct dsr_link *link = conn->link;
	int left = TURN_MAX;
	zmq_msg_t message;

	dsr_link_enter(link);
	(void)zmq_msg_init(&message);
	/* A handler may disconnect: then there is no socket. */
	while (left-- > 0 && conn->socket &&
	       zmq_msg_recv(&message, conn->socket, ZMQ_DONTWAIT) != -1) {
		dsr_link_count(link, DSR_COUNTER_MESSAGES_RECEIVED);
		if (!zmq_msg_more(&message)) {
			on_conn_frame(conn, zmq_msg_data(&message), zmq_msg_size(&message));
			continue;
		}
		reject(link, NULL, &conn->is_loggable, zmq_msg_size(&message), -EBADMSG);
		drop_parts(conn->socket, &message);
	}
	(void)zmq_msg_close(&message);
	dsr_link_leave(link);
}

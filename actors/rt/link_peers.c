/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there: HELLO on both sides, death, and connections that went quiet.
 *
 * The connecting side says HELLO until it is answered. It cannot see that ZeroMQ reconnected, after
 * which the other side knows its new routing id no more; so a connection that is quiet for a second
 * is pinged, and the answer -EPROTO ("who are you") brings the next HELLO. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "link_internal.h"
#include "log.h"
#include "util.h"
#include "version.h"

#define HELLO_FIRST_NS (5 * DSR_LINK_MS)
#define HELLO_MAX_NS (100 * DSR_LINK_MS)
#define HELLO_REFUSED_NS (1000 * DSR_LINK_MS)
#define QUIET_NS (900 * DSR_LINK_MS) /* a bit less than the sweep's period */
#define QUIET_THEIRS_NS (1900 * DSR_LINK_MS)
#define REOPEN_NS (2000 * DSR_LINK_MS)
#define LEFT_NS (2000 * DSR_LINK_MS)
#define LAST_CALL_NS (10 * DSR_LINK_MS)
#define SILENT_MAX 3
#define PEERS_MAX 512

static const struct {
	uint32_t role;
	bool is_actor; /* holds a role lock: one incarnation of it lives at a time */
} roles[] = {
#define DSR_ROLE(NAME, name, number, exe, per_device, ready_ms, stop_ms, restart)                  \
	{number, ready_ms != 0},
#include "actors.def"
#undef DSR_ROLE
};

static bool is_role(uint32_t role)
{
	size_t i;

	for (i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (roles[i].role == role)
			return true;
	return false;
}

static bool is_actor(uint32_t role)
{
	size_t i;

	for (i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (roles[i].role == role)
			return roles[i].is_actor;
	return false;
}

static const char *peer_text(const struct dsr_peer *peer, char *ret_text, size_t text_bytes)
{
	(void)snprintf(ret_text, text_bytes, "%s%s%s pid %" PRId32 " incarnation %" PRIu64,
	               dsr_role_name(peer->role), peer->device[0] ? " " : "", peer->device,
	               peer->pid, peer->incarnation);
	return ret_text;
}

/* ---- peers ---- */

struct dsr_link_peer *dsr_link_find_routed(struct dsr_link *link, uint64_t rid)
{
	struct dsr_link_peer **p;
	struct dsr_link_peer *peer;

	for (p = &link->peers; (peer = *p); p = &peer->next) {
		if (peer->conn || peer->rid != rid)
			continue;
		*p = peer->next; /* to the front: who talks is found at once */
		peer->next = link->peers;
		link->peers = peer;
		return peer;
	}
	return NULL;
}

/* The routed peer of that incarnation, or (incarnation 0) the actor of that role and device. */
static struct dsr_link_peer *find_identity(struct dsr_link *link, uint32_t role, const char *device,
                                           uint64_t incarnation)
{
	struct dsr_link_peer *peer;

	for (peer = link->peers; peer; peer = peer->next) {
		if (peer->conn || peer->pub.role != role || strcmp(peer->pub.device, device) != 0)
			continue;
		if (incarnation == 0 || peer->pub.incarnation == incarnation)
			return peer;
	}
	return NULL;
}

/* An actor's process, other than daser-all, has one name: it cannot use up the room of many. */
static bool has_other_name(const struct dsr_link *link, const struct dsr_link_peer *identity)
{
	const struct dsr_peer *id = &identity->pub;
	const struct dsr_link_peer *peer;

	if (id->pid == link->pid && identity->start_ticks == link->start_ticks)
		return false;
	for (peer = link->peers; peer; peer = peer->next)
		if (!peer->conn && is_actor(peer->pub.role) && peer->pub.pid == id->pid &&
		    peer->start_ticks == identity->start_ticks &&
		    (peer->pub.role != id->role || strcmp(peer->pub.device, id->device) != 0))
			return true;
	return false;
}

static void on_last_call(void *self)
{
	struct dsr_link_peer *peer = self;
	struct dsr_link *link = peer->link;

	dsr_link_enter(link);
	if (peer->conn)
		dsr_link_drain_conn(peer->conn);
	else
		dsr_link_drain_router(link);
	if (!peer->is_dead)
		dsr_link_bury(peer, -EOWNERDEAD, true);
	dsr_link_leave(link);
}

/* The process died. What it sent before, its last replies perhaps, has a moment to get through
 * ZeroMQ's thread; so nothing comes from it after its burial. */
static void on_death(void *self)
{
	struct dsr_link_peer *peer = self;

	if (peer->last_call)
		return;
	if (peer->pidfd != -1)
		dsr_loop_remove_fd(peer->link->loop, peer->pidfd);
	if (dsr_timer_new(peer->link->loop, on_last_call, peer, &peer->last_call) < 0) {
		on_last_call(peer);
		return;
	}
	dsr_timer_set(peer->last_call, dsr_now_ns() + LAST_CALL_NS);
}

/* Opens and watches the process; threads of our own process die with us. */
static int watch(struct dsr_link_peer *peer)
{
	struct dsr_link *link = peer->link;
	int r;

	if (peer->pub.pid == link->pid && peer->start_ticks == link->start_ticks)
		return 0;
	peer->pidfd = dsr_pidfd_open(peer->pub.pid, peer->start_ticks);
	if (peer->pidfd < 0) {
		r = peer->pidfd;
		peer->pidfd = -1;
		peer->is_looked_up = r == -ENOSYS;
		return peer->is_looked_up ? 0 : r;
	}
	r = dsr_loop_add_fd(link->loop, peer->pidfd, on_death, peer);
	if (r < 0)
		dsr_close(&peer->pidfd);
	return r;
}

/* Takes *peer over into the link's list when it can be watched. */
static int adopt(struct dsr_link *link, const struct dsr_link_peer *identity,
                 struct dsr_link_peer **ret_peer)
{
	struct dsr_link_peer *peer;
	int r;

	if (link->peer_count == PEERS_MAX)
		return -ENOSPC;
	peer = malloc(sizeof(*peer));
	if (!peer)
		return -ENOMEM;
	*peer = *identity;
	peer->link = link;
	peer->pidfd = -1;
	peer->heard_ns = dsr_now_ns();
	peer->is_loggable = true;
	r = watch(peer);
	if (r < 0) {
		free(peer);
		return r;
	}
	peer->next = link->peers;
	link->peers = peer;
	link->peer_count++;
	*ret_peer = peer;
	return 0;
}

void dsr_link_bury(struct dsr_link_peer *peer, int err, bool tell)
{
	struct dsr_link *link = peer->link;
	struct dsr_link_conn *conn = peer->conn;
	struct dsr_link_peer **p;
	struct dsr_request request;
	char text[160];

	peer->is_dead = true;
	for (p = &link->peers; *p != peer; p = &(*p)->next)
		;
	*p = peer->next;
	link->peer_count--;
	if (conn)
		conn->peer = NULL;
	if (peer->pidfd != -1)
		dsr_loop_remove_fd(link->loop, peer->pidfd);
	dsr_close(&peer->pidfd);
	dsr_timer_free(&peer->last_call);
	dsr_link_enter(link);
	while (dsr_pending_take_first(link->pending, &peer->list, &request))
		if (!request.is_internal && link->ops->request_failed)
			link->ops->request_failed(link->self, &peer->pub, request.type,
			                          request.cookie, err);
	if (tell) {
		dsr_log(DSR_LOG_DEBUG, "%s is gone", peer_text(&peer->pub, text, sizeof(text)));
		if (link->ops->peer_dead)
			link->ops->peer_dead(link->self, &peer->pub);
	}
	peer->next = link->dead_peers;
	link->dead_peers = peer;
	/* A new socket: nothing meant for the dead one may reach its successor. */
	if (conn && conn->socket && tell) {
		dsr_link_conn_close(conn);
		dsr_link_greet(conn);
	}
	dsr_link_leave(link);
}

/* ---- the side that is connected to ---- */

static int answer(struct dsr_link *link, uint64_t rid, const struct dsr_peer *who,
                  const struct dsr_env *env, int err)
{
	const struct dsr_msg_hello_reply m = {
		.err = err,
		.major = DSR_PROTOCOL_MAJOR,
		.minor = DSR_PROTOCOL_MINOR,
		.role = link->role,
		.device = {link->device, (uint32_t)strlen(link->device)},
		.pid = link->pid,
		.start_ticks = link->start_ticks,
		.version = {DSR_VERSION, sizeof(DSR_VERSION) - 1}};
	const struct dsr_env reply = {.major = DSR_PROTOCOL_MAJOR,
	                              .type = DSR_MSG_HELLO_REPLY,
	                              .from = link->incarnation,
	                              .to = env->from,
	                              .req = env->req};

	return dsr_link_transmit(link, NULL, rid, who, &reply, &m);
}

void dsr_link_refuse_hello(struct dsr_link *link, uint64_t rid, const struct dsr_env *env, int err)
{
	(void)answer(link, rid, NULL, env, err);
}

/* The process of an actor's peer is not there any more, or it is the one that now speaks for a next
 * incarnation of itself (a thread of daser-all). Its word alone buries nobody: slots of the dead
 * are freed. */
static bool may_be_replaced(const struct dsr_link_peer *peer, const struct dsr_link_peer *by)
{
	struct pollfd dead = {.fd = peer->pidfd, .events = POLLIN};

	if (peer->pub.pid == by->pub.pid && peer->start_ticks == by->start_ticks)
		return true;
	if (peer->pidfd != -1)
		return poll(&dead, 1, 0) == 1;
	return !dsr_process_lives(peer->pub.pid, peer->start_ticks);
}

/* Clears the way for a new peer: 0, or why it is refused. *ret_known: it is there already. */
static int make_room(struct dsr_link *link, uint64_t rid, const struct dsr_link_peer *identity,
                     struct dsr_link_peer **ret_known)
{
	const struct dsr_peer *id = &identity->pub;
	struct dsr_link_peer *peer = dsr_link_find_routed(link, rid);

	if (peer && peer->pub.incarnation != id->incarnation)
		dsr_link_bury(peer, -EOWNERDEAD, true);
	peer = find_identity(link, id->role, id->device, id->incarnation);
	if (peer) {
		if (peer->pub.pid != id->pid || peer->start_ticks != identity->start_ticks)
			return -EPROTO;
		*ret_known = peer;
		return 0;
	}
	if (!is_actor(id->role))
		return 0;
	if (has_other_name(link, identity))
		return -EEXIST;
	peer = find_identity(link, id->role, id->device, 0);
	if (peer && peer->pub.incarnation > id->incarnation)
		return -ESTALE;
	if (peer && !may_be_replaced(peer, identity))
		return -EEXIST;
	if (peer)
		dsr_link_bury(peer, -EOWNERDEAD, true);
	return 0;
}

/* Fills identity from a HELLO or its reply; false when it is none. */
static bool identify(struct dsr_link_peer *identity, uint64_t incarnation, uint32_t role,
                     struct dsr_str device, int32_t pid, uint64_t start_ticks)
{
	if (incarnation == 0 || !is_role(role) || device.n >= DSR_DEVICE_NAME_MAX)
		return false;
	if (device.n > 0)
		memcpy(identity->pub.device, device.p, device.n);
	identity->pub.role = role;
	identity->pub.incarnation = incarnation;
	identity->pub.pid = pid;
	identity->start_ticks = start_ticks;
	return device.n == 0 || dsr_device_name_ok(identity->pub.device);
}

/* Refuses a HELLO, counted and logged. */
static void refuse(struct dsr_link *link, uint64_t rid, const struct dsr_env *env,
                   const struct dsr_peer *who, int err)
{
	char text[160];

	dsr_link_count(link, err == -ESTALE ? DSR_COUNTER_BAD_STALE : DSR_COUNTER_BAD_UNEXPECTED);
	dsr_log(DSR_LOG_WARN, "refusing %s: %s", peer_text(who, text, sizeof(text)),
	        strerror(-err));
	dsr_link_refuse_hello(link, rid, env, err);
}

void dsr_link_on_hello(struct dsr_link *link, uint64_t rid, const struct dsr_env *env,
                       const struct dsr_msg_hello *m)
{
	struct dsr_link_peer identity = {.rid = rid};
	struct dsr_link_peer *peer = NULL;
	char text[160];
	int r;

	if (m->major != DSR_PROTOCOL_MAJOR) {
		dsr_link_count(link, DSR_COUNTER_BAD_VERSION);
		dsr_link_refuse_hello(link, rid, env, -EPROTONOSUPPORT);
		return;
	}
	if (env->to != 0 ||
	    !identify(&identity, env->from, m->role, m->device, m->pid, m->start_ticks)) {
		dsr_link_count(link, DSR_COUNTER_BAD_MALFORMED);
		dsr_link_refuse_hello(link, rid, env, -EPROTO);
		return;
	}
	r = make_room(link, rid, &identity, &peer);
	if (r == 0 && peer) { /* said again, perhaps over a new connection */
		peer->rid = rid;
		peer->unreachable_ns = 0;
		(void)answer(link, rid, &peer->pub, env, 0);
		return;
	}
	if (r == 0)
		r = adopt(link, &identity, &peer);
	if (r < 0) { /* -ESRCH: not a process of this machine, or dead already */
		refuse(link, rid, env, &identity.pub, r);
		return;
	}
	/* Unanswered, it says HELLO again. */
	if (answer(link, rid, &peer->pub, env, 0) < 0) {
		dsr_link_bury(peer, -EOWNERDEAD, false);
		return;
	}
	dsr_log(DSR_LOG_DEBUG, "%s is here", peer_text(&peer->pub, text, sizeof(text)));
	if (link->ops->peer_ready)
		link->ops->peer_ready(link->self, &peer->pub);
}

/* ---- the side that connects ---- */

static void say_hello(struct dsr_link_conn *conn)
{
	struct dsr_link *link = conn->link;
	const struct dsr_msg_hello m = {.major = DSR_PROTOCOL_MAJOR,
	                                .minor = DSR_PROTOCOL_MINOR,
	                                .role = link->role,
	                                .device = {link->device, (uint32_t)strlen(link->device)},
	                                .pid = link->pid,
	                                .start_ticks = link->start_ticks,
	                                .version = {DSR_VERSION, sizeof(DSR_VERSION) - 1}};
	const struct dsr_env env = {.major = DSR_PROTOCOL_MAJOR,
	                            .type = DSR_MSG_HELLO,
	                            .from = link->incarnation,
	                            .req = conn->hello_req};

	/* Fails while there is no connection: no refusal, nobody was there to refuse. */
	(void)dsr_link_transmit(link, conn, 0, NULL, &env, &m);
}

void dsr_link_greet(struct dsr_link_conn *conn)
{
	conn->hello_req = conn->link->next_hello++;
	conn->backoff_ns = HELLO_FIRST_NS;
	dsr_timer_set(conn->timer, dsr_now_ns());
}

void dsr_link_on_hello_timer(void *self)
{
	struct dsr_link_conn *conn = self;
	uint64_t now_ns = dsr_now_ns();

	if (conn->hello_req == 0)
		return;
	/* Over ipc ZeroMQ reconnects; an inproc DEALER stays with the ROUTER that it found. */
	if (conn->link->use_inproc && conn->socket && !conn->peer &&
	    now_ns - conn->opened_ns > REOPEN_NS)
		dsr_link_conn_close(conn);
	if (!conn->socket && dsr_link_conn_open(conn) < 0) {
		dsr_timer_set(conn->timer, now_ns + HELLO_MAX_NS);
		return;
	}
	say_hello(conn);
	dsr_timer_set(conn->timer, now_ns + conn->backoff_ns);
	conn->backoff_ns *= 2;
	if (conn->backoff_ns > HELLO_MAX_NS)
		conn->backoff_ns = HELLO_MAX_NS;
}

/* The one who answers is not one that we can work with: told once, tried again at leisure. */
static void put_off(struct dsr_link_conn *conn, const char *why)
{
	if (conn->is_loggable)
		dsr_log(DSR_LOG_WARN, "no connection to %s%s%s: %s", dsr_role_name(conn->role),
		        conn->device[0] ? " " : "", conn->device, why);
	conn->is_loggable = false;
	dsr_timer_set(conn->timer, dsr_now_ns() + HELLO_REFUSED_NS);
}

void dsr_link_on_version(struct dsr_link_conn *conn, uint32_t major)
{
	char text[64];

	dsr_link_count(conn->link, DSR_COUNTER_BAD_VERSION);
	(void)snprintf(text, sizeof(text), "it speaks protocol %" PRIu32 ", this is %d", major,
	               DSR_PROTOCOL_MAJOR);
	put_off(conn, text);
}

void dsr_link_on_hello_reply(struct dsr_link_conn *conn, const struct dsr_env *env,
                             const struct dsr_msg_hello_reply *m)
{
	struct dsr_link *link = conn->link;
	struct dsr_link_peer identity = {.conn = conn, .pub.is_ours = true};
	struct dsr_link_peer *peer = conn->peer;
	char text[160];
	int r;

	if (conn->hello_req == 0 || env->req != conn->hello_req)
		return; /* the answer to a repetition */
	if (m->err == -EPROTONOSUPPORT || m->major != DSR_PROTOCOL_MAJOR) {
		dsr_link_on_version(conn, m->major);
		return;
	}
	if (m->err != 0) {
		put_off(conn, strerror(m->err < 0 && m->err > -4096 ? -m->err : EPROTO));
		return;
	}
	if (!identify(&identity, env->from, m->role, m->device, m->pid, m->start_ticks) ||
	    identity.pub.role != conn->role || strcmp(identity.pub.device, conn->device) != 0) {
		dsr_link_count(link, DSR_COUNTER_BAD_UNEXPECTED);
		put_off(conn, "another actor answers there");
		return;
	}
	if (peer && peer->pub.incarnation == env->from) {
		conn->hello_req = 0;
		return;
	}
	if (peer && !may_be_replaced(peer, &identity)) { /* its copies may still run */
		put_off(conn, "an earlier incarnation of it is not gone yet");
		return;
	}
	if (peer) { /* replaced; bury opens a new socket, over which HELLO is said again */
		dsr_link_bury(peer, -EOWNERDEAD, true);
		return;
	}
	r = adopt(link, &identity, &peer);
	if (r < 0) { /* -ESRCH: it died just now, its successor will answer */
		if (r != -ESRCH)
			put_off(conn, strerror(-r));
		return;
	}
	conn->peer = peer;
	conn->hello_req = 0;
	conn->silent = 0;
	conn->is_loggable = true;
	dsr_timer_set(conn->timer, UINT64_MAX);
	dsr_log(DSR_LOG_DEBUG, "connected to %s", peer_text(&peer->pub, text, sizeof(text)));
	if (link->ops->peer_ready)
		link->ops->peer_ready(link->self, &peer->pub);
}

/* ---- quiet connections ---- */

static void sweep_ours(struct dsr_link_peer *peer)
{
	struct dsr_link_conn *conn = peer->conn;

	if (dsr_link_ping(peer) == 0) {
		conn->silent = 0;
		return;
	}
	/* Processes are watched by themselves; a thread's end shows in its queue's end alone. */
	if (peer->pidfd == -1 && !peer->is_looked_up && ++conn->silent >= SILENT_MAX)
		dsr_link_bury(peer, -EOWNERDEAD, true);
}

/* A process may close its connection and live on. That actors do not: they end, or reconnect. */
static void sweep_theirs(struct dsr_link_peer *peer, uint64_t now_ns)
{
	if (is_actor(peer->pub.role))
		return;
	if (dsr_link_ping(peer) == 0)
		return;
	if (peer->unreachable_ns && now_ns - peer->unreachable_ns > LEFT_NS)
		dsr_link_bury(peer, -EOWNERDEAD, true);
}

void dsr_link_on_sweep(void *self)
{
	struct dsr_link *link = self;
	struct dsr_link_peer *peer;
	struct dsr_link_peer *next;
	uint64_t now_ns = dsr_now_ns();
	uint64_t quiet_ns;

	dsr_link_enter(link); /* what is buried meanwhile stays readable */
	for (peer = link->peers; peer; peer = next) {
		next = peer->next;
		quiet_ns = now_ns - peer->heard_ns;
		if (peer->is_dead)
			continue;
		if (peer->is_looked_up && !dsr_process_lives(peer->pub.pid, peer->start_ticks))
			on_death(peer);
		else if (peer->conn && quiet_ns > QUIET_NS)
			sweep_ours(peer);
		else if (!peer->conn && quiet_ns > QUIET_THEIRS_NS)
			sweep_theirs(peer, now_ns);
	}
	dsr_link_leave(link);
}

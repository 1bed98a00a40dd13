/* SPDX-License-Identifier: Apache-2.0 */
/* What link.c (sockets), link_messages.c and link_peers.c (who is there) share. */
#ifndef DSR_RT_LINK_INTERNAL_H
#define DSR_RT_LINK_INTERNAL_H

#include "link.h"
#include "pending.h"
#include "tap.h"

#define DSR_LINK_MS UINT64_C(1000000)
#define DSR_LINK_RID_BYTES 5 /* of the routing ids that ZeroMQ gives */

struct dsr_link_conn;

/* First member is what handlers see: a dsr_peer * of a link points to one of these. */
struct dsr_link_peer {
	struct dsr_peer pub;
	struct dsr_link *link;        /* borrowed */
	struct dsr_link_conn *conn;   /* borrowed: how we reach it when it is ours, else NULL */
	uint64_t rid;                 /* routing id, when it is not ours */
	struct dsr_pending_list list; /* our requests to it */
	int pidfd;                    /* owned, -1 for threads of our own process */
	bool is_looked_up;            /* no pidfd to be had: the sweep looks into /proc */
	struct dsr_timer *last_call;  /* owned, NULL until its process ended */
	uint64_t start_ticks;
	uint64_t heard_ns;       /* last message from it */
	uint64_t unreachable_ns; /* since when its connection is closed, 0 = it is open */
	bool is_dead;            /* takes no messages any more */
	bool is_loggable;        /* its next malformed message is logged */
	struct dsr_link_peer *next;
};

/* A connection of ours and its DEALER. */
struct dsr_link_conn {
	struct dsr_link *link; /* borrowed */
	enum dsr_role role;
	char device[DSR_DEVICE_NAME_MAX];
	void *socket;               /* owned, NULL once closed */
	struct dsr_timer *timer;    /* owned: next HELLO */
	struct dsr_link_peer *peer; /* owned by the link's list, NULL while there is none */
	uint64_t hello_req;         /* of the HELLO that is not answered yet, 0 = none */
	uint64_t backoff_ns;
	uint64_t opened_ns;
	unsigned silent; /* sweeps in which an inproc peer could not be reached */
	bool is_loggable;
	struct dsr_link_conn *next;
};

struct dsr_link {
	struct dsr_loop *loop; /* borrowed */
	void *zmq;             /* owned when owns_zmq, else borrowed */
	bool owns_zmq, use_inproc, has_tap;
	char run_dir[128];
	enum dsr_role role;
	char device[DSR_DEVICE_NAME_MAX];
	uint64_t incarnation;
	int32_t pid;
	uint64_t start_ticks;
	struct dsr_counters_page *counters; /* borrowed, may be NULL */
	const struct dsr_link_ops *ops;     /* borrowed */
	void *self;                         /* borrowed */
	struct dsr_faults *faults;          /* borrowed, may be NULL */
	void *router;                       /* owned, NULL before dsr_link_bind */
	struct dsr_tap *tap;                /* owned, may be NULL */
	struct dsr_codec *tx, *rx;          /* owned; two: handlers send while they read */
	struct dsr_pending *pending;        /* owned */
	struct dsr_timer *deadline_timer;   /* owned */
	struct dsr_timer *sweep_timer;      /* owned */
	uint64_t deadline_ns;               /* what deadline_timer is set to */
	uint64_t next_hello;
	uint64_t cookie;
	struct dsr_link_conn *conns; /* owned list */
	struct dsr_link_peer *peers; /* owned list, the ones heard last in front */
	unsigned peer_count;
	/* Owned lists: removed while a callback may still hold them, freed when none runs. */
	struct dsr_link_conn *dead_conns;
	struct dsr_link_peer *dead_peers;
	unsigned depth; /* of callbacks running */
};

/* Around every callback from the loop. */
void dsr_link_enter(struct dsr_link *link);
void dsr_link_leave(struct dsr_link *link);

/* ---- link.c ---- */
void dsr_link_count(struct dsr_link *link, enum dsr_counter counter);
/* Opens conn's DEALER and puts it into the loop; closes it. */
int dsr_link_conn_open(struct dsr_link_conn *conn);
void dsr_link_conn_close(struct dsr_link_conn *conn);

/* ---- link_messages.c ---- */
/* Packs and sends one frame: over conn's DEALER, or to routing id rid when conn is NULL. `who` is
 * for the tap and may be NULL. Nothing is counted but a success. */
int dsr_link_transmit(struct dsr_link *link, struct dsr_link_conn *conn, uint64_t rid,
                      const struct dsr_peer *who, const struct dsr_env *env, const void *msg);
/* A request of the link itself, of which its owner hears nothing. */
int dsr_link_ping(struct dsr_link_peer *peer);
/* Takes the messages that are there, at most a turn's worth. */
void dsr_link_drain_router(struct dsr_link *link);
void dsr_link_drain_conn(struct dsr_link_conn *conn);
dsr_loop_fn dsr_link_on_deadline; /* of a link */

/* ---- link_peers.c ---- */
struct dsr_link_peer *dsr_link_find_routed(struct dsr_link *link, uint64_t rid);
/* Ends a peer: fails its requests with err, calls peer_dead when `tell`, forgets it. */
void dsr_link_bury(struct dsr_link_peer *peer, int err, bool tell);
void dsr_link_on_hello(struct dsr_link *link, uint64_t rid, const struct dsr_env *env,
                       const struct dsr_msg_hello *m);
void dsr_link_refuse_hello(struct dsr_link *link, uint64_t rid, const struct dsr_env *env, int err);
void dsr_link_on_hello_reply(struct dsr_link_conn *conn, const struct dsr_env *env,
                             const struct dsr_msg_hello_reply *m);
/* What answers there is of another major version. */
void dsr_link_on_version(struct dsr_link_conn *conn, uint32_t major);
/* Says HELLO at once and until it is answered. */
void dsr_link_greet(struct dsr_link_conn *conn);
dsr_loop_fn dsr_link_on_hello_timer; /* of a conn */
dsr_loop_fn dsr_link_on_sweep;       /* of a link: who is silent, who left */

#endif

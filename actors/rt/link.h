/* SPDX-License-Identifier: Apache-2.0 */
/* Peers: who is connected, whether they live, requests and replies. Nothing above it knows ZeroMQ.
 *
 * A link owns one ROUTER (what others connect to) and a DEALER for each peer that it connects to.
 * HELLO is said and answered by the link; handlers see only peers that said it. The link checks
 * incarnations (a message for another incarnation of us, or from an old one of theirs, is counted
 * and answered -ESTALE where it was a request), matches replies with requests, ends requests whose
 * deadline passed or whose peer died, watches peers' pidfds, and reconnects its own DEALERs.
 * Everything runs in the loop's thread; nothing blocks.
 */
#ifndef DSR_RT_LINK_H
#define DSR_RT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "codec.h"
#include "counters.h"
#include "faults.h"
#include "loop.h"
#include "roles.h"

struct dsr_link;

/* One counterpart, of one incarnation. Valid until peer_dead for it returned, or until
 * dsr_link_disconnect. It is the first part of what link.c keeps of it. */
struct dsr_peer {
	enum dsr_role role;
	char device[DSR_DEVICE_NAME_MAX];
	uint64_t incarnation;
	int32_t pid;
	bool is_ours; /* we connected to it */
	void *user;   /* for the owner of the link */
};

typedef void dsr_handler(void *self, struct dsr_peer *peer, const struct dsr_env *env,
                         const void *msg);

struct dsr_link_ops {
	/* Handlers by message type, requests, replies and events alike; NULL: unexpected, counted,
	 * and a request is answered -EPROTO. PING and FAULT are answered without a handler. Set
	 * with DSR_HANDLER for type safety. */
	dsr_handler *on[DSR_MSG_LIMIT];
	/* HELLO went through: both sides. May be NULL. */
	void (*peer_ready)(void *self, struct dsr_peer *peer);
	/* Confirmed dead (pidfd) or replaced by a newer incarnation; nothing more comes from it.
	 * Its pending requests were failed before. Engines, workers and ctl can leave without their
	 * process ending: for those it also comes 2 s after their connection was closed. May be
	 * NULL. */
	void (*peer_dead)(void *self, struct dsr_peer *peer);
	/* A request of ours got no reply: -ETIMEDOUT, -EOWNERDEAD, -ECANCELED (disconnected). May
	 * be NULL. */
	void (*request_failed)(void *self, struct dsr_peer *peer, uint32_t type, uint64_t cookie,
	                       int err);
};

/* dsr_handler for `void fn(struct SELF *, struct dsr_peer *, const struct dsr_env *, const struct
 * dsr_msg_<name> *)`: another message's function does not compile. Use in an initialiser:
 * .on[DSR_MSG_LOOKUP] = DSR_HANDLER(lookup, struct scheduler, on_lookup) */
#define DSR_HANDLER(name, SELF, fn)                                                                \
	((dsr_handler *)(void *)(1 ? (fn)                                                          \
	                           : (void (*)(SELF *, struct dsr_peer *, const struct dsr_env *,  \
	                                       const struct dsr_msg_##name *))0))

struct dsr_link_options {
	void *zmq;           /* borrowed context; NULL: the link makes its own */
	const char *run_dir; /* borrowed */
	enum dsr_role role;
	const char *device; /* borrowed; "" when none */
	uint64_t incarnation;
	bool use_inproc; /* connect to actors of this process by inproc (daser-all) */
	struct dsr_counters_page *counters; /* borrowed; may be NULL, see dsr_link_set_counters */
	const struct dsr_link_ops *ops;     /* borrowed */
	void *self;                         /* first argument of all ops */
	bool has_tap;                       /* binds a tap (tap.h) with the ROUTER */
	struct dsr_faults *faults;          /* borrowed: what FAULT arms; NULL: it is refused */
};

/* A context for all links of one process (daser-all); NULL: no memory. Freed after the last link:
 * waits for that. */
void *dsr_link_context_new(void);
void dsr_link_context_free(void **context);

int dsr_link_new(struct dsr_loop *loop, const struct dsr_link_options *options,
                 struct dsr_link **ret_link);
/* Ends it at once: messages that did not leave yet are lost, of what is pending nobody hears. */
void dsr_link_free(struct dsr_link **link);
void dsr_link_set_counters(struct dsr_link *link, struct dsr_counters_page *counters);

/* Binds the ROUTER at dsr_link_endpoint(role, device) (ipc, and inproc when use_inproc), removing a
 * socket file left by a dead process: the caller holds the role lock. */
int dsr_link_bind(struct dsr_link *link);
/* Connects to an actor and keeps doing so over its deaths; peer_ready tells when. Returns at once.
 */
int dsr_link_connect(struct dsr_link *link, enum dsr_role role, const char *device);
/* Ends that; its peer is forgotten without peer_dead, requests to it fail with -ECANCELED. */
void dsr_link_disconnect(struct dsr_link *link, enum dsr_role role, const char *device);
/* The present peer of a connection of ours, or NULL while there is none. */
struct dsr_peer *dsr_link_peer(struct dsr_link *link, enum dsr_role role, const char *device);

/* Sends, never blocks. -EAGAIN (its queue is full) and -EHOSTUNREACH are counted. -EOWNERDEAD:
 * peer_dead or request_failed for it is running; -E2BIG, -EINVAL, -ENOMEM as dsr_codec_pack. */
int dsr_peer_send(struct dsr_link *link, struct dsr_peer *peer, uint32_t type, uint64_t req,
                  const void *msg);
#define dsr_peer_reply(link, peer, env, msg)                                                       \
	dsr_peer_send((link), (peer), (env)->type + 1, (env)->req, (msg))
/* A request with a deadline; its reply is dispatched to on[type + 1], where dsr_link_cookie gives
 * `cookie`; otherwise request_failed comes, exactly one of the two. -EAGAIN also when 65,536 are
 * pending. */
int dsr_peer_request(struct dsr_link *link, struct dsr_peer *peer, uint32_t type, const void *msg,
                     uint64_t deadline_ms, uint64_t cookie);
/* Cookie of the reply being dispatched. */
uint64_t dsr_link_cookie(const struct dsr_link *link);
/* Replies the short way: err alone, other fields zero. */
int dsr_peer_reply_err(struct dsr_link *link, struct dsr_peer *peer, const struct dsr_env *env,
                       int err);

/* "ipc:///run/daser/load-host:0.sock"; device may be "". */
int dsr_link_endpoint(const char *run_dir, enum dsr_role role, const char *device, char *ret_text,
                      size_t text_bytes);

#endif

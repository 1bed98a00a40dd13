/* SPDX-License-Identifier: Apache-2.0 */
#include "side.h"

#include <stdatomic.h>

#include "rt_test.h"

static void on_lookup(struct side *side, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_lookup *m)
{
	const struct dsr_msg_lookup_reply reply = {.hits = m->keys.n};

	side->lookups++;
	if (!side->is_mute)
		(void)dsr_peer_reply(side->link, peer, env, &reply);
}

static void on_lookup_reply(struct side *side, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_lookup_reply *m)
{
	(void)peer;
	(void)env;
	side->replies++;
	side->last_err = m->err;
	side->last_hits = m->hits;
	side->last_cookie = dsr_link_cookie(side->link);
	if (side->is_leaving)
		dsr_link_disconnect(side->link, side->leaves, "");
}

static void on_cancel(struct side *side, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_cancel *m)
{
	(void)m;
	side->cancels++;
	(void)dsr_peer_reply_err(side->link, peer, env, -EAGAIN);
}

static void on_cancel_reply(struct side *side, struct dsr_peer *peer, const struct dsr_env *env,
                            const struct dsr_msg_cancel_reply *m)
{
	(void)peer;
	(void)env;
	side->cancel_replies++;
	side->last_err = m->err;
	side->last_cookie = dsr_link_cookie(side->link);
}

static void on_segment(struct side *side, struct dsr_peer *peer, const struct dsr_env *env,
                       const struct dsr_msg_segment *m)
{
	(void)peer;
	(void)env;
	(void)m;
	side->segments++;
}

static void peer_ready(void *self, struct dsr_peer *peer)
{
	struct side *side = self;

	side->ready++;
	side->peer = peer;
}

static void peer_dead(void *self, struct dsr_peer *peer)
{
	struct side *side = self;
	const struct dsr_msg_ping m = {0};

	side->dead++;
	if (side->peer == peer)
		side->peer = NULL;
	assert_int_equal(dsr_peer_send(side->link, peer, DSR_MSG_PING, 1, &m), -EOWNERDEAD);
}

static void request_failed(void *self, struct dsr_peer *peer, uint32_t type, uint64_t cookie,
                           int err)
{
	struct side *side = self;
	unsigned i = side->failed_count++ % SIDE_FAILED_MAX;

	side->failed[i].type = type;
	side->failed[i].cookie = cookie;
	side->failed[i].err = err;
	side->failed[i].was_alive = side->peer == peer;
}

static void open_link(struct side *side, struct dsr_loop *loop, const char *run_dir,
                      enum dsr_role role, const char *device, void *zmq, bool has_tap)
{
	struct dsr_link_options options = {.zmq = zmq,
	                                   .run_dir = run_dir,
	                                   .role = role,
	                                   .device = device,
	                                   .incarnation = dsr_incarnation_new(),
	                                   .use_inproc = zmq != NULL,
	                                   .counters = &side->page,
	                                   .ops = &side->ops,
	                                   .self = side,
	                                   .has_tap = has_tap};

	memset(side, 0, sizeof(*side));
	side->loop = loop;
	side->incarnation = options.incarnation;
	side->ops = (struct dsr_link_ops){
		.on[DSR_MSG_LOOKUP] = DSR_HANDLER(lookup, struct side, on_lookup),
		.on[DSR_MSG_LOOKUP_REPLY] = DSR_HANDLER(lookup_reply, struct side, on_lookup_reply),
		.on[DSR_MSG_CANCEL] = DSR_HANDLER(cancel, struct side, on_cancel),
		.on[DSR_MSG_CANCEL_REPLY] = DSR_HANDLER(cancel_reply, struct side, on_cancel_reply),
		.on[DSR_MSG_SEGMENT] = DSR_HANDLER(segment, struct side, on_segment),
		.peer_ready = peer_ready,
		.peer_dead = peer_dead,
		.request_failed = request_failed};
	assert_int_equal(dsr_link_new(loop, &options, &side->link), 0);
}

void side_open(struct side *side, struct dsr_loop *loop, const char *run_dir, enum dsr_role role,
               const char *device, void *zmq)
{
	open_link(side, loop, run_dir, role, device, zmq, false);
}

void side_open_tapped(struct side *side, struct dsr_loop *loop, const char *run_dir,
                      enum dsr_role role, const char *device)
{
	open_link(side, loop, run_dir, role, device, NULL, true);
}

void side_close(struct side *side)
{
	dsr_link_free(&side->link);
}

uint64_t side_counter(const struct side *side, enum dsr_counter counter)
{
	return atomic_load(&side->page.v[counter]);
}

void side_wait(struct side *side, const unsigned *number, unsigned want)
{
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;

	while (*number < want) {
		assert_true(dsr_now_ns() < end_ns);
		assert_true(dsr_loop_step(side->loop, 100) >= 0);
	}
}

void side_wait_counter(struct side *side, enum dsr_counter counter, uint64_t want)
{
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;

	while (side_counter(side, counter) < want) {
		assert_true(dsr_now_ns() < end_ns);
		assert_true(dsr_loop_step(side->loop, 100) >= 0);
	}
}

int side_lookup(struct side *side, uint32_t n, uint64_t deadline_ms, uint64_t cookie)
{
	static const struct dsr_key keys[512];
	const struct dsr_msg_lookup m = {.keys = {keys, n}};

	return dsr_peer_request(side->link, side->peer, DSR_MSG_LOOKUP, &m, deadline_ms, cookie);
}

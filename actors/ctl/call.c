/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "fields.h"
#include "link.h"
#include "loop.h"
#include "roles.h"
#include "util.h"

#define ROWS_EVERY_MS 50

struct caller {
	struct dsr_loop *loop;   /* owned */
	struct dsr_link *link;   /* owned */
	struct dsr_timer *timer; /* owned */
	struct dsr_link_ops ops;
	struct dsr_call *calls; /* borrowed */
	uint32_t count;
	uint32_t left; /* not done */
	uint64_t deadline_ns;
	bool is_over; /* the deadline passed */
};

static void finish(struct caller *caller, struct dsr_call *call, int err)
{
	if (call->is_done)
		return;
	call->is_done = true;
	call->err = err;
	caller->left--;
}

static void on_peer_ready(void *self, struct dsr_peer *peer)
{
	struct caller *caller = self;
	uint64_t now_ns = dsr_now_ns();

	for (uint32_t i = 0; i < caller->count; i++) {
		struct dsr_call *call = &caller->calls[i];
		int r;

		if (call->is_done || call->sent_ns != 0 || call->target.role != peer->role ||
		    strcmp(call->target.device, peer->device) != 0)
			continue;
		call->sent_ns = now_ns;
		call->incarnation = peer->incarnation;
		r = dsr_peer_request(caller->link, peer, call->type, call->msg,
		                     now_ns < caller->deadline_ns
		                             ? (caller->deadline_ns - now_ns) / 1000000 + 1
		                             : 1,
		                     i);
		if (r < 0)
			finish(caller, call, r);
	}
}

static void on_reply(void *self, struct dsr_peer *peer, const struct dsr_env *env, const void *msg)
{
	struct caller *caller = self;
	uint64_t index = dsr_link_cookie(caller->link);
	const struct dsr_msg_info *info = dsr_msg_info(env->type);
	struct dsr_call *call;

	(void)peer;
	if (index >= caller->count || info == NULL)
		return;
	call = &caller->calls[index];
	if (call->is_done)
		return;
	call->elapsed_ns = dsr_now_ns() - call->sent_ns;
	/* every reply begins with err */
	memcpy(&call->reply_err, (const char *)msg + info->fields[0].offset,
	       sizeof(call->reply_err));
	call->reply = dsr_fields_json(info, msg);
	finish(caller, call, call->reply != NULL ? 0 : -ENOMEM);
}

static void on_request_failed(void *self, struct dsr_peer *peer, uint32_t type, uint64_t cookie,
                              int err)
{
	struct caller *caller = self;

	(void)peer;
	(void)type;
	if (cookie < caller->count)
		finish(caller, &caller->calls[cookie], err);
}

/* An actor may leave between our look at its row and our connection. */
static void check_rows(struct caller *caller)
{
	for (uint32_t i = 0; i < caller->count; i++) {
		struct dsr_call *call = &caller->calls[i];

		if (call->row != NULL &&
		    (atomic_load_explicit(&call->row->state, memory_order_acquire) !=
		             DSR_ACTOR_READY ||
		     atomic_load_explicit(&call->row->incarnation, memory_order_acquire) !=
		             call->row_incarnation))
			finish(caller, call, -EOWNERDEAD);
	}
}

static void on_deadline(void *self)
{
	struct caller *caller = self;

	caller->is_over = true;
}

static void set_ops(struct dsr_link_ops *ops)
{
	const struct dsr_msg_info *info;

	ops->peer_ready = on_peer_ready;
	ops->request_failed = on_request_failed;
	for (unsigned i = 0; (info = dsr_msg_at(i)) != NULL; i++) {
		if (info->kind == DSR_KIND_REPLY)
			ops->on[info->type] = on_reply;
	}
}

static int caller_open(struct caller *caller, const char *run_dir)
{
	struct dsr_link_options options = {.run_dir = run_dir,
	                                   .role = DSR_ROLE_CTL,
	                                   .device = "",
	                                   .incarnation = dsr_incarnation_new(),
	                                   .ops = &caller->ops,
	                                   .self = caller};
	int r = dsr_loop_new(&caller->loop);

	if (r == 0)
		r = dsr_link_new(caller->loop, &options, &caller->link);
	if (r == 0)
		r = dsr_timer_new(caller->loop, on_deadline, caller, &caller->timer);
	for (uint32_t i = 0; r == 0 && i < caller->count; i++)
		r = dsr_link_connect(caller->link, caller->calls[i].target.role,
		                     caller->calls[i].target.device);
	return r;
}

static void caller_close(struct caller *caller)
{
	dsr_timer_free(&caller->timer);
	dsr_link_free(&caller->link);
	dsr_loop_free(&caller->loop);
}

int dsr_call_all(const char *run_dir, struct dsr_call *calls, uint32_t count, uint64_t timeout_ms)
{
	struct caller caller = {.calls = calls, .count = count, .left = count};
	int r;

	set_ops(&caller.ops);
	caller.deadline_ns = dsr_now_ns() + timeout_ms * 1000000;
	r = caller_open(&caller, run_dir);
	if (r < 0)
		goto out_close;
	dsr_timer_set(caller.timer, caller.deadline_ns);
	while (caller.left > 0 && !caller.is_over && r >= 0) {
		r = dsr_loop_step(caller.loop, ROWS_EVERY_MS);
		check_rows(&caller);
	}
	for (uint32_t i = 0; i < count; i++)
		finish(&caller, &calls[i], calls[i].sent_ns != 0 ? -ETIMEDOUT : -ENOTCONN);
	if (r > 0)
		r = 0;
out_close:
	caller_close(&caller);
	return r;
}

void dsr_call_done(struct dsr_call *call)
{
	json_decref(call->reply);
	call->reply = NULL;
}

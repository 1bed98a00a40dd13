/* SPDX-License-Identifier: Apache-2.0 */
/* daser_drain: first every store actor that is up, then the scheduler, in the caller's thread. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "client.h"
#include "files.h"
#include "util.h"

#define UP_NS UINT64_C(2000000000)
#define ROWS_EVERY_MS 50

struct drain {
	struct dsr_loop *loop;      /* owned */
	struct dsr_link *link;      /* owned */
	struct dsr_broker *broker;  /* owned */
	struct dsr_control control; /* owned when has_control */
	bool has_control;
	uint64_t deadline_ns;
	uint32_t waiting;               /* actors of this round that have not answered */
	uint64_t asked[DSR_ACTOR_ROWS]; /* incarnation of each of them that was up, 0 = answered */
	uint64_t left;                  /* of this round */
	int err;                        /* of this round: the first that is not 0 */
};

static uint64_t left_ms(const struct drain *d)
{
	uint64_t now = dsr_now_ns();

	return now >= d->deadline_ns ? 0 : (d->deadline_ns - now) / 1000000;
}

static void answered(struct drain *d, uint32_t row, int err, uint64_t left)
{
	if (d->asked[row] == 0)
		return;
	d->asked[row] = 0;
	d->waiting--;
	d->left += left;
	if (d->err == 0)
		d->err = err;
}

static void peer_answered(struct drain *d, const struct dsr_peer *peer, int err, uint64_t left)
{
	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++)
		if (d->asked[i] != 0 && d->control.rows[i].role == (uint32_t)peer->role &&
		    strncmp(d->control.rows[i].device, peer->device, DSR_DEVICE_NAME_MAX) == 0)
			answered(d, i, err, left);
}

static void on_drain(struct drain *d, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_drain_reply *reply)
{
	(void)env;
	peer_answered(d, peer, reply->err, reply->left);
}

static void on_peer_ready(void *self, struct dsr_peer *peer)
{
	struct drain *d = self;
	uint64_t ms = left_ms(d);
	const struct dsr_msg_drain msg = {.timeout_ms =
	                                          ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms};

	/* A little longer than its own timeout: its answer has the numbers. */
	if (dsr_peer_request(d->link, peer, DSR_MSG_DRAIN, &msg, ms + 100, 0) < 0)
		peer_answered(d, peer, -ENOTCONN, 0);
}

/* A store actor that dies has nothing left to drain: the scheduler aborts what it had. */
static void on_request_failed(void *self, struct dsr_peer *peer, uint32_t type, uint64_t cookie,
                              int err)
{
	(void)type, (void)cookie;
	peer_answered(self, peer, peer->role == DSR_ROLE_STORE && err == -EOWNERDEAD ? 0 : err, 0);
}

static const struct dsr_link_ops link_ops = {
	.on[DSR_MSG_DRAIN_REPLY] = DSR_HANDLER(drain_reply, struct drain, on_drain),
	.peer_ready = on_peer_ready,
	.request_failed = on_request_failed,
};

static int drain_open(struct drain *d, const char *run_dir)
{
	const struct dsr_broker_hello hello = {
		.role = DSR_ROLE_CTL, .device = "", .incarnation = dsr_incarnation_new()};
	const struct dsr_link_options options = {
		.run_dir = run_dir,
		.role = DSR_ROLE_CTL,
		.device = "",
		.incarnation = hello.incarnation,
		.ops = &link_ops,
		.self = d,
	};
	bool by_hand;
	int fd, row, r;

	r = dsr_broker_open(run_dir, &hello, NULL, &d->broker, &row, &by_hand);
	if (r < 0)
		return r;
	fd = dsr_broker_get(d->broker, DSR_OBJECT_CONTROL);
	if (fd < 0)
		return fd;
	r = dsr_control_attach(fd, false, &d->control, NULL, 0);
	dsr_close(&fd);
	if (r < 0)
		return r;
	d->has_control = true;
	r = dsr_loop_new(&d->loop);
	return r < 0 ? r : dsr_link_new(d->loop, &options, &d->link);
}

static void drain_close(struct drain *d)
{
	dsr_link_free(&d->link);
	dsr_loop_free(&d->loop);
	if (d->has_control)
		dsr_control_detach(&d->control);
	dsr_broker_close(&d->broker);
}

/* A store actor may leave between our look at its row and our connection; what it had, the
 * scheduler aborts. */
static void check_rows(struct drain *d)
{
	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++) {
		const struct dsr_actor_row *row = &d->control.rows[i];

		if (d->asked[i] != 0 && row->role == DSR_ROLE_STORE &&
		    (atomic_load_explicit(&row->state, memory_order_acquire) != DSR_ACTOR_READY ||
		     atomic_load_explicit(&row->incarnation, memory_order_acquire) != d->asked[i]))
			answered(d, i, 0, 0);
	}
}

static int ask(struct drain *d, uint32_t index)
{
	const struct dsr_actor_row *row = &d->control.rows[index];
	char device[DSR_DEVICE_NAME_MAX];

	memcpy(device, row->device, sizeof(device));
	device[sizeof(device) - 1] = '\0';
	d->asked[index] = atomic_load_explicit(&row->incarnation, memory_order_acquire);
	d->waiting++;
	return dsr_link_connect(d->link, (enum dsr_role)row->role, device);
}

/* Waits for the actors of this round. */
static int drain_wait(struct drain *d)
{
	uint64_t ms;
	int r;

	while (d->waiting > 0) {
		ms = left_ms(d);
		if (ms == 0)
			return -ETIMEDOUT;
		r = dsr_loop_step(d->loop, ms > ROWS_EVERY_MS ? ROWS_EVERY_MS : (int)ms);
		if (r < 0)
			return r;
		check_rows(d);
	}
	return d->err;
}

static int drain_stores(struct drain *d)
{
	int r = 0;

	for (uint32_t i = 0; i < DSR_ACTOR_ROWS && r == 0; i++) {
		const struct dsr_actor_row *row = &d->control.rows[i];

		if (row->role == DSR_ROLE_STORE && dsr_actor_row_is_up(row, dsr_now_ns(), UP_NS))
			r = ask(d, i);
	}
	return r < 0 ? r : drain_wait(d);
}

static int drain_scheduler(struct drain *d)
{
	int r = -ENOTCONN;

	d->left = 0;
	for (uint32_t i = 0; i < DSR_ACTOR_ROWS && r == -ENOTCONN; i++)
		if (d->control.rows[i].role == DSR_ROLE_SCHEDULER)
			r = ask(d, i);
	return r < 0 ? r : drain_wait(d);
}

int daser_drain(const char *run_dir, uint32_t timeout_ms, uint64_t *ret_left)
{
	struct drain d = {.deadline_ns = dsr_now_ns() + (uint64_t)timeout_ms * 1000000};
	char path[DSR_OPTION_TEXT_MAX];
	int r;

	if (dsr_client_run_dir(run_dir, path) < 0)
		return -ENOTCONN;
	r = drain_open(&d, path);
	if (r < 0) {
		r = -ENOTCONN;
		goto out;
	}
	r = drain_stores(&d);
	if (r == 0)
		r = drain_scheduler(&d);
	if (r == -ETIMEDOUT && ret_left != NULL)
		*ret_left = d.left;
	if (r < 0 && r != -ETIMEDOUT)
		r = -ENOTCONN;
out:
	drain_close(&d);
	return r;
}

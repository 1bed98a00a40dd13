/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_instance.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "faults.h"
#include "files.h"
#include "link.h"
#include "loop.h"
#include "options.h"
#include "pool.h"
#include "util.h"

#define FAKE_POOL_EPOCH 3

/* ---- the broker ---- */

static struct fake_object *find_object(struct fake_instance *f, const char *name)
{
	for (size_t i = 0; i < FAKE_OBJECTS; i++) {
		if (f->objects[i].fd != -1 && strcmp(f->objects[i].name, name) == 0)
			return &f->objects[i];
	}
	return NULL;
}

static void add_object(struct fake_instance *f, const char *name, int fd)
{
	for (size_t i = 0; i < FAKE_OBJECTS; i++) {
		if (f->objects[i].fd != -1)
			continue;
		snprintf(f->objects[i].name, sizeof(f->objects[i].name), "%s", name);
		f->objects[i].fd = fd;
		return;
	}
	abort();
}

static json_t *hello_answer(struct fake_instance *f, const char *role)
{
	static const char *const rows[] = {"scheduler", "metrics", "load", "store"};
	int err = atomic_load(&f->hello_errno), row = -1;

	if (err != 0)
		return json_pack("{s:b, s:i, s:s}", "ok", 0, "errno", err, "error", "refused");
	for (int i = 0; i < 4; i++) {
		if (strcmp(rows[i], role) == 0)
			row = i;
	}
	return json_pack("{s:b, s:i, s:b, s:{s:s, s:s, s:s}}", "ok", 1, "row", row, "by_hand", 0,
	                 "options", "run_dir", f->run_dir, "metrics.listen", "127.0.0.1:0",
	                 "log.level", "error");
}

/* Sets *ret_fd when a descriptor goes along. */
static json_t *answer(struct fake_instance *f, const json_t *request, int *ret_fd)
{
	const char *op = "", *name = "", *role = "";
	struct fake_object *object;

	if (json_unpack((json_t *)(uintptr_t)request, "{s:s, s?s, s?s}", "op", &op, "name", &name,
	                "role", &role) == -1)
		return json_pack("{s:b, s:i}", "ok", 0, "errno", EINVAL);
	if (strcmp(op, "hello") == 0)
		return hello_answer(f, role);
	if (strcmp(op, "get") == 0) {
		object = find_object(f, name);
		if (object == NULL)
			return json_pack("{s:b, s:i, s:s}", "ok", 0, "errno", ENOENT, "error",
			                 "none");
		*ret_fd = object->fd;
	}
	if (strcmp(op, "ready") == 0)
		atomic_fetch_add(&f->ready_count, 1);
	return json_pack("{s:b}", "ok", 1);
}

static void send_answer(int client, json_t *json, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	char *text = json_dumps(json, JSON_COMPACT);
	struct iovec iov = {.iov_base = text, .iov_len = strlen(text)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd != -1) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof(fd));
	}
	(void)sendmsg(client, &message, MSG_NOSIGNAL); /* the client may have left */
	free(text);
	json_decref(json);
}

/* False when the client left. */
static bool serve_client(struct fake_instance *f, int client)
{
	char text[8192];
	ssize_t n = recv(client, text, sizeof(text), 0);
	json_t *request, *reply;
	int fd = -1;

	if (n <= 0)
		return false;
	request = json_loadb(text, (size_t)n, 0, NULL);
	if (request == NULL)
		return false;
	reply = answer(f, request, &fd);
	send_answer(client, reply, fd);
	json_decref(request);
	return true;
}

static void accept_client(struct fake_instance *f)
{
	int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	for (size_t i = 0; fd != -1 && i < FAKE_CLIENTS; i++) {
		if (f->clients[i] == -1) {
			f->clients[i] = fd;
			return;
		}
	}
	dsr_close(&fd);
}

static void *run_broker(void *self)
{
	struct fake_instance *f = self;

	for (;;) {
		struct pollfd polled[FAKE_CLIENTS + 2] = {
			{.fd = f->stop_fd, .events = POLLIN},
			{.fd = f->listen_fd, .events = POLLIN},
		};

		for (size_t i = 0; i < FAKE_CLIENTS; i++)
			polled[i + 2] = (struct pollfd){.fd = f->clients[i], .events = POLLIN};
		if (poll(polled, FAKE_CLIENTS + 2, -1) == -1)
			abort();
		if (polled[0].revents != 0)
			return NULL;
		for (size_t i = 0; i < FAKE_CLIENTS; i++) {
			if (polled[i + 2].revents != 0 && !serve_client(f, f->clients[i]))
				dsr_close(&f->clients[i]);
		}
		if (polled[1].revents != 0)
			accept_client(f);
	}
}

static bool open_broker(struct fake_instance *f)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", f->run_dir, DSR_FILE_ATTACH);
	f->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return f->listen_fd != -1 &&
	       bind(f->listen_fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	       listen(f->listen_fd, FAKE_CLIENTS) == 0 &&
	       pthread_create(&f->broker, NULL, run_broker, f) == 0;
}

/* ---- the scheduler ---- */

struct fake_scheduler {
	struct fake_instance *f;
	struct dsr_loop *loop;
	struct dsr_link *link;
};

static void on_drain(struct fake_scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_drain *m)
{
	struct dsr_msg_drain_reply reply = {.err = atomic_load(&s->f->drain_err)};

	reply.left = reply.err != 0 ? m->timeout_ms : 0; /* shows what was sent */
	(void)dsr_peer_reply(s->link, peer, env, &reply);
}

static void on_reset(struct fake_scheduler *s, struct dsr_peer *peer, const struct dsr_env *env,
                     const struct dsr_msg_reset *m)
{
	static const char reason[] = "an engine is attached";
	struct dsr_msg_reset_reply reply = {.err = atomic_load(&s->f->reset_err)};

	if (reply.err != 0)
		reply.reason = (struct dsr_str){.p = reason, .n = sizeof(reason) - 1};
	else
		reply.entries = m->entries_only != 0 ? 1 : 2;
	(void)dsr_peer_reply(s->link, peer, env, &reply);
}

static void on_stop(void *self)
{
	dsr_loop_stop(((struct fake_scheduler *)self)->loop);
}

static void *run_scheduler(void *self)
{
	static const struct dsr_link_ops ops = {
		.on[DSR_MSG_DRAIN] = DSR_HANDLER(drain, struct fake_scheduler, on_drain),
		.on[DSR_MSG_RESET] = DSR_HANDLER(reset, struct fake_scheduler, on_reset),
	};
	struct fake_scheduler s = {.f = self};
	struct dsr_faults *faults = NULL;
	struct dsr_link_options options = {.run_dir = s.f->run_dir,
	                                   .role = DSR_ROLE_SCHEDULER,
	                                   .device = "",
	                                   .incarnation = dsr_incarnation_new(),
	                                   .ops = &ops,
	                                   .self = &s,
	                                   .has_tap = true};

	if (dsr_faults_new(&faults) < 0 || dsr_loop_new(&s.loop) < 0)
		abort();
	options.faults = faults;
	if (dsr_link_new(s.loop, &options, &s.link) < 0 || dsr_link_bind(s.link) < 0 ||
	    dsr_loop_add_fd(s.loop, s.f->stop_fd, on_stop, &s) < 0 ||
	    eventfd_write(s.f->ready_fd, 1) < 0)
		abort();
	if (dsr_loop_run(s.loop) < 0)
		abort();
	dsr_link_free(&s.link);
	dsr_loop_free(&s.loop);
	dsr_faults_free(&faults);
	return NULL;
}

void fake_instance_start_scheduler(struct fake_instance *f)
{
	eventfd_t value;

	assert_int_equal(pthread_create(&f->scheduler, NULL, run_scheduler, f), 0);
	f->has_scheduler = true;
	assert_int_equal(eventfd_read(f->ready_fd, &value), 0);
}

/* ---- both ---- */

void fake_instance_refresh(struct fake_instance *f)
{
	uint64_t now_ns = dsr_now_ns();

	for (uint32_t i = 0; i < 4; i++) {
		struct dsr_actor_row *row = &f->test.control.rows[i];

		row->pid = getpid();
		assert_int_equal(dsr_start_ticks(row->pid, &row->start_ticks), 0);
		atomic_store(&row->heartbeat_ns, now_ns);
		atomic_store(&row->progress_ns, now_ns);
	}
}

void fake_instance_drop(struct fake_instance *f, const char *name)
{
	struct fake_object *object = find_object(f, name);

	assert_non_null(object);
	dsr_close(&object->fd);
}

static int make_pool(void)
{
	static const uint8_t fingerprint[DSR_NAMESPACE_BYTES] = {9};
	struct dsr_pool_request request = {.fingerprint = fingerprint,
	                                   .slot_bytes = 4096,
	                                   .budget_bytes = 16 << 20,
	                                   .epoch = FAKE_POOL_EPOCH,
	                                   .lanes = 2,
	                                   .block_tokens = 16,
	                                   .max_slots = 32};
	char why[256];

	return dsr_pool_create(&request, why, sizeof(why));
}

int fake_instance_set_up(void **state)
{
	struct fake_instance *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	*state = f;
	f->listen_fd = -1;
	for (size_t i = 0; i < FAKE_CLIENTS; i++)
		f->clients[i] = -1;
	for (size_t i = 0; i < FAKE_OBJECTS; i++)
		f->objects[i].fd = -1;
	snprintf(f->run_dir, sizeof(f->run_dir), "/tmp/dsr-ctl-XXXXXX");
	f->stop_fd = eventfd(0, EFD_CLOEXEC);
	f->ready_fd = eventfd(0, EFD_CLOEXEC);
	f->test.fd = dsr_control_create(TEST_ENTRIES);
	if (f->stop_fd == -1 || f->ready_fd == -1 || f->test.fd < 0 ||
	    mkdtemp(f->run_dir) == NULL || setenv("DASER_RUN_DIR", f->run_dir, 1) == -1 ||
	    dsr_control_attach(f->test.fd, true, &f->test.control, NULL, 0) < 0)
		return -1;
	test_fill(&f->test);
	add_object(f, DSR_OBJECT_CONTROL, dup(f->test.fd));
	add_object(f, "pool/3", make_pool());
	fake_instance_refresh(f);
	return open_broker(f) ? 0 : -1;
}

int fake_instance_tear_down(void **state)
{
	/* sockets and locks stay until the supervisor removes the directory */
	static const char *const left[] = {DSR_FILE_ATTACH,      "scheduler.sock",
	                                   "tap-scheduler.sock", "metrics.sock",
	                                   "tap-metrics.sock",   "metrics.lock"};
	struct fake_instance *f = *state;
	char path[128];

	if (eventfd_write(f->stop_fd, 1) == -1 || pthread_join(f->broker, NULL) != 0)
		return -1;
	if (f->has_scheduler && pthread_join(f->scheduler, NULL) != 0)
		return -1;
	for (size_t i = 0; i < FAKE_CLIENTS; i++)
		dsr_close(&f->clients[i]);
	for (size_t i = 0; i < FAKE_OBJECTS; i++)
		dsr_close(&f->objects[i].fd);
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", f->run_dir, left[i]);
		(void)unlink(path);
	}
	dsr_control_detach(&f->test.control);
	dsr_close(&f->test.fd);
	dsr_close(&f->listen_fd);
	dsr_close(&f->stop_fd);
	dsr_close(&f->ready_fd);
	/* fails, and with it the test, when anything else was left in it */
	if (rmdir(f->run_dir) == -1)
		return -1;
	free(f);
	return 0;
}

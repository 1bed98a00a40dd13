/* SPDX-License-Identifier: Apache-2.0 */
/* Answers carry no number: they come in the order of the requests. One that comes after its request
 * timed out is counted off before the next. Events that come in between wait in a queue, and an
 * eventfd makes dsr_broker_fd readable for them. */
#include "broker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#include "counters.h"
#include "files.h"
#include "log.h"
#include "util.h"
#include "version.h"

#define DATAGRAM_MAX 8192
#define TIMEOUT_NS UINT64_C(2000000000)
#define EVENTS_MAX 128 /* spawn and retire of every device there is room for */
#define FDS_MAX 4      /* received at once; more than one is against the protocol and closed */

struct event {
	enum dsr_broker_event kind;
	char device[DSR_DEVICE_NAME_MAX];
};

struct dsr_broker {
	int socket;     /* owned */
	int event_fd;   /* owned: readable while events wait */
	int epoll_fd;   /* owned: readable when either is */
	unsigned stale; /* answers still to come to requests that timed out */
	bool is_gone;
	struct event events[EVENTS_MAX]; /* a ring */
	unsigned event_first, event_count;
};

/* ---- datagrams ---- */

static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = fd, .events = events};
	uint64_t now_ns = dsr_now_ns();
	int r;

	if (now_ns >= deadline_ns)
		return -ETIMEDOUT;
	r = poll(&p, 1, (int)((deadline_ns - now_ns) / 1000000) + 1);
	if (r == -1 && errno != EINTR)
		return -errno;
	return 0;
}

static bool is_end(int err)
{
	return err == EPIPE || err == ECONNRESET || err == ENOTCONN;
}

static int send_datagram(struct dsr_broker *broker, char *text, int fd, uint64_t deadline_ns)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {.iov_base = text, .iov_len = strlen(text)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;
	int r;

	if (iov.iov_len > DATAGRAM_MAX)
		return -E2BIG;
	if (fd != -1) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	while (sendmsg(broker->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == -1) {
		if (is_end(errno))
			return -ENOTCONN;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		r = wait_for(broker->socket, POLLOUT, deadline_ns);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Takes the descriptors out of a received message: the first is kept, others are closed. */
static int take_fds(struct msghdr *message)
{
	struct cmsghdr *c;
	int kept = -1;
	int fd;
	size_t i;

	for (c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (kept == -1)
				kept = fd;
			else
				dsr_close(&fd);
		}
	}
	return kept;
}

/* One datagram that is there, as JSON (caller's) with the descriptor beside it (caller's, or -1).
 * -EAGAIN: none; -ENOTCONN: the end; -EBADMSG. */
static int receive_datagram(struct dsr_broker *broker, json_t **ret_json, int *ret_fd)
{
	union {
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	char text[DATAGRAM_MAX];
	struct iovec iov = {.iov_base = text, .iov_len = sizeof(text)};
	struct msghdr message = {.msg_iov = &iov,
	                         .msg_iovlen = 1,
	                         .msg_control = control.bytes,
	                         .msg_controllen = sizeof(control.bytes)};
	json_t *json;
	ssize_t n;
	int fd;

	do
		n = recvmsg(broker->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n == -1 && errno == EINTR);
	if (n == 0 || (n == -1 && is_end(errno)))
		return -ENOTCONN;
	if (n == -1)
		return -errno;
	fd = take_fds(&message);
	json = message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? NULL
	                                                    : json_loadb(text, (size_t)n, 0, NULL);
	if (!json_is_object(json)) {
		json_decref(json);
		dsr_close(&fd);
		return -EBADMSG;
	}
	*ret_json = json;
	*ret_fd = fd;
	return 0;
}

/* ---- events ---- */

static void push_event(struct dsr_broker *broker, const json_t *json)
{
	const char *name = json_string_value(json_object_get(json, "event"));
	const char *device = json_string_value(json_object_get(json, "device"));
	struct event event = {.kind = DSR_BROKER_NONE};

	if (name && strcmp(name, "stop") == 0)
		event.kind = DSR_BROKER_STOP;
	else if (name && strcmp(name, "spawn") == 0)
		event.kind = DSR_BROKER_SPAWN;
	else if (name && strcmp(name, "retire") == 0)
		event.kind = DSR_BROKER_RETIRE;
	if (event.kind == DSR_BROKER_NONE ||
	    (event.kind != DSR_BROKER_STOP &&
	     (!device || !dsr_device_name_ok(device) ||
	      dsr_copy_string(event.device, sizeof(event.device), device) < 0))) {
		dsr_log(DSR_LOG_WARN, "ignoring event `%s` of the supervisor, device `%s`",
		        name ? name : "", device ? device : "");
		return;
	}
	if (broker->event_count == EVENTS_MAX) {
		dsr_log(DSR_LOG_WARN, "dropping event `%s` of the supervisor: %d wait", name,
		        EVENTS_MAX);
		return;
	}
	broker->events[(broker->event_first + broker->event_count) % EVENTS_MAX] = event;
	if (broker->event_count++ == 0)
		(void)eventfd_write(broker->event_fd, 1);
}

static bool pop_event(struct dsr_broker *broker, struct event *ret_event)
{
	eventfd_t value;

	if (broker->event_count == 0)
		return false;
	*ret_event = broker->events[broker->event_first];
	broker->event_first = (broker->event_first + 1) % EVENTS_MAX;
	if (--broker->event_count == 0)
		(void)eventfd_read(broker->event_fd, &value);
	return true;
}

/* Takes one datagram: 1 with an answer to the present request, 0 with anything else. */
static int take_one(struct dsr_broker *broker, json_t **ret_answer, int *ret_fd)
{
	json_t *json;
	int fd;
	int r = receive_datagram(broker, &json, &fd);

	if (r == -ENOTCONN)
		broker->is_gone = true;
	if (r < 0)
		return r;
	if (!json_object_get(json, "event") && broker->stale == 0) {
		*ret_answer = json;
		*ret_fd = fd;
		return 1;
	}
	if (json_object_get(json, "event"))
		push_event(broker, json);
	else
		broker->stale--;
	json_decref(json);
	dsr_close(&fd);
	return 0;
}

/* ---- requests ---- */

/* 0, or the negative errno that the answer says. */
static int answer_status(const json_t *answer, const char *op)
{
	const char *text = json_string_value(json_object_get(answer, "error"));
	json_int_t number = json_integer_value(json_object_get(answer, "errno"));

	if (json_is_true(json_object_get(answer, "ok")))
		return 0;
	dsr_log(DSR_LOG_DEBUG, "supervisor refused `%s`: %s", op, text ? text : "no reason");
	return number > 0 && number < 4096 ? -(int)number : -EPROTO;
}

/* Sends *request (taken over) and waits for its answer (caller's) and the descriptor beside it
 * (caller's, or -1). */
static int call(struct dsr_broker *broker, json_t *request, int fd, json_t **ret_answer,
                int *ret_fd)
{
	uint64_t deadline_ns = dsr_now_ns() + TIMEOUT_NS;
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	int r = text ? 0 : -EINVAL; /* jansson refuses what is not UTF-8 */

	json_decref(request);
	if (r == 0)
		r = broker->is_gone ? -ENOTCONN : send_datagram(broker, text, fd, deadline_ns);
	free(text);
	if (r < 0)
		return r;
	for (;;) {
		r = take_one(broker, ret_answer, ret_fd);
		if (r == 1)
			return 0;
		if (r == -EAGAIN)
			r = wait_for(broker->socket, POLLIN, deadline_ns);
		if (r == -ETIMEDOUT)
			broker->stale++;
		if (r < 0)
			return r;
	}
}

/* A request whose answer is yes or no; ret_fd may be NULL. */
static int ask(struct dsr_broker *broker, json_t *request, int fd, int *ret_fd)
{
	const char *op = json_string_value(json_object_get(request, "op"));
	char name[32];
	json_t *answer;
	int received;
	int r;

	(void)dsr_copy_string(name, sizeof(name), op ? op : "");
	r = call(broker, request, fd, &answer, &received);
	if (r < 0)
		return r;
	r = answer_status(answer, name);
	json_decref(answer);
	if (r == 0 && ret_fd && received == -1)
		r = -EPROTO;
	if (r == 0 && ret_fd)
		*ret_fd = received;
	else
		dsr_close(&received);
	return r;
}

int dsr_broker_get(struct dsr_broker *broker, const char *name)
{
	int fd;
	int r = ask(broker, json_pack("{ss ss}", "op", "get", "name", name), -1, &fd);

	return r < 0 ? r : fd;
}

int dsr_broker_put(struct dsr_broker *broker, const char *name, int fd)
{
	return ask(broker, json_pack("{ss ss}", "op", "put", "name", name), fd, NULL);
}

int dsr_broker_drop(struct dsr_broker *broker, const char *name)
{
	return ask(broker, json_pack("{ss ss}", "op", "drop", "name", name), -1, NULL);
}

int dsr_broker_ready(struct dsr_broker *broker)
{
	return ask(broker, json_pack("{ss}", "op", "ready"), -1, NULL);
}

int dsr_broker_spawn(struct dsr_broker *broker, const char *device)
{
	return ask(broker, json_pack("{ss ss}", "op", "spawn", "device", device), -1, NULL);
}

int dsr_broker_retire(struct dsr_broker *broker, const char *device)
{
	return ask(broker, json_pack("{ss ss}", "op", "retire", "device", device), -1, NULL);
}

int dsr_broker_kill(struct dsr_broker *broker, enum dsr_role role, const char *device,
                    uint64_t incarnation, const char *why)
{
	return ask(broker,
	           json_pack("{ss ss ss sI ss}", "op", "kill", "role", dsr_role_name(role),
	                     "device", device, "incarnation", (json_int_t)incarnation, "why", why),
	           -1, NULL);
}

/* ---- life ---- */

static int connect_socket(struct dsr_broker *broker, const char *run_dir, uint64_t deadline_ns)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t length = sizeof(peer);
	int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/" DSR_FILE_ATTACH,
	                 run_dir);

	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	broker->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (broker->socket == -1)
		return -errno;
	while (connect(broker->socket, (struct sockaddr *)&address, sizeof(address)) == -1) {
		if (errno == ENOENT || errno == ECONNREFUSED)
			return -ENOTCONN;
		if (errno != EAGAIN && errno != EINTR) /* EAGAIN: its backlog is full */
			return -errno;
		if (dsr_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		(void)poll(NULL, 0, 5);
	}
	if (getsockopt(broker->socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == -1)
		return -errno;
	return peer.uid == geteuid() ? 0 : -EACCES;
}

static int watch_fds(struct dsr_broker *broker)
{
	struct epoll_event event = {.events = EPOLLIN};

	broker->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	broker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (broker->event_fd == -1 || broker->epoll_fd == -1 ||
	    epoll_ctl(broker->epoll_fd, EPOLL_CTL_ADD, broker->socket, &event) == -1 ||
	    epoll_ctl(broker->epoll_fd, EPOLL_CTL_ADD, broker->event_fd, &event) == -1)
		return -errno;
	return 0;
}

static int take_options(struct dsr_options *options, json_t *values)
{
	const char *key;
	const char *text;
	json_t *value;
	char why[512];
	int r;

	json_object_foreach(values, key, value)
	{
		text = json_string_value(value);
		r = text ? dsr_options_set(options, key, text, why, sizeof(why)) : -EINVAL;
		if (r == -ENOENT)
			continue; /* of a newer supervisor */
		if (r < 0) {
			dsr_log(DSR_LOG_ERROR, "the supervisor's settings: %s", text ? why : key);
			return r;
		}
	}
	return 0;
}

static int say_hello(struct dsr_broker *broker, const struct dsr_broker_hello *hello,
                     struct dsr_options *options, int *ret_row, bool *ret_by_hand)
{
	uint64_t ticks;
	json_t *answer;
	json_t *row;
	int fd;
	int r = dsr_start_ticks(getpid(), &ticks);

	if (r < 0)
		return r;
	r = call(broker,
	         json_pack("{ss ss ss si sI sI s[ii]}", "op", "hello", "role",
	                   dsr_role_name(hello->role), "device", hello->device, "pid",
	                   (int)getpid(), "start_ticks", (json_int_t)ticks, "incarnation",
	                   (json_int_t)hello->incarnation, "protocol", DSR_PROTOCOL_MAJOR,
	                   DSR_PROTOCOL_MINOR),
	         -1, &answer, &fd);
	if (r < 0)
		return r;
	dsr_close(&fd);
	row = json_object_get(answer, "row");
	r = answer_status(answer, "hello");
	if (r == 0 && (!json_is_integer(row) || json_integer_value(row) < -1 ||
	               json_integer_value(row) >= DSR_ACTOR_ROWS))
		r = -EPROTO;
	if (r == 0 && options)
		r = take_options(options, json_object_get(answer, "options"));
	if (r == 0) {
		*ret_row = (int)json_integer_value(row);
		*ret_by_hand = json_is_true(json_object_get(answer, "by_hand"));
	}
	json_decref(answer);
	return r;
}

int dsr_broker_open(const char *run_dir, const struct dsr_broker_hello *hello,
                    struct dsr_options *options, struct dsr_broker **ret_broker, int *ret_row,
                    bool *ret_by_hand)
{
	struct dsr_broker *broker = calloc(1, sizeof(*broker));
	int r = dsr_run_dir_check(run_dir);

	if (!broker)
		return -ENOMEM;
	broker->socket = broker->event_fd = broker->epoll_fd = -1;
	if (r == -ENOENT || r == -ENOTDIR)
		r = -ENOTCONN;
	r = r ? r : connect_socket(broker, run_dir, dsr_now_ns() + TIMEOUT_NS);
	r = r ? r : watch_fds(broker);
	r = r ? r : say_hello(broker, hello, options, ret_row, ret_by_hand);
	if (r < 0) {
		dsr_broker_close(&broker);
		return r;
	}
	*ret_broker = broker;
	return 0;
}

void dsr_broker_close(struct dsr_broker **broker)
{
	if (!*broker)
		return;
	dsr_close(&(*broker)->epoll_fd);
	dsr_close(&(*broker)->event_fd);
	dsr_close(&(*broker)->socket);
	free(*broker);
	*broker = NULL;
}

int dsr_broker_fd(const struct dsr_broker *broker)
{
	return broker->epoll_fd;
}

enum dsr_broker_event dsr_broker_next(struct dsr_broker *broker, char *ret_device)
{
	struct event event;
	json_t *answer;
	int fd;
	int r = 0;

	while (!pop_event(broker, &event)) {
		if (broker->is_gone)
			return DSR_BROKER_GONE;
		r = take_one(broker, &answer, &fd);
		if (r == 1) { /* an answer that nobody waits for */
			json_decref(answer);
			dsr_close(&fd);
		}
		if (r == -EAGAIN)
			return DSR_BROKER_NONE;
		if (r < 0 && r != -EBADMSG)
			broker->is_gone = true;
	}
	if (event.kind != DSR_BROKER_STOP)
		(void)dsr_copy_string(ret_device, DSR_DEVICE_NAME_MAX, event.device);
	return event.kind;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <jansson.h>

#include "rt_test.h"

#define PEERS_MAX 16
#define OBJECTS_MAX 16
#define OPS_MAX 16

struct object {
	char name[64];
	int fd; /* owned */
};

struct request {
	char op[16];
	char text[1024];
};

struct fake {
	pthread_t thread;
	pthread_mutex_t lock; /* over all below */
	pthread_cond_t changed;
	int listener;         /* owned */
	int wake;             /* owned: ends the thread's poll */
	int peers[PEERS_MAX]; /* owned */
	unsigned peer_count;
	struct object objects[OBJECTS_MAX];
	unsigned object_count;
	struct request requests[OPS_MAX];
	unsigned request_count;
	unsigned ready;
	int row;
	enum fake_manner manner;
	char options[1024];
	char held[8][256]; /* answers of FAKE_LATE */
	unsigned held_count;
	bool is_over;
};

static void send_with(int socket, const char *text, const int *fds, size_t count)
{
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	char copy[4096];
	struct iovec iov = {.iov_base = copy, .iov_len = strlen(text)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	(void)snprintf(copy, sizeof(copy), "%s", text);
	if (count > 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		if (!c)
			return;
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	(void)sendmsg(socket, &message, MSG_NOSIGNAL);
}

static struct object *find(struct fake *fake, const char *name)
{
	unsigned i;

	for (i = 0; i < fake->object_count; i++)
		if (strcmp(fake->objects[i].name, name) == 0)
			return &fake->objects[i];
	return NULL;
}

/* Answer text of a good supervisor; *ret_fd is what rides beside it (borrowed), `fd` what came. */
static void serve(struct fake *fake, const char *op, const char *name, int *fd, char *ret_text,
                  size_t bytes, int *ret_fd)
{
	struct object *object = name ? find(fake, name) : NULL;

	(void)snprintf(ret_text, bytes, "{\"ok\":true}");
	if (strcmp(op, "hello") == 0) {
		(void)snprintf(ret_text, bytes,
		               "{\"ok\":true,\"row\":%d,\"by_hand\":true,\"options\":%s}",
		               fake->row, fake->options);
	} else if (strcmp(op, "get") == 0) {
		if (object)
			*ret_fd = object->fd;
		else
			(void)snprintf(ret_text, bytes,
			               "{\"ok\":false,\"errno\":%d,\"error\":\"no object\"}",
			               ENOENT);
	} else if (strcmp(op, "put") == 0 && object) {
		(void)snprintf(ret_text, bytes, "{\"ok\":false,\"errno\":%d,\"error\":\"exists\"}",
		               EEXIST);
	} else if (strcmp(op, "put") == 0 && name && fake->object_count < OBJECTS_MAX) {
		object = &fake->objects[fake->object_count++];
		(void)snprintf(object->name, sizeof(object->name), "%s", name);
		object->fd = *fd;
		*fd = -1;
	} else if (strcmp(op, "drop") == 0 && object) {
		(void)close(object->fd);
		*object = fake->objects[--fake->object_count];
	} else if (strcmp(op, "ready") == 0) {
		fake->ready++;
	}
}

static void note_request(struct fake *fake, const char *op, const char *text)
{
	unsigned i;

	for (i = 0; i < fake->request_count && strcmp(fake->requests[i].op, op) != 0; i++)
		;
	if (i == OPS_MAX)
		return;
	if (i == fake->request_count)
		fake->request_count++;
	(void)snprintf(fake->requests[i].op, sizeof(fake->requests[i].op), "%s", op);
	(void)dsr_copy_string(fake->requests[i].text, sizeof(fake->requests[i].text), text);
}

/* Answers in the manner that is set; false: hang up. */
static bool answer(struct fake *fake, int socket, const char *op, const char *text, int fd)
{
	const int fds[3] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};

	switch (fake->manner) {
	case FAKE_MUTE:
		return true;
	case FAKE_HANG_UP:
		return false;
	case FAKE_LATE:
		(void)dsr_copy_string(fake->held[fake->held_count++ % 8], 256, text);
		return true;
	case FAKE_GARBAGE:
		send_with(socket, "]garbage[", fds, 1);
		return true;
	case FAKE_MANY_FDS:
		send_with(socket, text, fds, 3);
		return true;
	case FAKE_NO_FD:
		send_with(socket, "{\"ok\":true}", NULL, 0);
		return true;
	case FAKE_BAD_ROW:
		send_with(socket, "{\"ok\":true,\"row\":64,\"by_hand\":false,\"options\":{}}", NULL,
		          0);
		return true;
	case FAKE_BAD_OPTIONS:
		send_with(socket, "{\"ok\":true,\"row\":-1,\"options\":{\"l1.size\":\"much\"}}",
		          NULL, 0);
		return true;
	case FAKE_OTHER_VERSION:
		send_with(socket, "{\"ok\":false,\"errno\":93,\"error\":\"version\"}", NULL, 0);
		return true;
	case FAKE_EVENT_FIRST:
		send_with(socket, "{\"event\":\"spawn\",\"device\":\"host:7\"}", NULL, 0);
		send_with(socket, text, &fd, fd != -1);
		return true;
	case FAKE_GOOD:
		send_with(socket, text, &fd, fd != -1);
		return true;
	}
	(void)op;
	return true;
}

/* One datagram of a peer; false: it is gone. */
static bool take(struct fake *fake, int socket)
{
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control;
	char text[8192];
	char reply[2048];
	struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
	struct msghdr message = {.msg_iov = &iov,
	                         .msg_iovlen = 1,
	                         .msg_control = control.bytes,
	                         .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;
	const char *op;
	json_t *json;
	int fd = -1;
	int beside = -1;
	bool goes_on = true;

	if (n <= 0)
		return false;
	text[n] = '\0';
	c = CMSG_FIRSTHDR(&message);
	if (c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	json = json_loads(text, 0, NULL);
	op = json_string_value(json_object_get(json, "op"));
	if (op) {
		note_request(fake, op, text);
		serve(fake, op, json_string_value(json_object_get(json, "name")), &fd, reply,
		      sizeof(reply), &beside);
		goes_on = answer(fake, socket, op, reply, beside);
	}
	json_decref(json);
	if (fd != -1)
		(void)close(fd);
	return goes_on;
}

static void drop_peer(struct fake *fake, unsigned i)
{
	(void)close(fake->peers[i]);
	fake->peers[i] = fake->peers[--fake->peer_count];
}

static void *run(void *self)
{
	struct fake *fake = self;
	struct pollfd p[PEERS_MAX + 2];
	eventfd_t value;
	unsigned count;
	unsigned i;

	for (;;) {
		(void)pthread_mutex_lock(&fake->lock);
		p[0] = (struct pollfd){.fd = fake->wake, .events = POLLIN};
		p[1] = (struct pollfd){.fd = fake->listener, .events = POLLIN};
		count = fake->peer_count;
		for (i = 0; i < count; i++)
			p[i + 2] = (struct pollfd){.fd = fake->peers[i], .events = POLLIN};
		(void)pthread_mutex_unlock(&fake->lock);
		(void)poll(p, count + 2, -1);
		(void)pthread_mutex_lock(&fake->lock);
		(void)eventfd_read(fake->wake, &value);
		if (fake->is_over)
			break;
		/* From the end: dropping one moves the last into its place. */
		for (i = count; i-- > 0;)
			if (i < fake->peer_count && p[i + 2].fd == fake->peers[i] &&
			    p[i + 2].revents && !take(fake, fake->peers[i]))
				drop_peer(fake, i);
		if (p[1].revents && fake->peer_count < PEERS_MAX) {
			int peer = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);

			if (peer != -1)
				fake->peers[fake->peer_count++] = peer;
		}
		(void)pthread_cond_broadcast(&fake->changed);
		(void)pthread_mutex_unlock(&fake->lock);
	}
	(void)pthread_mutex_unlock(&fake->lock);
	return NULL;
}

struct fake *fake_start(const char *run_dir, int row)
{
	struct fake *fake = calloc(1, sizeof(*fake));
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	assert_non_null(fake);
	fake->row = row;
	(void)snprintf(fake->options, sizeof(fake->options), "{}");
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/attach.sock", run_dir);
	assert_int_equal(pthread_mutex_init(&fake->lock, NULL), 0);
	assert_int_equal(pthread_cond_init(&fake->changed, NULL), 0);
	fake->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fake->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fake->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fake->listener, 16), 0);
	assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
	return fake;
}

void fake_stop(struct fake **fake)
{
	struct fake *f = *fake;

	(void)pthread_mutex_lock(&f->lock);
	f->is_over = true;
	(void)eventfd_write(f->wake, 1);
	(void)pthread_mutex_unlock(&f->lock);
	assert_int_equal(pthread_join(f->thread, NULL), 0);
	while (f->peer_count > 0)
		drop_peer(f, 0);
	while (f->object_count > 0)
		(void)close(f->objects[--f->object_count].fd);
	(void)close(f->listener);
	(void)close(f->wake);
	(void)pthread_cond_destroy(&f->changed);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
	*fake = NULL;
}

void fake_set(struct fake *fake, enum fake_manner manner)
{
	unsigned i;

	(void)pthread_mutex_lock(&fake->lock);
	fake->manner = manner;
	for (i = 0; i < fake->held_count && fake->peer_count > 0; i++)
		send_with(fake->peers[0], fake->held[i], NULL, 0);
	fake->held_count = 0;
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_set_options(struct fake *fake, const char *json)
{
	(void)pthread_mutex_lock(&fake->lock);
	(void)snprintf(fake->options, sizeof(fake->options), "%s", json);
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_send(struct fake *fake, const char *text)
{
	unsigned i;

	(void)pthread_mutex_lock(&fake->lock);
	for (i = 0; i < fake->peer_count; i++)
		send_with(fake->peers[i], text, NULL, 0);
	(void)pthread_mutex_unlock(&fake->lock);
}

void fake_hang_up(struct fake *fake)
{
	(void)pthread_mutex_lock(&fake->lock);
	while (fake->peer_count > 0)
		drop_peer(fake, 0);
	(void)eventfd_write(fake->wake, 1);
	(void)pthread_mutex_unlock(&fake->lock);
}

int fake_object(struct fake *fake, const char *name)
{
	struct object *object;
	int fd;

	(void)pthread_mutex_lock(&fake->lock);
	object = find(fake, name);
	fd = object ? fcntl(object->fd, F_DUPFD_CLOEXEC, 0) : -1;
	(void)pthread_mutex_unlock(&fake->lock);
	return fd;
}

void fake_put(struct fake *fake, const char *name, int fd)
{
	struct object *object;

	assert_true(fd >= 0);
	(void)pthread_mutex_lock(&fake->lock);
	object = &fake->objects[fake->object_count++];
	(void)dsr_copy_string(object->name, sizeof(object->name), name);
	object->fd = fd;
	(void)pthread_mutex_unlock(&fake->lock);
}

static void wait_until(struct fake *fake, const unsigned *number, unsigned count, bool is_exact)
{
	uint64_t end_ns = dsr_realtime_ns() + TEST_WAIT_NS;
	const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000)};
	int r = 0;

	(void)pthread_mutex_lock(&fake->lock);
	while (r == 0 && (is_exact ? *number != count : *number < count))
		r = pthread_cond_timedwait(&fake->changed, &fake->lock, &end);
	(void)pthread_mutex_unlock(&fake->lock);
	assert_int_equal(r, 0);
}

void fake_wait_ready(struct fake *fake, unsigned count)
{
	wait_until(fake, &fake->ready, count, false);
}

void fake_wait_connections(struct fake *fake, unsigned count)
{
	wait_until(fake, &fake->peer_count, count, true);
}

/* With the lock held. */
static const struct request *find_request(const struct fake *fake, const char *op)
{
	unsigned i;

	for (i = 0; i < fake->request_count; i++)
		if (strcmp(fake->requests[i].op, op) == 0)
			return &fake->requests[i];
	return NULL;
}

void fake_wait_request(struct fake *fake, const char *op)
{
	uint64_t end_ns = dsr_realtime_ns() + TEST_WAIT_NS;
	const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000)};
	int r = 0;

	(void)pthread_mutex_lock(&fake->lock);
	fake->request_count = 0;
	while (r == 0 && !find_request(fake, op))
		r = pthread_cond_timedwait(&fake->changed, &fake->lock, &end);
	(void)pthread_mutex_unlock(&fake->lock);
	assert_int_equal(r, 0);
}

const char *fake_request(struct fake *fake, const char *op)
{
	const struct request *request;

	(void)pthread_mutex_lock(&fake->lock);
	request = find_request(fake, op);
	(void)pthread_mutex_unlock(&fake->lock);
	return request ? request->text : "";
}

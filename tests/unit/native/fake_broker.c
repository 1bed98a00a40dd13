/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#include "files.h"

#define CLIENTS_MAX 16
#define OBJECTS_MAX 32
#define DATAGRAM_MAX 8192

struct object {
	char name[128];
	int fd; /* owned */
};

struct fake_broker {
	char path[108];
	int listener, stop_fd;    /* owned */
	int clients[CLIENTS_MAX]; /* owned; -1: free */
	pthread_t thread;
	pthread_mutex_t lock; /* over the objects */
	struct object objects[OBJECTS_MAX];
	unsigned object_count;
};

/* ---- objects ---- */

static struct object *find(struct fake_broker *broker, const char *name)
{
	for (unsigned i = 0; i < broker->object_count; i++)
		if (strcmp(broker->objects[i].name, name) == 0)
			return &broker->objects[i];
	return NULL;
}

/* Takes fd over. */
static int add(struct fake_broker *broker, const char *name, int fd)
{
	struct object *object = find(broker, name);

	if (object == NULL && broker->object_count < OBJECTS_MAX) {
		object = &broker->objects[broker->object_count++];
		(void)snprintf(object->name, sizeof(object->name), "%s", name);
		object->fd = fd;
		return 0;
	}
	(void)close(fd);
	return EEXIST;
}

void fake_broker_put(struct fake_broker *broker, const char *name, int fd)
{
	(void)pthread_mutex_lock(&broker->lock);
	(void)add(broker, name, fcntl(fd, F_DUPFD_CLOEXEC, 0));
	(void)pthread_mutex_unlock(&broker->lock);
}

int fake_broker_get(struct fake_broker *broker, const char *name)
{
	const struct object *object;
	int fd = -1;

	(void)pthread_mutex_lock(&broker->lock);
	object = find(broker, name);
	if (object != NULL)
		fd = fcntl(object->fd, F_DUPFD_CLOEXEC, 0);
	(void)pthread_mutex_unlock(&broker->lock);
	return fd;
}

/* ---- datagrams ---- */

union fd_control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static void answer(int client, int err, int fd)
{
	char text[256];
	union fd_control control = {{0}};
	struct iovec iov = {.iov_base = text};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (err != 0)
		(void)snprintf(text, sizeof(text), "{\"ok\":false,\"errno\":%d,\"error\":\"%s\"}",
		               err, strerror(err));
	else
		(void)snprintf(text, sizeof(text),
		               "{\"ok\":true,\"row\":-1,\"by_hand\":true,\"options\":{}}");
	iov.iov_len = strlen(text);
	if (fd != -1) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof(fd));
	}
	(void)sendmsg(client, &message, MSG_NOSIGNAL);
}

static void serve(struct fake_broker *broker, int client, const char *op, const char *name, int fd)
{
	const struct object *object;
	int err = 0, given = -1;

	(void)pthread_mutex_lock(&broker->lock);
	if (strcmp(op, "get") == 0) {
		object = find(broker, name);
		err = object == NULL ? ENOENT : 0;
		given = object == NULL ? -1 : object->fd;
	} else if (strcmp(op, "put") == 0) {
		err = fd == -1 ? EINVAL : add(broker, name, fd);
		fd = -1;
	} else if (strcmp(op, "hello") != 0 && strcmp(op, "drop") != 0) {
		err = EPROTO;
	}
	answer(client, err, given);
	(void)pthread_mutex_unlock(&broker->lock);
	if (fd != -1)
		(void)close(fd);
}

/* False: the client left. */
static int take(struct fake_broker *broker, int client)
{
	char text[DATAGRAM_MAX];
	union fd_control control;
	struct iovec iov = {.iov_base = text, .iov_len = sizeof(text)};
	struct msghdr message = {.msg_iov = &iov,
	                         .msg_iovlen = 1,
	                         .msg_control = control.bytes,
	                         .msg_controllen = sizeof(control.bytes)};
	const char *op = "", *name = "";
	struct cmsghdr *c;
	json_t *request;
	ssize_t n;
	int fd = -1;

	n = recvmsg(client, &message, MSG_CMSG_CLOEXEC);
	if (n <= 0)
		return 0;
	c = CMSG_FIRSTHDR(&message);
	if (c != NULL && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	request = json_loadb(text, (size_t)n, 0, NULL);
	(void)json_unpack(request, "{s?s,s?s}", "op", &op, "name", &name);
	serve(broker, client, op, name, fd);
	json_decref(request);
	return 1;
}

/* ---- the thread ---- */

static void accept_one(struct fake_broker *broker)
{
	int fd = accept4(broker->listener, NULL, NULL, SOCK_CLOEXEC);

	for (unsigned i = 0; i < CLIENTS_MAX && fd != -1; i++) {
		if (broker->clients[i] != -1)
			continue;
		broker->clients[i] = fd;
		fd = -1;
	}
	if (fd != -1)
		(void)close(fd);
}

static void *run(void *self)
{
	struct fake_broker *broker = self;
	struct pollfd fds[CLIENTS_MAX + 2];

	for (;;) {
		fds[0] = (struct pollfd){.fd = broker->stop_fd, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = broker->listener, .events = POLLIN};
		for (unsigned i = 0; i < CLIENTS_MAX; i++)
			fds[i + 2] = (struct pollfd){.fd = broker->clients[i], .events = POLLIN};
		if (poll(fds, CLIENTS_MAX + 2, -1) == -1 && errno != EINTR)
			return NULL;
		if (fds[0].revents != 0)
			return NULL;
		if (fds[1].revents != 0)
			accept_one(broker);
		for (unsigned i = 0; i < CLIENTS_MAX; i++) {
			if (fds[i + 2].revents == 0 || take(broker, broker->clients[i]))
				continue;
			(void)close(broker->clients[i]);
			broker->clients[i] = -1;
		}
	}
}

struct fake_broker *fake_broker_open(const char *run_dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct fake_broker *broker = calloc(1, sizeof(*broker));

	if (broker == NULL)
		return NULL;
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		broker->clients[i] = -1;
	(void)snprintf(broker->path, sizeof(broker->path), "%s/%s", run_dir, DSR_FILE_ATTACH);
	memcpy(address.sun_path, broker->path, sizeof(address.sun_path));
	(void)pthread_mutex_init(&broker->lock, NULL);
	broker->stop_fd = eventfd(0, EFD_CLOEXEC);
	broker->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (broker->listener == -1 ||
	    bind(broker->listener, (const struct sockaddr *)&address, sizeof(address)) == -1 ||
	    listen(broker->listener, 8) == -1 ||
	    pthread_create(&broker->thread, NULL, run, broker) != 0) {
		free(broker);
		return NULL;
	}
	return broker;
}

void fake_broker_close(struct fake_broker **broker)
{
	struct fake_broker *b = *broker;
	uint64_t one = 1;

	if (b == NULL)
		return;
	(void)!write(b->stop_fd, &one, sizeof(one));
	(void)pthread_join(b->thread, NULL);
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (b->clients[i] != -1)
			(void)close(b->clients[i]);
	for (unsigned i = 0; i < b->object_count; i++)
		(void)close(b->objects[i].fd);
	(void)close(b->listener);
	(void)close(b->stop_fd);
	(void)unlink(b->path);
	(void)pthread_mutex_destroy(&b->lock);
	free(b);
	*broker = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_service.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "link.h"
#include "pool.h"

#define READY_MS 20000 /* ends a test that hangs; nothing waits so long */

extern char **environ;

struct process {
	pid_t pid;   /* 0: it does not run */
	int wake_fd; /* owned: eventfd */
};

struct fake_service {
	char run_dir[64];
	struct fake_broker *broker; /* owned */
	struct dsr_control control; /* owned */
	struct fake_shared *shared; /* owned mapping */
	int shared_fd;              /* owned */
	struct process scheduler, load, store;
};

static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	perror(what);
	abort();
}

static struct process *process_of(struct fake_service *s, enum dsr_role role)
{
	if (role == DSR_ROLE_LOAD)
		return &s->load;
	return role == DSR_ROLE_STORE ? &s->store : &s->scheduler;
}

struct fake_service *fake_service_open(void)
{
	struct fake_service *s = calloc(1, sizeof(*s));
	char why[256];
	int fd;

	must(s != NULL, "calloc");
	(void)snprintf(s->run_dir, sizeof(s->run_dir), "/tmp/daser-native-XXXXXX");
	must(mkdtemp(s->run_dir) != NULL, "mkdtemp");
	s->shared_fd = memfd_create("fake-shared", MFD_CLOEXEC);
	must(s->shared_fd != -1 && ftruncate(s->shared_fd, sizeof(*s->shared)) == 0, "memfd");
	s->shared =
		mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE, MAP_SHARED, s->shared_fd, 0);
	must(s->shared != MAP_FAILED, "mmap");
	s->scheduler.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->load.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->store.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fd = dsr_control_create(4096);
	must(fd >= 0, "control");
	must(dsr_control_attach(fd, true, &s->control, why, sizeof(why)) == 0, why);
	s->broker = fake_broker_open(s->run_dir);
	must(s->broker != NULL, "broker");
	fake_broker_put(s->broker, DSR_OBJECT_CONTROL, fd);
	(void)close(fd);
	return s;
}

static void unlink_socket(const struct fake_service *s, enum dsr_role role)
{
	char path[160];

	if (dsr_link_endpoint(s->run_dir, role, role == DSR_ROLE_SCHEDULER ? "" : FAKE_DEVICE, path,
	                      sizeof(path)) == 0)
		(void)unlink(path + strlen("ipc://"));
}

void fake_service_close(struct fake_service **service)
{
	static const enum dsr_role roles[] = {DSR_ROLE_SCHEDULER, DSR_ROLE_LOAD, DSR_ROLE_STORE};
	struct fake_service *s = *service;

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		fake_service_kill(s, roles[i]);
		(void)close(process_of(s, roles[i])->wake_fd);
		unlink_socket(s, roles[i]);
	}
	fake_broker_close(&s->broker);
	dsr_control_detach(&s->control);
	(void)munmap(s->shared, sizeof(*s->shared));
	(void)close(s->shared_fd);
	(void)rmdir(s->run_dir);
	free(s);
	*service = NULL;
}

const char *fake_service_run_dir(const struct fake_service *service)
{
	return service->run_dir;
}

struct dsr_control *fake_service_control(struct fake_service *service)
{
	return &service->control;
}

struct fake_shared *fake_service_shared(struct fake_service *service)
{
	return service->shared;
}

/* ---- processes ---- */

void fake_service_kill(struct fake_service *service, enum dsr_role role)
{
	struct process *process = process_of(service, role);

	if (process->pid == 0)
		return;
	(void)kill(process->pid, SIGKILL);
	(void)waitpid(process->pid, NULL, 0);
	process->pid = 0;
}

void fake_service_start(struct fake_service *service, enum dsr_role role)
{
	struct process *process = process_of(service, role);
	char role_text[16], shared[16], wake[16], ready[16];
	char self[] = "/proc/self/exe", arg[] = FAKE_ACTOR_ARG;
	char *argv[] = {self, arg, role_text, service->run_dir, shared, wake, ready, NULL};
	posix_spawn_file_actions_t actions;
	struct pollfd pollfd = {.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};

	fake_service_kill(service, role);
	must(pollfd.fd != -1, "eventfd");
	(void)snprintf(role_text, sizeof(role_text), "%d", (int)role);
	(void)snprintf(shared, sizeof(shared), "%d", service->shared_fd);
	(void)snprintf(wake, sizeof(wake), "%d", process->wake_fd);
	(void)snprintf(ready, sizeof(ready), "%d", pollfd.fd);
	must(posix_spawn_file_actions_init(&actions) == 0, "actions");
	/* To its own number: the child inherits it. */
	(void)posix_spawn_file_actions_adddup2(&actions, service->shared_fd, service->shared_fd);
	(void)posix_spawn_file_actions_adddup2(&actions, process->wake_fd, process->wake_fd);
	(void)posix_spawn_file_actions_adddup2(&actions, pollfd.fd, pollfd.fd);
	must(posix_spawn(&process->pid, self, &actions, NULL, argv, environ) == 0, "posix_spawn");
	(void)posix_spawn_file_actions_destroy(&actions);
	must(poll(&pollfd, 1, READY_MS) == 1, "actor");
	(void)close(pollfd.fd);
}

void fake_service_start_all(struct fake_service *service)
{
	fake_service_start(service, DSR_ROLE_SCHEDULER);
	fake_service_start(service, DSR_ROLE_LOAD);
	fake_service_start(service, DSR_ROLE_STORE);
}

/* ---- what the test wants ---- */

void fake_service_refuse(struct fake_service *service, int err, const char *reason)
{
	(void)snprintf(service->shared->reason, sizeof(service->shared->reason), "%s", reason);
	atomic_store(&service->shared->refusal, err);
}

void fake_service_hold(struct fake_service *service, enum dsr_role role, bool is_held)
{
	uint64_t one = 1;

	if (role == DSR_ROLE_LOAD)
		atomic_store(&service->shared->holds_loads, is_held);
	else
		atomic_store(&service->shared->holds_stores, is_held);
	(void)!write(process_of(service, role)->wake_fd, &one, sizeof(one));
}

void fake_service_corrupt(struct fake_service *service)
{
	char name[64], why[256];
	struct dsr_pool pool;
	int fd;

	(void)snprintf(name, sizeof(name), DSR_OBJECT_POOL, (unsigned long long)FAKE_POOL_EPOCH);
	fd = fake_broker_get(service->broker, name);
	must(fd >= 0, "pool");
	must(dsr_pool_attach(fd, &pool, why, sizeof(why)) == 0, why);
	for (uint32_t i = 0; i < atomic_load(&service->shared->slots_used); i++)
		((uint8_t *)dsr_pool_slot(&pool, 0, i))[7] ^= 0x10;
	dsr_pool_detach(&pool);
	(void)close(fd);
}

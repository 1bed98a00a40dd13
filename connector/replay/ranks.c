/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util.h"

#define WORLD_MAX 64
#define CHILD_FD 3
#define START_MS 60000 /* staging and KV cache are allocated meanwhile */
#define STOP_MS 10000

extern char **environ;

struct process {
	pid_t pid; /* 0: not running */
	int pidfd; /* owned */
	int fd;    /* owned: socket to it */
	struct replay_inbox inbox;
	bool has_answered;
};

struct replay_ranks {
	struct process processes[WORLD_MAX];
	uint32_t world;
};

static int spawn(struct process *process, uint32_t rank, int child_fd)
{
	char fd_text[16], rank_text[16];
	char program[] = "daser-replay", worker_flag[] = "--worker-fd", rank_flag[] = "--rank";
	char *argv[] = {program, worker_flag, fd_text, rank_flag, rank_text, NULL};
	posix_spawn_file_actions_t actions;

	(void)snprintf(fd_text, sizeof(fd_text), "%d", CHILD_FD);
	(void)snprintf(rank_text, sizeof(rank_text), "%u", rank);
	int r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_adddup2(&actions, child_fd, CHILD_FD);
	if (r == 0)
		r = posix_spawn(&process->pid, "/proc/self/exe", &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (r != 0) {
		process->pid = 0;
		return -r;
	}
	process->pidfd = pidfd_open(process->pid, 0);
	return process->pidfd == -1 ? -errno : 0;
}

static int process_open(struct process *process, uint32_t rank)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
		return -errno;
	process->fd = pair[0];
	int r = spawn(process, rank, pair[1]);

	(void)close(pair[1]);
	return r;
}

/* Says how a process that closed its socket ended. */
static int died(struct process *process, uint32_t rank, char *why, size_t why_bytes)
{
	struct pollfd item = {.fd = process->pidfd, .events = POLLIN};
	pid_t pid = process->pid;
	int status = 0;

	if (pid == 0 || poll(&item, 1, 1000) != 1 || waitpid(pid, &status, WNOHANG) != pid) {
		(void)snprintf(why, why_bytes, "the worker of rank %u (pid %d) closed its socket",
		               rank, pid);
		return -EPIPE;
	}
	process->pid = 0;
	if (WIFSIGNALED(status))
		(void)snprintf(why, why_bytes, "the worker of rank %u (pid %d) died: %s", rank, pid,
		               strsignal(WTERMSIG(status)));
	else
		(void)snprintf(why, why_bytes,
		               "the worker of rank %u (pid %d) exited with status %d", rank, pid,
		               WEXITSTATUS(status));
	return -EPIPE;
}

/* One frame of the wanted type from one process. */
static int expect(struct process *process, uint32_t rank, uint32_t type, int timeout_ms, char *why,
                  size_t why_bytes)
{
	int r = replay_inbox_wait(&process->inbox, process->fd, timeout_ms);

	if (r == -EPIPE)
		return died(process, rank, why, why_bytes);
	if (r < 0)
		(void)snprintf(why, why_bytes, "the worker of rank %u gave no answer: %s", rank,
		               strerror(-r));
	else if (process->inbox.type != type)
		r = -EPROTO;
	if (r == -EPROTO)
		(void)snprintf(why, why_bytes,
		               "the worker of rank %u answered with frame %u, not %u", rank,
		               process->inbox.type, type);
	return r < 0 ? r : 0;
}

static int send_to(struct process *process, uint32_t rank, uint32_t type,
                   const struct replay_buf *body, char *why, size_t why_bytes)
{
	int r = replay_frame_send(process->fd, type, body);

	if (r == -EPIPE)
		return died(process, rank, why, why_bytes);
	if (r < 0)
		(void)snprintf(why, why_bytes, "no frame can be sent to rank %u: %s", rank,
		               strerror(-r));
	return r;
}

/* An answer made of an error and a text. */
static int expect_result(struct process *process, uint32_t rank, uint32_t type, int timeout_ms,
                         char *why, size_t why_bytes)
{
	int r = expect(process, rank, type, timeout_ms, why, why_bytes);

	if (r < 0)
		return r;
	struct replay_view view = replay_view_of(&process->inbox.body);
	int error = (int)replay_get_u32(&view);
	const char *text = replay_get_text(&view);

	if (view.failed)
		error = -EBADMSG;
	if (error < 0)
		(void)snprintf(why, why_bytes, "rank %u: %s: %s", rank, text, strerror(-error));
	return error;
}

static int setup_one(struct process *process, const struct replay_setup *engine_setup,
                     uint32_t rank, uint32_t device_base, char *why, size_t why_bytes)
{
	struct replay_setup setup = *engine_setup;
	struct replay_buf body = {0};
	char device[32];

	(void)snprintf(device, sizeof(device), "host:%u", device_base + rank);
	setup.device = device;
	setup.rank = rank;
	setup.lane = setup.lanes == 1 ? 0 : rank;
	setup.writer = setup.lanes > 1 || rank == 0;
	replay_setup_put(&body, &setup);
	int r = process_open(process, rank);
	if (r < 0)
		(void)snprintf(why, why_bytes, "rank %u cannot be started: %s", rank, strerror(-r));
	else
		r = send_to(process, rank, REPLAY_FRAME_SETUP, &body, why, why_bytes);
	replay_buf_done(&body);
	return r;
}

int replay_ranks_start(const struct replay_setup *setup, uint32_t device_base,
                       struct replay_ranks **ret_ranks, char *ret_why, size_t why_bytes)
{
	char ignored[256];
	int r = 0;

	if (setup->world == 0 || setup->world > WORLD_MAX)
		return -EINVAL;
	struct replay_ranks *ranks = calloc(1, sizeof(*ranks));
	if (!ranks)
		return -ENOMEM;
	ranks->world = setup->world;
	for (uint32_t i = 0; i < WORLD_MAX; i++)
		ranks->processes[i].fd = ranks->processes[i].pidfd = -1;
	for (uint32_t i = 0; r == 0 && i < ranks->world; i++)
		r = setup_one(&ranks->processes[i], setup, i, device_base, ret_why, why_bytes);
	for (uint32_t i = 0; r == 0 && i < ranks->world; i++)
		r = expect_result(&ranks->processes[i], i, REPLAY_FRAME_READY, START_MS, ret_why,
		                  why_bytes);
	if (r < 0) {
		(void)replay_ranks_stop(&ranks, ignored, sizeof(ignored));
		return r;
	}
	*ret_ranks = ranks;
	return 0;
}

/* Waits for the end of one process until `end_ns`, then kills it. Its status, or -1. */
static int reap(struct process *process, uint64_t end_ns)
{
	struct pollfd item = {.fd = process->pidfd, .events = POLLIN};
	uint64_t now = dsr_now_ns();
	int status = -1;

	if (process->pid == 0)
		return 0;
	if (poll(&item, 1, now < end_ns ? (int)((end_ns - now) / 1000000) + 1 : 0) != 1)
		(void)kill(process->pid, SIGKILL);
	if (waitpid(process->pid, &status, 0) != process->pid)
		status = -1;
	process->pid = 0;
	return status;
}

int replay_ranks_stop(struct replay_ranks **ranks, char *ret_why, size_t why_bytes)
{
	int r = 0;

	if (!ranks || !*ranks)
		return 0;
	for (uint32_t i = 0; i < (*ranks)->world; i++)
		if ((*ranks)->processes[i].fd != -1)
			(void)replay_frame_send((*ranks)->processes[i].fd, REPLAY_FRAME_STOP, NULL);
	uint64_t end = dsr_now_ns() + STOP_MS * UINT64_C(1000000);

	for (uint32_t i = 0; i < (*ranks)->world; i++) {
		struct process *process = &(*ranks)->processes[i];
		int status = reap(process, end);

		if (status != 0 && r == 0) {
			r = -EIO;
			(void)snprintf(ret_why, why_bytes, "the worker of rank %u ended badly: %s",
			               i,
			               status == -1          ? "unknown"
			               : WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
			                                     : "exit status not 0");
		}
		dsr_close(&process->fd);
		dsr_close(&process->pidfd);
		replay_inbox_done(&process->inbox);
	}
	free(*ranks);
	*ranks = NULL;
	return r;
}

int replay_ranks_attach(struct replay_ranks *ranks, uint32_t timeout_ms, char *ret_why,
                        size_t why_bytes)
{
	struct replay_buf body = {0};
	char why[256] = "";
	int r = 0, first = 0;

	replay_put_u32(&body, timeout_ms);
	for (uint32_t i = 0; r == 0 && i < ranks->world; i++)
		r = send_to(&ranks->processes[i], i, REPLAY_FRAME_ATTACH, &body, ret_why,
		            why_bytes);
	replay_buf_done(&body);
	if (r < 0)
		return r;
	/* every answer is taken, the first refusal is told */
	for (uint32_t i = 0; i < ranks->world; i++) {
		r = expect_result(&ranks->processes[i], i, REPLAY_FRAME_ATTACHED,
		                  (int)timeout_ms + 5000, why, sizeof(why));
		if (r == 0 || first != 0)
			continue;
		first = r;
		(void)snprintf(ret_why, why_bytes, "%s", why);
	}
	return first;
}

static bool has_news(const struct replay_done *done)
{
	return done->error != 0 || done->sending_count > 0 || done->recving_count > 0 ||
	       done->failed_count > 0;
}

static void wake_others(struct replay_ranks *ranks)
{
	for (uint32_t i = 0; i < ranks->world; i++)
		if (!ranks->processes[i].has_answered)
			(void)replay_frame_send(ranks->processes[i].fd, REPLAY_FRAME_WAKE, NULL);
}

/* Takes what one process has sent. 1: its answer is complete. */
static int take_answer(struct process *process, uint32_t rank, struct replay_done *ret_done,
                       char *why, size_t why_bytes)
{
	int r = replay_inbox_read(&process->inbox, process->fd);

	if (r == 0)
		return 0;
	if (r == -EPIPE)
		return died(process, rank, why, why_bytes);
	if (r == 1 && (process->inbox.type != REPLAY_FRAME_DONE ||
	               replay_done_get(replay_view_of(&process->inbox.body), ret_done) < 0))
		r = -EPROTO;
	if (r < 0)
		(void)snprintf(why, why_bytes, "the answer of rank %u cannot be read: %s", rank,
		               strerror(-r));
	else
		process->has_answered = true;
	return r;
}

static int take_answers(struct replay_ranks *ranks, bool is_idle, uint32_t timeout_ms,
                        struct replay_done *ret_done, char *why, size_t why_bytes)
{
	uint64_t end = dsr_now_ns() + timeout_ms * UINT64_C(1000000);
	struct pollfd items[WORLD_MAX];
	bool is_woken = !is_idle;

	for (;;) {
		uint32_t waiting = 0;

		for (uint32_t i = 0; i < ranks->world; i++) {
			struct process *process = &ranks->processes[i];
			int r = process->has_answered
			                ? 0
			                : take_answer(process, i, &ret_done[i], why, why_bytes);

			if (r < 0)
				return r;
			if (r == 1 && !is_woken && has_news(&ret_done[i])) {
				wake_others(ranks);
				is_woken = true;
			}
			if (!process->has_answered)
				items[waiting++] =
					(struct pollfd){.fd = process->fd, .events = POLLIN};
		}
		if (waiting == 0)
			return 0;
		uint64_t now = dsr_now_ns();

		if (now >= end) {
			(void)snprintf(why, why_bytes, "%u of %u ranks gave no answer in %u ms",
			               waiting, ranks->world, timeout_ms);
			return -ETIMEDOUT;
		}
		(void)poll(items, waiting, (int)((end - now) / 1000000) + 1);
	}
}

int replay_ranks_step(struct replay_ranks *ranks, const struct replay_buf *body, bool is_idle,
                      uint32_t timeout_ms, struct replay_done *ret_done, char *ret_why,
                      size_t why_bytes)
{
	for (uint32_t i = 0; i < ranks->world; i++) {
		ranks->processes[i].has_answered = false;
		int r = send_to(&ranks->processes[i], i, REPLAY_FRAME_STEP, body, ret_why,
		                why_bytes);

		if (r < 0)
			return r;
	}
	return take_answers(ranks, is_idle && ranks->world > 1, timeout_ms, ret_done, ret_why,
	                    why_bytes);
}

int replay_ranks_stats(struct replay_ranks *ranks, uint32_t timeout_ms,
                       struct daser_worker_stats *ret_stats, char *ret_why, size_t why_bytes)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < ranks->world; i++)
		r = send_to(&ranks->processes[i], i, REPLAY_FRAME_STATS, NULL, ret_why, why_bytes);
	for (uint32_t i = 0; r == 0 && i < ranks->world; i++) {
		struct process *process = &ranks->processes[i];
		bool is_clean = false;

		r = expect(process, i, REPLAY_FRAME_STATS_ARE, (int)timeout_ms, ret_why, why_bytes);
		if (r == 0)
			r = replay_stats_get(replay_view_of(&process->inbox.body), &ret_stats[i],
			                     &is_clean);
		if (r == 0 && !is_clean) {
			(void)snprintf(ret_why, why_bytes, "rank %u: the null block was written to",
			               i);
			r = -EILSEQ;
		}
	}
	return r;
}

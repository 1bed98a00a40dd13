/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_proc.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "content.h"
#include "kvspace.h"
#include "step.h"
#include "util.h"

#define ATTACH_POLL_MS 2
#define SETUP_TEXTS 5

/* A load under way: what its blocks must hold when it is reported. */
struct load {
	struct load *next;
	uint64_t start_ns;
	uint32_t request, first, count;
	uint64_t *seeds; /* owned: [count] */
	uint32_t *ids;   /* owned: [count]; 0 once the block was reported as failed */
	char name[64];
};

struct rank {
	int fd; /* borrowed: the engine's socket */
	struct replay_inbox inbox;
	struct replay_buf answer, lists;
	struct replay_setup setup; /* texts borrow from `texts` */
	char *texts[SETUP_TEXTS];  /* owned */
	struct replay_kvspace space;
	struct daser_worker *worker; /* owned */
	struct load *loads;          /* owned list */
	const char **finished;       /* owned array of borrowed texts */
	uint32_t finished_capacity;
	/* of the present step */
	int error;
	const char *failed_call;
	uint64_t wrong_bytes;
	struct replay_mismatch mismatches[REPLAY_MISMATCHES_MAX];
	uint32_t mismatch_count;
};

static void called(struct rank *rank, int r, const char *what)
{
	if (r < 0 && rank->error == 0) {
		rank->error = r;
		rank->failed_call = what;
	}
}

static uint64_t seed_of(const struct rank *rank, const uint8_t *seeds, uint32_t index)
{
	return replay_content_seed(replay_u64_at(seeds, index), rank->setup.lane);
}

static void check_block(struct rank *rank, struct replay_mismatch where, uint64_t seed,
                        uint32_t tokens)
{
	where.bytes = replay_kvspace_check(&rank->space, where.id, seed, tokens, &where.first);
	if (where.bytes == 0)
		return;
	rank->wrong_bytes += where.bytes;
	if (rank->mismatch_count < REPLAY_MISMATCHES_MAX)
		rank->mismatches[rank->mismatch_count++] = where;
}

/* Ids come from the engine: a bad one is its bug, and must not write beside the cache. */
static bool ids_fit(struct rank *rank, const uint8_t *ids, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t id = replay_u32_at(ids, i);

		if (id == 0 || id >= rank->setup.blocks) {
			called(rank, -ERANGE, "block id of the engine");
			return false;
		}
	}
	return true;
}

/* ---- loads ---- */

static void load_free(struct load *load)
{
	free(load->ids);
	free(load->seeds);
	free(load);
}

static void load_expect(struct rank *rank, const struct replay_run *run)
{
	struct load *load = calloc(1, sizeof(*load));

	if (!load)
		goto err;
	load->ids = calloc(run->count, sizeof(*load->ids));
	load->seeds = calloc(run->count, sizeof(*load->seeds));
	if (!load->ids || !load->seeds ||
	    dsr_copy_string(load->name, sizeof(load->name), run->name) < 0)
		goto err_load;
	load->request = run->request;
	load->first = run->first;
	load->count = run->count;
	load->start_ns = dsr_now_ns();
	for (uint32_t i = 0; i < run->count; i++) {
		load->ids[i] = replay_u32_at(run->ids, i);
		load->seeds[i] = seed_of(rank, run->seeds, i);
	}
	load->next = rank->loads;
	rank->loads = load;
	return;
err_load:
	load_free(load);
err:
	called(rank, -ENOMEM, "load");
}

static void load_failed_block(struct rank *rank, uint32_t id)
{
	for (struct load *load = rank->loads; load; load = load->next)
		for (uint32_t i = 0; i < load->count; i++)
			if (load->ids[i] == id)
				load->ids[i] = 0;
}

/* Checks what a reported load brought; its time goes to `ret_ns`. 0 or -ENOENT. */
static int load_ended(struct rank *rank, const char *name, uint64_t now, uint64_t *ret_ns)
{
	for (struct load **link = &rank->loads; *link; link = &(*link)->next) {
		struct load *load = *link;

		if (strcmp(load->name, name) != 0)
			continue;
		for (uint32_t i = 0; i < load->count; i++) {
			struct replay_mismatch where = {.request = load->request,
			                                .block = load->first + i,
			                                .id = load->ids[i],
			                                .after_load = 1};

			if (load->ids[i] != 0)
				check_block(rank, where, load->seeds[i], rank->setup.block_tokens);
		}
		*ret_ns = now - load->start_ns;
		*link = load->next;
		load_free(load);
		return 0;
	}
	return -ENOENT;
}

/* ---- a step ---- */

static void poison(struct rank *rank, struct replay_step_view *step)
{
	const uint8_t *ids = replay_get_raw(&step->lists, step->poison_count, sizeof(uint32_t));

	if (!ids || !ids_fit(rank, ids, step->poison_count))
		return;
	for (uint32_t i = 0; i < step->poison_count; i++)
		replay_kvspace_poison(&rank->space, replay_u32_at(ids, i));
}

static void expect_loads(struct rank *rank, struct replay_step_view *step)
{
	struct replay_run run;

	for (uint32_t n = 0; n < step->load_count && replay_run_get(&step->lists, &run) == 0; n++)
		if (ids_fit(rank, run.ids, run.count))
			load_expect(rank, &run);
}

/* The forward pass: writes what is computed, then reads what must be there. */
static void forward(struct rank *rank, struct replay_step_view *step)
{
	uint32_t tokens = rank->setup.block_tokens;
	struct replay_run run;

	for (uint32_t n = 0; n < step->fill_count && replay_run_get(&step->lists, &run) == 0; n++) {
		if (!ids_fit(rank, run.ids, run.count))
			return;
		for (uint32_t i = 0; i < run.count; i++)
			replay_kvspace_fill(&rank->space, replay_u32_at(run.ids, i),
			                    seed_of(rank, run.seeds, i), i == 0 ? run.from : 0,
			                    i == run.count - 1 ? run.to : tokens);
	}
	for (uint32_t n = 0; n < step->check_count && replay_run_get(&step->lists, &run) == 0;
	     n++) {
		if (!ids_fit(rank, run.ids, run.count))
			return;
		for (uint32_t i = 0; i < run.count; i++) {
			struct replay_mismatch where = {.request = run.request,
			                                .block = run.first + i,
			                                .id = replay_u32_at(run.ids, i)};

			check_block(rank, where, seed_of(rank, run.seeds, i),
			            i == run.count - 1 ? run.to : tokens);
		}
	}
}

/* Waits for news of libdaser or of the engine, whichever comes first. */
static void wait_for_news(struct rank *rank, uint64_t wait_ns)
{
	struct pollfd items[2] = {{.fd = daser_worker_fd(rank->worker), .events = POLLIN},
	                          {.fd = rank->fd, .events = POLLIN}};
	struct timespec wait = {.tv_sec = (time_t)(wait_ns / 1000000000),
	                        .tv_nsec = (long)(wait_ns % 1000000000)};

	if (wait_ns > 0)
		(void)ppoll(items, 2, &wait, NULL);
}

static int take_finished(struct rank *rank, struct replay_step_view *step)
{
	if (step->finished_count > rank->finished_capacity) {
		const char **finished =
			reallocarray(rank->finished, step->finished_count, sizeof(*finished));

		if (!finished)
			return -ENOMEM;
		rank->finished = finished;
		rank->finished_capacity = step->finished_count;
	}
	for (uint32_t i = 0; i < step->finished_count; i++)
		rank->finished[i] = replay_get_text(&step->lists);
	return step->lists.failed ? -EBADMSG : 0;
}

/* Collects libdaser's output into the answer, checking the loads that ended. */
static void answer(struct rank *rank, uint32_t finished_count)
{
	struct daser_worker_output output = {.size = sizeof(output)};
	struct replay_buf *buf = &rank->answer, *lists = &rank->lists;
	uint32_t samples = 0;

	called(rank, daser_worker_output(rank->worker, rank->finished, finished_count, &output),
	       "daser_worker_output");
	uint64_t now = dsr_now_ns();

	replay_buf_clear(lists);
	for (uint32_t i = 0; i < output.failed_block_count; i++)
		load_failed_block(rank, output.failed_blocks[i]);
	for (uint32_t i = 0; i < output.finished_recving_count; i++) {
		uint64_t ns = 0;

		/* an unknown name is passed on: the engine says what is wrong with it */
		if (load_ended(rank, output.finished_recving[i], now, &ns) == 0) {
			replay_put_u64(lists, ns);
			samples++;
		}
	}
	replay_buf_clear(buf);
	replay_put_u32(buf, (uint32_t)rank->error);
	replay_put_text(buf, rank->error ? rank->failed_call : "");
	replay_put_bytes(buf, output.bytes, output.length);
	replay_put_u64(buf, rank->wrong_bytes);
	replay_put_u32(buf, output.finished_sending_count);
	replay_put_u32(buf, output.finished_recving_count);
	replay_put_u32(buf, output.failed_block_count);
	replay_put_u32(buf, rank->mismatch_count);
	replay_put_u32(buf, samples);
	for (uint32_t i = 0; i < output.finished_sending_count; i++)
		replay_put_text(buf, output.finished_sending[i]);
	for (uint32_t i = 0; i < output.finished_recving_count; i++)
		replay_put_text(buf, output.finished_recving[i]);
	for (uint32_t i = 0; i < output.failed_block_count; i++)
		replay_put_u32(buf, output.failed_blocks[i]);
	for (uint32_t i = 0; i < rank->mismatch_count; i++)
		replay_mismatch_put(buf, &rank->mismatches[i]);
	replay_put_raw(buf, lists->data, lists->length);
}

static int on_step(struct rank *rank)
{
	struct replay_step_view step;

	if (replay_step_get(replay_view_of(&rank->inbox.body), &step) < 0)
		return -EBADMSG;
	rank->error = 0;
	rank->wrong_bytes = 0;
	rank->mismatch_count = 0;
	if (take_finished(rank, &step) < 0)
		return -EBADMSG;
	called(rank, daser_worker_preemptions(rank->worker, step.meta, step.meta_length),
	       "daser_worker_preemptions");
	called(rank, daser_worker_bind(rank->worker, step.meta, step.meta_length),
	       "daser_worker_bind");
	poison(rank, &step);
	expect_loads(rank, &step);
	called(rank, daser_worker_start_load(rank->worker, NULL), "daser_worker_start_load");
	forward(rank, &step);
	called(rank, daser_worker_wait_for_save(rank->worker, NULL), "daser_worker_wait_for_save");
	if (step.lists.failed)
		return -EBADMSG;
	wait_for_news(rank, step.wait_ns);
	answer(rank, step.finished_count);
	return replay_frame_send(rank->fd, REPLAY_FRAME_DONE, &rank->answer);
}

/* ---- the rest of a rank's life ---- */

static int reply(struct rank *rank, uint32_t type, int error, const char *reason)
{
	replay_buf_clear(&rank->answer);
	replay_put_u32(&rank->answer, (uint32_t)error);
	replay_put_text(&rank->answer, reason);
	return replay_frame_send(rank->fd, type, &rank->answer);
}

static int open_worker(struct rank *rank, const char **ret_what)
{
	uint8_t fingerprint[DASER_NAMESPACE_BYTES];
	const struct replay_setup *s = &rank->setup;
	struct daser_worker_options options = {
		.size = sizeof(options),
		.run_dir = s->run_dir,
		.engine = s->engine,
		.fingerprint = fingerprint,
		.device = s->device,
		.rank = s->rank,
		.world = s->world,
		.lane = s->lane,
		.lanes = s->lanes,
		.writer = s->writer,
		.block_tokens = s->block_tokens,
		.staging_mode = s->staging_mode,
		.staging_ceiling = s->staging_ceiling,
		.load_deadline_ms = s->load_deadline_ms,
		.save_deadline_ms = s->save_deadline_ms,
	};

	*ret_what = "KV cache";
	int r = replay_kvspace_open(&rank->space, s->blocks, s->block_bytes, s->block_tokens,
	                            s->layers);
	if (r < 0)
		return r;
	replay_kvspace_poison(&rank->space, 0);
	daser_fingerprint(s->fingerprint_text, strlen(s->fingerprint_text), fingerprint);
	*ret_what = "daser_worker_open";
	r = daser_worker_open(&options, &rank->worker);
	if (r < 0)
		return r;
	struct daser_geometry geometry = {
		.size = sizeof(geometry),
		.pieces = rank->space.pieces,
		.piece_count = rank->space.piece_count,
		.blocks = s->blocks,
	};

	*ret_what = "daser_worker_register";
	return daser_worker_register(rank->worker, &geometry);
}

/* The texts of the setup live in the frame: they are copied, the frame is reused. */
static int on_setup(struct rank *rank)
{
	struct replay_setup setup;
	const char *what = "setup";

	if (rank->worker || replay_setup_get(replay_view_of(&rank->inbox.body), &setup) < 0)
		return -EBADMSG;
	const char **texts[SETUP_TEXTS] = {&setup.run_dir, &setup.engine, &setup.fingerprint_text,
	                                   &setup.device, &setup.staging_mode};

	for (size_t i = 0; i < SETUP_TEXTS; i++) {
		rank->texts[i] = strdup(*texts[i]);
		if (!rank->texts[i])
			return -ENOMEM;
		*texts[i] = rank->texts[i];
	}
	rank->setup = setup;
	int r = open_worker(rank, &what);

	return reply(rank, REPLAY_FRAME_READY, r, what);
}

/* Waits until the service serves this rank, or says no, or the time is over. */
static int on_attach(struct rank *rank)
{
	struct replay_view view = replay_view_of(&rank->inbox.body);
	uint64_t end = dsr_now_ns() + replay_get_u32(&view) * UINT64_C(1000000);

	for (;;) {
		enum daser_state state = daser_worker_state(rank->worker);
		struct pollfd item = {.fd = rank->fd, .events = POLLIN};

		if (state == DASER_ATTACHED)
			return reply(rank, REPLAY_FRAME_ATTACHED, 0, "");
		if (state == DASER_REFUSED)
			return reply(rank, REPLAY_FRAME_ATTACHED, -EPERM,
			             daser_worker_reason(rank->worker));
		if (dsr_now_ns() >= end)
			return reply(rank, REPLAY_FRAME_ATTACHED, -ETIMEDOUT,
			             daser_worker_reason(rank->worker));
		if (poll(&item, 1, ATTACH_POLL_MS) == 1)
			return -EPIPE; /* nothing but its end can come from the engine now */
	}
}

static int on_stats(struct rank *rank)
{
	struct daser_worker_stats stats = {.size = sizeof(stats)};
	int r = daser_worker_get_stats(rank->worker, &stats);

	if (r < 0)
		return r;
	replay_buf_clear(&rank->answer);
	replay_stats_put(&rank->answer, &stats, replay_kvspace_is_poisoned(&rank->space, 0));
	return replay_frame_send(rank->fd, REPLAY_FRAME_STATS_ARE, &rank->answer);
}

static int on_frame(struct rank *rank)
{
	if (rank->inbox.type == REPLAY_FRAME_SETUP)
		return on_setup(rank);
	if (rank->inbox.type == REPLAY_FRAME_WAKE)
		return 0;
	if (!rank->worker)
		return -EPROTO;
	if (rank->inbox.type == REPLAY_FRAME_ATTACH)
		return on_attach(rank);
	if (rank->inbox.type == REPLAY_FRAME_STEP)
		return on_step(rank);
	if (rank->inbox.type == REPLAY_FRAME_STATS)
		return on_stats(rank);
	return -EPROTO;
}

static void rank_close(struct rank *rank)
{
	daser_worker_close(&rank->worker);
	while (rank->loads) {
		struct load *load = rank->loads;

		rank->loads = load->next;
		load_free(load);
	}
	replay_kvspace_close(&rank->space);
	replay_inbox_done(&rank->inbox);
	replay_buf_done(&rank->answer);
	replay_buf_done(&rank->lists);
	free(rank->finished);
	for (size_t i = 0; i < SETUP_TEXTS; i++)
		free(rank->texts[i]);
}

int replay_worker_main(int fd)
{
	struct rank rank = {.fd = fd};
	int r;

	(void)prctl(PR_SET_NAME, "daser-replay"); /* not `exe`, for who looks at processes */
	for (;;) {
		r = replay_inbox_wait(&rank.inbox, fd, -1);
		if (r == 1 && rank.inbox.type == REPLAY_FRAME_STOP)
			break;
		if (r == 1)
			r = on_frame(&rank);
		if (r < 0)
			break;
	}
	if (r < 0 && r != -EPIPE)
		(void)fprintf(stderr, "daser-replay: rank %u cannot go on: %s\n", rank.setup.rank,
		              strerror(-r));
	rank_close(&rank);
	return r == -EPIPE || r >= 0 ? 0 : 1;
}

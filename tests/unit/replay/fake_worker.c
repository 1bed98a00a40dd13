/* SPDX-License-Identifier: Apache-2.0 */
/* The worker half of the stand-in: copies blocks between the KV cache and a map. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daser/worker.h"
#include "fake_daser.h"

#define NAMES_MAX 8192
#define LOAD_OUTPUTS 2 /* a load takes so many outputs */

struct job {
	struct job *next;
	uint32_t op, count, left;
	char name[64];
	uint32_t *ids;
	struct fake_key *keys;
};

struct daser_worker {
	struct daser_worker_options options;
	struct daser_piece *pieces;
	uint32_t piece_count;
	uint64_t payload;
	struct fake_map blocks;
	struct job *jobs;
	struct daser_worker_stats stats;
	struct replay_buf bytes;
	const char *sending[NAMES_MAX], *recving[NAMES_MAX];
	char names[2][NAMES_MAX][64];
	uint32_t failed[NAMES_MAX];
	uint32_t loads_seen;
};

int daser_worker_open(const struct daser_worker_options *options, struct daser_worker **ret_worker)
{
	struct daser_worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return -ENOMEM;
	worker->options = *options;
	*ret_worker = worker;
	return fake_is("open_fails") ? -ENODEV : 0;
}

void daser_worker_close(struct daser_worker **worker)
{
	if (!worker || !*worker)
		return;
	while ((*worker)->jobs) {
		struct job *job = (*worker)->jobs;

		(*worker)->jobs = job->next;
		free(job->ids);
		free(job->keys);
		free(job);
	}
	fake_map_clear(&(*worker)->blocks);
	replay_buf_done(&(*worker)->bytes);
	free((*worker)->pieces);
	free(*worker);
	*worker = NULL;
}

int daser_worker_register(struct daser_worker *worker, const struct daser_geometry *geometry)
{
	worker->pieces = calloc(geometry->piece_count, sizeof(*worker->pieces));
	if (!worker->pieces)
		return -ENOMEM;
	worker->piece_count = geometry->piece_count;
	for (uint32_t i = 0; i < geometry->piece_count; i++) {
		worker->pieces[i] = geometry->pieces[i];
		worker->payload += geometry->pieces[i].bytes * geometry->pieces[i].count;
	}
	return 0;
}

enum daser_state daser_worker_state(struct daser_worker *worker)
{
	(void)worker;
	return fake_is("refused")  ? DASER_REFUSED
	       : fake_is("absent") ? DASER_DETACHED
	                           : DASER_ATTACHED;
}

const char *daser_worker_reason(struct daser_worker *worker)
{
	(void)worker;
	return "block_tokens 16 is not 32";
}

/* Copies a block's payload out of the KV cache or into it. */
static void copy(struct daser_worker *worker, uint32_t id, uint8_t *payload, bool is_out)
{
	for (uint32_t i = 0; i < worker->piece_count; i++) {
		const struct daser_piece *p = &worker->pieces[i];

		for (uint64_t n = 0; n < p->count; n++) {
			uint8_t *at = (uint8_t *)p->base + id * p->block_stride + n * p->stride;

			(void)memcpy(is_out ? payload : at, is_out ? at : payload, p->bytes);
			payload += p->bytes;
		}
	}
}

int daser_worker_preemptions(struct daser_worker *worker, const void *meta, size_t length)
{
	(void)worker;
	(void)meta;
	(void)length;
	return 0;
}

int daser_worker_bind(struct daser_worker *worker, const void *meta, size_t length)
{
	struct replay_view view = {.at = meta, .end = (const uint8_t *)meta + length};
	struct fake_op op;

	while (fake_get_op(&view, &op)) {
		struct job *job = calloc(1, sizeof(*job));

		if (!job)
			abort();
		*job = (struct job){.op = op.op, .count = op.count, .left = LOAD_OUTPUTS};
		(void)snprintf(job->name, sizeof(job->name), "%s", op.name);
		job->ids = calloc(op.count, sizeof(*job->ids));
		job->keys = calloc(op.count, sizeof(*job->keys));
		if (!job->ids || !job->keys)
			abort();
		(void)memcpy(job->ids, op.ids, op.count * sizeof(*job->ids));
		(void)memcpy(job->keys, op.keys, op.count * sizeof(*job->keys));
		job->next = worker->jobs;
		worker->jobs = job;
	}
	return view.failed ? -EBADMSG : 0;
}

int daser_worker_start_load(struct daser_worker *worker, void *event)
{
	(void)event;
	for (struct job *job = worker->jobs; job; job = job->next)
		worker->loads_seen += job->op == FAKE_LOAD && job->left == LOAD_OUTPUTS;
	if (fake_is("stuck") && worker->loads_seen > 0)
		(void)poll(NULL, 0, -1);
	if (fake_is("die") && worker->loads_seen > 0 && worker->options.rank == 1)
		_exit(3);
	return fake_is("start_load_fails") && worker->loads_seen > 0 ? -EIO : 0;
}

int daser_worker_wait_for_save(struct daser_worker *worker, void *event)
{
	(void)event;
	for (struct job *job = worker->jobs; job; job = job->next) {
		if (job->op != FAKE_SAVE)
			continue;
		for (uint32_t i = 0; i < job->count; i++)
			copy(worker, job->ids[i],
			     fake_map_get(&worker->blocks, &job->keys[i], worker->payload, true),
			     true);
		worker->stats.store_bytes += worker->options.writer * job->count * worker->payload;
		worker->stats.store_busy_ns += 1000;
		job->left = 0;
	}
	if (fake_is("null_block"))
		*(uint8_t *)worker->pieces[0].base = 1;
	return 0;
}

static void load(struct daser_worker *worker, struct job *job, struct daser_worker_output *out)
{
	uint32_t bad = fake_is("fail_first")    ? 0
	               : fake_is("fail_middle") ? job->count / 2
	                                        : UINT32_MAX;

	for (uint32_t i = 0; i < job->count; i++) {
		uint8_t *payload =
			fake_map_get(&worker->blocks, &job->keys[i], worker->payload, true);

		if (i == bad && worker->options.rank == worker->options.world - 1)
			worker->failed[out->failed_block_count++] = job->ids[i];
		else if (!(fake_is("skip_copy") && i == 0))
			copy(worker, job->ids[i], payload, false);
	}
	if (fake_is("corrupt"))
		*((uint8_t *)worker->pieces[0].base +
		  job->ids[0] * worker->pieces[0].block_stride) ^= 1;
	worker->stats.load_bytes += job->count * worker->payload;
	worker->stats.load_busy_ns += 1000;
}

static void report(struct daser_worker *worker, const struct job *job)
{
	fake_put_op(&worker->bytes, job->op == FAKE_LOAD ? FAKE_END : FAKE_SAVE, job->name,
	            job->count);
	replay_put_raw(&worker->bytes, job->ids, job->count * sizeof(*job->ids));
	replay_put_raw(&worker->bytes, job->keys, job->count * sizeof(*job->keys));
}

static void add_name(const char **list, char (*texts)[64], uint32_t *count, const char *name)
{
	(void)snprintf(texts[*count], 64, "%s", name);
	list[*count] = texts[*count];
	(*count)++;
}

static void end_jobs(struct daser_worker *worker, struct daser_worker_output *out)
{
	for (struct job **link = &worker->jobs; *link;) {
		struct job *job = *link;

		if ((job->op == FAKE_LOAD && fake_is("never_load")) ||
		    (job->left > 0 && --job->left > 0)) {
			link = &job->next;
			continue;
		}
		if (job->op == FAKE_LOAD) {
			load(worker, job, out);
			for (int n = fake_is("recving_twice") ? 2 : 1; n > 0; n--)
				add_name(worker->recving, worker->names[0],
				         &out->finished_recving_count, job->name);
		}
		report(worker, job);
		*link = job->next;
		free(job->ids);
		free(job->keys);
		free(job);
	}
}

int daser_worker_output(struct daser_worker *worker, const char *const *finished,
                        uint32_t finished_count, struct daser_worker_output *ret_output)
{
	struct daser_worker_output out = {.size = sizeof(out)};

	replay_buf_clear(&worker->bytes);
	end_jobs(worker, &out);
	for (uint32_t i = 0; i < finished_count; i++)
		add_name(worker->sending, worker->names[1], &out.finished_sending_count,
		         finished[i]);
	if (fake_is("sending_unknown"))
		add_name(worker->sending, worker->names[1], &out.finished_sending_count, "p9.9");
	if (fake_is("sending_running"))
		add_name(worker->sending, worker->names[1], &out.finished_sending_count, "p0.0");
	if (fake_is("failed_foreign"))
		worker->failed[out.failed_block_count++] = 1;
	out.finished_sending = worker->sending;
	out.finished_recving = worker->recving;
	out.failed_blocks = worker->failed;
	out.bytes = worker->bytes.data;
	out.length = worker->bytes.length;
	*ret_output = out;
	return 0;
}

int daser_worker_fd(struct daser_worker *worker)
{
	(void)worker;
	return -1;
}

int daser_worker_get_stats(struct daser_worker *worker, struct daser_worker_stats *ret_stats)
{
	worker->stats.size = ret_stats->size;
	*ret_stats = worker->stats;
	return 0;
}

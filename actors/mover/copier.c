/* SPDX-License-Identifier: Apache-2.0 */
#include "copier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "runs.h"
#include "util.h"

#define COPIER_AGAIN_NS UINT64_C(1000000)
/* So long an entry may be seen while it is being written. Only a stopped or dead scheduler takes
 * longer: the blocks then count as unreadable. */
#define COPIER_ODD_NS UINT64_C(200000000)
#define COPIER_TURN 32 /* segments that end in one turn: others want the loop, too */

/* A segment under way. */
struct copier_flight {
	struct dsr_job *job; /* borrowed */
	uint32_t first, count;
	uint32_t copied, runs; /* blocks whose copy was submitted, and the copies they made */
	struct dsr_event event;
	uint64_t submitted_ns;
	uint8_t byte;     /* source of a corrupting copy */
	bool is_recorded; /* the event stands behind the copies */
	bool is_past_fault;
};

struct dsr_copier {
	struct dsr_copier_options o;
	struct dsr_stream *stream; /* owned */
	struct dsr_timer *again;   /* owned */
	struct dsr_jobs jobs;
	struct copier_flight
		flights[DSR_COPIER_DEPTH]; /* ring: number ended % DEPTH is the oldest */
	uint64_t submitted, ended;
	struct dsr_copy *copies; /* owned scratch, [capacity] */
	uint32_t capacity;
	int error;
};

static void copier_turn(void *self);

int dsr_copier_new(const struct dsr_copier_options *options, struct dsr_copier **ret_copier)
{
	struct dsr_copier *c = calloc(1, sizeof(*c));
	int r;

	if (c == NULL)
		return -ENOMEM;
	c->o = *options;
	c->jobs.limit = options->job_limit;
	r = dsr_timer_new(c->o.loop, copier_turn, c, &c->again);
	if (r < 0)
		goto err;
	r = dsr_stream_open(c->o.device, &c->stream);
	if (r < 0)
		goto err;
	r = dsr_loop_add_fd(c->o.loop, dsr_device_fd(c->o.device), copier_turn, c);
	if (r < 0)
		goto err_stream;
	*ret_copier = c;
	return 0;

err_stream:
	dsr_stream_close(&c->stream);
err:
	dsr_timer_free(&c->again);
	free(c);
	return r;
}

void dsr_copier_free(struct dsr_copier **copier)
{
	struct dsr_copier *c = *copier;

	if (c == NULL)
		return;
	dsr_loop_remove_fd(c->o.loop, dsr_device_fd(c->o.device));
	dsr_stream_close(&c->stream);
	dsr_timer_free(&c->again);
	free(c->copies);
	free(c);
	*copier = NULL;
}

void dsr_copier_again(struct dsr_copier *copier)
{
	dsr_timer_set(copier->again, dsr_now_ns() + COPIER_AGAIN_NS);
}

static int copier_reserve(struct dsr_copier *c, uint32_t count)
{
	struct dsr_copy *copies;

	if (count <= c->capacity)
		return 0;
	copies = realloc(c->copies, count * sizeof(*copies));
	if (copies == NULL)
		return -ENOMEM;
	c->copies = copies;
	c->capacity = count;
	return 0;
}

/* Looks at each block that is good so far. -EAGAIN: an entry is being written, look again later. */
static int copier_check(struct dsr_copier *c, struct dsr_job *job, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++) {
		int r;

		if (job->errs[i] != 0)
			continue;
		r = dsr_l1_check(c->o.l1, &job->refs[i], c->o.ops->entry_state);
		if (r == -EAGAIN && job->odd_since_ns == 0)
			job->odd_since_ns = dsr_now_ns();
		if (r == -EAGAIN && dsr_now_ns() - job->odd_since_ns < COPIER_ODD_NS) {
			dsr_copier_again(c);
			return -EAGAIN;
		}
		job->errs[i] = r == -EAGAIN ? -EIO : r;
	}
	job->odd_since_ns = 0;
	return 0;
}

static void copier_fail(struct dsr_job *job, uint32_t first, uint32_t count, int err)
{
	for (uint32_t i = first; i < first + count; i++)
		if (job->errs[i] == 0)
			job->errs[i] = err;
}

static struct dsr_runs_place copier_place(const struct dsr_copier *c, const struct dsr_job *job)
{
	return (struct dsr_runs_place){
		.staging = job->staging,
		.lane = job->lane_base,
		.slot_bytes = c->o.l1->geometry.slot_bytes,
		.slot_stride = c->o.l1->geometry.slot_stride,
		.to_staging = c->o.ops->to_staging,
	};
}

static void copier_record(struct dsr_copier *c, struct copier_flight *flight)
{
	flight->is_recorded = dsr_stream_record(c->stream, &flight->event) == 0;
	if (!flight->is_recorded)
		dsr_copier_again(c);
}

/* Submits the next segment of a job. -EAGAIN: not now. */
static int copier_start(struct dsr_copier *c, struct dsr_job *job)
{
	uint32_t first = job->next_block, count = job->count - first, runs;
	struct copier_flight *flight = &c->flights[c->submitted % DSR_COPIER_DEPTH];
	struct dsr_runs_place place = copier_place(c, job);
	int r, fault = 0;

	if (count > job->segment_blocks)
		count = job->segment_blocks;
	for (uint32_t i = first; i < first + count; i++)
		job->errs[i] = 0;
	r = copier_check(c, job, first, count);
	if (r < 0)
		return r;
	if (dsr_fault_at(c->o.faults, c->o.ops->fault_before, &fault) == DSR_FAULT_FAIL)
		copier_fail(job, first, count, fault);
	r = copier_reserve(c, count);
	runs = r < 0 ? 0 : dsr_runs_make(&place, job->refs, job->errs, first, count, c->copies);
	if (runs > 0)
		r = dsr_stream_copy(c->stream, c->copies, runs);
	if (r == -EAGAIN) {
		dsr_copier_again(c);
		return r;
	}
	if (r < 0) {
		copier_fail(job, first, count, -EIO);
		runs = 0;
	}
	*flight = (struct copier_flight){.job = job, .first = first, .count = count, .runs = runs};
	for (uint32_t i = first; i < first + count; i++)
		flight->copied += job->errs[i] == 0;
	flight->submitted_ns = dsr_now_ns();
	if (job->started_ns == 0)
		job->started_ns = flight->submitted_ns;
	copier_record(c, flight);
	c->submitted++;
	job->running++;
	job->next_block = job->begun = first + count;
	if (job->next_block == job->count)
		dsr_jobs_remove(&c->jobs, job);
	return 0;
}

static void copier_pump(struct dsr_copier *c)
{
	uint32_t tried = 0;

	while (c->submitted - c->ended < DSR_COPIER_DEPTH && tried < c->jobs.lines) {
		struct dsr_job *job = dsr_jobs_turn(&c->jobs);

		if (copier_start(c, job) == 0)
			tried = 0;
		else
			tried++;
	}
}

static void copier_end_job(struct dsr_copier *c, struct dsr_job *job)
{
	if (job->running > 0 || job->next_block < job->count)
		return;
	job->done = job->count;
	job->is_ended = true;
	job->ended_ns = dsr_now_ns();
	c->o.ops->job_done(c->o.self, job);
}

/* What a fault point asks for after a copy. True: a copy of one wrong byte is under way. */
static bool copier_fault(struct dsr_copier *c, struct copier_flight *flight)
{
	struct dsr_job *job = flight->job;
	struct dsr_runs_place place = copier_place(c, job);
	uint32_t i = flight->first;
	uint8_t *slot;
	int err = 0;

	flight->is_past_fault = true;
	switch (dsr_fault_at(c->o.faults, c->o.ops->fault_after, &err)) {
	case DSR_FAULT_FAIL:
		copier_fail(job, flight->first, flight->count, err);
		return false;
	case DSR_FAULT_CORRUPT:
		break;
	case DSR_FAULT_NONE:
	case DSR_FAULT_DROP:
		return false;
	}
	while (i < flight->first + flight->count && job->errs[i] != 0)
		i++;
	if (i == flight->first + flight->count)
		return false;
	slot = place.lane + place.slot_stride * job->refs[i].slot;
	flight->byte = (uint8_t) ~*slot;
	if (!place.to_staging) {
		*slot = flight->byte;
		return false;
	}
	/* Staging may be device memory: written as everything is written there. */
	if (dsr_stream_copy(c->stream,
	                    &(struct dsr_copy){.dst = place.staging + place.slot_bytes * i,
	                                       .src = &flight->byte,
	                                       .bytes = 1},
	                    1) < 0)
		return false;
	copier_record(c, flight);
	return true;
}

/* Ends the oldest segment if its copies have. */
static bool copier_end(struct dsr_copier *c)
{
	struct copier_flight *flight = &c->flights[c->ended % DSR_COPIER_DEPTH];
	struct dsr_job *job = flight->job;
	int err;

	if (!flight->is_recorded)
		copier_record(c, flight);
	if (!flight->is_recorded || !dsr_event_done(flight->event))
		return false;
	err = dsr_event_error(flight->event);
	if (err < 0) {
		if (c->error == 0)
			dsr_log(DSR_LOG_ERROR, "copies fail: %s", strerrordesc_np(-err));
		c->error = err;
		copier_fail(job, flight->first, flight->count, -EIO);
	} else if (!flight->is_past_fault && copier_fault(c, flight)) {
		return false;
	}
	if (copier_check(c, job, flight->first, flight->count) < 0)
		return false;
	c->ended++;
	job->running--;
	job->copied += flight->copied;
	job->runs += flight->runs;
	job->done = flight->first + flight->count;
	dsr_counter_add(c->o.counters, DSR_COUNTER_COPIES, flight->copied);
	dsr_counter_add(c->o.counters, DSR_COUNTER_COPY_RUNS, flight->runs);
	c->o.ops->segment_done(c->o.self, job, flight->first, flight->count);
	copier_end_job(c, job);
	return true;
}

static void copier_turn(void *self)
{
	struct dsr_copier *c = self;
	uint64_t until = c->ended + COPIER_TURN;

	/* Before the events are looked at: what completes from now on makes it readable again. */
	dsr_device_ack(c->o.device);
	do {
		copier_pump(c);
	} while (c->ended < c->submitted && c->ended < until && copier_end(c));
	if (c->ended == until)
		dsr_timer_set(c->again, dsr_now_ns());
	c->o.ops->turned(c->o.self);
}

int dsr_copier_submit(struct dsr_copier *copier, struct dsr_job *job)
{
	int r = dsr_jobs_add(&copier->jobs, job);

	if (r < 0)
		return r;
	job->queued_ns = dsr_now_ns();
	copier_pump(copier);
	return 0;
}

void dsr_copier_drop(struct dsr_copier *copier, struct dsr_job *job, int err)
{
	if (!job->is_queued)
		return;
	dsr_jobs_remove(&copier->jobs, job);
	for (uint32_t i = job->next_block; i < job->count; i++)
		job->errs[i] = err;
	job->next_block = job->count;
	copier_end_job(copier, job);
}

int dsr_copier_read(struct dsr_copier *copier, void *dst, const void *src, uint64_t bytes)
{
	struct dsr_copy copy = {.dst = dst, .src = src, .bytes = bytes};

	return dsr_stream_copy(copier->stream, &copy, 1);
}

int dsr_copier_mark(struct dsr_copier *copier, struct dsr_event *ret_event)
{
	return dsr_stream_record(copier->stream, ret_event);
}

uint64_t dsr_copier_submitted(const struct dsr_copier *copier)
{
	return copier->submitted;
}

uint64_t dsr_copier_ended(const struct dsr_copier *copier)
{
	return copier->ended;
}

bool dsr_copier_is_stuck(const struct dsr_copier *copier, uint64_t age_ns)
{
	const struct copier_flight *oldest = &copier->flights[copier->ended % DSR_COPIER_DEPTH];

	return copier->ended < copier->submitted && dsr_now_ns() - oldest->submitted_ns > age_ns;
}

int dsr_copier_error(const struct dsr_copier *copier)
{
	return copier->error;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "jobs.h"

#include <errno.h>
#include <stdlib.h>

int dsr_job_reserve(struct dsr_job *job, uint32_t count)
{
	struct dsr_ref *refs;
	int32_t *errs;
	uint64_t *digests;

	if (count <= job->capacity)
		return 0;
	refs = calloc(count, sizeof(*refs));
	errs = calloc(count, sizeof(*errs));
	digests = calloc(count, sizeof(*digests));
	if (refs == NULL || errs == NULL || digests == NULL) {
		free(refs);
		free(errs);
		free(digests);
		return -ENOMEM;
	}
	free(job->refs);
	free(job->errs);
	free(job->digests);
	job->refs = refs;
	job->errs = errs;
	job->digests = digests;
	job->capacity = count;
	return 0;
}

void dsr_job_done(struct dsr_job *job)
{
	free(job->refs);
	free(job->errs);
	free(job->digests);
	*job = (struct dsr_job){0};
}

int dsr_jobs_add(struct dsr_jobs *jobs, struct dsr_job *job)
{
	struct dsr_job_line *line = job->line;

	if (jobs->count >= jobs->limit)
		return -EAGAIN;
	job->next = NULL;
	job->is_queued = true;
	jobs->count++;
	if (line->first != NULL) {
		line->last->next = job;
		line->last = job;
		return 0;
	}
	line->first = line->last = job;
	if (jobs->last == NULL) {
		line->next = line;
	} else {
		line->next = jobs->last->next;
		jobs->last->next = line;
	}
	jobs->last = line;
	jobs->lines++;
	return 0;
}

struct dsr_job *dsr_jobs_turn(struct dsr_jobs *jobs)
{
	if (jobs->last == NULL)
		return NULL;
	jobs->last = jobs->last->next;
	return jobs->last->first;
}

static void jobs_remove_line(struct dsr_jobs *jobs, struct dsr_job_line *line)
{
	struct dsr_job_line *before = jobs->last;

	while (before->next != line)
		before = before->next;
	before->next = line->next;
	if (jobs->last == line)
		jobs->last = before == line ? NULL : before;
	line->next = NULL;
	jobs->lines--;
}

void dsr_jobs_remove(struct dsr_jobs *jobs, struct dsr_job *job)
{
	struct dsr_job_line *line = job->line;
	struct dsr_job *before = NULL;

	if (!job->is_queued)
		return;
	for (struct dsr_job *j = line->first; j != job; j = j->next)
		before = j;
	if (before == NULL)
		line->first = job->next;
	else
		before->next = job->next;
	if (line->last == job)
		line->last = before;
	job->next = NULL;
	job->is_queued = false;
	jobs->count--;
	if (line->first == NULL)
		jobs_remove_line(jobs, line);
}

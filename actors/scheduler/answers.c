/* SPDX-License-Identifier: Apache-2.0 */
#include "answers.h"

#include <errno.h>
#include <stdlib.h>

#include "mem.h"

struct dsr_answers {
	uint8_t *ring; /* owned */
	uint64_t bytes;
	uint64_t head; /* bytes ever put, gaps at the end of the ring included */
};

int dsr_answers_new(size_t bytes, struct dsr_answers **ret_answers)
{
	struct dsr_answers *answers;

	if (bytes < 8)
		return -EINVAL;
	answers = calloc(1, sizeof(*answers));
	if (answers == NULL)
		return -ENOMEM;
	answers->bytes = bytes & ~(size_t)7;
	answers->ring = dsr_mem_map(answers->bytes);
	if (answers->ring == NULL) {
		free(answers);
		return -ENOMEM;
	}
	*ret_answers = answers;
	return 0;
}

void dsr_answers_free(struct dsr_answers **answers)
{
	if (answers == NULL || *answers == NULL)
		return;
	dsr_mem_unmap((*answers)->ring, (*answers)->bytes);
	free(*answers);
	*answers = NULL;
}

void *dsr_answers_put(struct dsr_answers *answers, size_t bytes, uint64_t *ret_at)
{
	uint64_t need = (bytes + 7) & ~(uint64_t)7, off;

	if (need > answers->bytes || need < bytes)
		return NULL;
	off = answers->head % answers->bytes;
	if (answers->bytes - off < need) {
		answers->head += answers->bytes - off;
		off = 0;
	}
	*ret_at = answers->head;
	answers->head += need;
	return answers->ring + off;
}

const void *dsr_answers_at(const struct dsr_answers *answers, uint64_t at)
{
	return answers->head - at > answers->bytes ? NULL : answers->ring + at % answers->bytes;
}

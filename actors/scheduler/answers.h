/* SPDX-License-Identifier: Apache-2.0 */
/* Answers kept for repeats: a ring of bytes in which the newest overwrite the oldest. */
#ifndef DSR_SCHEDULER_ANSWERS_H
#define DSR_SCHEDULER_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

struct dsr_answers;

/* -EINVAL (0 bytes), -ENOMEM. */
int dsr_answers_new(size_t bytes, struct dsr_answers **ret_answers);
void dsr_answers_free(struct dsr_answers **answers);

/* Room for an answer, aligned to 8, and where it is. NULL when it is larger than the ring. */
void *dsr_answers_put(struct dsr_answers *answers, size_t bytes, uint64_t *ret_at);
/* That answer again, or NULL when others have overwritten it. */
const void *dsr_answers_at(const struct dsr_answers *answers, uint64_t at);

#endif

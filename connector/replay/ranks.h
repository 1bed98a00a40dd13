/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's hold on the processes of its ranks: start, ask all, take every answer, notice a
 * death, stop. */
#ifndef REPLAY_RANKS_H
#define REPLAY_RANKS_H

#include "step.h"

struct replay_ranks;

/* Starts setup->world processes of this executable and waits until each is registered. For rank r
 * the engine's `setup` is used with rank, lane, writer and device set: lane r, or 0 for all when
 * lanes is 1; device host:<device_base + r>. Errors with ret_why. */
int replay_ranks_start(const struct replay_setup *setup, uint32_t device_base,
                       struct replay_ranks **ret_ranks, char *ret_why, size_t why_bytes);
/* Stops them, waiting at most 10 s, then by force. -EIO with ret_why when one ended otherwise than
 * with status 0. Takes NULL. */
int replay_ranks_stop(struct replay_ranks **ranks, char *ret_why, size_t why_bytes);

/* Waits until the service serves every rank. -EPERM (refused), -ETIMEDOUT, with ret_why. */
int replay_ranks_attach(struct replay_ranks *ranks, uint32_t timeout_ms, char *ret_why,
                        size_t why_bytes);

/* Sends a step to all and takes all answers; ret_done[world] borrows until the next call. When
 * is_idle, the first answer with news ends the waiting of the others. -EPIPE (a rank died: ret_why
 * says which and how), -ETIMEDOUT (no answer in timeout_ms). */
int replay_ranks_step(struct replay_ranks *ranks, const struct replay_buf *body, bool is_idle,
                      uint32_t timeout_ms, struct replay_done *ret_done, char *ret_why,
                      size_t why_bytes);
/* ret_stats[world]. -EILSEQ when a rank's null block was written to; else as the step. */
int replay_ranks_stats(struct replay_ranks *ranks, uint32_t timeout_ms,
                       struct daser_worker_stats *ret_stats, char *ret_why, size_t why_bytes);

#endif

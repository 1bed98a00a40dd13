/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on a terminal. */
#ifndef REPLAY_PROGRESS_H
#define REPLAY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct replay_progress {
	bool is_on;
	bool is_shown;
	uint64_t next_ns; /* not drawn again before */
};

/* On when `wanted` and standard error is a terminal. */
void replay_progress_init(struct replay_progress *progress, bool wanted);
/* Draws at most ten times a second. */
void replay_progress_show(struct replay_progress *progress, const char *phase, uint64_t done,
                          uint64_t all);
/* Takes the bar away, before other text is written. */
void replay_progress_clear(struct replay_progress *progress);

#endif

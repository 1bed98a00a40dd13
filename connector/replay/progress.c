/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "util.h"

#define BAR 40
#define PERIOD_NS UINT64_C(100000000)

void replay_progress_init(struct replay_progress *progress, bool wanted)
{
	*progress = (struct replay_progress){.is_on = wanted && isatty(STDERR_FILENO) == 1};
}

void replay_progress_show(struct replay_progress *progress, const char *phase, uint64_t done,
                          uint64_t all)
{
	if (!progress->is_on || all == 0)
		return;
	uint64_t now = dsr_now_ns();

	if (now < progress->next_ns)
		return;
	progress->next_ns = now + PERIOD_NS;
	progress->is_shown = true;
	char bar[BAR + 1];

	for (uint32_t i = 0; i < BAR; i++)
		bar[i] = i < done * BAR / all ? '#' : '.';
	bar[BAR] = '\0';
	(void)fprintf(stderr, "\r%-6s [%s] %" PRIu64 " of %" PRIu64 " requests", phase, bar, done,
	              all);
}

void replay_progress_clear(struct replay_progress *progress)
{
	if (progress->is_shown)
		(void)fputs("\r\033[K", stderr);
	progress->is_shown = false;
}

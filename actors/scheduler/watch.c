/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "roles.h"

/* Why this actor must go, or NULL. */
static const char *watch_row(struct dsr_watch_row *seen, const struct dsr_actor_row *row,
                             uint64_t now_ns, char *text, size_t text_bytes)
{
	uint64_t progress = atomic_load_explicit(&row->progress_ns, memory_order_relaxed);
	uint64_t handles = atomic_load_explicit(&row->peer_handles, memory_order_relaxed);

	seen->still = progress == seen->progress_ns ? seen->still + 1 : 0;
	seen->handles = handles > 0 ? seen->handles + 1 : 0;
	seen->progress_ns = progress;
	if (seen->still >= DSR_WATCH_LOOKS && now_ns > progress && now_ns - progress > DSR_WATCH_NS)
		(void)snprintf(text, text_bytes, "no progress for %" PRIu64 " ms",
		               (now_ns - progress) / 1000000);
	else if (seen->handles > DSR_WATCH_LOOKS)
		(void)snprintf(text, text_bytes,
		               "%" PRIu64 " handles of dead peers open for %" PRIu32 " s", handles,
		               seen->handles);
	else
		return NULL;
	return text;
}

void dsr_watch_look(struct dsr_watch *watch, const struct dsr_actor_row *rows, uint64_t own,
                    uint64_t now_ns,
                    void (*kill)(void *self, const struct dsr_actor_row *row, uint64_t incarnation,
                                 const char *why),
                    void *self)
{
	char text[128];

	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++) {
		struct dsr_watch_row *seen = &watch->rows[i];
		uint64_t incarnation =
			atomic_load_explicit(&rows[i].incarnation, memory_order_acquire);
		const char *why;

		if (incarnation == 0 || incarnation == own ||
		    atomic_load_explicit(&rows[i].state, memory_order_acquire) != DSR_ACTOR_READY) {
			*seen = (struct dsr_watch_row){0};
			continue;
		}
		if (seen->incarnation != incarnation)
			*seen = (struct dsr_watch_row){.incarnation = incarnation};
		why = watch_row(seen, &rows[i], now_ns, text, sizeof(text));
		if (why == NULL || rows[i].by_hand != 0 || seen->is_told != 0)
			continue;
		seen->is_told = 1;
		kill(self, &rows[i], incarnation, why);
	}
}

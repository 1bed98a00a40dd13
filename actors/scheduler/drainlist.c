/* SPDX-License-Identifier: Apache-2.0 */
#include "drainlist.h"

#include <errno.h>
#include <stddef.h>

int dsr_drainlist_add(struct dsr_drainlist *drains, const struct dsr_drain *drain)
{
	if (drains->count == DSR_DRAINS_MAX)
		return -EAGAIN;
	for (uint32_t i = 0; i < DSR_DRAINS_MAX; i++) {
		if (drains->rows[i].peer != NULL)
			continue;
		drains->rows[i] = *drain;
		drains->count++;
		break;
	}
	return 0;
}

static void drain_remove(struct dsr_drainlist *drains, uint32_t i)
{
	drains->rows[i] = (struct dsr_drain){0};
	drains->count--;
}

bool dsr_drainlist_next(struct dsr_drainlist *drains, uint64_t oldest, uint64_t now_ns,
                        struct dsr_drain *ret_drain, int *ret_err)
{
	for (uint32_t i = 0; drains->count > 0 && i < DSR_DRAINS_MAX; i++) {
		const struct dsr_drain *drain = &drains->rows[i];

		if (drain->peer == NULL || (oldest <= drain->upto && now_ns < drain->end_ns))
			continue;
		*ret_err = oldest <= drain->upto ? -ETIMEDOUT : 0;
		*ret_drain = *drain;
		drain_remove(drains, i);
		return true;
	}
	return false;
}

void dsr_drainlist_forget(struct dsr_drainlist *drains, const void *peer)
{
	for (uint32_t i = 0; i < DSR_DRAINS_MAX; i++)
		if (peer != NULL && drains->rows[i].peer == peer)
			drain_remove(drains, i);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "reason.h"

#include <errno.h>
#include <stddef.h>

static const struct {
	int err;
	enum dsr_reason reason;
} reasons[] = {
	{-EAGAIN, DSR_REASON_QUEUE_FULL},
	{-ESTALE, DSR_REASON_STALE},
	{-ENOENT, DSR_REASON_STALE},
	{-EOWNERDEAD, DSR_REASON_ACTOR_GONE},
	{-EHOSTUNREACH, DSR_REASON_ACTOR_GONE},
	{-ENOTCONN, DSR_REASON_DETACHED},
	{-ETIMEDOUT, DSR_REASON_DEADLINE},
	{-ECANCELED, DSR_REASON_CANCELLED},
	{-ENOSPC, DSR_REASON_NO_SLOT},
	{-EEXIST, DSR_REASON_DUPLICATE},
	{-EBUSY, DSR_REASON_DUPLICATE},
	{-EBADMSG, DSR_REASON_DIGEST},
};

enum dsr_reason dsr_reason_of(int err)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].err == err)
			return reasons[i].reason;
	return DSR_REASON_UNREADABLE;
}

enum dsr_reason dsr_reason_of_segment(int err)
{
	return err == -ESTALE ? DSR_REASON_EVICTED : dsr_reason_of(err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "l1.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "entry_table.h"
#include "files.h"
#include "util.h"

#define L1_TRIES 64 /* a write is some 16 stores: only a preempted or dead writer outlasts this */
#define L1_NAME_MAX 64

static int l1_fetch(struct dsr_broker *broker, uint64_t epoch, struct dsr_pool *ret_pool,
                    char *ret_why, size_t why_bytes)
{
	char name[L1_NAME_MAX];
	int fd, r;

	(void)snprintf(name, sizeof(name), DSR_OBJECT_POOL, (unsigned long long)epoch);
	fd = dsr_broker_get(broker, name);
	if (fd < 0) {
		(void)snprintf(ret_why, why_bytes, "object `%s` at the supervisor: %s", name,
		               strerrordesc_np(-fd));
		return fd == -ENOENT ? -ESTALE : fd;
	}
	r = dsr_pool_attach(fd, ret_pool, ret_why, why_bytes);
	dsr_close(&fd);
	if (r == 0 && ret_pool->epoch != epoch) {
		(void)snprintf(ret_why, why_bytes,
		               "object `%s` is of epoch %" PRIu64 ", expected %" PRIu64, name,
		               ret_pool->epoch, epoch);
		dsr_pool_detach(ret_pool);
		return -EBADMSG;
	}
	return r;
}

int dsr_l1_attach(struct dsr_l1 *l1, struct dsr_broker *broker, uint64_t epoch, char *ret_why,
                  size_t why_bytes)
{
	/* Partner: the scheduler's release store once the pool is at the supervisor. */
	uint64_t served =
		atomic_load_explicit(&l1->control->scheduler->pool_epoch, memory_order_acquire);
	int r;

	if (epoch != served) {
		(void)snprintf(ret_why, why_bytes,
		               "pool epoch %" PRIu64 ", the scheduler serves %" PRIu64, epoch,
		               served);
		return -ESTALE;
	}
	if (l1->is_attached && l1->pool.epoch == epoch)
		return 0;
	if (l1->is_attached) {
		(void)snprintf(ret_why, why_bytes, "pool epoch %" PRIu64 " is in use still",
		               l1->pool.epoch);
		return -EBUSY;
	}
	r = l1_fetch(broker, epoch, &l1->pool, ret_why, why_bytes);
	if (r < 0)
		return r;
	l1->geometry = *l1->pool.geometry;
	l1->is_attached = true;
	return 0;
}

void dsr_l1_detach(struct dsr_l1 *l1)
{
	if (!l1->is_attached)
		return;
	for (uint32_t lane = 0; lane < DSR_LANES_MAX; lane++)
		if (l1->lanes & UINT64_C(1) << lane)
			dsr_device_unregister_host(l1->device, dsr_l1_lane(l1, lane));
	l1->lanes = 0;
	dsr_pool_detach(&l1->pool);
	l1->is_attached = false;
}

int dsr_l1_use_lane(struct dsr_l1 *l1, uint32_t lane)
{
	int r;

	if (lane >= l1->geometry.lanes || lane >= DSR_LANES_MAX)
		return -EINVAL;
	if (l1->lanes & UINT64_C(1) << lane)
		return 0;
	r = dsr_device_register_host(l1->device, dsr_l1_lane(l1, lane),
	                             l1->geometry.slot_stride * l1->geometry.slots);
	if (r < 0)
		return r;
	l1->lanes |= UINT64_C(1) << lane;
	return 0;
}

uint8_t *dsr_l1_lane(const struct dsr_l1 *l1, uint32_t lane)
{
	return (uint8_t *)l1->pool.segment.base + l1->geometry.lanes_off +
	       l1->geometry.lane_stride * lane;
}

bool dsr_l1_in_range(const struct dsr_l1 *l1, const struct dsr_ref *ref)
{
	return ref->entry < l1->control->entry_count && ref->slot < l1->geometry.slots;
}

int dsr_l1_check(const struct dsr_l1 *l1, const struct dsr_ref *ref, uint32_t state)
{
	struct dsr_entry entry;

	if (!dsr_l1_in_range(l1, ref))
		return -ESTALE;
	/* The check after a copy: what the copy read or wrote must not be moved behind it. */
	atomic_thread_fence(memory_order_seq_cst);
	if (dsr_entry_read(&l1->control->entries[ref->entry], L1_TRIES, &entry) < 0)
		return -EAGAIN;
	if (entry.generation != ref->generation || entry.l1_slot != ref->slot ||
	    entry.slot_seq != ref->slot_seq ||
	    atomic_load_explicit(&l1->pool.slot_seqs[ref->slot], memory_order_acquire) !=
	            ref->slot_seq)
		return -ESTALE;
	if (entry.state == state)
		return 0;
	return entry.state == DSR_ENTRY_ABORTING ? -ECANCELED : -ESTALE;
}

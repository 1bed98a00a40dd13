/* SPDX-License-Identifier: Apache-2.0 */
/* The L1 pool's life: made at the first REGISTER, found again after a restart, dropped by RESET. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "files.h"
#include "scheduler.h"
#include "util.h"

#define POOL_NAME_BYTES 64

static void pool_name(uint64_t epoch, char ret_name[POOL_NAME_BYTES])
{
	(void)snprintf(ret_name, POOL_NAME_BYTES, DSR_OBJECT_POOL, (unsigned long long)epoch);
}

static uint64_t pool_last_epoch(const struct scheduler *s)
{
	return atomic_load_explicit(&s->rt->control.scheduler->next_generation,
	                            memory_order_relaxed) >>
	       DSR_EPOCH_SHIFT;
}

static struct dsr_pool_request pool_request(const struct scheduler *s,
                                            const struct dsr_rank_request *request)
{
	static const enum dsr_hugepages pages[] = {DSR_HUGEPAGES_OFF, DSR_HUGEPAGES_2M,
	                                           DSR_HUGEPAGES_1G};

	return (struct dsr_pool_request){
		.fingerprint = request->engine.fingerprint,
		.slot_bytes = request->slot_bytes,
		.budget_bytes = s->rt->options.l1_size,
		.epoch = pool_last_epoch(s) + 1,
		.lanes = request->lanes,
		.block_tokens = request->block_tokens,
		.max_slots = s->rt->control.entry_count,
		.hugepages = pages[s->rt->options.l1_hugepages % 3],
	};
}

int dsr_scheduler_plan_pool(struct scheduler *s, const struct dsr_rank_request *request,
                            char *ret_why, size_t why_bytes)
{
	struct dsr_pool_request plan = pool_request(s, request);
	struct dsr_pool_geometry geometry;
	uint64_t bytes;

	return dsr_pool_plan(&plan, &geometry, &bytes, ret_why, why_bytes);
}

/* Maps the pool and gives it to the cache. */
static int pool_adopt(struct scheduler *s, int fd, char *why, size_t why_bytes)
{
	struct dsr_cache_pool adopted;
	int r;

	r = dsr_pool_attach(fd, &s->pool, why, why_bytes);
	if (r < 0)
		return r;
	s->geometry = *s->pool.geometry;
	adopted = (struct dsr_cache_pool){
		.slot_seqs = s->pool.slot_seqs,
		.slots = s->geometry.slots,
		.lanes = s->geometry.lanes,
		.stored_bytes = (uint32_t)s->geometry.slot_bytes,
		.payload = (uint16_t)s->geometry.payload,
		.epoch = s->pool.epoch,
	};
	r = dsr_cache_set_pool(s->cache, &adopted);
	if (r < 0) {
		(void)snprintf(why, why_bytes, "%" PRIu32 " slots in %" PRIu32 " lanes: %s",
		               adopted.slots, adopted.lanes, strerrordesc_np(-r));
		dsr_pool_detach(&s->pool);
	}
	return r;
}

static void pool_announce(struct scheduler *s, uint64_t epoch)
{
	/* Load and store actors wait for it, and then get the pool from the broker. */
	atomic_store_explicit(&s->rt->control.scheduler->pool_epoch, epoch, memory_order_release);
}

int dsr_scheduler_make_pool(struct scheduler *s, const struct dsr_rank_request *request,
                            char *ret_why, size_t why_bytes)
{
	struct dsr_pool_request wanted = pool_request(s, request);
	char name[POOL_NAME_BYTES];
	int fd, r;

	fd = dsr_pool_create(&wanted, ret_why, why_bytes);
	if (fd < 0)
		return fd;
	r = pool_adopt(s, fd, ret_why, why_bytes);
	if (r < 0)
		goto out;
	/* The epoch is used up by now, so the name is new even if we die before announcing it. */
	pool_name(wanted.epoch, name);
	r = dsr_broker_put(s->rt->broker, name, fd);
	if (r < 0) {
		(void)snprintf(ret_why, why_bytes, "supervisor does not take `%s`: %s", name,
		               strerrordesc_np(-r));
		dsr_cache_clear_pool(s->cache);
		dsr_pool_detach(&s->pool);
		goto out;
	}
	pool_announce(s, wanted.epoch);
	dsr_log(DSR_LOG_INFO,
	        "pool %" PRIu64 " made, slots %" PRIu32 ", lanes %" PRIu32 ", slot bytes %" PRIu64,
	        wanted.epoch, s->geometry.slots, s->geometry.lanes, s->geometry.slot_bytes);
out:
	dsr_close(&fd);
	return r;
}

void dsr_scheduler_drop_pool(struct scheduler *s)
{
	uint64_t epoch = s->pool.epoch;
	char name[POOL_NAME_BYTES];

	if (!scheduler_has_pool(s))
		return;
	pool_announce(s, 0);
	dsr_cache_clear_pool(s->cache);
	dsr_pool_detach(&s->pool);
	s->geometry = (struct dsr_pool_geometry){0};
	pool_name(epoch, name);
	(void)dsr_broker_drop(s->rt->broker, name);
	dsr_log(DSR_LOG_INFO, "pool %" PRIu64 " dropped", epoch);
}

/* A fresh control segment: epochs start at a number of its own, with room for more, so that no
 * reference into another segment is ever right in this one. */
void dsr_scheduler_start_epochs(struct scheduler *s)
{
	struct dsr_scheduler_state *state = s->rt->control.scheduler;
	uint64_t made = s->rt->control.header->epoch;
	uint64_t first = (XXH3_64bits(&made, sizeof(made)) & 0x7fffff) << DSR_EPOCH_SHIFT | 1;

	if (atomic_load_explicit(&state->next_generation, memory_order_relaxed) != 0) {
		s->is_rebuilt = true;
		return;
	}
	atomic_store_explicit(&state->next_slot_seq, first, memory_order_release);
	atomic_store_explicit(&state->next_generation, first, memory_order_release);
}

int dsr_scheduler_find_pool(struct scheduler *s)
{
	struct dsr_scheduler_state *state = s->rt->control.scheduler;
	char name[POOL_NAME_BYTES], why[SCHEDULER_WHY_BYTES] = "";
	uint64_t epoch;
	int fd, r;

	if (!s->is_rebuilt)
		return 0;
	epoch = atomic_load_explicit(&state->pool_epoch, memory_order_relaxed);
	if (epoch == 0) {
		/* One that was made and never announced would be kept for ever. */
		pool_name(pool_last_epoch(s), name);
		(void)dsr_broker_drop(s->rt->broker, name);
		return 0;
	}
	pool_name(epoch, name);
	fd = dsr_broker_get(s->rt->broker, name);
	if (fd == -ENOENT) {
		dsr_log(DSR_LOG_WARN, "`%s` of the last scheduler is gone, starting empty", name);
		pool_announce(s, 0);
		return 0;
	}
	if (fd < 0) {
		dsr_log(DSR_LOG_ERROR, "`%s` of the last scheduler: %s", name,
		        strerrordesc_np(-fd));
		return fd;
	}
	r = pool_adopt(s, fd, why, sizeof(why));
	dsr_close(&fd);
	if (r < 0)
		dsr_log(DSR_LOG_ERROR, "`%s` of the last scheduler: %s", name, why);
	return r;
}

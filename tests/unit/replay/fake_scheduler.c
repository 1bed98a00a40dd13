/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler half of the stand-in: knows which keys every rank has, and forgets none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daser/scheduler.h"
#include "fake_daser.h"

#define EVENTS_MAX 65536
#define REASON_PREEMPTED 7
#define REASON_ABORTED 6
#define REASON_NO_SLOT 9
#define REASON_DUPLICATE 10

struct entry {
	uint32_t reserved, ranks; /* ranks that stored it */
};

struct request {
	struct request *next;
	char name[64];
	struct fake_key *keys;
	uint32_t *ids;
	uint32_t count, cursor, again, failed_from;
	uint32_t load_first, load_count, load_ranks;
	uint32_t unsaved[2]; /* blocks [0], [1) are reserved and not emitted */
	uint32_t saves;      /* emitted and not reported by all */
	bool is_finished, has_load, is_loading;
};

struct daser_scheduler {
	struct daser_scheduler_options options;
	struct fake_map entries;
	struct request *requests;
	struct replay_buf meta;
	struct daser_scheduler_stats stats;
	struct daser_block_event *events;
	uint32_t event_count;
};

int daser_scheduler_open(const struct daser_scheduler_options *options,
                         struct daser_scheduler **ret_scheduler)
{
	struct daser_scheduler *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->events = calloc(EVENTS_MAX, sizeof(*s->events));
	if (!s->events)
		abort();
	s->options = *options;
	*ret_scheduler = s;
	return 0;
}

static void request_free(struct request **link)
{
	struct request *request = *link;

	*link = request->next;
	free(request->keys);
	free(request->ids);
	free(request);
}

void daser_scheduler_close(struct daser_scheduler **scheduler)
{
	if (!scheduler || !*scheduler)
		return;
	while ((*scheduler)->requests)
		request_free(&(*scheduler)->requests);
	fake_map_clear(&(*scheduler)->entries);
	replay_buf_done(&(*scheduler)->meta);
	free((*scheduler)->events);
	free(*scheduler);
	*scheduler = NULL;
}

enum daser_state daser_scheduler_state(struct daser_scheduler *scheduler)
{
	(void)scheduler;
	return DASER_ATTACHED;
}

const char *daser_scheduler_reason(struct daser_scheduler *scheduler)
{
	(void)scheduler;
	return "";
}

static struct request **find(struct daser_scheduler *s, const char *name)
{
	struct request **link = &s->requests;

	while (*link && strcmp((*link)->name, name) != 0)
		link = &(*link)->next;
	return link;
}

static void event(struct daser_scheduler *s, const struct fake_key *key, uint32_t fate,
                  uint32_t reason)
{
	if (s->event_count == EVENTS_MAX)
		abort();
	struct daser_block_event *e = &s->events[s->event_count++];

	(void)memcpy(e->hash, key, sizeof(e->hash));
	e->fate = fate;
	e->reason = reason;
	if (fate == DASER_BLOCK_DROPPED)
		s->stats.drops[reason]++;
}

int daser_scheduler_new_request(struct daser_scheduler *scheduler, const char *request,
                                const void *hashes, uint32_t count, uint32_t hash_bytes,
                                const void *variant, uint32_t variant_bytes, uint32_t flags)
{
	struct request *r = calloc(1, sizeof(*r));

	(void)variant;
	(void)variant_bytes;
	(void)flags;
	if (!r || *find(scheduler, request))
		abort(); /* the replay breaks the contract */
	r->keys = calloc(count + 1, sizeof(*r->keys));
	r->ids = calloc(count + 1, sizeof(*r->ids));
	if (!r->keys || !r->ids)
		abort();
	(void)snprintf(r->name, sizeof(r->name), "%s", request);
	for (uint32_t i = 0; i < count; i++)
		(void)memcpy(&r->keys[i], (const uint8_t *)hashes + i * hash_bytes, hash_bytes);
	r->count = count;
	r->failed_from = UINT32_MAX;
	r->next = scheduler->requests;
	scheduler->requests = r;
	return 0;
}

static bool is_visible(struct daser_scheduler *s, const struct fake_key *key)
{
	struct entry *entry = fake_map_get(&s->entries, key, sizeof(*entry), false);

	return entry && entry->ranks == s->options.world;
}

int daser_scheduler_match(struct daser_scheduler *scheduler, const char *request, uint32_t computed,
                          uint32_t *ret_blocks)
{
	struct request *r = *find(scheduler, request);
	uint32_t hits = 0;

	if (!r)
		return -ENOENT;
	if ((fake_is("again") && r->again++ < 2) || fake_is("again_forever"))
		return -EAGAIN;
	while (hits < r->count && hits < r->failed_from && is_visible(scheduler, &r->keys[hits]))
		hits++;
	*ret_blocks = hits > computed ? hits - computed : 0;
	if (fake_is("promise_too_much"))
		*ret_blocks = r->count + 1;
	return 0;
}

int daser_scheduler_allocated(struct daser_scheduler *scheduler, const char *request,
                              const uint32_t *ids, uint32_t count, uint32_t computed,
                              uint32_t external)
{
	struct request *r = *find(scheduler, request);

	if (!r || r->is_loading || computed + external > count)
		abort();
	(void)memcpy(r->ids, ids, (count < r->count ? count : r->count) * sizeof(*ids));
	if (external == 0)
		return 0;
	r->load_first = computed;
	r->load_count = external;
	r->load_ranks = 0;
	r->has_load = r->is_loading = true;
	return 0;
}

int daser_scheduler_scheduled(struct daser_scheduler *scheduler, const char *request,
                              const uint32_t *ids, uint32_t count, uint32_t storable)
{
	struct request *r = *find(scheduler, request);

	if (!r || r->is_loading || storable > count || storable > r->count)
		abort();
	(void)memcpy(r->ids, ids, storable * sizeof(*ids));
	if (storable > r->unsaved[1])
		r->unsaved[1] = storable;
	return 0;
}

/* Drops what is reserved but not yet handed to the ranks. */
static void drop_unsaved(struct daser_scheduler *s, struct request *r, uint32_t reason)
{
	for (uint32_t i = r->unsaved[0]; i < r->unsaved[1]; i++)
		event(s, &r->keys[i], DASER_BLOCK_DROPPED, reason);
	r->unsaved[1] = r->unsaved[0];
}

int daser_scheduler_preempted(struct daser_scheduler *scheduler, const char *request)
{
	struct request *r = *find(scheduler, request);

	if (!r || r->is_loading)
		abort();
	drop_unsaved(scheduler, r, REASON_PREEMPTED);
	return 0;
}

static void put_op(struct daser_scheduler *s, uint32_t op, const struct request *r, uint32_t count,
                   const uint32_t *blocks)
{
	fake_put_op(&s->meta, op, r->name, count);
	for (uint32_t i = 0; i < count; i++)
		replay_put_u32(&s->meta, r->ids[blocks[i]]);
	for (uint32_t i = 0; i < count; i++)
		replay_put_raw(&s->meta, &r->keys[blocks[i]], sizeof(r->keys[0]));
}

static void put_saves(struct daser_scheduler *s, struct request *r)
{
	uint32_t *blocks = calloc(r->count + 1, sizeof(*blocks)), count = 0;

	for (uint32_t i = r->unsaved[0]; i < r->unsaved[1]; i++) {
		struct entry *entry = fake_map_get(&s->entries, &r->keys[i], sizeof(*entry), true);

		if (entry->reserved) {
			event(s, &r->keys[i], DASER_BLOCK_DROPPED, REASON_DUPLICATE);
		} else if (fake_is("no_slot") && i % 8 == 7) {
			event(s, &r->keys[i], DASER_BLOCK_DROPPED, REASON_NO_SLOT);
		} else {
			entry->reserved = 1;
			event(s, &r->keys[i], DASER_BLOCK_RESERVED, 0);
			blocks[count++] = i;
		}
	}
	r->unsaved[0] = r->unsaved[1];
	if (count > 0)
		put_op(s, FAKE_SAVE, r, count, blocks);
	r->saves += count;
	free(blocks);
}

int daser_scheduler_build_meta(struct daser_scheduler *scheduler, const void **ret_bytes,
                               size_t *ret_length)
{
	replay_buf_clear(&scheduler->meta);
	for (struct request **link = &scheduler->requests; *link;) {
		struct request *r = *link;

		if (r->has_load) {
			uint32_t *blocks = calloc(r->load_count, sizeof(*blocks));

			for (uint32_t i = 0; i < r->load_count; i++)
				blocks[i] = r->load_first + i;
			put_op(scheduler, FAKE_LOAD, r, r->load_count, blocks);
			free(blocks);
			r->has_load = false;
		}
		if (r->unsaved[1] > r->unsaved[0])
			put_saves(scheduler, r);
		if (r->is_finished && r->saves == 0 && !r->is_loading)
			request_free(link);
		else
			link = &r->next;
	}
	*ret_bytes = scheduler->meta.data;
	*ret_length = scheduler->meta.length;
	return 0;
}

static void load_ended(struct daser_scheduler *s, struct request *r)
{
	if (!r || ++r->load_ranks < s->options.world)
		return;
	uint32_t failed = fake_is("fail_first") || fake_is("fail_middle");

	r->is_loading = false;
	if (failed)
		r->failed_from = r->load_first + (fake_is("fail_first") ? 0 : r->load_count / 2);
	s->stats.loads++;
	s->stats.load_blocks += r->load_count;
	s->stats.load_failed_blocks += failed;
	s->stats.l1_hits += r->load_count - failed;
	s->stats.l1_misses += failed;
}

static void saved(struct daser_scheduler *s, const struct fake_op *op)
{
	struct request *r = *find(s, op->name);

	for (uint32_t i = 0; i < op->count; i++) {
		struct fake_key key;

		(void)memcpy(&key, op->keys + i * sizeof(key), sizeof(key));
		struct entry *entry = fake_map_get(&s->entries, &key, sizeof(*entry), false);

		if (!entry || ++entry->ranks < s->options.world)
			continue;
		event(s, &key, DASER_BLOCK_STORED, 0);
		if (r)
			r->saves--;
	}
}

int daser_scheduler_update(struct daser_scheduler *scheduler, const void *const *outputs,
                           const size_t *lengths, uint32_t ranks)
{
	for (uint32_t rank = 0; rank < ranks; rank++) {
		struct replay_view view = {.at = outputs[rank],
		                           .end = (const uint8_t *)outputs[rank] + lengths[rank]};
		struct fake_op op;

		while (outputs[rank] && fake_get_op(&view, &op)) {
			if (op.op == FAKE_END)
				load_ended(scheduler, *find(scheduler, op.name));
			else
				saved(scheduler, &op);
		}
	}
	return 0;
}

int daser_scheduler_finished(struct daser_scheduler *scheduler, const char *request, int *ret_delay)
{
	struct request *r = *find(scheduler, request);

	if (!r || r->is_finished)
		abort();
	r->is_finished = true;
	*ret_delay = !r->is_loading && (r->saves > 0 || r->unsaved[1] > r->unsaved[0]);
	if (fake_is("drop_aborted") && *ret_delay) {
		drop_unsaved(scheduler, r, REASON_ABORTED);
		*ret_delay = r->saves > 0;
	}
	if (fake_is("delay_loading") && r->is_loading)
		*ret_delay = 1;
	return 0;
}

int daser_scheduler_pending(struct daser_scheduler *scheduler)
{
	for (struct request *r = scheduler->requests; r; r = r->next)
		if (r->saves > 0 || r->unsaved[1] > r->unsaved[0])
			return 1;
	return 0;
}

int daser_scheduler_get_stats(struct daser_scheduler *scheduler,
                              struct daser_scheduler_stats *ret_stats)
{
	*ret_stats = scheduler->stats;
	return 0;
}

int daser_scheduler_take_events(struct daser_scheduler *scheduler, struct daser_block_event *events,
                                uint32_t max, uint32_t *ret_count)
{
	uint32_t count = scheduler->event_count < max ? scheduler->event_count : max;

	(void)memcpy(events, scheduler->events, count * sizeof(*events));
	(void)memmove(scheduler->events, scheduler->events + count,
	              (scheduler->event_count - count) * sizeof(*events));
	scheduler->event_count -= count;
	*ret_count = count;
	return 0;
}

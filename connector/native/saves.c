/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations: asked for, granted, worked on by the ranks, reported. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lifecycle.h"
#include "reason.h"

#define SAVE_BLOCKS_MAX 16384u /* of one RESERVE: a quarter of the longest frame */
#define ENDED_WAIT_NS                                                                              \
	UINT64_C(1000000000) /* an ended request's blocks are held at most so long                 \
	                      */

/* ---- places and lists ---- */

static struct dsr_save_list *list_of(struct dsr_lifecycle *lc, enum dsr_save_state state)
{
	switch (state) {
	case DSR_SAVE_GRANTED:
		return &lc->granted;
	case DSR_SAVE_ISSUED:
		return &lc->issued;
	case DSR_SAVE_ASKED:
	case DSR_SAVE_GIVEN_UP:
		break;
	}
	return &lc->asked;
}

static void list_add(struct dsr_save_list *list, struct dsr_save *save)
{
	save->prev = list->last;
	save->next = NULL;
	if (list->last != NULL)
		list->last->next = save;
	else
		list->first = save;
	list->last = save;
	list->count++;
}

static void list_remove(struct dsr_save_list *list, struct dsr_save *save)
{
	if (save->prev != NULL)
		save->prev->next = save->next;
	else
		list->first = save->next;
	if (save->next != NULL)
		save->next->prev = save->prev;
	else
		list->last = save->prev;
	list->count--;
}

static void save_move(struct dsr_lifecycle *lc, struct dsr_save *save, enum dsr_save_state state)
{
	list_remove(list_of(lc, save->state), save);
	save->state = state;
	list_add(list_of(lc, state), save);
}

static void save_free(struct dsr_save *save)
{
	free(save->positions);
	free(save->refs);
	free(save->fates);
	free(save->ranks);
	free(save);
}

/* Its end: gives up its place and its use of the request. */
static void save_end(struct dsr_lifecycle *lc, struct dsr_save *save)
{
	list_remove(list_of(lc, save->state), save);
	lc->save_places[save->id & (DSR_PLACES - 1)] = NULL;
	if (save->state == DSR_SAVE_ISSUED)
		save->request->issued--;
	if (save->state == DSR_SAVE_GIVEN_UP)
		save->request->given_up--;
	save->request->saves--;
	dsr_requests_put(&lc->requests, save->request);
	save_free(save);
}

/* NULL: no memory, or as many as there may be. */
static struct dsr_save *save_new(struct dsr_lifecycle *lc, struct dsr_engine_request *request,
                                 uint32_t first, uint32_t count)
{
	struct dsr_save *save;
	uint32_t place = lc->save_next, tried = 0;

	while (lc->save_places[place] != NULL && ++tried < DSR_PLACES)
		place = (place + 1) % DSR_PLACES;
	if (tried == DSR_PLACES)
		return NULL;
	save = calloc(1, sizeof(*save));
	if (save == NULL)
		return NULL;
	save->ranks = calloc(lc->requests.world_words, sizeof(*save->ranks));
	if (save->ranks == NULL) {
		free(save);
		return NULL;
	}
	save->id = ++lc->last_id << DSR_PLACE_BITS | place;
	save->state = DSR_SAVE_ASKED;
	save->request = request;
	save->first = first;
	save->count = count;
	save->scheduler = lc->scheduler;
	lc->save_places[place] = save;
	lc->save_next = (place + 1) % DSR_PLACES;
	list_add(&lc->asked, save);
	request->users++;
	request->saves++;
	return save;
}

struct dsr_save *dsr_saves_at(const struct dsr_lifecycle *lc, uint64_t id)
{
	struct dsr_save *save = lc->save_places[id & (DSR_PLACES - 1)];

	return save != NULL && save->id == id ? save : NULL;
}

void dsr_saves_done(struct dsr_lifecycle *lc)
{
	if (lc->save_places == NULL)
		return;
	while (lc->asked.first != NULL)
		save_end(lc, lc->asked.first);
	while (lc->granted.first != NULL)
		save_end(lc, lc->granted.first);
	while (lc->issued.first != NULL)
		save_end(lc, lc->issued.first);
	free(lc->save_places);
	lc->save_places = NULL;
}

/* ---- asking ---- */

static void drop_blocks(struct dsr_lifecycle *lc, const struct dsr_engine_request *request,
                        uint32_t first, uint32_t count, uint32_t reason)
{
	for (uint32_t i = 0; i < count; i++)
		dsr_block_dropped(lc, request, first + i, reason);
}

void dsr_saves_reserve(struct dsr_lifecycle *lc, struct dsr_engine_request *request,
                       uint32_t storable)
{
	struct dsr_save *save;
	uint32_t first, n;

	while (request->cursor < storable) {
		first = request->cursor;
		n = storable - first < SAVE_BLOCKS_MAX ? storable - first : SAVE_BLOCKS_MAX;
		request->cursor += n;
		if (!lc->is_attached) {
			request->lost = first < request->lost ? first : request->lost;
			drop_blocks(lc, request, first, n, DSR_REASON_DETACHED);
			continue;
		}
		save = save_new(lc, request, first, n);
		if (save == NULL)
			drop_blocks(lc, request, first, n, DSR_REASON_QUEUE_FULL);
		else if (dsr_outbox_put(lc, DSR_OUT_RESERVE, save->id, NULL) < 0)
			dsr_saves_fail(lc, save, DSR_REASON_QUEUE_FULL, false);
	}
}

void dsr_saves_sent(struct dsr_lifecycle *lc, struct dsr_save *save)
{
	save->is_sent = true;
	save->scheduler = lc->scheduler;
}

void dsr_saves_fail(struct dsr_lifecycle *lc, struct dsr_save *save, uint32_t reason,
                    bool may_exist)
{
	if (save->state == DSR_SAVE_GIVEN_UP)
		reason = save->reason;
	drop_blocks(lc, save->request, save->first, save->count, reason);
	if (may_exist)
		dsr_abandon_put(lc, save, NULL, 0, reason);
	save_end(lc, save);
}

/* ---- the answer ---- */

static const struct {
	int status;
	uint32_t reason;
} refusals[] = {
	{-EBUSY, DSR_REASON_DUPLICATE},
	{-ENOSPC, DSR_REASON_NO_SLOT},
	{-ENOENT, DSR_REASON_ORPHAN},
};

/* A block that was not reserved. One that is cached already is neither stored nor dropped. */
static void block_refused(struct dsr_lifecycle *lc, const struct dsr_save *save, uint32_t index,
                          int status)
{
	if (status == -EEXIST)
		return;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (refusals[i].status == status) {
			dsr_block_dropped(lc, save->request, save->first + index,
			                  refusals[i].reason);
			return;
		}
	dsr_block_dropped(lc, save->request, save->first + index, DSR_REASON_STALE);
}

/* Memory for what was reserved; the references are copied. */
static int save_take_refs(struct dsr_save *save, const struct dsr_msg_reserve_reply *reply)
{
	uint32_t n = reply->refs.n, at = 0;

	save->positions = calloc(n, sizeof(*save->positions));
	save->refs = malloc(n * sizeof(*save->refs));
	save->fates = calloc(n, sizeof(*save->fates));
	if (save->positions == NULL || save->refs == NULL || save->fates == NULL)
		return -ENOMEM;
	memcpy(save->refs, reply->refs.v, n * sizeof(*save->refs));
	for (uint32_t i = 0; i < save->count; i++)
		if (reply->status.v[i] == 0)
			save->positions[at++] = save->first + i;
	save->reserved = n;
	return 0;
}

static bool reply_is_whole(const struct dsr_save *save, const struct dsr_msg_reserve_reply *reply)
{
	uint32_t zeros = 0;

	if (reply->status.n != save->count)
		return false;
	for (uint32_t i = 0; i < reply->status.n; i++)
		zeros += reply->status.v[i] == 0;
	return zeros == reply->refs.n;
}

/* Every reserved block of a save that no rank was told of is dropped. */
static void save_abandon(struct dsr_lifecycle *lc, struct dsr_save *save, uint32_t reason)
{
	for (uint32_t i = 0; i < save->reserved; i++)
		dsr_block_dropped(lc, save->request, save->positions[i], reason);
	dsr_abandon_put(lc, save, NULL, 0, reason);
	save_end(lc, save);
}

void dsr_lifecycle_on_reserve(struct dsr_lifecycle *lc, uint64_t cookie,
                              const struct dsr_msg_reserve_reply *reply)
{
	struct dsr_save *save = dsr_saves_at(lc, cookie);

	if (save == NULL || !save->is_sent ||
	    (save->state != DSR_SAVE_ASKED && save->state != DSR_SAVE_GIVEN_UP))
		return;
	if (reply->err < 0) {
		dsr_saves_fail(lc, save, dsr_reason_of(reply->err), false);
		return;
	}
	if (!reply_is_whole(save, reply)) {
		lc->stats.errors++;
		dsr_saves_fail(lc, save, DSR_REASON_STALE, true);
		return;
	}
	if (reply->refs.n > 0 && save_take_refs(save, reply) < 0) {
		lc->stats.errors++;
		dsr_saves_fail(lc, save, DSR_REASON_QUEUE_FULL, true);
		return;
	}
	for (uint32_t i = 0; i < save->count; i++)
		if (reply->status.v[i] != 0)
			block_refused(lc, save, i, reply->status.v[i]);
	if (save->reserved == 0) {
		save_end(lc, save);
		return;
	}
	lc->stats.reserved_blocks += save->reserved;
	if (save->state == DSR_SAVE_GIVEN_UP) {
		save_abandon(lc, save, save->reason);
		return;
	}
	for (uint32_t i = 0; i < save->reserved; i++)
		dsr_block_event(lc, save->request, save->positions[i], DASER_BLOCK_RESERVED, 0);
	save_move(lc, save, DSR_SAVE_GRANTED);
}

/* ---- giving up ---- */

static uint32_t give_up_asked(struct dsr_lifecycle *lc, struct dsr_save *save, uint32_t reason)
{
	uint32_t first = save->first;

	if (save->state == DSR_SAVE_GIVEN_UP)
		return UINT32_MAX;
	if (!save->is_sent) {
		dsr_saves_fail(lc, save, reason, false);
		return first;
	}
	save->state = DSR_SAVE_GIVEN_UP;
	save->reason = reason;
	save->request->given_up++;
	return first;
}

uint32_t dsr_saves_give_up(struct dsr_lifecycle *lc, const struct dsr_engine_request *request,
                           uint32_t reason)
{
	struct dsr_save *save, *next;
	uint32_t least = UINT32_MAX, first;

	for (save = lc->asked.first; save != NULL; save = next) {
		next = save->next;
		if (request != NULL && save->request != request)
			continue;
		first = give_up_asked(lc, save, reason);
		least = first < least ? first : least;
	}
	for (save = lc->granted.first; save != NULL; save = next) {
		next = save->next;
		if (request != NULL && save->request != request)
			continue;
		least = save->first < least ? save->first : least;
		save_abandon(lc, save, reason);
	}
	return least;
}

void dsr_saves_wait_ended(struct dsr_lifecycle *lc)
{
	uint64_t now = dsr_lifecycle_now(lc);
	struct dsr_engine_request *request;
	struct dsr_save *save, *next;

	for (save = lc->asked.first; save != NULL; save = next) {
		next = save->next;
		request = save->request;
		if (request->is_live || save->state == DSR_SAVE_GIVEN_UP)
			continue;
		if (now - request->ended_ns >= ENDED_WAIT_NS) {
			(void)give_up_asked(lc, save, DSR_REASON_DEADLINE);
		} else if (request->waited_step != lc->step + 1) {
			request->waited_step = lc->step + 1;
			if (dsr_notes_add(&lc->notes, DSR_NOTE_WAITING, request, NULL, 0) < 0)
				(void)give_up_asked(lc, save, DSR_REASON_DEADLINE);
		}
	}
}

/* ---- the ranks' work ---- */

void dsr_saves_issued(struct dsr_lifecycle *lc, struct dsr_save *save)
{
	save->request->issued++;
	save_move(lc, save, DSR_SAVE_ISSUED);
}

/* One block of one rank's report: its first drop decides its fate. Returns whether it is to be
 * abandoned. */
static bool report_dropped(struct dsr_lifecycle *lc, struct dsr_save *save, uint32_t index,
                           uint8_t result)
{
	struct dsr_engine_request *request = save->request;
	uint32_t reason = result & DSR_RESULT_REASON;

	if (!(save->fates[index] & DSR_FATE_DROPPED)) {
		save->fates[index] |= DSR_FATE_DROPPED;
		dsr_block_dropped(lc, request, save->positions[index], reason);
		/* It lost its blocks, not its wish to be stored. */
		if (reason == DSR_REASON_PREEMPTED && save->positions[index] < request->cursor)
			request->cursor = save->positions[index];
	}
	if ((result & DSR_RESULT_KIND) != DSR_RESULT_UNTOLD ||
	    (save->fates[index] & DSR_FATE_ABANDONED))
		return false;
	save->fates[index] |= DSR_FATE_ABANDONED;
	return true;
}

static void report_results(struct dsr_lifecycle *lc, struct dsr_save *save, const uint8_t *results)
{
	struct dsr_ref *untold = NULL;
	uint32_t count = 0, reason = 0;

	for (uint32_t i = 0; i < save->reserved; i++) {
		if (results[i] == DSR_RESULT_STORED || !report_dropped(lc, save, i, results[i]))
			continue;
		if (untold == NULL)
			untold = malloc(save->reserved * sizeof(*untold));
		if (untold == NULL) {
			lc->stats.errors++;
			continue;
		}
		reason = results[i] & DSR_RESULT_REASON;
		untold[count++] = save->refs[i];
	}
	if (count > 0)
		dsr_abandon_put(lc, save, untold, count, reason);
	free(untold);
}

void dsr_saves_report(struct dsr_lifecycle *lc, uint32_t rank, const struct dsr_output_save *report)
{
	struct dsr_save *save = dsr_saves_at(lc, report->id);

	if (save == NULL || save->state != DSR_SAVE_ISSUED || save->reserved != report->count ||
	    !dsr_bits_set(save->ranks, rank)) {
		lc->stats.errors++;
		lc->options.port->count(lc->options.self, DSR_COUNTER_ENGINE_ERRORS, 1);
		return;
	}
	report_results(lc, save, report->results);
	if (++save->ended < lc->options.world)
		return;
	for (uint32_t i = 0; i < save->reserved; i++) {
		if (save->fates[i] & DSR_FATE_DROPPED)
			continue;
		lc->stats.stored_blocks++;
		dsr_block_event(lc, save->request, save->positions[i], DASER_BLOCK_STORED, 0);
	}
	save_end(lc, save);
}

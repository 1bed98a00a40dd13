/* SPDX-License-Identifier: Apache-2.0 */
#include "settle.h"

#include <errno.h>
#include <stdlib.h>

#include "log.h"
#include "util.h"

#define SETTLE_BATCH 4096 /* blocks of one message: some 120 KiB */
#define SETTLE_WINDOW 32  /* messages not answered */
#define SETTLE_DEADLINE_MS 1000
#define SETTLE_AGAIN_NS UINT64_C(50000000)

struct settle_block {
	struct dsr_settle_lane of;
	struct dsr_ref ref;
	uint16_t type;   /* DSR_MSG_COMMIT or DSR_MSG_ABORT */
	uint16_t reason; /* enum dsr_reason, of an ABORT */
};

/* Consecutive blocks with the same of, type and reason. */
struct settle_message {
	uint64_t first;
	uint32_t count;
	bool is_sent; /* and a reply or its failure will come */
	bool is_done;
	uint64_t again_ns; /* when it is not sent */
};

/* Blocks are numbered for ever; number % DSR_SETTLE_BLOCKS is the place. Messages likewise, and a
 * message's number is the cookie of its request. */
struct dsr_settle {
	struct dsr_settle_options o;
	struct dsr_timer *again;     /* owned */
	struct settle_block *blocks; /* owned, [DSR_SETTLE_BLOCKS] */
	struct dsr_ref *refs;        /* owned scratch, [SETTLE_BATCH] */
	uint64_t head, next, tail;   /* oldest not answered, first in no message, end */
	uint32_t promised;
	struct settle_message messages[SETTLE_WINDOW];
	uint64_t message_head, message_tail;
};

static void settle_again(void *self)
{
	dsr_settle_flush(self);
}

int dsr_settle_new(const struct dsr_settle_options *options, struct dsr_settle **ret_settle)
{
	struct dsr_settle *s = calloc(1, sizeof(*s));
	int r = -ENOMEM;

	if (s == NULL)
		return r;
	s->o = *options;
	s->message_head = s->message_tail = 1;
	s->blocks = calloc(DSR_SETTLE_BLOCKS, sizeof(*s->blocks));
	s->refs = calloc(SETTLE_BATCH, sizeof(*s->refs));
	if (s->blocks == NULL || s->refs == NULL)
		goto err;
	r = dsr_timer_new(s->o.loop, settle_again, s, &s->again);
	if (r < 0)
		goto err;
	*ret_settle = s;
	return 0;

err:
	free(s->blocks);
	free(s->refs);
	free(s);
	return r;
}

void dsr_settle_free(struct dsr_settle **settle)
{
	struct dsr_settle *s = *settle;

	if (s == NULL)
		return;
	dsr_timer_free(&s->again);
	free(s->blocks);
	free(s->refs);
	free(s);
	*settle = NULL;
}

static struct settle_block *settle_at(struct dsr_settle *s, uint64_t number)
{
	return &s->blocks[number % DSR_SETTLE_BLOCKS];
}

static struct settle_message *settle_message(struct dsr_settle *s, uint64_t number)
{
	return &s->messages[number % SETTLE_WINDOW];
}

int dsr_settle_promise(struct dsr_settle *s, uint32_t count)
{
	if (count > DSR_SETTLE_BLOCKS - (s->tail - s->head) - s->promised)
		return -EAGAIN;
	s->promised += count;
	return 0;
}

void dsr_settle_release(struct dsr_settle *s, uint16_t drains, uint32_t count)
{
	dsr_assert(s->promised >= count);
	s->promised -= count;
	if (drains != 0)
		s->o.settled(s->o.self, drains, count);
}

static void settle_put(struct dsr_settle *s, const struct settle_block *block)
{
	dsr_assert(s->promised > 0);
	s->promised--;
	*settle_at(s, s->tail) = *block;
	s->tail++;
}

void dsr_settle_commit(struct dsr_settle *s, const struct dsr_settle_lane *lane,
                       const struct dsr_ref *ref)
{
	settle_put(s, &(struct settle_block){.of = *lane, .ref = *ref, .type = DSR_MSG_COMMIT});
}

void dsr_settle_abort(struct dsr_settle *s, const struct dsr_settle_lane *lane,
                      const struct dsr_ref *ref, enum dsr_reason reason)
{
	settle_put(s, &(struct settle_block){.of = *lane,
	                                     .ref = *ref,
	                                     .type = DSR_MSG_ABORT,
	                                     .reason = (uint16_t)reason});
}

static bool settle_is_same(const struct settle_block *a, const struct settle_block *b)
{
	return a->type == b->type && a->reason == b->reason && a->of.engine == b->of.engine &&
	       a->of.reservation == b->of.reservation && a->of.lane == b->of.lane;
}

/* The next message: as many blocks as go together. */
static void settle_gather(struct dsr_settle *s)
{
	struct settle_message *message = settle_message(s, s->message_tail);
	const struct settle_block *first = settle_at(s, s->next);

	*message = (struct settle_message){.first = s->next};
	while (s->next < s->tail && message->count < SETTLE_BATCH &&
	       settle_is_same(first, settle_at(s, s->next))) {
		message->count++;
		s->next++;
	}
	s->message_tail++;
}

static int settle_request(struct dsr_settle *s, struct dsr_peer *peer, uint64_t number)
{
	const struct settle_message *message = settle_message(s, number);
	const struct settle_block *first = settle_at(s, message->first);
	struct dsr_refs refs = {.v = s->refs, .n = message->count};
	struct dsr_msg_commit commit = {.engine = first->of.engine,
	                                .reservation = first->of.reservation,
	                                .lane = first->of.lane,
	                                .refs = refs};
	struct dsr_msg_abort abort = {.engine = first->of.engine,
	                              .reservation = first->of.reservation,
	                              .lane = first->of.lane,
	                              .refs = refs,
	                              .reason = first->reason};

	for (uint32_t i = 0; i < message->count; i++)
		s->refs[i] = settle_at(s, message->first + i)->ref;
	if (first->type == DSR_MSG_ABORT)
		return dsr_peer_request(s->o.link, peer, DSR_MSG_ABORT, &abort, SETTLE_DEADLINE_MS,
		                        number);
	if (dsr_fault_at(s->o.faults, DSR_FAULT_STORE_BEFORE_COMMIT, NULL) == DSR_FAULT_DROP)
		return -EAGAIN;
	return dsr_peer_request(s->o.link, peer, DSR_MSG_COMMIT, &commit, SETTLE_DEADLINE_MS,
	                        number);
}

void dsr_settle_flush(struct dsr_settle *s)
{
	struct dsr_peer *peer = dsr_link_peer(s->o.link, DSR_ROLE_SCHEDULER, "");
	uint64_t now = dsr_now_ns(), next_ns = UINT64_MAX;

	if (peer == NULL)
		return;
	while (s->next < s->tail && s->message_tail - s->message_head < SETTLE_WINDOW)
		settle_gather(s);
	for (uint64_t n = s->message_head; n < s->message_tail; n++) {
		struct settle_message *message = settle_message(s, n);

		if (message->is_sent || message->is_done)
			continue;
		if (message->again_ns <= now) {
			message->is_sent = settle_request(s, peer, n) == 0;
			message->again_ns = now + SETTLE_AGAIN_NS;
		}
		if (!message->is_sent && message->again_ns < next_ns)
			next_ns = message->again_ns;
	}
	dsr_timer_set(s->again, next_ns);
}

static struct settle_message *settle_find(struct dsr_settle *s, uint64_t cookie)
{
	if (cookie < s->message_head || cookie >= s->message_tail)
		return NULL;
	return settle_message(s, cookie);
}

/* Blocks [head, end) are over. An empty ring begins at its first place again: the memory in use is
 * then what the work needs. */
static void settle_pop(struct dsr_settle *s, uint64_t end)
{
	for (; s->head < end; s->head++)
		if (settle_at(s, s->head)->of.drains != 0)
			s->o.settled(s->o.self, settle_at(s, s->head)->of.drains, 1);
	if (s->head == s->tail && s->tail % DSR_SETTLE_BLOCKS != 0)
		s->head = s->next = s->tail =
			s->tail - s->tail % DSR_SETTLE_BLOCKS + DSR_SETTLE_BLOCKS;
}

void dsr_settle_on_reply(struct dsr_settle *s, uint64_t cookie)
{
	struct settle_message *message = settle_find(s, cookie);

	if (message == NULL)
		return;
	message->is_done = true;
	while (s->message_head < s->message_tail && settle_message(s, s->message_head)->is_done) {
		message = settle_message(s, s->message_head);
		settle_pop(s, message->first + message->count);
		s->message_head++;
	}
	dsr_settle_flush(s);
}

void dsr_settle_on_failed(struct dsr_settle *s, uint64_t cookie)
{
	struct settle_message *message = settle_find(s, cookie);

	if (message == NULL)
		return;
	message->is_sent = false;
	message->again_ns = 0;
	/* Not from here: the peer may be the dead one still. */
	dsr_timer_set(s->again, dsr_now_ns());
}

void dsr_settle_forget(struct dsr_settle *s)
{
	settle_pop(s, s->tail);
	s->next = s->tail;
	s->message_head = s->message_tail;
	dsr_timer_set(s->again, UINT64_MAX);
}

uint32_t dsr_settle_left(const struct dsr_settle *s)
{
	return (uint32_t)(s->tail - s->head);
}

uint32_t dsr_settle_mark(struct dsr_settle *s, uint16_t drain)
{
	for (uint64_t n = s->head; n < s->tail; n++)
		settle_at(s, n)->of.drains |= drain;
	return dsr_settle_left(s);
}

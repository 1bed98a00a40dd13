/* SPDX-License-Identifier: Apache-2.0 */
#include "drains.h"

#include <errno.h>

#include "util.h"

static void drains_answer(struct dsr_drains *d, struct dsr_drain *drain, int err)
{
	struct dsr_msg_drain_reply reply = {.err = err, .left = drain->left};

	(void)dsr_peer_send(d->link, drain->peer, DSR_MSG_DRAIN_REPLY, drain->req, &reply);
	drain->peer = NULL;
}

/* Ends what is over and sets the timer to the next deadline. */
static void drains_turn(void *self)
{
	struct dsr_drains *d = self;
	uint64_t now = dsr_now_ns(), next_ns = UINT64_MAX;

	for (int i = 0; i < DSR_DRAINS; i++) {
		struct dsr_drain *drain = &d->waiting[i];

		if (drain->peer == NULL)
			continue;
		if (drain->left == 0)
			drains_answer(d, drain, 0);
		else if (drain->deadline_ns <= now)
			drains_answer(d, drain, -ETIMEDOUT);
		else if (drain->deadline_ns < next_ns)
			next_ns = drain->deadline_ns;
	}
	dsr_timer_set(d->timer, next_ns);
}

int dsr_drains_init(struct dsr_drains *d, struct dsr_loop *loop, struct dsr_link *link)
{
	*d = (struct dsr_drains){.link = link};
	return dsr_timer_new(loop, drains_turn, d, &d->timer);
}

void dsr_drains_done(struct dsr_drains *d)
{
	dsr_timer_free(&d->timer);
}

uint16_t dsr_drains_bit(const struct dsr_drains *d)
{
	for (int i = 0; i < DSR_DRAINS; i++)
		if (d->waiting[i].peer == NULL)
			return (uint16_t)(1u << i);
	return 0;
}

void dsr_drains_add(struct dsr_drains *d, uint16_t bit, struct dsr_peer *peer, uint64_t req,
                    uint64_t deadline_ns, uint64_t left)
{
	d->waiting[__builtin_ctz(bit)] = (struct dsr_drain){
		.peer = peer, .req = req, .deadline_ns = deadline_ns, .left = left};
	drains_turn(d);
}

void dsr_drains_settled(struct dsr_drains *d, uint16_t bits, uint32_t count)
{
	bool is_over = false;

	for (int i = 0; i < DSR_DRAINS; i++) {
		struct dsr_drain *drain = &d->waiting[i];

		if ((bits & 1u << i) == 0 || drain->peer == NULL)
			continue;
		drain->left -= drain->left < count ? drain->left : count;
		is_over = is_over || drain->left == 0;
	}
	if (is_over)
		dsr_timer_set(d->timer, dsr_now_ns());
}

void dsr_drains_peer_dead(struct dsr_drains *d, const struct dsr_peer *peer)
{
	for (int i = 0; i < DSR_DRAINS; i++)
		if (d->waiting[i].peer == peer)
			d->waiting[i].peer = NULL;
}

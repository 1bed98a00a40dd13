/* SPDX-License-Identifier: Apache-2.0 */
/* DRAIN requests: each waits for the blocks that were not settled when it came. */
#ifndef DSR_STORE_DRAINS_H
#define DSR_STORE_DRAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "link.h"
#include "loop.h"

#define DSR_DRAINS 16 /* waiting at a time: one bit each */

struct dsr_drain {
	struct dsr_peer *peer; /* borrowed; NULL: free */
	uint64_t req;
	uint64_t deadline_ns;
	uint64_t left; /* blocks */
};

struct dsr_drains {
	struct dsr_link *link;   /* borrowed */
	struct dsr_timer *timer; /* owned */
	struct dsr_drain waiting[DSR_DRAINS];
};

int dsr_drains_init(struct dsr_drains *drains, struct dsr_loop *loop, struct dsr_link *link);
void dsr_drains_done(struct dsr_drains *drains);

/* A free bit, or 0. It stays free until dsr_drains_add. */
uint16_t dsr_drains_bit(const struct dsr_drains *drains);
/* Waits for `left` blocks marked with `bit`; answers at once when there are none, else
 * dsr_drains_settled or the deadline does. */
void dsr_drains_add(struct dsr_drains *drains, uint16_t bit, struct dsr_peer *peer, uint64_t req,
                    uint64_t deadline_ns, uint64_t left);
/* `count` blocks with these bits are settled. Bits of DRAINs that are over mean nothing. */
void dsr_drains_settled(struct dsr_drains *drains, uint16_t bits, uint32_t count);
void dsr_drains_peer_dead(struct dsr_drains *drains, const struct dsr_peer *peer);

#endif

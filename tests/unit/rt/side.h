/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a conversation: a link with handlers that write down what happened. */
#ifndef DSR_TEST_SIDE_H
#define DSR_TEST_SIDE_H

#include "link.h"

#define SIDE_FAILED_MAX 64

struct side {
	struct dsr_loop *loop; /* borrowed: both sides of a test share one */
	struct dsr_link *link; /* owned */
	struct dsr_link_ops ops;
	struct dsr_counters_page page;
	uint64_t incarnation;
	/* written down */
	struct dsr_peer *peer; /* the last that became ready, NULL after its death */
	unsigned ready, dead;
	unsigned lookups, replies, cancels, cancel_replies, segments;
	uint64_t last_cookie;
	int32_t last_err;
	uint32_t last_hits;
	struct {
		uint32_t type;
		uint64_t cookie;
		int err;
		bool was_alive; /* failed before peer_dead */
	} failed[SIDE_FAILED_MAX];
	unsigned failed_count;
	/* what the handlers do */
	bool is_mute;    /* answers no LOOKUP */
	bool is_leaving; /* disconnects from within its next reply handler */
	enum dsr_role leaves;
};

/* The handlers know LOOKUP (answered with hits = keys) and its reply, CANCEL and its reply,
 * SEGMENT. zmq: NULL, or a context shared for inproc. */
void side_open(struct side *side, struct dsr_loop *loop, const char *run_dir, enum dsr_role role,
               const char *device, void *zmq);
void side_open_tapped(struct side *side, struct dsr_loop *loop, const char *run_dir,
                      enum dsr_role role, const char *device);
void side_close(struct side *side);
uint64_t side_counter(const struct side *side, enum dsr_counter counter);
/* Turns until *number is at least `want`; fails the test when it does not get there. */
void side_wait(struct side *side, const unsigned *number, unsigned want);
void side_wait_counter(struct side *side, enum dsr_counter counter, uint64_t want);
/* A LOOKUP of n keys to side->peer. */
int side_lookup(struct side *side, uint32_t n, uint64_t deadline_ms, uint64_t cookie);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to actors, sent at once and waited for together. */
#ifndef DSR_CTL_CALL_H
#define DSR_CTL_CALL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "codec.h"
#include "layout.h"
#include "target.h"

struct dsr_call {
	struct dsr_target target;
	uint32_t type;   /* of a request */
	const void *msg; /* borrowed until the calls are done */
	/* Borrowed; NULL: not watched. The call fails with -EOWNERDEAD once the row is not READY
	 * for `row_incarnation` any more: the actor leaves and will not answer. */
	const struct dsr_actor_row *row;
	uint64_t row_incarnation;
	/* set by dsr_call_all: */
	bool is_done;
	int err; /* 0: the reply came; -ENOTCONN: nobody was there; -ETIMEDOUT; -EOWNERDEAD */
	int32_t reply_err;    /* field err of the reply */
	json_t *reply;        /* owned: its fields; NULL while err is not 0 */
	uint64_t incarnation; /* of who answered */
	uint64_t elapsed_ns;  /* request sent to reply */
	uint64_t sent_ns;
};

/* Connects to each target as role ctl, sends its request, and returns when every one is answered or
 * failed: after timeout_ms at the latest. Nothing is sent twice. Targets must differ. 0, or a
 * negative errno when nothing could be tried. */
int dsr_call_all(const char *run_dir, struct dsr_call *calls, uint32_t count, uint64_t timeout_ms);
void dsr_call_done(struct dsr_call *call);

#endif

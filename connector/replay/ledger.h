/* SPDX-License-Identifier: Apache-2.0 */
/* What became of each block, as far as the engine can know: why a block that somebody computed
 * before was not there. One thread. */
#ifndef REPLAY_LEDGER_H
#define REPLAY_LEDGER_H

#include "daser/scheduler.h"
#include "workload.h"

/* REPLAY_CAUSE(NAME, name): of a block that had to be computed */
#define REPLAY_CAUSES(CAUSE)                                                                       \
	CAUSE(FIRST_USE, first_use)                     /* nobody asked for it before */           \
	CAUSE(IN_FLIGHT_DUPLICATE, in_flight_duplicate) /* another live request is at it */        \
	CAUSE(REFUSED_STORE,                                                                       \
	      refused_store)        /* no slot, a full queue, an unreachable block, late */        \
	CAUSE(PREEMPTED, preempted) /* its save was dropped with a preempted request */            \
	CAUSE(ABORTED, aborted)     /* the same with an aborted one */                             \
	CAUSE(EVICTION_ORDER, eviction_order) /* it was stored, and is gone */                     \
	CAUSE(OTHER, other)                   /* service, actor or lookup failed */

enum replay_cause {
#define REPLAY_CAUSE_ENUM(NAME, name) REPLAY_##NAME,
	REPLAY_CAUSES(REPLAY_CAUSE_ENUM)
#undef REPLAY_CAUSE_ENUM
		REPLAY_CAUSE_COUNT
};

const char *replay_cause_name(enum replay_cause cause);

struct replay_ledger;

int replay_ledger_new(struct replay_ledger **ret_ledger);
void replay_ledger_free(struct replay_ledger **ledger);

/* A request for these blocks has come; `ticket` is its own. *ret_seen: how many leading ones were
 * asked for before, the most that any cache can have. -ENOMEM: nothing changed. */
int replay_ledger_arrive(struct replay_ledger *ledger, const struct replay_key *keys,
                         uint32_t count, uint64_t ticket, uint32_t *ret_seen);
/* It has gone, and its saves are over: blocks that it asked for first, and of which nothing was
 * heard, count as lost with it. */
void replay_ledger_leave(struct replay_ledger *ledger, const struct replay_key *keys,
                         uint32_t count, uint64_t ticket, bool is_aborted);
/* These blocks were loaded: somebody stored those of which nothing was heard. */
void replay_ledger_loaded(struct replay_ledger *ledger, const struct replay_key *keys,
                          uint32_t count);
/* A request lost its blocks, by `cause`: of those under way, what is cancelled on one rank because
 * another one dropped it was lost by that. */
void replay_ledger_lost(struct replay_ledger *ledger, const struct replay_key *keys, uint32_t count,
                        enum replay_cause cause);
/* What libdaser reports of a block, at now_ns. */
void replay_ledger_event(struct replay_ledger *ledger, const struct daser_block_event *event,
                         uint64_t now_ns);
/* Why `key` is missing for the request of `ticket`, whose lookup is not older than lookup_ns. */
enum replay_cause replay_ledger_cause(const struct replay_ledger *ledger,
                                      const struct replay_key *key, uint64_t ticket,
                                      uint64_t lookup_ns);

#endif

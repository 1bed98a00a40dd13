/* SPDX-License-Identifier: Apache-2.0 */
/* Enumerations made from actors.def, reasons.def and counters.def. */
#ifndef DSR_ROLES_H
#define DSR_ROLES_H

enum dsr_role {
#define DSR_ROLE(NAME, name, number, exe, per_device, ready_ms, stop_ms, restart)                  \
	DSR_ROLE_##NAME = (number),
#include "actors.def"
#undef DSR_ROLE
};

/* Life of an actor, in order; written into its row. */
enum dsr_actor_state {
	DSR_ACTOR_ABSENT = 0,
	DSR_ACTOR_STARTING = 1,
	DSR_ACTOR_READY = 2,
	DSR_ACTOR_DRAINING = 3,
	DSR_ACTOR_STOPPED = 4, /* left on purpose */
};

enum dsr_reason {
#define DSR_REASON(NAME, name, number, meaning) DSR_REASON_##NAME = (number),
#include "reasons.def"
#undef DSR_REASON
	DSR_REASON_COUNT
};

enum dsr_counter {
#define DSR_COUNTER(NAME, type, metric, labels, help) DSR_COUNTER_##NAME,
#include "counters.def"
#undef DSR_COUNTER
	DSR_COUNTER_COUNT
};

#endif

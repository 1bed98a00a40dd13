/* SPDX-License-Identifier: Apache-2.0 */
/* What observers ask of a control segment: which actors must be up and which are, and how much of
 * L1 is in use. Reads only; every value is checked where it is read. */
#ifndef DSR_SHM_REPORT_H
#define DSR_SHM_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.h"

#define DSR_REPORT_NO_ROW UINT32_MAX
/* Without progress for longer than this an actor counts as down. */
#define DSR_REPORT_MAX_AGE_NS (UINT64_C(2) * 1000 * 1000 * 1000)
/* A pair of actors that is stopped does not stop at one moment: for so long after one of them left,
 * the other is not missed. */
#define DSR_REPORT_LEAVING_NS (UINT64_C(5) * 1000 * 1000 * 1000)
/* Every row, and the expected actors that have none. */
#define DSR_REPORT_MAX (2 * DSR_ACTOR_ROWS + 2)
#define DSR_REPORT_NAME_MAX (DSR_DEVICE_NAME_MAX + 16)

struct dsr_actor_report {
	char name[DSR_REPORT_NAME_MAX]; /* "scheduler", "load-host:0" */
	char device[DSR_DEVICE_NAME_MAX];
	uint32_t role; /* enum dsr_role */
	uint32_t row;  /* DSR_REPORT_NO_ROW: it never started */
	uint32_t state;
	int32_t pid;
	uint64_t incarnation;
	uint64_t progress_age_ns;
	uint64_t restarts;
	bool is_by_hand;
	bool is_expected; /* the instance is degraded while it is not up */
	bool is_leaving;  /* it drains, or left within DSR_REPORT_LEAVING_NS */
	bool has_left;    /* on purpose */
	bool is_gone;     /* its process does not exist any more */
	bool is_up;
};

/* True while the process of this identity lives. */
typedef bool dsr_report_alive_fn(int32_t pid, uint64_t start_ticks);

/* Fills `reports` (room for DSR_REPORT_MAX) with every actor whose row was used and every expected
 * one that has no row, in order of role and row; returns how many. Expected are those roles of
 * actors.def that start with the instance, and each role per device for every known device: one
 * that has an actor which did not leave on purpose, and none that is just leaving. now_ns:
 * CLOCK_MONOTONIC. is_alive: NULL when processes are not to be looked at. Characters of device
 * names that have no place there become '?'. */
uint32_t dsr_report_actors(const struct dsr_control *control, uint64_t now_ns,
                           dsr_report_alive_fn *is_alive, struct dsr_actor_report *reports);
/* True when every expected one of them is up. */
bool dsr_report_is_good(const struct dsr_actor_report *reports, uint32_t count);
/* Why it is not up, for people: "no progress for 3.2 s"; "" when it is up. */
void dsr_report_why(const struct dsr_actor_report *report, char *ret_text, size_t text_bytes);

/* L1 of one pool epoch; all zero when there is none. */
struct dsr_l1_report {
	uint64_t slots_used; /* bound to a block, or quarantined */
	uint64_t bytes_used; /* of these, in all lanes */
	uint64_t bytes_capacity;
};
/* geometry: NULL when there is no pool. */
void dsr_report_l1(const struct dsr_control *control, const struct dsr_pool_geometry *geometry,
                   struct dsr_l1_report *ret_report);

/* Copies the geometry out of a pool's descriptor (borrowed; mapped read-only for the call). Errors
 * as dsr_segment_check. */
int dsr_report_geometry(int fd, struct dsr_pool_geometry *ret_geometry, uint64_t *ret_epoch,
                        char *ret_why, size_t why_bytes);

#endif

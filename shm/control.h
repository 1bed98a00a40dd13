/* SPDX-License-Identifier: Apache-2.0 */
/* The control segment: one struct of typed pointers into it. */
#ifndef DSR_SHM_CONTROL_H
#define DSR_SHM_CONTROL_H

#include "segment.h"

/* Pointers are into the mapping, valid until dsr_control_detach. */
struct dsr_control {
	struct dsr_segment segment; /* owned */
	struct dsr_segment_header *header;
	struct dsr_actor_row *rows;        /* DSR_ACTOR_ROWS */
	struct dsr_last_words *last_words; /* DSR_ACTOR_ROWS */
	struct dsr_scheduler_state *scheduler;
	struct dsr_entry *entries;
	uint32_t entry_count;
	struct dsr_counters_page *counters; /* DSR_COUNTER_PAGES */
	struct dsr_record_head *record_head;
	struct dsr_record *records; /* DSR_RECORDS */
};

/* Entries a control segment is made with: one for each 16 KiB of L1 + L2, 4096 .. 16 Mi. The memory
 * is sparse: what is not used costs nothing. */
uint32_t dsr_control_entries_for(uint64_t cache_bytes);
/* Creates, fills and publishes a control segment. Returns the descriptor (caller's) or errno. */
int dsr_control_create(uint32_t entry_count);
/* Maps and checks. Read-only mappings still use the same struct: writing to one faults. Errors as
 * dsr_segment_check. */
int dsr_control_attach(int fd, bool writable, struct dsr_control *ret_control, char *ret_why,
                       size_t why_bytes);
void dsr_control_detach(struct dsr_control *control);

/* True when the row's actor is READY and moved its progress within `max_age_ns` of `now_ns`
 * (CLOCK_MONOTONIC). */
bool dsr_actor_row_is_up(const struct dsr_actor_row *row, uint64_t now_ns, uint64_t max_age_ns);

#endif

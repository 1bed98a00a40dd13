/* SPDX-License-Identifier: Apache-2.0 */
/* `daserctl requests` and `daserctl entries`: the record ring and the entry table. */
#ifndef DSR_CTL_ROWS_H
#define DSR_CTL_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "control.h"

/* The newest `limit` records (0: all that are kept), newest first. New reference, NULL without
 * memory. */
json_t *dsr_rows_requests(const struct dsr_control *control, uint64_t limit);
int dsr_rows_print_requests(const json_t *requests, FILE *out); /* 0, -ENOMEM, -EIO */

struct dsr_rows_filter {
	uint64_t limit; /* rows at most; 0: all */
	bool has_state; /* else every state but free */
	uint32_t state; /* enum dsr_entry_state */
	/* Descriptor of the segment (borrowed): pages that were never written are then skipped, and
	 * stay unallocated. -1: every row is read. */
	int fd;
};
/* -EINVAL: no state is called so. */
int dsr_rows_parse_state(const char *name, uint32_t *ret_state);
/* New reference, NULL without memory. */
json_t *dsr_rows_entries(const struct dsr_control *control, const struct dsr_rows_filter *filter);
int dsr_rows_print_entries(const json_t *entries, FILE *out); /* 0, -ENOMEM, -EIO */

#endif

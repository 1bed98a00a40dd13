/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of finished loads and stores. */
#ifndef DSR_SHM_RECORDS_H
#define DSR_SHM_RECORDS_H

#include "control.h"

/* Appends a record (its seq is ignored). Many writers; lock-free; overwrites the oldest row. A
 * writer that dies half-way leaves an odd row, which readers skip and the next lap takes over. */
void dsr_records_append(struct dsr_control *control, const struct dsr_record *record);
/* Copies the newest `max` records, newest first; returns how many. Rows being written are skipped.
 */
uint32_t dsr_records_read(const struct dsr_control *control, struct dsr_record *ret_records,
                          uint32_t max);

#endif

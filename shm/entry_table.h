/* SPDX-License-Identifier: Apache-2.0 */
/* The entry table's seqlock: one writer (the scheduler), any number of readers. */
#ifndef DSR_SHM_ENTRY_TABLE_H
#define DSR_SHM_ENTRY_TABLE_H

#include <stdbool.h>

#include "layout.h"

/* Writer: makes the row odd. Pairs with dsr_entry_write_end. The scheduler alone calls these. */
void dsr_entry_write_begin(struct dsr_entry *entry);
void dsr_entry_write_end(struct dsr_entry *entry);
/* begin, all fields of `value` but its seq, end: word by word with relaxed atomic stores, so that
 * readers that are threads of the same process race with nothing. */
void dsr_entry_write(struct dsr_entry *entry, const struct dsr_entry *value);

/* Reader: a consistent copy into *ret_entry, or -EAGAIN when the row is odd or changed `tries`
 * times. Never blocks. */
int dsr_entry_read(const struct dsr_entry *entry, unsigned tries, struct dsr_entry *ret_entry);

/* True when `ref` names what the table holds now: index in range, generation, slot and slot
 * sequence equal, and state `state`. Call before and after using the slot. */
bool dsr_entry_matches(const struct dsr_entry *entries, uint32_t count, const struct dsr_ref *ref,
                       uint32_t state);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Columns for people. */
#ifndef DSR_CTL_TABLE_H
#define DSR_CTL_TABLE_H

#include <stdint.h>
#include <stdio.h>

struct dsr_table;

/* heads: names separated by commas; one that begins with `>` is aligned to the right. The string is
 * borrowed until free. -ENOMEM. */
int dsr_table_new(const char *heads, struct dsr_table **ret_table);
void dsr_table_free(struct dsr_table **table);
/* The next cell, row by row. Control characters become '?'. Out of memory is told by print. */
void dsr_table_cell(struct dsr_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* 0, -ENOMEM when a cell was lost, -EIO. */
int dsr_table_print(const struct dsr_table *table, FILE *out);

#define DSR_TABLE_TEXT 32
/* "2.25 MiB", "12 B"; returns ret_text (DSR_TABLE_TEXT bytes). */
const char *dsr_table_bytes(uint64_t bytes, char *ret_text);
/* "1.25 ms", "3.2 s". */
const char *dsr_table_time(uint64_t ns, char *ret_text);

#endif

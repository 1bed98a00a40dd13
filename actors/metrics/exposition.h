/* SPDX-License-Identifier: Apache-2.0 */
/* The control segment as Prometheus text (format 0.0.4) and as the JSON of /health. */
#ifndef DSR_METRICS_EXPOSITION_H
#define DSR_METRICS_EXPOSITION_H

#include <stdbool.h>
#include <stdio.h>

#include "report.h"

/* What is shown. All pointers are borrowed for the call. */
struct dsr_exposition {
	const struct dsr_control *control;
	const struct dsr_pool_geometry *geometry; /* NULL: no pool yet */
	uint64_t now_ns;                          /* CLOCK_MONOTONIC */
	dsr_report_alive_fn *is_alive;            /* NULL: processes are not looked at */
};

/* Writes every counter of counters.def and every gauge of gauges.def. Errors are those of `out`:
 * 0 or -EIO. */
int dsr_exposition_metrics(FILE *out, const struct dsr_exposition *shown);
/* Writes {"status":"ok"|"degraded",...}; *ret_is_good tells which. 0, -ENOMEM or -EIO. */
int dsr_exposition_health(FILE *out, const struct dsr_exposition *shown, bool *ret_is_good);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* `daserctl status`: a control segment as JSON, and that JSON for people. */
#ifndef DSR_CTL_STATUS_H
#define DSR_CTL_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "report.h"

/* What is shown; pointers are borrowed for the call. */
struct dsr_status {
	const struct dsr_control *control;        /* NULL: none yet */
	const struct dsr_pool_geometry *geometry; /* NULL: no pool yet */
	uint64_t pool_epoch;
	const char *run_dir;
	uint16_t metrics_port; /* 0: /metrics is not served */
	uint64_t now_ns;       /* CLOCK_MONOTONIC */
	dsr_report_alive_fn *is_alive;
};

/* New reference, NULL without memory; *ret_is_good: every expected actor is up. */
json_t *dsr_status_json(const struct dsr_status *status, bool *ret_is_good);
/* -ENOMEM, -EIO. */
int dsr_status_print(const json_t *status, FILE *out);

#endif

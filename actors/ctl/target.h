/* SPDX-License-Identifier: Apache-2.0 */
/* ROLE[-DEVICE] on the command line: one actor. */
#ifndef DSR_CTL_TARGET_H
#define DSR_CTL_TARGET_H

#include <stddef.h>

#include "layout.h"
#include "report.h"
#include "roles.h"

struct dsr_target {
	enum dsr_role role;
	char device[DSR_DEVICE_NAME_MAX]; /* "" when the role has none */
	char name[DSR_REPORT_NAME_MAX];   /* "load-host:0" */
};

/* Roles with a device may be named without one when `reports` knows exactly one of them. -EINVAL
 * with one line in ret_why. */
int dsr_target_parse(const char *text, const struct dsr_actor_report *reports, uint32_t count,
                     struct dsr_target *ret_target, char *ret_why, size_t why_bytes);
/* Of an actor that is there. */
void dsr_target_of(const struct dsr_actor_report *report, struct dsr_target *ret_target);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Fault points: include/faults.def. Compiled out by -Dfaults=false: then every check is 0. */
#ifndef DSR_RT_FAULTS_H
#define DSR_RT_FAULTS_H

#include <stddef.h>
#include <stdint.h>

enum dsr_fault {
#define DSR_FAULT(NAME, name, role, meaning) DSR_FAULT_##NAME,
#include "faults.def"
#undef DSR_FAULT
	DSR_FAULT_COUNT
};

enum dsr_fault_action { DSR_FAULT_NONE = 0, DSR_FAULT_FAIL, DSR_FAULT_DROP, DSR_FAULT_CORRUPT };

struct dsr_faults; /* of one actor */

int dsr_faults_new(struct dsr_faults **ret_faults);
void dsr_faults_free(struct dsr_faults **faults);
/* POINT[:nth=N]:ACTION, ACTION kill | stop | fail=ERRNO (number or name) | delay=MS | drop |
 * corrupt. -EINVAL with ret_why; -ENOTSUP when compiled out. */
int dsr_faults_arm(struct dsr_faults *faults, const char *spec, char *ret_why, size_t why_bytes);
void dsr_faults_disarm(struct dsr_faults *faults);
/* Called at the point: kill, stop and delay happen inside; the others are returned, with the errno
 * (negative) for DSR_FAULT_FAIL in *ret_err (may be NULL). */
enum dsr_fault_action dsr_fault_at(struct dsr_faults *faults, enum dsr_fault point, int *ret_err);
const char *dsr_fault_name(unsigned point);
const char *dsr_fault_role(unsigned point);
const char *dsr_fault_meaning(unsigned point);

#endif

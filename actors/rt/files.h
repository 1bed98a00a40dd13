/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed names inside the run directory. */
#ifndef DSR_RT_FILES_H
#define DSR_RT_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "roles.h"

#define DSR_FILE_ATTACH "attach.sock"
#define DSR_FILE_METRICS_PORT "metrics.port" /* decimal: where /metrics is; W: daser-metrics */
#define DSR_OBJECT_CONTROL "control"         /* at the broker */
#define DSR_OBJECT_POOL "pool/%llu"          /* pool epoch */
#define DSR_OBJECT_STAGING "staging/%llx/%s" /* worker incarnation, "load" or "store" */

/* run_dir/<role>[-<device>].lock: held (flock, own open file) for life by the actor of that role.
 * Descriptor, or -EEXIST when another lives, or errno. */
int dsr_role_lock(const char *run_dir, enum dsr_role role, const char *device);
/* "<run_dir>/<prefix><role>[-<device>]<suffix>"; device may be "". -EINVAL: a device name that is
 * no file name; -ENAMETOOLONG: longer than a socket's path may be; -E2BIG: does not fit ret_text.
 */
int dsr_role_path(const char *run_dir, const char *prefix, enum dsr_role role, const char *device,
                  const char *suffix, char *ret_text, size_t text_bytes);
/* A device name: 1 to 63 letters, digits and any of `:._-`, beginning with a letter or digit. */
bool dsr_device_name_ok(const char *device);
/* Checks that run_dir is a directory of ours with mode 0700: 0, -ENOENT, -EACCES, -ENOTDIR. */
int dsr_run_dir_check(const char *run_dir);

#endif

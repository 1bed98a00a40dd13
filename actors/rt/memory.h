/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process can still have: the machine's and its cgroup's. */
#ifndef DSR_RT_MEMORY_H
#define DSR_RT_MEMORY_H

#include <stdint.h>

struct dsr_memory {
	uint64_t available; /* MemAvailable */
	uint64_t headroom;  /* least of all cgroups up to the root; UINT64_MAX without a limit */
};

/* Reads <proc>/meminfo, <proc>/self/cgroup and what lies below <cgroup> ("/proc" and
 * "/sys/fs/cgroup" but in tests). Versions 1 and 2 of cgroups; file cache that can be given back
 * counts as headroom. -ENODATA when there is no MemAvailable. */
int dsr_memory_read(const char *proc, const char *cgroup, struct dsr_memory *ret_memory);

#endif

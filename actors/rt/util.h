/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, process identity, and small helpers that every file of the runtime uses. */
#ifndef DSR_RT_UTIL_H
#define DSR_RT_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t dsr_now_ns(void);      /* CLOCK_MONOTONIC */
uint64_t dsr_realtime_ns(void); /* CLOCK_REALTIME */
/* CLOCK_BOOTTIME ns, greater than any value given before in this process. */
uint64_t dsr_incarnation_new(void);

/* Start time of a process in clock ticks (field 22 of /proc/pid/stat): 0 or -ESRCH. */
int dsr_start_ticks(int32_t pid, uint64_t *ret_ticks);
/* A pidfd for exactly this process (pid and start time agree after opening): descriptor, -ESRCH, or
 * another errno; -ENOSYS where there are none (valgrind 3.19). */
int dsr_pidfd_open(int32_t pid, uint64_t start_ticks);
/* For where there is no pidfd: whether exactly this process lives and is no zombie. */
bool dsr_process_lives(int32_t pid, uint64_t start_ticks);

/* Bytes of the UTF-8 character that `text` begins with, and the character; 0 when it is none. */
size_t dsr_utf8_next(const void *text, size_t bytes, uint32_t *ret_char);

void dsr_close(int *fd); /* closes unless -1, sets -1 */
/* Like strlcpy: always terminates; returns 0, or -E2BIG when cut. */
int dsr_copy_string(char *dst, size_t dst_bytes, const char *src);

#endif

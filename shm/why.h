/* SPDX-License-Identifier: Apache-2.0 */
/* The one line that a check leaves for its caller. Internal to shm/. */
#ifndef DSR_SHM_WHY_H
#define DSR_SHM_WHY_H

#include <stddef.h>

/* Formats into `why` unless it is NULL or empty. */
__attribute__((format(printf, 3, 4))) void dsr_why(char *why, size_t why_bytes, const char *format,
                                                   ...);

#endif

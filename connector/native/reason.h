/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of replies as reasons for people and counters. */
#ifndef DSR_NATIVE_REASON_H
#define DSR_NATIVE_REASON_H

#include "roles.h"

/* The reason for an error of a whole request, or of a block of a STORE. */
enum dsr_reason dsr_reason_of(int err);
/* The reason for an error of one block of a SEGMENT. */
enum dsr_reason dsr_reason_of_segment(int err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of Mooncake-format traces: one JSON object a line with timestamp (ms), input_length,
 * output_length and hash_ids, one id for each 512 tokens of the prompt. */
#ifndef REPLAY_TRACE_H
#define REPLAY_TRACE_H

#include "workload.h"

/* Appends the first `most` requests (0: all) of `file` to a workload of 512-token spans. Other
 * fields are ignored, empty lines too. -EINVAL, with ret_why naming `name`, line and field;
 * -ENOMEM, -EIO. */
int replay_trace_read(FILE *file, const char *name, uint64_t most, struct replay_workload *workload,
                      char *ret_why, size_t why_bytes);
/* The same from a path; "-" is standard input. */
int replay_trace_load(const char *path, uint64_t most, struct replay_workload *workload,
                      char *ret_why, size_t why_bytes);

#endif

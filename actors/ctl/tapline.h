/* SPDX-License-Identifier: Apache-2.0 */
/* One tapped message as JSON and on one line for people. */
#ifndef DSR_CTL_TAPLINE_H
#define DSR_CTL_TAPLINE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "codec.h"

/* actor: whose tap it is; line and frame: as rt/tap.h publishes them; time_ns: CLOCK_REALTIME when
 * it was read. A frame that cannot be decoded has "error" instead of "fields". New reference, NULL
 * without memory. */
json_t *dsr_tapline_json(struct dsr_codec *codec, const char *actor, uint64_t time_ns,
                         const char *line, const void *frame, size_t bytes);
/* 0 or -EIO. */
int dsr_tapline_print(const json_t *tapline, FILE *out);

#endif

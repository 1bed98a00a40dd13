/* SPDX-License-Identifier: Apache-2.0 */
/* `daserctl config`: settings as JSON and for people. */
#ifndef DSR_CTL_CONFIG_H
#define DSR_CTL_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "memory.h"
#include "options.h"

/* Resolved settings; is_auto: l1.size was auto, and `memory` is what it came from. New reference,
 * NULL without memory. */
json_t *dsr_config_json(const struct dsr_options *options, bool is_auto,
                        const struct dsr_memory *memory);
int dsr_config_print(const json_t *config, FILE *out); /* 0, -ENOMEM, -EIO */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* `daserctl layout`: what a program without these headers needs to read the control segment. */
#ifndef DSR_CTL_LAYOUT_JSON_H
#define DSR_CTL_LAYOUT_JSON_H

#include <jansson.h>

/* New reference, NULL without memory. The same for every call of one build. */
json_t *dsr_layout_json(void);

#endif

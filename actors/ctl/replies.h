/* SPDX-License-Identifier: Apache-2.0 */
/* What `send`, `drain`, `reset` and `fault` print. JSON functions return a new reference, NULL
 * without memory. */
#ifndef DSR_CTL_REPLIES_H
#define DSR_CTL_REPLIES_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "call.h"

/* A call that was answered. */
json_t *dsr_replies_send_json(const struct dsr_call *call);
void dsr_replies_send_print(const struct dsr_call *call, FILE *out);

json_t *dsr_replies_drain_json(const struct dsr_call *calls, uint32_t count);
void dsr_replies_drain_print(const struct dsr_call *calls, uint32_t count, FILE *out);

/* A call that was answered. */
json_t *dsr_replies_reset_json(const struct dsr_call *call);
void dsr_replies_reset_print(const struct dsr_call *call, FILE *out);

/* spec: "" = disarmed. */
json_t *dsr_replies_fault_json(const char *spec, const struct dsr_call *calls, uint32_t count);
void dsr_replies_fault_print(const char *spec, const struct dsr_call *calls, uint32_t count,
                             FILE *out);

/* Every fault point of this build. */
json_t *dsr_replies_faults_json(void);
int dsr_replies_faults_print(const json_t *faults, FILE *out); /* 0, -ENOMEM, -EIO */

#endif

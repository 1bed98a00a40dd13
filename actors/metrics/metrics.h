/* SPDX-License-Identifier: Apache-2.0 */
/* daser-metrics: /metrics and /health over HTTP on the loopback address. */
#ifndef DSR_METRICS_METRICS_H
#define DSR_METRICS_METRICS_H

#include "actor.h"

extern const struct dsr_actor_ops dsr_metrics_ops;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

DSR_ACTOR_MAIN(dsr_metrics_ops)

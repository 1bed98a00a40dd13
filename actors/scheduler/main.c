/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler.h"

DSR_ACTOR_MAIN(dsr_scheduler_ops)

/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

DSR_ACTOR_MAIN(dsr_load_ops)

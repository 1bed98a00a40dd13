/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

DSR_ACTOR_MAIN(dsr_store_ops)

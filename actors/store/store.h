/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DSR_STORE_STORE_H
#define DSR_STORE_STORE_H

#include "actor.h"

/* daser-store: see store.c. */
extern const struct dsr_actor_ops dsr_store_ops;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DSR_LOAD_LOAD_H
#define DSR_LOAD_LOAD_H

#include "actor.h"

/* daser-load: see load.c. */
extern const struct dsr_actor_ops dsr_load_ops;

#endif

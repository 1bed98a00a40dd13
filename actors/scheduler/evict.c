/* SPDX-License-Identifier: Apache-2.0 */
#include "evict.h"

#include <stddef.h>

static const struct dsr_evict_ops *const evict_policies[] = {&dsr_evict_lru};

const struct dsr_evict_ops *dsr_evict_at(uint32_t index)
{
	return index < sizeof(evict_policies) / sizeof(evict_policies[0]) ? evict_policies[index]
	                                                                  : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* (owner, id) -> number: the ids that engines choose, unique within one incarnation. Open
 * addressing in fixed memory. */
#ifndef DSR_SCHEDULER_IDMAP_H
#define DSR_SCHEDULER_IDMAP_H

#include <stdint.h>

#define DSR_IDMAP_NONE UINT32_MAX

struct dsr_idmap;

/* Room for `count` pairs. -EINVAL (count 0 or above 2^30), -ENOMEM. */
int dsr_idmap_new(uint32_t count, struct dsr_idmap **ret_map);
void dsr_idmap_free(struct dsr_idmap **map);

/* The number, or DSR_IDMAP_NONE. */
uint32_t dsr_idmap_find(const struct dsr_idmap *map, uint64_t owner, uint64_t id);
/* The pair must not be in it and there must be room: the caller bounds its numbers. */
void dsr_idmap_insert(struct dsr_idmap *map, uint64_t owner, uint64_t id, uint32_t number);
/* Nothing happens when it is not in it. */
void dsr_idmap_remove(struct dsr_idmap *map, uint64_t owner, uint64_t id);

#endif

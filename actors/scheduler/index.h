/* SPDX-License-Identifier: Apache-2.0 */
/* Key -> entry: open addressing with linear probing, at most half full, deletion without
 * tombstones. A cell holds an entry's number and 32 bits of its key's hash; the key itself is read
 * from the entry table. Fixed memory, no allocation after new. */
#ifndef DSR_SCHEDULER_INDEX_H
#define DSR_SCHEDULER_INDEX_H

#include <stdbool.h>

#include "layout.h"

struct dsr_index;

/* For at most `count` entries at a time, whose keys stand in `entries` (borrowed) while they are in
 * the index. seed: any; it keeps engines from choosing keys that collide. -EINVAL (count 0 or above
 * 2^30), -ENOMEM. */
int dsr_index_new(const struct dsr_entry *entries, uint32_t count, uint64_t seed,
                  struct dsr_index **ret_index);
void dsr_index_free(struct dsr_index **index);

/* What insert and remove need beside the entry. */
uint32_t dsr_index_tag(const struct dsr_index *index, const struct dsr_key *key);
/* The entry with this key, or DSR_ENTRY_NONE. */
uint32_t dsr_index_find(const struct dsr_index *index, const struct dsr_key *key);
/* The same for many keys at a time: memory is fetched for several of them at once. */
void dsr_index_find_all(const struct dsr_index *index, const struct dsr_key *keys, uint32_t count,
                        uint32_t *ret_entries);
/* The key must not be in it. */
void dsr_index_insert(struct dsr_index *index, uint32_t tag, uint32_t entry);
/* False when the pair is not in it. Never reads a key. */
bool dsr_index_remove(struct dsr_index *index, uint32_t tag, uint32_t entry);
uint32_t dsr_index_used(const struct dsr_index *index);

#endif

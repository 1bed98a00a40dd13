/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's paged KV cache: which block ids are free, which hold a known prefix.
 *
 * Ids are 1 .. blocks; 0 is the null block, never handed out. Free blocks form a queue: taken from
 * its head, put back at its tail, and a cached one keeps its content until it is taken. One thread.
 */
#ifndef REPLAY_KVCACHE_H
#define REPLAY_KVCACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "workload.h"

struct replay_kvcache;

int replay_kvcache_new(uint32_t blocks, struct replay_kvcache **ret_cache);
void replay_kvcache_free(struct replay_kvcache **cache);

uint32_t replay_kvcache_free_count(const struct replay_kvcache *cache);
/* Leading keys that are cached, at most `most`; their ids into ret_ids[most]. Takes nothing. */
uint32_t replay_kvcache_match(const struct replay_kvcache *cache, const struct replay_key *keys,
                              uint32_t most, uint32_t *ret_ids);
/* True when `more` blocks are left after the `count` ids are taken. */
bool replay_kvcache_fits(const struct replay_kvcache *cache, const uint32_t *ids, uint32_t count,
                         uint32_t more);
/* One more user for each of these cached blocks. */
void replay_kvcache_touch(struct replay_kvcache *cache, const uint32_t *ids, uint32_t count);
/* `count` free blocks for one user; their old content is forgotten. -ENOSPC: none taken. */
int replay_kvcache_take(struct replay_kvcache *cache, uint32_t count, uint32_t *ret_ids);
/* One user less for each; the last of the table goes to the queue first. */
void replay_kvcache_put(struct replay_kvcache *cache, const uint32_t *ids, uint32_t count);
/* The block's content is `key` from now on. Nothing happens when another block is cached as `key`
 * or this one is cached already. */
void replay_kvcache_cache(struct replay_kvcache *cache, uint32_t id, const struct replay_key *key);
/* Forgets all content, as a restart of the engine does. */
void replay_kvcache_forget(struct replay_kvcache *cache);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "kvcache.h"

#include <errno.h>
#include <stdlib.h>

struct block {
	struct replay_key key;
	uint32_t users;
	uint32_t previous, next; /* in the free queue; block 0 is its head and tail */
	uint32_t chain;          /* next block of the bucket, 0: the last */
	bool is_cached;
};

struct replay_kvcache {
	struct block *blocks; /* owned: [count + 1] */
	uint32_t *buckets;    /* owned: first block of each, 0: empty */
	uint32_t bucket_mask;
	uint32_t count;
	uint32_t free_count;
};

static void queue_append(struct replay_kvcache *cache, uint32_t id)
{
	struct block *b = cache->blocks;
	uint32_t last = b[0].previous;

	b[id].previous = last;
	b[id].next = 0;
	b[last].next = id;
	b[0].previous = id;
	cache->free_count++;
}

static void queue_remove(struct replay_kvcache *cache, uint32_t id)
{
	struct block *b = cache->blocks;

	b[b[id].previous].next = b[id].next;
	b[b[id].next].previous = b[id].previous;
	cache->free_count--;
}

int replay_kvcache_new(uint32_t blocks, struct replay_kvcache **ret_cache)
{
	uint32_t buckets = 16;

	if (blocks == 0 || blocks > UINT32_MAX / 4)
		return -EINVAL;
	while (buckets < blocks * 2)
		buckets *= 2;
	struct replay_kvcache *cache = calloc(1, sizeof(*cache));
	if (!cache)
		return -ENOMEM;
	cache->blocks = calloc((size_t)blocks + 1, sizeof(*cache->blocks));
	cache->buckets = calloc(buckets, sizeof(*cache->buckets));
	if (!cache->blocks || !cache->buckets) {
		replay_kvcache_free(&cache);
		return -ENOMEM;
	}
	cache->bucket_mask = buckets - 1;
	cache->count = blocks;
	for (uint32_t id = 1; id <= blocks; id++)
		queue_append(cache, id);
	*ret_cache = cache;
	return 0;
}

void replay_kvcache_free(struct replay_kvcache **cache)
{
	if (!cache || !*cache)
		return;
	free((*cache)->blocks);
	free((*cache)->buckets);
	free(*cache);
	*cache = NULL;
}

uint32_t replay_kvcache_free_count(const struct replay_kvcache *cache)
{
	return cache->free_count;
}

static uint32_t find(const struct replay_kvcache *cache, const struct replay_key *key)
{
	uint32_t id = cache->buckets[key->lo & cache->bucket_mask];

	while (id != 0 &&
	       (cache->blocks[id].key.lo != key->lo || cache->blocks[id].key.hi != key->hi))
		id = cache->blocks[id].chain;
	return id;
}

static void uncache(struct replay_kvcache *cache, uint32_t id)
{
	struct block *block = &cache->blocks[id];
	uint32_t *link = &cache->buckets[block->key.lo & cache->bucket_mask];

	while (*link != id)
		link = &cache->blocks[*link].chain;
	*link = block->chain;
	block->is_cached = false;
}

uint32_t replay_kvcache_match(const struct replay_kvcache *cache, const struct replay_key *keys,
                              uint32_t most, uint32_t *ret_ids)
{
	uint32_t n = 0;

	for (; n < most; n++) {
		ret_ids[n] = find(cache, &keys[n]);
		if (ret_ids[n] == 0)
			break;
	}
	return n;
}

bool replay_kvcache_fits(const struct replay_kvcache *cache, const uint32_t *ids, uint32_t count,
                         uint32_t more)
{
	uint64_t needed = more;

	for (uint32_t i = 0; i < count; i++)
		needed += cache->blocks[ids[i]].users == 0;
	return needed <= cache->free_count;
}

void replay_kvcache_touch(struct replay_kvcache *cache, const uint32_t *ids, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (cache->blocks[ids[i]].users++ == 0)
			queue_remove(cache, ids[i]);
}

int replay_kvcache_take(struct replay_kvcache *cache, uint32_t count, uint32_t *ret_ids)
{
	if (count > cache->free_count)
		return -ENOSPC;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t id = cache->blocks[0].next;

		queue_remove(cache, id);
		if (cache->blocks[id].is_cached)
			uncache(cache, id);
		cache->blocks[id].users = 1;
		ret_ids[i] = id;
	}
	return 0;
}

void replay_kvcache_put(struct replay_kvcache *cache, const uint32_t *ids, uint32_t count)
{
	while (count-- > 0)
		if (--cache->blocks[ids[count]].users == 0)
			queue_append(cache, ids[count]);
}

void replay_kvcache_cache(struct replay_kvcache *cache, uint32_t id, const struct replay_key *key)
{
	struct block *block = &cache->blocks[id];
	uint32_t *bucket = &cache->buckets[key->lo & cache->bucket_mask];

	if (block->is_cached || find(cache, key) != 0)
		return;
	block->key = *key;
	block->chain = *bucket;
	block->is_cached = true;
	*bucket = id;
}

void replay_kvcache_forget(struct replay_kvcache *cache)
{
	for (uint32_t id = 1; id <= cache->count; id++)
		if (cache->blocks[id].is_cached)
			uncache(cache, id);
}

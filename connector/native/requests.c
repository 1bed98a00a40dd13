/* SPDX-License-Identifier: Apache-2.0 */
#include "requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "digest.h"

int dsr_requests_init(struct dsr_requests *requests, uint32_t live_max, uint32_t world,
                      uint64_t *last_id)
{
	uint32_t buckets = 64;

	*requests = (struct dsr_requests){.live_max = live_max, .last_id = last_id};
	while (buckets < live_max)
		buckets *= 2;
	requests->buckets = calloc(buckets, sizeof(*requests->buckets));
	if (requests->buckets == NULL)
		return -ENOMEM;
	requests->bucket_mask = buckets - 1;
	requests->world_words = (world + 63) / 64;
	return 0;
}

static void request_free(struct dsr_engine_request *request)
{
	free(request->name);
	free(request->variant);
	free(request->keys);
	free(request->table);
	free(request->lease.refs);
	free(request->load.ranks);
	free(request->load.failed);
	free(request);
}

void dsr_requests_done(struct dsr_requests *requests)
{
	for (uint32_t i = 0; i < requests->place_count; i++)
		if (requests->places[i] != NULL)
			request_free(requests->places[i]);
	free(requests->places);
	free(requests->buckets);
	*requests = (struct dsr_requests){0};
}

static struct dsr_engine_request **bucket_of(const struct dsr_requests *requests, const char *name,
                                             size_t bytes)
{
	return &requests->buckets[XXH3_64bits(name, bytes) & requests->bucket_mask];
}

struct dsr_engine_request *dsr_requests_find(const struct dsr_requests *requests, const char *name)
{
	struct dsr_engine_request *request;

	if (name == NULL)
		return NULL;
	request = *bucket_of(requests, name, strlen(name));
	while (request != NULL && strcmp(request->name, name) != 0)
		request = request->chain;
	return request;
}

/* A free place: the next one in turn, so that a place is not used again at once. */
static int place_find(struct dsr_requests *requests, uint32_t *ret_place)
{
	struct dsr_engine_request **grown;
	uint32_t capacity;

	for (uint32_t i = 0; i < requests->place_count; i++) {
		uint32_t place = (requests->place_next + i) % requests->place_count;

		if (requests->places[place] == NULL) {
			requests->place_next = place + 1;
			*ret_place = place;
			return 0;
		}
	}
	if (requests->place_count == DSR_PLACES)
		return -EAGAIN;
	if (requests->place_count == requests->place_capacity) {
		capacity = requests->place_capacity == 0 ? 64 : requests->place_capacity * 2;
		grown = realloc(requests->places, capacity * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		requests->places = grown;
		requests->place_capacity = capacity;
	}
	requests->places[requests->place_count] = NULL;
	*ret_place = requests->place_count++;
	return 0;
}

int dsr_requests_add(struct dsr_requests *requests, const char *name,
                     struct dsr_engine_request **ret_request)
{
	struct dsr_engine_request *request, **bucket;
	uint32_t place;
	int r;

	if (dsr_requests_find(requests, name) != NULL)
		return -EEXIST;
	if (requests->live >= requests->live_max)
		return -EAGAIN;
	r = place_find(requests, &place);
	if (r < 0)
		return r;
	request = calloc(1, sizeof(*request));
	if (request == NULL)
		return -ENOMEM;
	request->name = strdup(name);
	request->load.ranks = calloc(requests->world_words, sizeof(*request->load.ranks));
	if (request->name == NULL || request->load.ranks == NULL) {
		request_free(request);
		return -ENOMEM;
	}
	request->name_bytes = (uint32_t)strlen(name);
	request->place = place;
	request->users = 1;
	request->is_live = true;
	request->limit = UINT32_MAX;
	request->lost = UINT32_MAX;
	bucket = bucket_of(requests, name, request->name_bytes);
	request->chain = *bucket;
	*bucket = request;
	requests->places[place] = request;
	requests->live++;
	*ret_request = request;
	return 0;
}

void dsr_requests_remove(struct dsr_requests *requests, struct dsr_engine_request *request)
{
	struct dsr_engine_request **p = bucket_of(requests, request->name, request->name_bytes);

	while (*p != request)
		p = &(*p)->chain;
	*p = request->chain;
	request->is_live = false;
	requests->live--;
	dsr_requests_put(requests, request);
}

void dsr_requests_put(struct dsr_requests *requests, struct dsr_engine_request *request)
{
	if (--request->users > 0)
		return;
	requests->places[request->place] = NULL;
	request_free(request);
}

struct dsr_engine_request *dsr_requests_at(const struct dsr_requests *requests, uint64_t id)
{
	uint32_t place = (uint32_t)(id & (DSR_PLACES - 1));

	return place < requests->place_count ? requests->places[place] : NULL;
}

uint64_t dsr_requests_next_id(struct dsr_requests *requests,
                              const struct dsr_engine_request *request)
{
	return ++*requests->last_id << DSR_PLACE_BITS | request->place;
}

int dsr_request_add_hashes(struct dsr_engine_request *request, const uint8_t *hashes,
                           uint32_t count, uint32_t hash_bytes)
{
	struct dsr_key *grown;
	uint32_t capacity = request->capacity == 0 ? 16 : request->capacity;
	int r;

	while (capacity < request->count + count)
		capacity *= 2;
	if (capacity != request->capacity) {
		grown = realloc(request->keys, capacity * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		request->keys = grown;
		request->capacity = capacity;
	}
	for (uint32_t i = 0; i < count; i++) {
		r = dsr_key_make(&request->mask, hashes + (size_t)i * hash_bytes, hash_bytes,
		                 &request->keys[request->count + i]);
		if (r < 0)
			return r;
	}
	request->count += count;
	return 0;
}

int dsr_request_set_table(struct dsr_engine_request *request, const uint32_t *ids, uint32_t from,
                          uint32_t to)
{
	uint32_t *grown;
	uint32_t capacity = request->table_capacity == 0 ? 16 : request->table_capacity;

	while (capacity < to)
		capacity *= 2;
	if (capacity != request->table_capacity) {
		grown = realloc(request->table, capacity * sizeof(*grown));
		if (grown == NULL)
			return -ENOMEM;
		request->table = grown;
		request->table_capacity = capacity;
	}
	if (to > from)
		memcpy(request->table + from, ids + from, (to - from) * sizeof(*ids));
	return 0;
}

const struct dsr_key *dsr_request_parent(const struct dsr_engine_request *request, uint32_t block)
{
	return block == 0 ? NULL : &request->keys[block - 1];
}

bool dsr_bits_set(uint64_t *bits, uint32_t bit)
{
	uint64_t mask = UINT64_C(1) << (bit % 64);

	if (bits[bit / 64] & mask)
		return false;
	bits[bit / 64] |= mask;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "lifecycle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"

#define VARIANT_MAX 4096u
#define REQUEST_BLOCKS_MAX (1u << 24)
#define EPOCH_BYTES 8

int dsr_lifecycle_init(struct dsr_lifecycle *lc, const struct dsr_lifecycle_options *options)
{
	int r;

	*lc = (struct dsr_lifecycle){.options = *options};
	memcpy(lc->fingerprint, options->fingerprint, sizeof(lc->fingerprint));
	lc->options.fingerprint = lc->fingerprint;
	lc->engine = strdup(options->engine);
	lc->options.engine = lc->engine;
	lc->save_places = calloc(DSR_PLACES, sizeof(struct dsr_save *));
	if (lc->engine == NULL || lc->save_places == NULL) {
		r = -ENOMEM;
		goto err_done;
	}
	r = dsr_pack_new(&lc->pack);
	if (r < 0)
		goto err_done;
	r = dsr_events_init(&lc->events);
	if (r < 0)
		goto err_done;
	r = dsr_requests_init(&lc->requests, options->max_requests, options->world, &lc->last_id);
	if (r < 0)
		goto err_done;
	return 0;

err_done:
	dsr_lifecycle_done(lc);
	return r;
}

void dsr_lifecycle_done(struct dsr_lifecycle *lc)
{
	dsr_saves_done(lc);
	dsr_outbox_done(&lc->outbox);
	dsr_notes_done(&lc->notes);
	dsr_requests_done(&lc->requests);
	dsr_events_done(&lc->events);
	dsr_pack_free(&lc->pack);
	free(lc->load_queue);
	free(lc->engine);
	*lc = (struct dsr_lifecycle){0};
}

uint64_t dsr_lifecycle_now(const struct dsr_lifecycle *lc)
{
	return lc->options.port->now_ns(lc->options.self);
}

/* ---- fates ---- */

void dsr_block_event(struct dsr_lifecycle *lc, const struct dsr_engine_request *request,
                     uint32_t block, enum daser_block_fate fate, uint32_t reason)
{
	struct dsr_key hash = request->keys[block];

	for (uint32_t i = 0; i < DSR_KEY_BYTES; i++)
		hash.b[i] ^= request->mask.b[i];
	if (!dsr_events_put(&lc->events, &hash, fate, reason))
		lc->stats.errors++;
}

void dsr_block_dropped(struct dsr_lifecycle *lc, const struct dsr_engine_request *request,
                       uint32_t block, uint32_t reason)
{
	lc->stats.drops[reason]++;
	lc->options.port->count(lc->options.self,
	                        (enum dsr_counter)(DSR_COUNTER_DROP_EVICTED + reason), 1);
	dsr_block_event(lc, request, block, DASER_BLOCK_DROPPED, reason);
}

/* ---- attaching ---- */

void dsr_lifecycle_attached(struct dsr_lifecycle *lc, uint64_t scheduler)
{
	struct dsr_engine_request *request;

	if (lc->is_attached && scheduler == lc->scheduler)
		return;
	for (uint32_t i = 0; i < lc->requests.place_count; i++) {
		request = lc->requests.places[i];
		if (request == NULL)
			continue;
		/* What was dropped meanwhile, or reserved at one that died, is asked for again. */
		if (scheduler != lc->scheduler)
			request->cursor = 0;
		else if (request->lost < request->cursor)
			request->cursor = request->lost;
		request->lost = UINT32_MAX;
		if (scheduler != lc->scheduler && request->lease.state == DSR_LEASE_LIVE)
			request->lease.state = DSR_LEASE_LOST;
	}
	lc->is_attached = true;
	lc->is_gone = false;
	lc->scheduler = scheduler;
}

void dsr_lifecycle_detached(struct dsr_lifecycle *lc)
{
	lc->is_attached = false;
	lc->is_gone = true;
	dsr_outbox_fail(lc);
	(void)dsr_saves_give_up(lc, NULL, DSR_REASON_STALE);
}

void dsr_lifecycle_stalled(struct dsr_lifecycle *lc)
{
	lc->is_attached = false;
	dsr_outbox_fail(lc);
}

void dsr_lifecycle_shut(struct dsr_lifecycle *lc)
{
	struct dsr_engine_request *request;

	(void)dsr_saves_give_up(lc, NULL, DSR_REASON_CANCELLED);
	/* Nobody will be here for the answers: behind its RESERVE each is abandoned whole. */
	for (struct dsr_save *save = lc->asked.first; save != NULL; save = save->next)
		dsr_abandon_put(lc, save, NULL, 0, DSR_REASON_CANCELLED);
	for (uint32_t i = 0; i < lc->requests.place_count; i++) {
		request = lc->requests.places[i];
		if (request != NULL)
			dsr_lease_release(lc, request);
	}
}

/* ---- requests ---- */

/* The mask of the request under the present weight epoch. */
static int request_set_mask(const struct dsr_lifecycle *lc, struct dsr_engine_request *request)
{
	uint32_t bytes = request->variant_bytes;
	uint8_t *text;

	if (bytes == 0 && lc->weight_epoch == 0) {
		dsr_key_mask(lc->fingerprint, NULL, 0, &request->mask);
		return 0;
	}
	text = malloc(EPOCH_BYTES + bytes);
	if (text == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < EPOCH_BYTES; i++)
		text[i] = (uint8_t)(lc->weight_epoch >> (8 * i));
	if (bytes > 0)
		memcpy(text + EPOCH_BYTES, request->variant, bytes);
	dsr_key_mask(lc->fingerprint, text, EPOCH_BYTES + bytes, &request->mask);
	free(text);
	return 0;
}

static int hashes_check(const struct dsr_engine_request *request, const void *hashes,
                        uint32_t count, uint32_t hash_bytes)
{
	uint32_t have = request == NULL ? 0 : request->count;

	if (count > 0 && (hashes == NULL || hash_bytes == 0 || hash_bytes > DSR_KEY_BYTES))
		return -EINVAL;
	return count > REQUEST_BLOCKS_MAX - have ? -EINVAL : 0;
}

static int request_fill(struct dsr_lifecycle *lc, struct dsr_engine_request *request,
                        const struct dsr_bin *variant)
{
	if (variant->n > 0) {
		request->variant = malloc(variant->n);
		if (request->variant == NULL)
			return -ENOMEM;
		memcpy(request->variant, variant->p, variant->n);
		request->variant_bytes = variant->n;
	}
	return request_set_mask(lc, request);
}

int dsr_lifecycle_new_request(struct dsr_lifecycle *lc, const char *name, const void *hashes,
                              uint32_t count, uint32_t hash_bytes, const struct dsr_bin *variant,
                              uint32_t flags)
{
	struct dsr_engine_request *request;
	int r;

	if (name == NULL || name[0] == '\0' || strlen(name) > DSR_NAME_MAX ||
	    variant->n > VARIANT_MAX || (variant->n > 0 && variant->p == NULL) ||
	    (flags & ~(DASER_SKIP_LOAD | DASER_SKIP_SAVE)) != 0)
		return -EINVAL;
	r = hashes_check(NULL, hashes, count, hash_bytes);
	if (r < 0)
		return r;
	r = dsr_requests_add(&lc->requests, name, &request);
	if (r < 0)
		return r;
	request->skips_load = (flags & DASER_SKIP_LOAD) != 0;
	request->skips_save = (flags & DASER_SKIP_SAVE) != 0;
	r = request_fill(lc, request, variant);
	if (r == 0 && count > 0)
		r = dsr_request_add_hashes(request, hashes, count, hash_bytes);
	if (r < 0) {
		dsr_requests_remove(&lc->requests, request);
		return r;
	}
	dsr_lookup_ask(lc, request);
	return 0;
}

int dsr_lifecycle_extend(struct dsr_lifecycle *lc, const char *name, const void *hashes,
                         uint32_t count, uint32_t hash_bytes)
{
	struct dsr_engine_request *request = dsr_requests_find(&lc->requests, name);
	int r;

	if (request == NULL)
		return -ENOENT;
	r = hashes_check(request, hashes, count, hash_bytes);
	if (r < 0 || count == 0)
		return r;
	return dsr_request_add_hashes(request, hashes, count, hash_bytes);
}

/* ---- weight epoch ---- */

/* A request that has nothing yet goes on under its new keys; KV of another is neither the old
 * weights' nor the new ones': it is left alone from now on. */
static int request_rekey(struct dsr_lifecycle *lc, struct dsr_engine_request *request)
{
	struct dsr_key old = request->mask;
	int r;

	if (request->table_count > 0 || request->cursor > 0 ||
	    request->load.state != DSR_LOAD_NONE) {
		request->skips_load = request->skips_save = true;
		(void)dsr_saves_give_up(lc, request, DSR_REASON_CANCELLED);
		if (request->load.state == DSR_LOAD_NONE)
			dsr_lease_release(lc, request);
		return 0;
	}
	r = request_set_mask(lc, request);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < request->count; i++)
		for (uint32_t j = 0; j < DSR_KEY_BYTES; j++)
			request->keys[i].b[j] ^= old.b[j] ^ request->mask.b[j];
	dsr_lease_release(lc, request);
	dsr_lookup_ask(lc, request);
	return 0;
}

int dsr_lifecycle_reset_cache(struct dsr_lifecycle *lc, uint64_t weight_epoch)
{
	struct dsr_engine_request *request;
	int r = 0, failed;

	if (weight_epoch == lc->weight_epoch)
		return 0;
	lc->weight_epoch = weight_epoch;
	for (uint32_t i = 0; i < lc->requests.place_count; i++) {
		request = lc->requests.places[i];
		if (request == NULL || !request->is_live)
			continue;
		failed = request_rekey(lc, request);
		if (failed < 0) {
			request->skips_load = request->skips_save = true;
			r = failed;
		}
	}
	return r;
}

/* ---- reports ---- */

int dsr_lifecycle_pending(const struct dsr_lifecycle *lc)
{
	/* Every asked one will be granted, and then issued, or end by itself. */
	return lc->asked.count + lc->granted.count + lc->issued.count > 0;
}

void dsr_lifecycle_stats(const struct dsr_lifecycle *lc, struct daser_scheduler_stats *ret_stats)
{
	*ret_stats = lc->stats;
	ret_stats->lookup_p50_ns = dsr_histogram_percentile(&lc->lookup_ns, 50);
	ret_stats->lookup_p99_ns = dsr_histogram_percentile(&lc->lookup_ns, 99);
}

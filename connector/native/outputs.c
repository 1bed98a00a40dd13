/* SPDX-License-Identifier: Apache-2.0 */
/* What has ended in a worker: counted and recorded at once, kept for the engine's next look. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "records.h"
#include "runtime.h"
#include "util.h"

#define REPORTS_MAX DSR_META_JOBS_MAX /* of one kind in one output; the rest waits */

void dsr_outputs_init(struct daser_worker *w)
{
	w->ended_loads_end = &w->ended_loads;
	w->ended_stores_end = &w->ended_stores;
}

static void free_loads(struct dsr_load **list)
{
	struct dsr_load *load;

	while ((load = *list) != NULL) {
		*list = load->next;
		dsr_load_free(&load);
	}
}

static void free_stores(struct dsr_store **list)
{
	struct dsr_store *store;

	while ((store = *list) != NULL) {
		*list = store->next;
		dsr_store_free(&store);
	}
}

static void free_sending(struct dsr_sending **list)
{
	struct dsr_sending *sending;

	while ((sending = *list) != NULL) {
		*list = sending->next;
		free(sending);
	}
}

void dsr_outputs_done(struct daser_worker *w)
{
	free_loads(&w->ended_loads);
	free_loads(&w->given_loads);
	free_stores(&w->ended_stores);
	free_sending(&w->sending);
	free_sending(&w->given_sending);
	free(w->names);
	free(w->waiting);
	free(w->failed);
	dsr_pack_free(&w->pack);
}

static void signal_output(struct daser_worker *w)
{
	uint64_t one = 1;

	/* Fails only when the counter is full: then it is readable anyway. */
	(void)!write(w->output_fd, &one, sizeof(one));
}

void dsr_outputs_released(void *self)
{
	struct daser_worker *w = self;

	if (w->sending != NULL)
		signal_output(w);
}

/* ---- records and counters ---- */

static void append_record(struct daser_worker *w, struct dsr_record *record,
                          const struct dsr_blocks *blocks)
{
	size_t n = strlen(blocks->name);

	record->incarnation = w->client.incarnation;
	record->end_ns = dsr_realtime_ns();
	record->rank = w->config.rank;
	record->blocks = blocks->count;
	if (n >= sizeof(record->request))
		n = sizeof(record->request) - 1;
	memcpy(record->request, blocks->name, n);
	if (w->client.has_control)
		dsr_records_append(&w->client.control, record);
}

/* enum dsr_record_status of a transfer of which `failed` blocks failed. */
static uint32_t status_of(uint32_t failed, uint32_t count)
{
	if (failed == 0)
		return DSR_RECORD_OK;
	return failed < count ? DSR_RECORD_PARTIAL : DSR_RECORD_FAILED;
}

static void count_load(struct daser_worker *w, const struct dsr_load *load, uint64_t bytes)
{
	static const enum dsr_counter outcomes[] = {
		[DSR_RECORD_OK] = DSR_COUNTER_LOAD_OK,
		[DSR_RECORD_PARTIAL] = DSR_COUNTER_LOAD_PARTIAL,
		[DSR_RECORD_FAILED] = DSR_COUNTER_LOAD_FAILED,
	};
	uint32_t left = load->failed;

	w->stats.loads++;
	w->stats.load_bytes += bytes;
	w->stats.load_blocks += load->blocks.count;
	w->stats.load_failed_blocks += load->failed;
	dsr_client_count(&w->client, DSR_COUNTER_LOAD_BYTES, bytes);
	dsr_client_count(&w->client, outcomes[status_of(load->failed, load->blocks.count)], 1);
	for (uint32_t i = 0; i < load->blocks.count && left > 0; i++) {
		if (!dsr_load_block_failed(load, i))
			continue;
		left--;
		w->stats.failures[load->blocks.results[i]]++;
		dsr_client_count(&w->client,
		                 (enum dsr_counter)(DSR_COUNTER_LOAD_FAILURE_EVICTED +
		                                    load->blocks.results[i]),
		                 1);
	}
}

void dsr_outputs_load(void *self, struct dsr_load *load)
{
	struct daser_worker *w = self;
	uint64_t end_ns = dsr_now_ns();
	uint32_t loaded = load->blocks.count - load->failed;
	struct dsr_record record = {
		.op = DSR_RECORD_LOAD,
		.status = status_of(load->failed, load->blocks.count),
		.bytes = loaded * w->layout.payload_bytes,
		.l1_hits = loaded,
		.l1_misses = load->failed,
		.failed_blocks = load->failed,
		.reasons = load->reasons,
	};

	dsr_times_record(&load->times, end_ns, &record);
	append_record(w, &record, &load->blocks);
	count_load(w, load, record.bytes);
	dsr_histogram_add(&w->load_ns, record.total_ns);
	load->next = NULL;
	*w->ended_loads_end = load;
	w->ended_loads_end = &load->next;
	w->ended_load_count++;
	signal_output(w);
}

static void count_store(struct daser_worker *w, const struct dsr_store *store, uint64_t bytes)
{
	static const enum dsr_counter outcomes[] = {
		[DSR_RECORD_OK] = DSR_COUNTER_STORE_OK,
		[DSR_RECORD_PARTIAL] = DSR_COUNTER_STORE_PARTIAL,
		[DSR_RECORD_FAILED] = DSR_COUNTER_STORE_FAILED,
	};

	w->stats.stores++;
	w->stats.store_bytes += bytes;
	w->stats.store_blocks += store->blocks.count - store->dropped;
	dsr_client_count(&w->client, DSR_COUNTER_STORE_BYTES, bytes);
	dsr_client_count(&w->client, outcomes[status_of(store->dropped, store->blocks.count)], 1);
	for (uint32_t i = 0; i < store->blocks.count; i++)
		if (store->blocks.results[i] != DSR_RESULT_STORED)
			w->stats.drops[store->blocks.results[i] & DSR_RESULT_REASON]++;
}

static void store_add(struct daser_worker *w, struct dsr_store *store)
{
	store->next = NULL;
	*w->ended_stores_end = store;
	w->ended_stores_end = &store->next;
	w->ended_store_count++;
	signal_output(w);
}

void dsr_outputs_store(void *self, struct dsr_store *store)
{
	struct daser_worker *w = self;
	uint32_t stored = store->blocks.count - store->dropped;
	struct dsr_record record = {
		.op = DSR_RECORD_STORE,
		.status = store->times.opened_ns == 0
	                          ? (uint32_t)DSR_RECORD_DROPPED
	                          : status_of(store->dropped, store->blocks.count),
		.bytes = stored * w->layout.payload_bytes,
		.failed_blocks = store->dropped,
		.reasons = store->reasons,
	};

	dsr_times_record(&store->times, dsr_now_ns(), &record);
	append_record(w, &record, &store->blocks);
	count_store(w, store, record.bytes);
	store_add(w, store);
}

void dsr_outputs_spared(struct daser_worker *w, struct dsr_store *store)
{
	memset(store->blocks.results, DSR_RESULT_STORED, store->blocks.count);
	store_add(w, store);
}

/* ---- the engine's look ---- */

static int name_add(struct daser_worker *w, const char *name)
{
	struct dsr_sending *sending;
	uint64_t hash = dsr_name_hash(name, strlen(name));
	size_t bytes = strlen(name) + 1;

	for (sending = w->sending; sending != NULL; sending = sending->next)
		if (sending->name_hash == hash && strcmp(sending->name, name) == 0)
			return 0;
	sending = malloc(sizeof(*sending) + bytes);
	if (sending == NULL)
		return -ENOMEM;
	memcpy(sending->name, name, bytes);
	sending->name_hash = hash;
	sending->deadline_ns = dsr_now_ns() + (uint64_t)w->config.save_deadline_ms * 1000000;
	sending->next = w->sending;
	w->sending = sending;
	dsr_store_pipeline_finish(&w->stores, name, hash, sending->deadline_ns);
	return 0;
}

static int reserve_names(struct daser_worker *w, size_t count)
{
	const char **grown;

	if (w->names != NULL && count <= w->name_capacity)
		return 0;
	grown = realloc(w->names, 2 * (count + 1) * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	w->names = grown;
	w->name_capacity = 2 * (count + 1);
	return 0;
}

static int reserve_failed(struct daser_worker *w, size_t count)
{
	uint32_t *grown;

	if (count <= w->failed_capacity)
		return 0;
	grown = realloc(w->failed, 2 * count * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	w->failed = grown;
	w->failed_capacity = 2 * count;
	return 0;
}

/* A save of it may still come; the metadata of a later step ends that, within 1 s. */
static bool is_waiting(const struct daser_worker *w, const struct dsr_sending *sending)
{
	for (uint32_t i = 0; i < w->waiting_count; i++)
		if (w->waiting[i] == sending->name_hash)
			return true;
	return false;
}

/* Moves requests whose blocks are not read any more to the given ones, and their names to the
 * array. */
static uint32_t take_sending(struct daser_worker *w)
{
	struct dsr_sending **p = &w->sending, *sending;
	uint32_t n = 0;

	while ((sending = *p) != NULL) {
		if (is_waiting(w, sending) ||
		    dsr_store_pipeline_reads(&w->stores, sending->name, sending->name_hash)) {
			p = &sending->next;
			continue;
		}
		*p = sending->next;
		sending->next = w->given_sending;
		w->given_sending = sending;
		w->names[n++] = sending->name;
	}
	return n;
}

static void write_load(struct daser_worker *w, const struct dsr_load *load, uint32_t *failed_count)
{
	dsr_output_write_load(w->pack, load->engine, load->id, load->blocks.count, load->failed);
	for (uint32_t i = 0; i < load->blocks.count; i++) {
		if (!dsr_load_block_failed(load, i))
			continue;
		dsr_pack_le32(w->pack, i);
		dsr_pack_le32(w->pack, load->blocks.results[i]);
		w->failed[(*failed_count)++] = load->blocks.ids[i];
	}
}

/* How much of what has ended goes into this output. */
struct share {
	uint32_t loads, stores;
	size_t failed; /* blocks of these loads */
};

static struct share share_of(const struct daser_worker *w)
{
	struct share share = {0};
	const struct dsr_load *load = w->ended_loads;

	while (load != NULL && share.loads < REPORTS_MAX) {
		share.failed += load->failed;
		share.loads++;
		load = load->next;
	}
	share.stores = w->ended_store_count < REPORTS_MAX ? w->ended_store_count : REPORTS_MAX;
	return share;
}

static int write_bytes(struct daser_worker *w, const struct share *share, uint32_t *ret_failed,
                       struct daser_worker_output *output)
{
	const struct dsr_load *load = w->ended_loads;
	const struct dsr_store *store = w->ended_stores;

	if (share->loads + share->stores == 0)
		return 0;
	dsr_output_write_head(w->pack, w->config.engine, w->config.rank, w->config.world);
	dsr_output_write_count(w->pack, share->loads);
	for (uint32_t i = 0; i < share->loads; i++, load = load->next)
		write_load(w, load, ret_failed);
	dsr_output_write_count(w->pack, share->stores);
	for (uint32_t i = 0; i < share->stores; i++, store = store->next)
		dsr_output_write_save(w->pack, store->engine, store->id, store->blocks.results,
		                      store->blocks.count);
	return dsr_pack_result(w->pack, &output->bytes, &output->length);
}

/* From here on nothing fails: what was written leaves the lists. */
static void take_ended(struct daser_worker *w, const struct share *share, const char **names)
{
	struct dsr_load *load;
	struct dsr_store *store;

	for (uint32_t i = 0; i < share->loads; i++) {
		load = w->ended_loads;
		w->ended_loads = load->next;
		load->next = w->given_loads;
		w->given_loads = load;
		names[i] = load->blocks.name;
	}
	for (uint32_t i = 0; i < share->stores; i++) {
		store = w->ended_stores;
		w->ended_stores = store->next;
		dsr_store_free(&store);
	}
	w->ended_load_count -= share->loads;
	w->ended_store_count -= share->stores;
	if (w->ended_loads == NULL)
		w->ended_loads_end = &w->ended_loads;
	if (w->ended_stores == NULL)
		w->ended_stores_end = &w->ended_stores;
}

static int collect(struct daser_worker *w, struct daser_worker_output *output)
{
	struct share share = share_of(w);
	uint32_t sending_max = 0, failed = 0;
	int r;

	for (const struct dsr_sending *s = w->sending; s != NULL; s = s->next)
		sending_max++;
	r = reserve_names(w, sending_max + share.loads);
	if (r == 0)
		r = reserve_failed(w, share.failed);
	if (r == 0)
		r = write_bytes(w, &share, &failed, output);
	if (r < 0)
		return r;
	output->finished_sending_count = take_sending(w);
	output->finished_sending = w->names;
	output->finished_recving = w->names + output->finished_sending_count;
	output->finished_recving_count = share.loads;
	take_ended(w, &share, w->names + output->finished_sending_count);
	output->failed_blocks = w->failed;
	output->failed_block_count = failed;
	return 0;
}

int daser_worker_output(struct daser_worker *worker, const char *const *finished,
                        uint32_t finished_count, struct daser_worker_output *ret_output)
{
	struct daser_worker_output output = {.size = sizeof(output)};
	uint64_t count;
	size_t size;
	int r = 0;

	if (worker == NULL || ret_output == NULL || !worker->is_registered ||
	    (finished_count > 0 && finished == NULL))
		return -EINVAL;
	size = ret_output->size == 0 || ret_output->size > sizeof(output) ? sizeof(output)
	                                                                  : ret_output->size;
	dsr_client_lock(&worker->client);
	(void)!read(worker->output_fd, &count, sizeof(count));
	free_loads(&worker->given_loads);
	free_sending(&worker->given_sending);
	for (uint32_t i = 0; i < finished_count && r == 0; i++)
		r = finished[i] == NULL ? -EINVAL : name_add(worker, finished[i]);
	if (r == 0)
		r = collect(worker, &output);
	if (r < 0 || worker->ended_loads != NULL || worker->ended_stores != NULL)
		signal_output(worker);
	dsr_client_unlock(&worker->client);
	if (finished_count > 0) /* deadlines */
		dsr_client_wake(&worker->client);
	if (r < 0)
		return r;
	output.size = size;
	memcpy(ret_output, &output, size);
	return 0;
}

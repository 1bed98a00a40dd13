/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's steps: block tables in, metadata out, the ranks' outputs in. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lifecycle.h"

/* ---- notes ---- */

static int grow(void **memory, size_t *capacity, size_t need, size_t element)
{
	size_t more = *capacity == 0 ? 64 : *capacity;
	void *grown;

	while (more < need)
		more *= 2;
	if (more == *capacity)
		return 0;
	grown = realloc(*memory, more * element);
	if (grown == NULL)
		return -ENOMEM;
	*memory = grown;
	*capacity = more;
	return 0;
}

int dsr_notes_add(struct dsr_notes *notes, int kind, const struct dsr_engine_request *request,
                  const uint32_t *ids, uint32_t count)
{
	size_t bytes = (size_t)request->name_bytes + 1;

	if (notes->count >= DSR_META_JOBS_MAX ||
	    grow((void **)&notes->text, &notes->text_capacity, notes->text_bytes + bytes, 1) < 0 ||
	    grow((void **)&notes->v, &notes->capacity, notes->count + 1, sizeof(*notes->v)) < 0 ||
	    grow((void **)&notes->ids, &notes->id_capacity, notes->id_count + count,
	         sizeof(*notes->ids)) < 0)
		return -ENOMEM;
	memcpy(notes->text + notes->text_bytes, request->name, bytes);
	if (count > 0)
		memcpy(notes->ids + notes->id_count, ids, count * sizeof(*ids));
	notes->v[notes->count++] = (struct dsr_note){
		.kind = kind,
		.name = notes->text_bytes,
		.name_bytes = request->name_bytes,
		.first_id = notes->id_count,
		.id_count = count,
	};
	notes->text_bytes += bytes;
	notes->id_count += count;
	notes->kinds[kind]++;
	return 0;
}

void dsr_notes_clear(struct dsr_notes *notes)
{
	notes->count = 0;
	notes->text_bytes = 0;
	notes->id_count = 0;
	memset(notes->kinds, 0, sizeof(notes->kinds));
}

void dsr_notes_done(struct dsr_notes *notes)
{
	free(notes->text);
	free(notes->v);
	free(notes->ids);
	*notes = (struct dsr_notes){0};
}

/* ---- block tables ---- */

/* The engine told the table from block `from` on; those blocks are written in this step, and a
 * gather of another request must not read them any more. */
static int table_extend(struct dsr_lifecycle *lc, struct dsr_engine_request *request,
                        const uint32_t *ids, uint32_t from, uint32_t count)
{
	int r;

	if (count <= from)
		return 0;
	for (uint32_t i = from; lc->issued.count > 0 && i < count; i += DSR_META_BLOCKS_MAX) {
		uint32_t n = count - i < DSR_META_BLOCKS_MAX ? count - i : DSR_META_BLOCKS_MAX;

		r = dsr_notes_add(&lc->notes, DSR_NOTE_TAKEN, request, ids + i, n);
		if (r < 0)
			return r;
	}
	r = dsr_request_set_table(request, ids, from, count);
	if (r == 0)
		request->table_count = count;
	return r;
}

int dsr_lifecycle_allocated(struct dsr_lifecycle *lc, const char *name, const uint32_t *ids,
                            uint32_t count, uint32_t computed, uint32_t external)
{
	struct dsr_engine_request *request = dsr_requests_find(&lc->requests, name);
	uint32_t known = computed < count ? computed : count;
	struct dsr_lease *lease;
	int r;

	if (request == NULL)
		return -ENOENT;
	if (count > 0 && ids == NULL)
		return -EINVAL;
	if (request->load.state != DSR_LOAD_NONE)
		return external > 0 ? -EBUSY : 0;
	lease = &request->lease;
	if (external > 0 && ((lease->state != DSR_LEASE_LIVE && lease->state != DSR_LEASE_LOST) ||
	                     lease->first != computed || external > lease->granted ||
	                     count < computed || count - computed < external)) {
		lc->stats.errors++;
		return -EINVAL;
	}
	r = dsr_request_set_table(request, ids, 0, known);
	if (r == 0)
		r = table_extend(lc, request, ids, known, count);
	if (r < 0)
		return r;
	request->table_count = count;
	if (external > 0)
		return dsr_load_begin(lc, request, external);
	dsr_lease_release(lc, request);
	return 0;
}

int dsr_lifecycle_scheduled(struct dsr_lifecycle *lc, const char *name, const uint32_t *ids,
                            uint32_t count, uint32_t storable)
{
	struct dsr_engine_request *request = dsr_requests_find(&lc->requests, name);
	int r;

	if (request == NULL)
		return -ENOENT;
	if (count < storable || (count > 0 && ids == NULL))
		return -EINVAL;
	if (request->load.state != DSR_LOAD_NONE)
		return 0;
	r = table_extend(lc, request, ids, request->table_count, count);
	if (r < 0 || request->skips_save)
		return r;
	storable = storable < request->count ? storable : request->count;
	if (storable <= request->cursor)
		return 0;
	r = dsr_request_set_table(request, ids, request->cursor, storable);
	if (r == 0)
		dsr_saves_reserve(lc, request, storable);
	return r;
}

int dsr_lifecycle_preempted(struct dsr_lifecycle *lc, const char *name)
{
	struct dsr_engine_request *request = dsr_requests_find(&lc->requests, name);
	uint32_t first;
	int r = 0;

	if (request == NULL)
		return -ENOENT;
	if (request->load.state != DSR_LOAD_NONE)
		return -EBUSY; /* parked: the engine does not take its blocks */
	if (request->issued > 0)
		r = dsr_notes_add(&lc->notes, DSR_NOTE_PREEMPTED, request, NULL, 0);
	first = dsr_saves_give_up(lc, request, DSR_REASON_PREEMPTED);
	if (first < request->cursor)
		request->cursor = first;
	request->table_count = 0;
	request->tries = 0;
	dsr_lease_release(lc, request);
	dsr_lookup_ask(lc, request);
	return r;
}

int dsr_lifecycle_finished(struct dsr_lifecycle *lc, const char *name, int *ret_delay)
{
	struct dsr_engine_request *request = dsr_requests_find(&lc->requests, name);
	int delay, r = 0;

	if (request == NULL)
		return -ENOENT;
	if (request->load.state == DSR_LOAD_NONE) {
		delay = request->saves > request->given_up;
		dsr_lease_release(lc, request);
	} else {
		/* The blocks are held until the load is reported; nothing else may be. */
		delay = 0;
		(void)dsr_saves_give_up(lc, request, DSR_REASON_ABORTED);
		if (request->issued > 0)
			r = dsr_notes_add(&lc->notes, DSR_NOTE_FREED, request, NULL, 0);
	}
	request->ended_ns = dsr_lifecycle_now(lc);
	dsr_requests_remove(&lc->requests, request);
	*ret_delay = delay;
	return r;
}

/* ---- metadata ---- */

static void write_notes(struct dsr_lifecycle *lc, int kind)
{
	const struct dsr_notes *notes = &lc->notes;

	dsr_pack_array(lc->pack, notes->kinds[kind]);
	for (size_t i = 0; i < notes->count; i++) {
		const struct dsr_note *note = &notes->v[i];

		if (note->kind != kind)
			continue;
		if (kind == DSR_NOTE_TAKEN)
			dsr_meta_write_taken(lc->pack, notes->text + note->name, note->name_bytes,
			                     notes->ids + note->first_id, note->id_count);
		else
			dsr_meta_write_name(lc->pack, notes->text + note->name, note->name_bytes);
	}
}

static void write_load(struct dsr_lifecycle *lc, const struct dsr_engine_request *request)
{
	const struct dsr_request_load *load = &request->load;

	dsr_meta_write_job(lc->pack, request->name, request->name_bytes, load->id, 0);
	dsr_meta_write_keys(lc->pack, request->keys + load->first, load->count);
	dsr_meta_write_refs(lc->pack, request->lease.refs, load->count);
	dsr_meta_write_ids(lc->pack, request->table + load->first, load->count);
}

static void write_save(struct dsr_lifecycle *lc, const struct dsr_save *save)
{
	const struct dsr_engine_request *request = save->request;

	dsr_meta_write_job(lc->pack, request->name, request->name_bytes, save->id, save->scheduler);
	dsr_meta_write_keys_at(lc->pack, request->keys, save->positions, save->reserved);
	dsr_meta_write_refs(lc->pack, save->refs, save->reserved);
	dsr_meta_write_ids_at(lc->pack, request->table, save->positions, save->reserved);
}

/* What was written is under way now. */
static void step_taken(struct dsr_lifecycle *lc)
{
	lc->step++;
	for (uint32_t i = 0; i < lc->load_count; i++)
		lc->load_queue[i]->load.state = DSR_LOAD_ISSUED;
	lc->load_count = 0;
	while (lc->granted.first != NULL)
		dsr_saves_issued(lc, lc->granted.first);
	dsr_notes_clear(&lc->notes);
}

int dsr_lifecycle_build_meta(struct dsr_lifecycle *lc, const void **ret_bytes, size_t *ret_length)
{
	const struct dsr_meta head = {
		.engine = {.p = lc->engine, .n = (uint32_t)strlen(lc->engine)},
		.incarnation = lc->options.incarnation,
		.step = lc->step + 1,
		.world = lc->options.world,
		.load_deadline_ms = lc->options.load_deadline_ms,
	};
	int r;

	dsr_saves_wait_ended(lc);
	dsr_meta_write_head(lc->pack, &head);
	write_notes(lc, DSR_NOTE_PREEMPTED);
	write_notes(lc, DSR_NOTE_FREED);
	write_notes(lc, DSR_NOTE_WAITING);
	write_notes(lc, DSR_NOTE_TAKEN);
	dsr_pack_array(lc->pack, lc->load_count);
	for (uint32_t i = 0; i < lc->load_count; i++)
		write_load(lc, lc->load_queue[i]);
	dsr_pack_array(lc->pack, lc->granted.count);
	for (const struct dsr_save *save = lc->granted.first; save != NULL; save = save->next)
		write_save(lc, save);
	r = dsr_pack_result(lc->pack, ret_bytes, ret_length);
	if (r == 0)
		step_taken(lc);
	return r;
}

/* ---- outputs ---- */

static int update_one(struct dsr_lifecycle *lc, uint32_t rank, const void *bytes, size_t length)
{
	struct dsr_output output;
	int r;

	r = dsr_output_parse(bytes, length, &output);
	if (r < 0)
		return r;
	if (output.rank != rank || output.world != lc->options.world ||
	    output.engine.n != strlen(lc->engine) ||
	    memcmp(output.engine.p, lc->engine, output.engine.n) != 0)
		return -EBADMSG;
	for (uint32_t i = 0; i < output.load_count; i++) {
		struct dsr_output_load load = dsr_output_next_load(&output.loads);

		if (load.incarnation == lc->options.incarnation)
			dsr_load_report(lc, rank, &load);
	}
	for (uint32_t i = 0; i < output.save_count; i++) {
		struct dsr_output_save save = dsr_output_next_save(&output.saves);

		if (save.incarnation == lc->options.incarnation)
			dsr_saves_report(lc, rank, &save);
	}
	return 0;
}

int dsr_lifecycle_update(struct dsr_lifecycle *lc, const void *const *outputs,
                         const size_t *lengths, uint32_t ranks)
{
	int r = 0, one;

	if (ranks > lc->options.world || (ranks > 0 && (outputs == NULL || lengths == NULL)))
		return -EINVAL;
	for (uint32_t rank = 0; rank < ranks; rank++) {
		if (outputs[rank] == NULL || lengths[rank] == 0)
			continue;
		one = update_one(lc, rank, outputs[rank], lengths[rank]);
		if (one < 0) {
			lc->stats.errors++;
			lc->options.port->count(lc->options.self, DSR_COUNTER_ENGINE_ERRORS, 1);
			r = one;
		}
	}
	return r;
}

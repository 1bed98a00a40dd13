/* SPDX-License-Identifier: Apache-2.0 */
#include "meta.h"

#include <errno.h>
#include <string.h>

#include "roles.h"

#define META_MAGIC UINT32_C(0xda5e0001)
#define OUTPUT_MAGIC UINT32_C(0xda5e0002)

#define META_FIELDS 13
#define TAKEN_FIELDS 2
#define JOB_FIELDS 6
#define OUTPUT_FIELDS 7
#define OUTPUT_LOAD_FIELDS 4
#define OUTPUT_SAVE_FIELDS 3

#define REF_BYTES 24
#define ID_BYTES 4
#define FAILURE_BYTES 8

/* Makes the place bad unless it is so. */
static void expect(struct dsr_wire *place, bool is_so)
{
	if (!is_so)
		place->is_bad = true;
}

static void expect_head(struct dsr_wire *place, uint32_t fields, uint32_t magic)
{
	expect(place, dsr_wire_array(place, fields) == fields);
	expect(place, dsr_wire_uint(place, UINT32_MAX) == magic);
	expect(place, dsr_wire_uint(place, UINT32_MAX) == DSR_META_VERSION);
}

/* ---- step metadata, reading ---- */

struct dsr_str dsr_meta_next_name(struct dsr_wire *place)
{
	struct dsr_str name = dsr_wire_str(place, DSR_NAME_MAX);

	expect(place, name.n > 0);
	return name;
}

struct dsr_meta_taken dsr_meta_next_taken(struct dsr_wire *place)
{
	struct dsr_meta_taken taken = {0};
	struct dsr_bin ids;

	expect(place, dsr_wire_array(place, TAKEN_FIELDS) == TAKEN_FIELDS);
	taken.request = dsr_meta_next_name(place);
	ids = dsr_wire_bin(place, DSR_META_BLOCKS_MAX * ID_BYTES);
	expect(place, ids.n % ID_BYTES == 0);
	taken.ids = ids.p;
	taken.count = ids.n / ID_BYTES;
	return taken;
}

struct dsr_meta_job dsr_meta_next_job(struct dsr_wire *place)
{
	struct dsr_meta_job job = {0};
	struct dsr_bin keys, refs, ids;

	expect(place, dsr_wire_array(place, JOB_FIELDS) == JOB_FIELDS);
	job.request = dsr_meta_next_name(place);
	job.id = dsr_wire_uint(place, UINT64_MAX);
	job.scheduler = dsr_wire_uint(place, UINT64_MAX);
	keys = dsr_wire_bin(place, DSR_META_BLOCKS_MAX * DSR_KEY_BYTES);
	refs = dsr_wire_bin(place, DSR_META_BLOCKS_MAX * REF_BYTES);
	ids = dsr_wire_bin(place, DSR_META_BLOCKS_MAX * ID_BYTES);
	job.count = ids.n / ID_BYTES;
	expect(place, job.count > 0 && ids.n == job.count * ID_BYTES &&
	                      keys.n == job.count * DSR_KEY_BYTES &&
	                      refs.n == job.count * REF_BYTES);
	job.keys = keys.p;
	job.refs = refs.p;
	job.ids = ids.p;
	return job;
}

static void parse_names(struct dsr_wire *place, uint32_t *ret_count, struct dsr_wire *ret_first)
{
	*ret_count = dsr_wire_array(place, DSR_META_JOBS_MAX);
	*ret_first = *place;
	for (uint32_t i = 0; i < *ret_count && !place->is_bad; i++)
		(void)dsr_meta_next_name(place);
}

static void parse_taken(struct dsr_wire *place, uint32_t *ret_count, struct dsr_wire *ret_first)
{
	*ret_count = dsr_wire_array(place, DSR_META_JOBS_MAX);
	*ret_first = *place;
	for (uint32_t i = 0; i < *ret_count && !place->is_bad; i++)
		(void)dsr_meta_next_taken(place);
}

static void parse_jobs(struct dsr_wire *place, uint32_t *ret_count, struct dsr_wire *ret_first)
{
	*ret_count = dsr_wire_array(place, DSR_META_JOBS_MAX);
	*ret_first = *place;
	for (uint32_t i = 0; i < *ret_count && !place->is_bad; i++)
		(void)dsr_meta_next_job(place);
}

int dsr_meta_parse(const void *bytes, size_t length, struct dsr_meta *ret_meta)
{
	struct dsr_wire place = dsr_wire_of(bytes, length);
	struct dsr_meta meta = {0};

	expect_head(&place, META_FIELDS, META_MAGIC);
	meta.engine = dsr_meta_next_name(&place);
	meta.incarnation = dsr_wire_uint(&place, UINT64_MAX);
	meta.step = dsr_wire_uint(&place, UINT64_MAX);
	meta.world = (uint32_t)dsr_wire_uint(&place, DSR_WORLD_MAX);
	meta.load_deadline_ms = (uint32_t)dsr_wire_uint(&place, UINT32_MAX);
	parse_names(&place, &meta.preempted_count, &meta.preempted);
	parse_names(&place, &meta.freed_count, &meta.freed);
	parse_names(&place, &meta.waiting_count, &meta.waiting);
	parse_taken(&place, &meta.taken_count, &meta.taken);
	parse_jobs(&place, &meta.load_count, &meta.loads);
	parse_jobs(&place, &meta.save_count, &meta.saves);
	if (place.is_bad || place.left != 0)
		return -EBADMSG;
	*ret_meta = meta;
	return 0;
}

void dsr_meta_key(const uint8_t *keys, uint32_t index, struct dsr_key *ret_key)
{
	memcpy(ret_key->b, keys + (size_t)index * DSR_KEY_BYTES, DSR_KEY_BYTES);
}

void dsr_meta_ref(const uint8_t *refs, uint32_t index, struct dsr_ref *ret_ref)
{
	const uint8_t *p = refs + (size_t)index * REF_BYTES;

	ret_ref->generation = dsr_le64(p);
	ret_ref->slot_seq = dsr_le64(p + 8);
	ret_ref->entry = dsr_le32(p + 16);
	ret_ref->slot = dsr_le32(p + 20);
}

uint32_t dsr_meta_id(const uint8_t *ids, uint32_t index)
{
	return dsr_le32(ids + (size_t)index * ID_BYTES);
}

/* ---- step metadata, writing ---- */

void dsr_meta_write_head(struct dsr_pack *pack, const struct dsr_meta *meta)
{
	dsr_pack_clear(pack);
	dsr_pack_array(pack, META_FIELDS);
	dsr_pack_uint(pack, META_MAGIC);
	dsr_pack_uint(pack, DSR_META_VERSION);
	dsr_pack_str(pack, meta->engine.p, meta->engine.n);
	dsr_pack_uint(pack, meta->incarnation);
	dsr_pack_uint(pack, meta->step);
	dsr_pack_uint(pack, meta->world);
	dsr_pack_uint(pack, meta->load_deadline_ms);
}

void dsr_meta_write_name(struct dsr_pack *pack, const char *name, uint32_t bytes)
{
	dsr_pack_str(pack, name, bytes);
}

void dsr_meta_write_taken(struct dsr_pack *pack, const char *name, uint32_t bytes,
                          const uint32_t *ids, uint32_t count)
{
	dsr_pack_array(pack, TAKEN_FIELDS);
	dsr_pack_str(pack, name, bytes);
	dsr_meta_write_ids(pack, ids, count);
}

void dsr_meta_write_job(struct dsr_pack *pack, const char *name, uint32_t bytes, uint64_t id,
                        uint64_t scheduler)
{
	dsr_pack_array(pack, JOB_FIELDS);
	dsr_pack_str(pack, name, bytes);
	dsr_pack_uint(pack, id);
	dsr_pack_uint(pack, scheduler);
}

void dsr_meta_write_keys(struct dsr_pack *pack, const struct dsr_key *keys, uint32_t count)
{
	dsr_pack_bin(pack, count * DSR_KEY_BYTES);
	dsr_pack_bytes(pack, keys, count * DSR_KEY_BYTES);
}

void dsr_meta_write_keys_at(struct dsr_pack *pack, const struct dsr_key *keys,
                            const uint32_t *positions, uint32_t count)
{
	dsr_pack_bin(pack, count * DSR_KEY_BYTES);
	for (uint32_t i = 0; i < count; i++)
		dsr_pack_bytes(pack, &keys[positions[i]], DSR_KEY_BYTES);
}

void dsr_meta_write_refs(struct dsr_pack *pack, const struct dsr_ref *refs, uint32_t count)
{
	dsr_pack_bin(pack, count * REF_BYTES);
	for (uint32_t i = 0; i < count; i++) {
		dsr_pack_le64(pack, refs[i].generation);
		dsr_pack_le64(pack, refs[i].slot_seq);
		dsr_pack_le32(pack, refs[i].entry);
		dsr_pack_le32(pack, refs[i].slot);
	}
}

void dsr_meta_write_ids(struct dsr_pack *pack, const uint32_t *ids, uint32_t count)
{
	dsr_pack_bin(pack, count * ID_BYTES);
	for (uint32_t i = 0; i < count; i++)
		dsr_pack_le32(pack, ids[i]);
}

void dsr_meta_write_ids_at(struct dsr_pack *pack, const uint32_t *ids, const uint32_t *positions,
                           uint32_t count)
{
	dsr_pack_bin(pack, count * ID_BYTES);
	for (uint32_t i = 0; i < count; i++)
		dsr_pack_le32(pack, ids[positions[i]]);
}

/* ---- worker output, reading ---- */

struct dsr_output_load dsr_output_next_load(struct dsr_wire *place)
{
	struct dsr_output_load load = {0};
	struct dsr_bin failed;

	expect(place, dsr_wire_array(place, OUTPUT_LOAD_FIELDS) == OUTPUT_LOAD_FIELDS);
	load.incarnation = dsr_wire_uint(place, UINT64_MAX);
	load.id = dsr_wire_uint(place, UINT64_MAX);
	load.count = (uint32_t)dsr_wire_uint(place, DSR_META_BLOCKS_MAX);
	failed = dsr_wire_bin(place, DSR_META_BLOCKS_MAX * FAILURE_BYTES);
	load.failed = failed.p;
	load.failed_count = failed.n / FAILURE_BYTES;
	expect(place, failed.n % FAILURE_BYTES == 0 && load.failed_count <= load.count);
	for (uint32_t i = 0; i < load.failed_count && !place->is_bad; i++)
		expect(place, dsr_le32(failed.p + (size_t)i * FAILURE_BYTES) < load.count &&
		                      dsr_le32(failed.p + (size_t)i * FAILURE_BYTES + 4) <
		                              DSR_REASON_COUNT);
	return load;
}

static bool result_is_valid(uint8_t result)
{
	return result == DSR_RESULT_STORED ||
	       ((result & DSR_RESULT_KIND) != 0 && (result & DSR_RESULT_REASON) < DSR_REASON_COUNT);
}

struct dsr_output_save dsr_output_next_save(struct dsr_wire *place)
{
	struct dsr_output_save save = {0};
	struct dsr_bin results;

	expect(place, dsr_wire_array(place, OUTPUT_SAVE_FIELDS) == OUTPUT_SAVE_FIELDS);
	save.incarnation = dsr_wire_uint(place, UINT64_MAX);
	save.id = dsr_wire_uint(place, UINT64_MAX);
	results = dsr_wire_bin(place, DSR_META_BLOCKS_MAX);
	for (uint32_t i = 0; i < results.n; i++)
		expect(place, result_is_valid(results.p[i]));
	save.results = results.p;
	save.count = results.n;
	return save;
}

int dsr_output_parse(const void *bytes, size_t length, struct dsr_output *ret_output)
{
	struct dsr_wire place = dsr_wire_of(bytes, length);
	struct dsr_output output = {0};

	expect_head(&place, OUTPUT_FIELDS, OUTPUT_MAGIC);
	output.engine = dsr_meta_next_name(&place);
	output.rank = (uint32_t)dsr_wire_uint(&place, DSR_WORLD_MAX - 1);
	output.world = (uint32_t)dsr_wire_uint(&place, DSR_WORLD_MAX);
	output.load_count = dsr_wire_array(&place, DSR_META_JOBS_MAX);
	output.loads = place;
	for (uint32_t i = 0; i < output.load_count && !place.is_bad; i++)
		(void)dsr_output_next_load(&place);
	output.save_count = dsr_wire_array(&place, DSR_META_JOBS_MAX);
	output.saves = place;
	for (uint32_t i = 0; i < output.save_count && !place.is_bad; i++)
		(void)dsr_output_next_save(&place);
	if (place.is_bad || place.left != 0 || output.rank >= output.world)
		return -EBADMSG;
	*ret_output = output;
	return 0;
}

/* ---- worker output, writing ---- */

void dsr_output_write_head(struct dsr_pack *pack, const char *engine, uint32_t rank, uint32_t world)
{
	dsr_pack_clear(pack);
	dsr_pack_array(pack, OUTPUT_FIELDS);
	dsr_pack_uint(pack, OUTPUT_MAGIC);
	dsr_pack_uint(pack, DSR_META_VERSION);
	dsr_pack_str(pack, engine, (uint32_t)strlen(engine));
	dsr_pack_uint(pack, rank);
	dsr_pack_uint(pack, world);
}

void dsr_output_write_count(struct dsr_pack *pack, uint32_t count)
{
	dsr_pack_array(pack, count);
}

void dsr_output_write_load(struct dsr_pack *pack, uint64_t incarnation, uint64_t id, uint32_t count,
                           uint32_t failed_count)
{
	dsr_pack_array(pack, OUTPUT_LOAD_FIELDS);
	dsr_pack_uint(pack, incarnation);
	dsr_pack_uint(pack, id);
	dsr_pack_uint(pack, count);
	dsr_pack_bin(pack, failed_count * FAILURE_BYTES);
}

void dsr_output_write_save(struct dsr_pack *pack, uint64_t incarnation, uint64_t id,
                           const uint8_t *results, uint32_t count)
{
	dsr_pack_array(pack, OUTPUT_SAVE_FIELDS);
	dsr_pack_uint(pack, incarnation);
	dsr_pack_uint(pack, id);
	dsr_pack_bin(pack, count);
	dsr_pack_bytes(pack, results, count);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The two byte strings that the engine carries between libdaser's objects. Private to libdaser:
 * both ends are the same release, and the version says so.
 *
 * step metadata, scheduler object -> every worker:
 *   [magic, version, engine, incarnation, step, world, load_deadline_ms,
 *    [preempted request, ...], [freed request, ...], [waiting request, ...],
 *    [[request, taken ids], ...],
 *    [load, ...], [save, ...]]
 *   load, save = [request, id, scheduler, keys, refs, ids]; scheduler is 0 in a load
 *   a waiting request has ended, but saves of it may still come: its blocks are not given up yet
 * worker output, each worker -> scheduler object:
 *   [magic, version, engine, rank, world, [load, ...], [save, ...]]
 *   load = [incarnation, id, count, failed]; save = [incarnation, id, results]
 *
 * keys, refs, ids, failed and results are bytes: 32 a key, 24 a reference (generation, slot_seq,
 * entry, slot), 4 an id, 8 a failure (position, reason), 1 a result. Numbers are little endian.
 */
#ifndef DSR_NATIVE_META_H
#define DSR_NATIVE_META_H

#include "wire.h"

#define DSR_META_VERSION 1
#define DSR_NAME_MAX 4096           /* bytes of a request's or an engine's name */
#define DSR_META_JOBS_MAX 65536u    /* loads, saves or names of one step */
#define DSR_META_BLOCKS_MAX 131072u /* blocks of one load or save */
#define DSR_WORLD_MAX 4096u         /* ranks */

/* A save's result for one block: stored, or one of the others + enum dsr_reason. */
#define DSR_RESULT_STORED 0
#define DSR_RESULT_DROPPED 0x40 /* a store actor was told, or does it by itself */
#define DSR_RESULT_UNTOLD 0x80  /* nobody was told: to be abandoned */
#define DSR_RESULT_KIND 0xc0
#define DSR_RESULT_REASON 0x3f

/* Slices are borrowed from the bytes. */
struct dsr_meta {
	struct dsr_str engine;
	uint64_t incarnation; /* of the scheduler object */
	uint64_t step;
	uint32_t world;
	uint32_t load_deadline_ms;
	uint32_t preempted_count, freed_count, waiting_count, taken_count, load_count, save_count;
	struct dsr_wire preempted, freed, waiting, taken, loads, saves; /* at the first element */
};

struct dsr_meta_taken {
	struct dsr_str request; /* that has the blocks now */
	const uint8_t *ids;
	uint32_t count;
};

/* A load or a save. */
struct dsr_meta_job {
	struct dsr_str request;
	uint64_t id;
	uint64_t scheduler; /* incarnation that made the reservation */
	const uint8_t *keys, *refs, *ids;
	uint32_t count;
};

/* Checks all of it. -EBADMSG. */
int dsr_meta_parse(const void *bytes, size_t length, struct dsr_meta *ret_meta);
/* Next elements; call them at most as often as the count says, on a copy of the place. */
struct dsr_str dsr_meta_next_name(struct dsr_wire *place);
struct dsr_meta_taken dsr_meta_next_taken(struct dsr_wire *place);
struct dsr_meta_job dsr_meta_next_job(struct dsr_wire *place);

void dsr_meta_key(const uint8_t *keys, uint32_t index, struct dsr_key *ret_key);
void dsr_meta_ref(const uint8_t *refs, uint32_t index, struct dsr_ref *ret_ref);
uint32_t dsr_meta_id(const uint8_t *ids, uint32_t index);

/* Writing: head, then each part in order: its length, its elements. */
void dsr_meta_write_head(struct dsr_pack *pack, const struct dsr_meta *meta);
void dsr_meta_write_name(struct dsr_pack *pack, const char *name, uint32_t bytes);
void dsr_meta_write_taken(struct dsr_pack *pack, const char *name, uint32_t bytes,
                          const uint32_t *ids, uint32_t count);
/* [request, id, scheduler, keys: then the caller writes `count` keys, refs, ids with the calls
 * below, in that order. */
void dsr_meta_write_job(struct dsr_pack *pack, const char *name, uint32_t bytes, uint64_t id,
                        uint64_t scheduler);
void dsr_meta_write_keys(struct dsr_pack *pack, const struct dsr_key *keys, uint32_t count);
void dsr_meta_write_refs(struct dsr_pack *pack, const struct dsr_ref *refs, uint32_t count);
void dsr_meta_write_ids(struct dsr_pack *pack, const uint32_t *ids, uint32_t count);
/* The same of chosen ones: element positions[i] of the array, for i < count. */
void dsr_meta_write_keys_at(struct dsr_pack *pack, const struct dsr_key *keys,
                            const uint32_t *positions, uint32_t count);
void dsr_meta_write_ids_at(struct dsr_pack *pack, const uint32_t *ids, const uint32_t *positions,
                           uint32_t count);

struct dsr_output {
	struct dsr_str engine;
	uint32_t rank, world;
	uint32_t load_count, save_count;
	struct dsr_wire loads, saves; /* at the first element */
};

struct dsr_output_load {
	uint64_t incarnation; /* of the scheduler object that asked for it */
	uint64_t id;
	uint32_t count;        /* blocks */
	const uint8_t *failed; /* [failed_count] of 8 bytes */
	uint32_t failed_count;
};

struct dsr_output_save {
	uint64_t incarnation;
	uint64_t id;
	const uint8_t *results; /* [count] */
	uint32_t count;
};

/* Checks all of it. -EBADMSG. */
int dsr_output_parse(const void *bytes, size_t length, struct dsr_output *ret_output);
struct dsr_output_load dsr_output_next_load(struct dsr_wire *place);
struct dsr_output_save dsr_output_next_save(struct dsr_wire *place);

void dsr_output_write_head(struct dsr_pack *pack, const char *engine, uint32_t rank,
                           uint32_t world);
/* Length of a part: loads, then saves. */
void dsr_output_write_count(struct dsr_pack *pack, uint32_t count);
/* Then the caller writes failed_count times position and reason with dsr_pack_le32. */
void dsr_output_write_load(struct dsr_pack *pack, uint64_t incarnation, uint64_t id, uint32_t count,
                           uint32_t failed_count);
void dsr_output_write_save(struct dsr_pack *pack, uint64_t incarnation, uint64_t id,
                           const uint8_t *results, uint32_t count);

#endif

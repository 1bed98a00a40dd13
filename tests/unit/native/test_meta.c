/* SPDX-License-Identifier: Apache-2.0 */
/* Step metadata and worker output: round trip, every cut, every kind of garbage. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meta.h"
#include "roles.h"

#define BLOCKS 5

static int open_pack(void **state)
{
	return dsr_pack_new((struct dsr_pack **)state);
}

static int close_pack(void **state)
{
	dsr_pack_free((struct dsr_pack **)state);
	return 0;
}

static void fill(struct dsr_key *keys, struct dsr_ref *refs, uint32_t *ids)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		memset(keys[i].b, (int)(0x30 + i), sizeof(keys[i].b));
		refs[i] = (struct dsr_ref){.generation = UINT64_C(1) << (40 + i),
		                           .slot_seq = UINT64_MAX - i,
		                           .entry = UINT32_MAX - i,
		                           .slot = i};
		ids[i] = 1000 + i;
	}
}

/* A metadata with something in every part. Returns a copy of exactly its length. */
static uint8_t *make_meta(struct dsr_pack *pack, size_t *ret_length)
{
	const uint32_t positions[] = {4, 2};
	const struct dsr_meta head = {.engine = {.p = "engine-0", .n = 8},
	                              .incarnation = UINT64_MAX - 7,
	                              .step = 70000,
	                              .world = 2,
	                              .load_deadline_ms = 1234};
	struct dsr_key keys[BLOCKS];
	struct dsr_ref refs[BLOCKS];
	uint32_t ids[BLOCKS];
	const void *bytes;
	uint8_t *copy;

	fill(keys, refs, ids);
	dsr_meta_write_head(pack, &head);
	dsr_pack_array(pack, 2);
	dsr_meta_write_name(pack, "lost-1", 6);
	dsr_meta_write_name(pack, "lost-2", 6);
	dsr_pack_array(pack, 1);
	dsr_meta_write_name(pack, "freed", 5);
	dsr_pack_array(pack, 1);
	dsr_meta_write_name(pack, "waiting", 7);
	dsr_pack_array(pack, 1);
	dsr_meta_write_taken(pack, "taker", 5, ids, BLOCKS);
	dsr_pack_array(pack, 1);
	dsr_meta_write_job(pack, "loader", 6, 77, 0);
	dsr_meta_write_keys(pack, keys, BLOCKS);
	dsr_meta_write_refs(pack, refs, BLOCKS);
	dsr_meta_write_ids(pack, ids, BLOCKS);
	dsr_pack_array(pack, 1);
	dsr_meta_write_job(pack, "saver", 5, 78, UINT64_C(1) << 63);
	dsr_meta_write_keys_at(pack, keys, positions, 2);
	dsr_meta_write_refs(pack, refs, 2);
	dsr_meta_write_ids_at(pack, ids, positions, 2);
	assert_int_equal(dsr_pack_result(pack, &bytes, ret_length), 0);
	copy = malloc(*ret_length);
	assert_non_null(copy);
	memcpy(copy, bytes, *ret_length);
	return copy;
}

static uint8_t *make_output(struct dsr_pack *pack, size_t *ret_length)
{
	const uint8_t results[] = {DSR_RESULT_STORED, DSR_RESULT_DROPPED | DSR_REASON_DEADLINE,
	                           DSR_RESULT_UNTOLD | DSR_REASON_PREEMPTED,
	                           DSR_RESULT_DROPPED | DSR_REASON_UNREADABLE};
	const void *bytes;
	uint8_t *copy;

	dsr_output_write_head(pack, "engine-0", 1, 2);
	dsr_output_write_count(pack, 2);
	dsr_output_write_load(pack, 5, 9, 300, 2);
	dsr_pack_le32(pack, 299);
	dsr_pack_le32(pack, DSR_REASON_DIGEST);
	dsr_pack_le32(pack, 0);
	dsr_pack_le32(pack, DSR_REASON_ORPHAN);
	dsr_output_write_load(pack, 5, 10, 1, 0);
	dsr_output_write_count(pack, 1);
	dsr_output_write_save(pack, 5, 11, results, sizeof(results));
	assert_int_equal(dsr_pack_result(pack, &bytes, ret_length), 0);
	copy = malloc(*ret_length);
	assert_non_null(copy);
	memcpy(copy, bytes, *ret_length);
	return copy;
}

static void assert_str(struct dsr_str str, const char *expected)
{
	assert_int_equal(str.n, strlen(expected));
	assert_memory_equal(str.p, expected, str.n);
}

static void metadata_comes_back_as_it_was_written(void **state)
{
	struct dsr_key keys[BLOCKS], key;
	struct dsr_ref refs[BLOCKS], ref;
	uint32_t ids[BLOCKS];
	struct dsr_meta_taken taken;
	struct dsr_meta_job job;
	struct dsr_meta meta;
	size_t length;
	uint8_t *bytes = make_meta(*state, &length);

	fill(keys, refs, ids);
	assert_int_equal(dsr_meta_parse(bytes, length, &meta), 0);
	assert_str(meta.engine, "engine-0");
	assert_int_equal(meta.incarnation, UINT64_MAX - 7);
	assert_int_equal(meta.step, 70000);
	assert_int_equal(meta.world, 2);
	assert_int_equal(meta.load_deadline_ms, 1234);
	assert_int_equal(meta.preempted_count, 2);
	assert_str(dsr_meta_next_name(&meta.preempted), "lost-1");
	assert_str(dsr_meta_next_name(&meta.preempted), "lost-2");
	assert_int_equal(meta.freed_count, 1);
	assert_str(dsr_meta_next_name(&meta.freed), "freed");
	assert_int_equal(meta.waiting_count, 1);
	assert_str(dsr_meta_next_name(&meta.waiting), "waiting");
	assert_int_equal(meta.taken_count, 1);
	taken = dsr_meta_next_taken(&meta.taken);
	assert_str(taken.request, "taker");
	assert_int_equal(taken.count, BLOCKS);
	assert_int_equal(dsr_meta_id(taken.ids, 3), ids[3]);
	assert_int_equal(meta.load_count, 1);
	job = dsr_meta_next_job(&meta.loads);
	assert_str(job.request, "loader");
	assert_int_equal(job.id, 77);
	assert_int_equal(job.count, BLOCKS);
	for (uint32_t i = 0; i < BLOCKS; i++) {
		dsr_meta_key(job.keys, i, &key);
		assert_memory_equal(&key, &keys[i], sizeof(key));
		dsr_meta_ref(job.refs, i, &ref);
		assert_int_equal(ref.generation, refs[i].generation);
		assert_int_equal(ref.slot_seq, refs[i].slot_seq);
		assert_int_equal(ref.entry, refs[i].entry);
		assert_int_equal(ref.slot, refs[i].slot);
		assert_int_equal(dsr_meta_id(job.ids, i), ids[i]);
	}
	assert_int_equal(meta.save_count, 1);
	job = dsr_meta_next_job(&meta.saves);
	assert_str(job.request, "saver");
	assert_int_equal(job.scheduler, UINT64_C(1) << 63);
	assert_int_equal(job.count, 2);
	dsr_meta_key(job.keys, 0, &key);
	assert_memory_equal(&key, &keys[4], sizeof(key));
	assert_int_equal(dsr_meta_id(job.ids, 1), ids[2]);
	free(bytes);
}

static void output_comes_back_as_it_was_written(void **state)
{
	struct dsr_output_load load;
	struct dsr_output_save save;
	struct dsr_output output;
	size_t length;
	uint8_t *bytes = make_output(*state, &length);

	assert_int_equal(dsr_output_parse(bytes, length, &output), 0);
	assert_str(output.engine, "engine-0");
	assert_int_equal(output.rank, 1);
	assert_int_equal(output.world, 2);
	assert_int_equal(output.load_count, 2);
	load = dsr_output_next_load(&output.loads);
	assert_int_equal(load.incarnation, 5);
	assert_int_equal(load.id, 9);
	assert_int_equal(load.count, 300);
	assert_int_equal(load.failed_count, 2);
	assert_int_equal(dsr_le32(load.failed), 299);
	assert_int_equal(dsr_le32(load.failed + 12), DSR_REASON_ORPHAN);
	load = dsr_output_next_load(&output.loads);
	assert_int_equal(load.failed_count, 0);
	assert_int_equal(output.save_count, 1);
	save = dsr_output_next_save(&output.saves);
	assert_int_equal(save.id, 11);
	assert_int_equal(save.count, 4);
	assert_int_equal(save.results[3], DSR_RESULT_DROPPED | DSR_REASON_UNREADABLE);
	free(bytes);
}

/* The copy ends where the cut is: a sanitizer sees what is read behind it. */
static void assert_cut_is_refused(const uint8_t *bytes, size_t length)
{
	uint8_t *cut = malloc(length == 0 ? 1 : length);
	struct dsr_output output;
	struct dsr_meta meta;

	assert_non_null(cut);
	memcpy(cut, bytes, length);
	assert_int_equal(dsr_meta_parse(cut, length, &meta), -EBADMSG);
	assert_int_equal(dsr_output_parse(cut, length, &output), -EBADMSG);
	free(cut);
}

static void every_truncation_is_refused(void **state)
{
	size_t length;
	uint8_t *bytes = make_meta(*state, &length);

	for (size_t i = 0; i < length; i++)
		assert_cut_is_refused(bytes, i);
	free(bytes);
	bytes = make_output(*state, &length);
	for (size_t i = 0; i < length; i++)
		assert_cut_is_refused(bytes, i);
	free(bytes);
}

static void bytes_behind_the_end_are_refused(void **state)
{
	struct dsr_meta meta;
	size_t length;
	uint8_t *bytes = make_meta(*state, &length);
	uint8_t *longer = calloc(1, length + 1);

	assert_non_null(longer);
	memcpy(longer, bytes, length);
	assert_int_equal(dsr_meta_parse(longer, length + 1, &meta), -EBADMSG);
	free(longer);
	free(bytes);
}

static void nothing_is_no_message(void **state)
{
	struct dsr_output output;
	struct dsr_meta meta;

	(void)state;
	assert_int_equal(dsr_meta_parse(NULL, 0, &meta), -EBADMSG);
	assert_int_equal(dsr_meta_parse(NULL, 100, &meta), -EBADMSG);
	assert_int_equal(dsr_output_parse(NULL, 0, &output), -EBADMSG);
}

static void one_kind_is_not_taken_for_the_other(void **state)
{
	struct dsr_output output;
	struct dsr_meta meta;
	size_t length;
	uint8_t *bytes = make_meta(*state, &length);

	assert_int_equal(dsr_output_parse(bytes, length, &output), -EBADMSG);
	free(bytes);
	bytes = make_output(*state, &length);
	assert_int_equal(dsr_meta_parse(bytes, length, &meta), -EBADMSG);
	free(bytes);
}

/* Walks all that a parse accepted: whatever it says is inside the bytes. */
static void walk(const uint8_t *bytes, size_t length)
{
	struct dsr_output output;
	struct dsr_meta meta;
	struct dsr_ref ref;
	uint64_t sum = 0;

	if (dsr_meta_parse(bytes, length, &meta) == 0) {
		for (uint32_t i = 0; i < meta.load_count; i++) {
			struct dsr_meta_job job = dsr_meta_next_job(&meta.loads);

			for (uint32_t j = 0; j < job.count; j++) {
				dsr_meta_ref(job.refs, j, &ref);
				sum += ref.slot + dsr_meta_id(job.ids, j);
			}
		}
		for (uint32_t i = 0; i < meta.taken_count; i++) {
			struct dsr_meta_taken taken = dsr_meta_next_taken(&meta.taken);

			for (uint32_t j = 0; j < taken.count; j++)
				sum += dsr_meta_id(taken.ids, j);
		}
	}
	if (dsr_output_parse(bytes, length, &output) == 0) {
		for (uint32_t i = 0; i < output.load_count; i++) {
			struct dsr_output_load load = dsr_output_next_load(&output.loads);

			for (uint32_t j = 0; j < load.failed_count; j++) {
				assert_true(dsr_le32(load.failed + (size_t)j * 8) < load.count);
				assert_true(dsr_le32(load.failed + (size_t)j * 8 + 4) <
				            DSR_REASON_COUNT);
			}
		}
		for (uint32_t i = 0; i < output.save_count; i++) {
			struct dsr_output_save save = dsr_output_next_save(&output.saves);

			for (uint32_t j = 0; j < save.count; j++)
				assert_true((save.results[j] & DSR_RESULT_REASON) <
				            DSR_REASON_COUNT);
		}
	}
	assert_true(sum < UINT64_MAX);
}

static void garbage_never_reads_outside(void **state)
{
	uint64_t x = 0x9e3779b97f4a7c15;
	size_t lengths[2];
	uint8_t *samples[2] = {make_meta(*state, &lengths[0]), NULL};

	samples[1] = make_output(*state, &lengths[1]);
	for (int round = 0; round < 20000; round++) {
		size_t length = lengths[round & 1];
		uint8_t *bytes = malloc(length);

		assert_non_null(bytes);
		memcpy(bytes, samples[round & 1], length);
		for (int i = 0; i <= round % 4; i++) {
			x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			bytes[(x >> 33) % length] = (uint8_t)(x >> 24);
		}
		walk(bytes, length - (round % 7 == 0 ? (x >> 40) % length : 0));
		free(bytes);
	}
	free(samples[0]);
	free(samples[1]);
}

static void lengths_that_cannot_be_are_refused_without_memory(void **state)
{
	/* An array of 2^32-1, a string and bytes of 2^32-1, a map, a float. */
	const uint8_t samples[][6] = {
		{0xdd, 0xff, 0xff, 0xff, 0xff, 0}, {0xdb, 0xff, 0xff, 0xff, 0xff, 0},
		{0xc6, 0xff, 0xff, 0xff, 0xff, 0}, {0xdf, 0xff, 0xff, 0xff, 0xff, 0},
		{0xcb, 0x00, 0x00, 0x00, 0x00, 0},
	};
	struct dsr_meta meta;
	struct dsr_wire wire;

	(void)state;
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		assert_int_equal(dsr_meta_parse(samples[i], 6, &meta), -EBADMSG);
		wire = dsr_wire_of(samples[i], 6);
		assert_int_equal(dsr_wire_uint(&wire, UINT64_MAX), 0);
		assert_true(wire.is_bad);
		wire = dsr_wire_of(samples[i], 6);
		(void)dsr_wire_array(&wire, UINT32_MAX);
		if (!wire.is_bad) /* its elements are not there */
			assert_int_equal(dsr_wire_array(&wire, 100), 0);
		wire = dsr_wire_of(samples[i], 6);
		assert_null(dsr_wire_str(&wire, UINT32_MAX).p);
		assert_true(wire.is_bad);
		wire = dsr_wire_of(samples[i], 6);
		assert_null(dsr_wire_bin(&wire, UINT32_MAX).p);
		assert_true(wire.is_bad);
	}
}

static void an_output_of_a_rank_outside_its_world_is_refused(void **state)
{
	struct dsr_output output;
	const void *bytes;
	size_t length;

	dsr_output_write_head(*state, "e", 2, 2);
	dsr_output_write_count(*state, 0);
	dsr_output_write_count(*state, 0);
	assert_int_equal(dsr_pack_result(*state, &bytes, &length), 0);
	assert_int_equal(dsr_output_parse(bytes, length, &output), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metadata_comes_back_as_it_was_written),
		cmocka_unit_test(output_comes_back_as_it_was_written),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(bytes_behind_the_end_are_refused),
		cmocka_unit_test(nothing_is_no_message),
		cmocka_unit_test(one_kind_is_not_taken_for_the_other),
		cmocka_unit_test(garbage_never_reads_outside),
		cmocka_unit_test(lengths_that_cannot_be_are_refused_without_memory),
		cmocka_unit_test(an_output_of_a_rank_outside_its_world_is_refused),
	};

	return cmocka_run_group_tests_name("native meta", tests, open_pack, close_pack);
}

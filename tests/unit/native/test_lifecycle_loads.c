/* SPDX-License-Identifier: Apache-2.0 */
/* From the lookup to the end of a load, at the scheduler object. */
#include "life.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t table[] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};

static void a_lookup_goes_out_with_the_request(void **state)
{
	struct life *life = *state;
	struct dsr_key key = life_key(life, "a", 0);

	life_new(life, "a", 8);
	assert_int_equal(life_last(life, DSR_MSG_LOOKUP)->keys, 8);
	assert_memory_equal(&life_last(life, DSR_MSG_LOOKUP)->first_key, &key, sizeof(key));
	life_new(life, "none", 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_LOOKUP), 1);
}

static void match_waits_once_and_no_longer_than_it_may(void **state)
{
	struct life *life = *state;
	uint64_t begin = life->now_ns;
	uint32_t blocks = 99;

	life_new(life, "a", 8);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), -EAGAIN);
	assert_int_equal(blocks, 99);
	assert_int_equal(life->now_ns - begin, 300000);
	/* Lookup and lease have the same deadline. */
	begin = life->now_ns;
	life->on_wait = life_answer_all;
	life->hits = 4;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(life->waited_until_ns, begin + 300000);
	assert_int_equal(blocks, 4);
}

static void match_says_again_three_times_and_then_none(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 99;

	life_new(life, "a", 8);
	for (int i = 0; i < 3; i++)
		assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), -EAGAIN);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	/* An answer that comes after all still counts. */
	life->on_wait = life_answer_all;
	life_lookup(life, 3);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 3);
}

static void a_hit_is_leased_before_it_is_promised(void **state)
{
	struct life *life = *state;
	struct dsr_key parent = life_key(life, "a", 1);
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_lookup(life, 6);
	life->on_wait = life_answer_all;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 2, &blocks), 0);
	assert_int_equal(blocks, 4);
	assert_int_equal(life_last(life, DSR_MSG_LEASE)->keys, 4);
	assert_memory_equal(&life_last(life, DSR_MSG_LEASE)->parent, &parent, sizeof(parent));
	/* Asked again, the same lease answers, without a word. */
	life->sent_count = 0;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 2, &blocks), 0);
	assert_int_equal(blocks, 4);
	assert_int_equal(life->sent_count, 0);
}

static void a_lease_may_be_shorter_than_the_lookup(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_lookup(life, 8);
	life->on_wait = life_answer_all;
	life->grant = 3;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 3);
}

static void an_empty_lease_is_no_promise_and_needs_no_release(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 99;

	life_new(life, "a", 8);
	life_lookup(life, 8);
	life->on_wait = life_answer_all;
	life->grant = 0;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_RELEASE), 0);
}

static void another_local_hit_takes_another_lease(void **state)
{
	struct life *life = *state;
	uint64_t first;
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_lookup(life, 6);
	life->on_wait = life_answer_all;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	first = life_last(life, DSR_MSG_LEASE)->id;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 4, &blocks), 0);
	assert_int_equal(blocks, 2);
	assert_int_equal(life_last(life, DSR_MSG_RELEASE)->id, first);
	assert_true(life_last(life, DSR_MSG_LEASE)->id > first);
}

static void an_expired_lease_is_not_promised(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_lookup(life, 6);
	life->on_wait = life_answer_all;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	life->now_ns += LIFE_TTL_MS * UINT64_C(1000000);
	life->hits = 2;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 2);
	assert_int_equal(life_sent_of(life, DSR_MSG_LEASE), 2);
}

static void an_old_answer_is_asked_for_again(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_lookup(life, 0);
	life->on_wait = life_answer_all;
	life->hits = 5;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_LOOKUP), 1);
	life->now_ns += UINT64_C(20000000);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 5);
	assert_int_equal(life_sent_of(life, DSR_MSG_LOOKUP), 2);
}

static void a_busy_service_is_asked_again_by_the_next_steps(void **state)
{
	struct life *life = *state;
	const struct dsr_msg_lease_reply full = {.err = -EAGAIN};
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_lookup(life, 6);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), -EAGAIN);
	dsr_lifecycle_on_lease(&life->lc, life_last(life, DSR_MSG_LEASE)->cookie, &full);
	life->on_wait = life_answer_all;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 6);
}

static void an_engine_without_service_has_no_hits(void **state)
{
	struct life *life = *state;
	const struct dsr_msg_lookup_reply away = {.err = -ENOTCONN};
	uint32_t blocks = 99;

	life_new(life, "a", 8);
	dsr_lifecycle_on_lookup(&life->lc, life_last(life, DSR_MSG_LOOKUP)->cookie, &away);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	dsr_lifecycle_detached(&life->lc);
	life_new(life, "b", 8);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "b", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_LOOKUP), 1);
}

static void the_load_goes_into_the_metadata_once(void **state)
{
	struct life *life = *state;
	struct dsr_key key = life_key(life, "a", 2), got;
	struct dsr_meta_job job;
	struct dsr_meta meta;
	struct dsr_ref ref;
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_lookup(life, 5);
	life->on_wait = life_answer_all;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 2, &blocks), 0);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", table, 8, 2, 3), 0);
	meta = life_meta(life);
	assert_int_equal(meta.load_count, 1);
	job = dsr_meta_next_job(&meta.loads);
	assert_int_equal(job.count, 3);
	assert_int_equal(job.request.n, 1);
	dsr_meta_key(job.keys, 0, &got);
	assert_memory_equal(&got, &key, sizeof(key));
	dsr_meta_ref(job.refs, 2, &ref);
	assert_int_equal(ref.slot, 2);
	assert_int_equal(dsr_meta_id(job.ids, 0), table[2]);
	assert_int_equal(dsr_meta_id(job.ids, 2), table[4]);
	assert_int_equal(life_meta(life).load_count, 0);
	/* While it runs there is nothing to match, to allocate or to save. */
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 2, &blocks), 0);
	assert_int_equal(blocks, 0);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", table, 8, 2, 1), -EBUSY);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 8, 8), 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_RESERVE), 0);
}

static void more_than_promised_is_refused(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", table, 8, 0, 1), -EINVAL);
	life_lookup(life, 5);
	life->on_wait = life_answer_all;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 2, &blocks), 0);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", table, 8, 2, 4), -EINVAL);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", table, 8, 1, 3), -EINVAL);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", table, 4, 2, 3), -EINVAL);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", NULL, 8, 2, 3), -EINVAL);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "x", table, 8, 2, 3), -ENOENT);
}

static void fewer_than_promised_release_the_rest(void **state)
{
	struct life *life = *state;
	uint64_t first;
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_lookup(life, 6);
	life->on_wait = life_answer_all;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	first = life_last(life, DSR_MSG_LEASE)->id;
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", table, 8, 0, 2), 0);
	/* The smaller lease comes before the end of the larger one. */
	assert_int_equal(life_last(life, DSR_MSG_LEASE)->keys, 2);
	assert_int_equal(life_last(life, DSR_MSG_RELEASE)->id, first);
	assert_true(life_last(life, DSR_MSG_LEASE) < life_last(life, DSR_MSG_RELEASE));
	assert_int_equal(life_meta(life).load_count, 1);
}

static void none_of_the_promised_releases_all(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_lookup(life, 6);
	life->on_wait = life_answer_all;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", table, 8, 0, 0), 0);
	assert_int_equal(life_last(life, DSR_MSG_RELEASE)->id, life_last(life, DSR_MSG_LEASE)->id);
	assert_int_equal(life_meta(life).load_count, 0);
}

static void a_load_ends_when_every_rank_said_so(void **state)
{
	struct life *life = *state;
	const uint32_t bad0[] = {1}, bad1[] = {1, 3};
	uint64_t id;

	life_new(life, "a", 8);
	id = life_load(life, "a", 0, 6);
	assert_int_equal(life_report_load(life, 0, id, 6, bad0, 1), 0);
	assert_int_equal(life->counters[DSR_COUNTER_L1_HITS], 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_RELEASE), 0);
	assert_int_equal(life_report_load(life, 1, id, 6, bad1, 2), 0);
	/* The union over ranks, counted once. */
	assert_int_equal(life->counters[DSR_COUNTER_L1_HITS], 4);
	assert_int_equal(life->counters[DSR_COUNTER_L1_MISSES], 2);
	assert_int_equal(life->lc.stats.load_blocks, 6);
	assert_int_equal(life->lc.stats.load_failed_blocks, 2);
	assert_int_equal(life_sent_of(life, DSR_MSG_RELEASE), 1);
	assert_int_equal(life->lc.stats.errors, 0);
}

static void a_rank_counts_once(void **state)
{
	struct life *life = *state;
	uint64_t id;

	life_new(life, "a", 8);
	id = life_load(life, "a", 0, 6);
	assert_int_equal(life_report_load(life, 0, id, 6, NULL, 0), 0);
	assert_int_equal(life_report_load(life, 0, id, 6, NULL, 0), 0);
	assert_int_equal(life->lc.stats.loads, 0);
	assert_int_equal(life->lc.stats.errors, 1);
	assert_int_equal(life_report_load(life, 1, id, 6, NULL, 0), 0);
	assert_int_equal(life->lc.stats.loads, 1);
	assert_int_equal(life_report_load(life, 1, id, 6, NULL, 0), 0); /* late */
	assert_int_equal(life_report_load(life, 1, id + 65536, 6, NULL, 0), 0);
	assert_int_equal(life->lc.stats.loads, 1);
	assert_int_equal(life->lc.stats.errors, 3);
	assert_int_equal(life->counters[DSR_COUNTER_ENGINE_ERRORS], 3);
}

static void blocks_from_the_first_failed_one_on_are_not_promised_again(void **state)
{
	struct life *life = *state;
	const uint32_t bad[] = {4, 2};
	uint32_t blocks = 99;
	uint64_t id;

	life_new(life, "a", 8);
	id = life_load(life, "a", 1, 7);
	assert_int_equal(life_report_load(life, 0, id, 6, bad, 2), 0);
	life->now_ns += UINT64_C(20000000);
	life->hits = 7;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 3, &blocks), 0);
	assert_int_equal(blocks, 0);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 3); /* up to block 1 + 2 */
}

static void a_request_may_end_while_it_loads(void **state)
{
	struct life *life = *state;
	int delay = 9;
	uint64_t id;

	life_new(life, "a", 8);
	id = life_load(life, "a", 0, 6);
	assert_int_equal(dsr_lifecycle_finished(&life->lc, "a", &delay), 0);
	assert_int_equal(delay, 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_RELEASE), 0);
	life_new(life, "a", 8); /* its name is free */
	assert_int_equal(life_report_load(life, 0, id, 6, NULL, 0), 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_RELEASE), 1);
	assert_int_equal(life->lc.stats.l1_hits, 6);
}

static void the_end_of_a_request_ends_its_lease(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 0;
	int delay = 9;

	life_new(life, "a", 8);
	life_lookup(life, 6);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), -EAGAIN);
	/* The lease is asked for and not answered: its answer finds nobody, its release follows. */
	assert_int_equal(dsr_lifecycle_finished(&life->lc, "a", &delay), 0);
	assert_int_equal(delay, 0);
	assert_int_equal(life_last(life, DSR_MSG_RELEASE)->id, life_last(life, DSR_MSG_LEASE)->id);
	life_lease(life, 6);
	assert_int_equal(dsr_lifecycle_finished(&life->lc, "a", &delay), -ENOENT);
	assert_int_equal(life->lc.stats.errors, 0);
}

static void a_lease_of_a_dead_scheduler_is_loaded_but_not_promised(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 0;

	life_new(life, "a", 8);
	life_new(life, "b", 8);
	life->on_wait = life_answer_all;
	life->hits = 6;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "b", 0, &blocks), 0);
	dsr_lifecycle_detached(&life->lc);
	dsr_lifecycle_attached(&life->lc, LIFE_SCHEDULER + 1);
	life->sent_count = 0;
	/* The engine may have allocated already. */
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "a", table, 8, 0, 6), 0);
	assert_int_equal(life_meta(life).load_count, 1);
	life->hits = 2;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "b", 0, &blocks), 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_LEASE), 1);
	assert_int_equal(life_sent_of(life, DSR_MSG_RELEASE), 0);
}

static void the_lease_of_a_long_load_is_renewed(void **state)
{
	struct life *life = *state;
	uint64_t lease;

	life_new(life, "a", 8);
	(void)life_load(life, "a", 0, 6);
	lease = life_last(life, DSR_MSG_LEASE)->id;
	dsr_lifecycle_tick(&life->lc);
	assert_int_equal(life_sent_of(life, DSR_MSG_LEASE), 1);
	life->now_ns += LIFE_TTL_MS * UINT64_C(600000);
	dsr_lifecycle_tick(&life->lc);
	assert_int_equal(life_sent_of(life, DSR_MSG_LEASE), 2);
	assert_int_equal(life_last(life, DSR_MSG_LEASE)->id, lease);
	assert_int_equal(life_last(life, DSR_MSG_LEASE)->keys, 6);
	life_lease(life, 6);
	dsr_lifecycle_tick(&life->lc);
	assert_int_equal(life_sent_of(life, DSR_MSG_LEASE), 2);
}

static void a_full_queue_keeps_the_order(void **state)
{
	struct life *life = *state;

	life->send_error = -EAGAIN;
	life_new(life, "a", 8);
	life_new(life, "b", 7);
	assert_true(dsr_lifecycle_flush(&life->lc));
	assert_int_equal(life->sent_count, 0);
	life->send_error = 0;
	assert_false(dsr_lifecycle_flush(&life->lc));
	assert_int_equal(life->sent_count, 2);
	assert_int_equal(life->sent[0].keys, 8);
	assert_int_equal(life->sent[1].keys, 7);
}

static void a_weight_epoch_changes_every_key(void **state)
{
	struct life *life = *state;
	struct dsr_key before = life_key(life, "a", 0);
	uint32_t blocks = 99;

	life_new(life, "a", 8);
	(void)life_last(life, DSR_MSG_LOOKUP);
	life_new(life, "b", 8);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "b", table, 2, 2), 0);
	assert_int_equal(dsr_lifecycle_reset_cache(&life->lc, 5), 0);
	/* One that waits is looked up anew; one that runs has KV of both. */
	assert_int_equal(life_sent_of(life, DSR_MSG_LOOKUP), 3);
	assert_memory_not_equal(&life_last(life, DSR_MSG_LOOKUP)->first_key, &before,
	                        sizeof(before));
	life->on_wait = life_answer_all;
	life->hits = 8;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "b", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 8);
	life_new(life, "c", 8);
	before = life_key(life, "c", 0);
	assert_memory_not_equal(&life_last(life, DSR_MSG_LOOKUP)->first_key, &before,
	                        sizeof(before));
	/* Back at epoch 0 the keys are those of before. */
	assert_int_equal(dsr_lifecycle_reset_cache(&life->lc, 0), 0);
	life_new(life, "d", 8);
	before = life_key(life, "d", 0);
	assert_memory_equal(&life_last(life, DSR_MSG_LOOKUP)->first_key, &before, sizeof(before));
}

static void a_variant_has_keys_of_its_own(void **state)
{
	struct life *life = *state;
	const struct dsr_bin lora = {.p = (const uint8_t *)"lora-1", .n = 6};
	uint8_t hash[DSR_KEY_BYTES] = {0};
	struct dsr_key plain;

	assert_int_equal(
		dsr_lifecycle_new_request(&life->lc, "p", hash, 1, 32, &(struct dsr_bin){0}, 0), 0);
	plain = life_last(life, DSR_MSG_LOOKUP)->first_key;
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "l", hash, 1, 32, &lora, 0), 0);
	assert_memory_not_equal(&life_last(life, DSR_MSG_LOOKUP)->first_key, &plain, sizeof(plain));
}

static void requests_may_skip_loading(void **state)
{
	struct life *life = *state;
	uint8_t hashes[2 * DSR_KEY_BYTES] = {0};
	uint32_t blocks = 99;

	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "a", hashes, 2, 32,
	                                           &(struct dsr_bin){0}, DASER_SKIP_LOAD),
	                 0);
	assert_int_equal(dsr_lifecycle_match(&life->lc, "a", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_LOOKUP), 0);
}

static void bad_requests_are_refused(void **state)
{
	struct life *life = *state;
	const struct dsr_bin none = {0}, wild = {.p = NULL, .n = 4};
	uint8_t hashes[64] = {0};
	char name[16];

	assert_int_equal(dsr_lifecycle_new_request(&life->lc, NULL, hashes, 1, 32, &none, 0),
	                 -EINVAL);
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "", hashes, 1, 32, &none, 0),
	                 -EINVAL);
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "a", NULL, 1, 32, &none, 0), -EINVAL);
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "a", hashes, 1, 33, &none, 0),
	                 -EINVAL);
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "a", hashes, 1, 0, &none, 0),
	                 -EINVAL);
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "a", hashes, 1, 32, &wild, 0),
	                 -EINVAL);
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "a", hashes, 1, 32, &none, 8),
	                 -EINVAL);
	assert_int_equal(dsr_lifecycle_extend(&life->lc, "a", hashes, 1, 32), -ENOENT);
	life_new(life, "a", 1);
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "a", hashes, 1, 32, &none, 0),
	                 -EEXIST);
	for (int i = 0; i < 63; i++) {
		(void)snprintf(name, sizeof(name), "r%d", i);
		life_new(life, name, 1);
	}
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "r64", hashes, 1, 32, &none, 0),
	                 -EAGAIN);
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, life_open, life_close)
#define TWO(name) cmocka_unit_test_setup_teardown(name, life_open_two, life_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(a_lookup_goes_out_with_the_request),
		ONE(match_waits_once_and_no_longer_than_it_may),
		ONE(match_says_again_three_times_and_then_none),
		ONE(a_hit_is_leased_before_it_is_promised),
		ONE(a_lease_may_be_shorter_than_the_lookup),
		ONE(an_empty_lease_is_no_promise_and_needs_no_release),
		ONE(another_local_hit_takes_another_lease),
		ONE(an_expired_lease_is_not_promised),
		ONE(an_old_answer_is_asked_for_again),
		ONE(a_busy_service_is_asked_again_by_the_next_steps),
		ONE(an_engine_without_service_has_no_hits),
		ONE(the_load_goes_into_the_metadata_once),
		ONE(more_than_promised_is_refused),
		ONE(fewer_than_promised_release_the_rest),
		ONE(none_of_the_promised_releases_all),
		TWO(a_load_ends_when_every_rank_said_so),
		TWO(a_rank_counts_once),
		ONE(blocks_from_the_first_failed_one_on_are_not_promised_again),
		ONE(a_request_may_end_while_it_loads),
		ONE(the_end_of_a_request_ends_its_lease),
		ONE(a_lease_of_a_dead_scheduler_is_loaded_but_not_promised),
		ONE(the_lease_of_a_long_load_is_renewed),
		ONE(a_full_queue_keeps_the_order),
		ONE(a_weight_epoch_changes_every_key),
		ONE(a_variant_has_keys_of_its_own),
		ONE(requests_may_skip_loading),
		ONE(bad_requests_are_refused),
	};

	return cmocka_run_group_tests_name("native lifecycle, loads", tests, NULL, NULL);
}

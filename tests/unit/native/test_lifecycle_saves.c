/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations and saves, at the scheduler object. */
#include "life.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t table[] = {30, 31, 32, 33, 34, 35, 36, 37};

#define TOLD(reason) (DSR_RESULT_DROPPED | DSR_REASON_##reason)
#define UNTOLD(reason) (DSR_RESULT_UNTOLD | DSR_REASON_##reason)

static void the_first_reservation_covers_all_and_the_next_the_rest(void **state)
{
	struct life *life = *state;
	struct dsr_key parent = life_key(life, "a", 2);

	life_new(life, "a", 6);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 4, 3), 0);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->keys, 3);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->depth, 0);
	assert_false(life_last(life, DSR_MSG_RESERVE)->has_parent);
	/* The same again, and one more: only that is asked for. */
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 4, 3), 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_RESERVE), 1);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 5, 5), 0);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->keys, 2);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->depth, 3);
	assert_memory_equal(&life_last(life, DSR_MSG_RESERVE)->parent, &parent, sizeof(parent));
	/* Blocks without a hash are not asked for. */
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 8, 8), 0);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->keys, 1);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 8, 8), 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_RESERVE), 3);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 3, 8), -EINVAL);
}

static void more_hashes_are_saved_later(void **state)
{
	struct life *life = *state;
	uint8_t hash[DSR_KEY_BYTES] = {9};

	life_new(life, "a", 1);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	assert_int_equal(dsr_lifecycle_extend(&life->lc, "a", hash, 1, 32), 0);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->keys, 1);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->depth, 1);
}

static void a_save_goes_out_with_the_metadata_behind_its_answer(void **state)
{
	struct life *life = *state;
	const int32_t statuses[] = {-EEXIST, 0, 0, -EBUSY, -ENOSPC, -ENOENT};
	struct dsr_key key = life_key(life, "a", 1), got;
	struct dsr_meta_job job;
	struct dsr_meta meta;

	life_new(life, "a", 6);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 6, 6), 0);
	assert_int_equal(life_meta(life).save_count, 0);
	assert_int_equal(dsr_lifecycle_pending(&life->lc), 1);
	life_reserve(life, statuses);
	meta = life_meta(life);
	assert_int_equal(meta.save_count, 1);
	job = dsr_meta_next_job(&meta.saves);
	assert_int_equal(job.id, life_last(life, DSR_MSG_RESERVE)->id);
	assert_int_equal(job.scheduler, LIFE_SCHEDULER);
	assert_int_equal(job.count, 2);
	dsr_meta_key(job.keys, 0, &got);
	assert_memory_equal(&got, &key, sizeof(key));
	assert_int_equal(dsr_meta_id(job.ids, 0), table[1]);
	assert_int_equal(dsr_meta_id(job.ids, 1), table[2]);
	assert_int_equal(life_meta(life).save_count, 0);
}

static void every_refusal_has_its_reason(void **state)
{
	struct life *life = *state;
	const int32_t statuses[] = {-EEXIST, 0, -EBUSY, -ENOSPC, -ENOENT, -12345};

	life_new(life, "a", 6);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 6, 6), 0);
	life_reserve(life, statuses);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_DUPLICATE], 1);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_NO_SLOT], 1);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_ORPHAN], 1);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_STALE], 1);
	assert_int_equal(life->counters[DSR_COUNTER_DROP_NO_SLOT], 1);
	assert_int_equal(life->lc.stats.reserved_blocks, 1);
	assert_int_equal(life_events(life, DASER_BLOCK_RESERVED, 0), 1);
}

static void an_event_has_the_hash_that_was_given(void **state)
{
	struct life *life = *state;
	struct daser_block_event event;
	uint8_t hash[20];

	memset(hash, 0x5a, sizeof(hash));
	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "a", hash, 1, sizeof(hash),
	                                           &(struct dsr_bin){0}, 0),
	                 0);
	(void)life_save(life, "a", 1);
	assert_int_equal(dsr_events_take(&life->lc.events, &event, 1), 1);
	assert_int_equal(event.fate, DASER_BLOCK_RESERVED);
	assert_memory_equal(event.hash, hash, sizeof(hash));
	for (size_t i = sizeof(hash); i < sizeof(event.hash); i++)
		assert_int_equal(event.hash[i], 0);
}

static void a_block_is_stored_when_every_rank_stored_it(void **state)
{
	struct life *life = *state;
	struct dsr_meta_job job;

	life_new(life, "a", 4);
	job = life_save(life, "a", 4);
	assert_int_equal(life_report_stored(life, 0, job.id, 4), 0);
	assert_int_equal(life->lc.stats.stored_blocks, 0);
	assert_int_equal(dsr_lifecycle_pending(&life->lc), 1);
	assert_int_equal(life_report_stored(life, 0, job.id, 4), 0); /* a rank counts once */
	assert_int_equal(life->lc.stats.errors, 1);
	assert_int_equal(life_report_stored(life, 1, job.id, 4), 0);
	assert_int_equal(life->lc.stats.stored_blocks, 4);
	assert_int_equal(dsr_lifecycle_pending(&life->lc), 0);
	assert_int_equal(life_events(life, DASER_BLOCK_STORED, 0), 4);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 0);
}

static void one_rank_drops_a_block_for_all(void **state)
{
	struct life *life = *state;
	const uint8_t rank0[] = {0, TOLD(DEADLINE), 0}, rank1[] = {0, 0, TOLD(ACTOR_GONE)};
	struct dsr_meta_job job;

	life_new(life, "a", 3);
	job = life_save(life, "a", 3);
	(void)life_events(life, DASER_BLOCK_RESERVED, 0);
	assert_int_equal(life_report_save(life, 0, job.id, rank0, 3), 0);
	assert_int_equal(life_report_save(life, 1, job.id, rank1, 3), 0);
	assert_int_equal(life->lc.stats.stored_blocks, 1);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_DEADLINE], 1);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_ACTOR_GONE], 1);
	assert_int_equal(life->counters[DSR_COUNTER_DROP_DEADLINE], 1);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 0);
}

static void what_nobody_was_told_of_is_abandoned_once(void **state)
{
	struct life *life = *state;
	const uint8_t results[] = {0, UNTOLD(DETACHED), UNTOLD(DETACHED)};
	struct dsr_meta_job job;

	life_new(life, "a", 3);
	job = life_save(life, "a", 3);
	assert_int_equal(life_report_save(life, 0, job.id, results, 3), 0);
	assert_int_equal(life_last(life, DSR_MSG_ABANDON)->id, job.id);
	assert_int_equal(life_last(life, DSR_MSG_ABANDON)->refs, 2);
	assert_int_equal(life_last(life, DSR_MSG_ABANDON)->reason, DSR_REASON_DETACHED);
	assert_int_equal(life_report_save(life, 1, job.id, results, 3), 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 1);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_DETACHED], 2);
}

static void what_a_store_actor_gave_up_is_counted_and_not_abandoned(void **state)
{
	struct life *life = *state;
	const uint8_t results[] = {DSR_RESULT_DROPPED | DSR_REASON_UNREADABLE};
	struct dsr_meta_job job;

	life_new(life, "a", 1);
	job = life_save(life, "a", 1);
	assert_int_equal(life_report_save(life, 0, job.id, results, 1), 0);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_UNREADABLE], 1);
	assert_int_equal(life->counters[DSR_COUNTER_DROP_UNREADABLE], 1);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 0);
}

static void an_abandon_is_repeated_until_it_is_answered(void **state)
{
	struct life *life = *state;
	const uint8_t results[] = {UNTOLD(DETACHED)};
	struct dsr_meta_job job;
	uint64_t cookie;

	life_new(life, "a", 1);
	job = life_save(life, "a", 1);
	assert_int_equal(life_report_save(life, 0, job.id, results, 1), 0);
	cookie = life_last(life, DSR_MSG_ABANDON)->cookie;
	dsr_lifecycle_on_failed(&life->lc, DSR_MSG_ABANDON, cookie, -ETIMEDOUT);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 2);
	dsr_lifecycle_on_abandon(&life->lc, cookie);
	dsr_lifecycle_on_failed(&life->lc, DSR_MSG_ABANDON, cookie, -ETIMEDOUT);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 2);
}

static void the_end_waits_for_saves_that_are_out(void **state)
{
	struct life *life = *state;
	struct dsr_meta_job job;
	int delay = 9;

	life_new(life, "a", 2);
	job = life_save(life, "a", 2);
	assert_int_equal(dsr_lifecycle_finished(&life->lc, "a", &delay), 0);
	assert_int_equal(delay, 1);
	assert_int_equal(dsr_lifecycle_pending(&life->lc), 1);
	assert_int_equal(life_report_stored(life, 0, job.id, 2), 0);
	assert_int_equal(life->lc.stats.stored_blocks, 2);
	assert_int_equal(dsr_lifecycle_pending(&life->lc), 0);
}

static void the_end_does_not_wait_for_saves_that_are_over(void **state)
{
	struct life *life = *state;
	struct dsr_meta_job job;
	int delay = 9;

	life_new(life, "a", 2);
	job = life_save(life, "a", 2);
	assert_int_equal(life_report_stored(life, 0, job.id, 2), 0);
	assert_int_equal(dsr_lifecycle_finished(&life->lc, "a", &delay), 0);
	assert_int_equal(delay, 0);
}

static void an_answer_in_time_is_saved_after_the_end(void **state)
{
	struct life *life = *state;
	struct dsr_meta meta;
	struct dsr_str name;
	int delay = 9;

	life_new(life, "a", 2);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	(void)life_last(life, DSR_MSG_RESERVE);
	assert_int_equal(dsr_lifecycle_finished(&life->lc, "a", &delay), 0);
	assert_int_equal(delay, 1);
	/* Until then the ranks are told that it may still have something to save. */
	for (int i = 0; i < 3; i++) {
		meta = life_meta(life);
		assert_int_equal(meta.save_count, 0);
		assert_int_equal(meta.waiting_count, 1);
		name = dsr_meta_next_name(&meta.waiting);
		assert_memory_equal(name.p, "a", 1);
	}
	life_reserve_all(life);
	meta = life_meta(life);
	assert_int_equal(meta.waiting_count, 0);
	assert_int_equal(meta.save_count, 1);
}

static void an_answer_a_second_after_the_end_is_abandoned(void **state)
{
	struct life *life = *state;
	int delay = 9;

	life_new(life, "a", 2);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	(void)life_last(life, DSR_MSG_RESERVE);
	assert_int_equal(dsr_lifecycle_finished(&life->lc, "a", &delay), 0);
	assert_int_equal(delay, 1);
	life->now_ns += UINT64_C(1000000000);
	assert_int_equal(life_meta(life).waiting_count, 0);
	life_reserve_all(life);
	assert_int_equal(life_meta(life).save_count, 0);
	assert_int_equal(life_last(life, DSR_MSG_ABANDON)->refs, 0); /* all of it */
	assert_int_equal(life->lc.stats.drops[DSR_REASON_DEADLINE], 2);
	assert_int_equal(dsr_lifecycle_pending(&life->lc), 0);
}

static void preemption_gives_up_what_no_rank_knows(void **state)
{
	struct life *life = *state;
	const uint32_t ids[] = {40, 41, 42};
	int delay = 9;

	life_new(life, "a", 3);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 1, 1), 0);
	life_reserve_all(life); /* granted, not in a metadata yet */
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	(void)life_last(life, DSR_MSG_RESERVE); /* sent, not answered */
	assert_int_equal(dsr_lifecycle_preempted(&life->lc, "a"), 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 1);
	life_reserve_all(life);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 2);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_PREEMPTED], 2);
	assert_int_equal(life_meta(life).save_count, 0);
	/* Resumed, it is looked up and saved from its start. */
	assert_int_equal(life_sent_of(life, DSR_MSG_LOOKUP), 2);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", ids, 3, 3), 0);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->keys, 3);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->depth, 0);
	assert_int_equal(dsr_lifecycle_finished(&life->lc, "a", &delay), 0);
	assert_int_equal(delay, 1);
}

static void preemption_is_told_to_ranks_that_have_saves(void **state)
{
	struct life *life = *state;
	const uint8_t results[] = {0, TOLD(PREEMPTED), TOLD(PREEMPTED)};
	struct dsr_meta_job job;
	struct dsr_meta meta;
	struct dsr_str name;

	life_new(life, "a", 4);
	life_new(life, "b", 4);
	job = life_save(life, "a", 3);
	assert_int_equal(dsr_lifecycle_preempted(&life->lc, "b"), 0);
	assert_int_equal(dsr_lifecycle_preempted(&life->lc, "a"), 0);
	meta = life_meta(life);
	assert_int_equal(meta.preempted_count, 1);
	name = dsr_meta_next_name(&meta.preempted);
	assert_memory_equal(name.p, "a", 1);
	assert_int_equal(life_meta(life).preempted_count, 0);
	/* The cursor stays behind what is being stored, and goes back to what was dropped. */
	assert_int_equal(life_report_save(life, 0, job.id, results, 3), 0);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 4, 4), 0);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->depth, 1);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->keys, 3);
}

static void blocks_that_change_hands_are_named_while_saves_are_out(void **state)
{
	struct life *life = *state;
	const uint32_t grown[] = {50, 51, 52};
	struct dsr_meta_taken taken;
	struct dsr_meta_job job;
	struct dsr_meta meta;

	life_new(life, "a", 2);
	life_new(life, "b", 2);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "b", grown, 2, 0, 0), 0);
	assert_int_equal(life_meta(life).taken_count, 0); /* nothing reads anything */
	job = life_save(life, "a", 2);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "b", grown, 3, 0), 0);
	meta = life_meta(life);
	assert_int_equal(meta.taken_count, 1);
	taken = dsr_meta_next_taken(&meta.taken);
	assert_memory_equal(taken.request.p, "b", 1);
	assert_int_equal(taken.count, 1);
	assert_int_equal(dsr_meta_id(taken.ids, 0), 52);
	/* Blocks with content that it shares with others are not written. */
	life_new(life, "c", 2);
	assert_int_equal(dsr_lifecycle_allocated(&life->lc, "c", grown, 3, 2, 0), 0);
	meta = life_meta(life);
	assert_int_equal(meta.taken_count, 1);
	assert_int_equal(dsr_meta_next_taken(&meta.taken).count, 1);
	assert_int_equal(life_report_stored(life, 0, job.id, 2), 0);
}

static void the_end_of_a_loading_request_frees_its_older_saves(void **state)
{
	struct life *life = *state;
	struct dsr_meta meta;
	int delay = 9;

	life_new(life, "a", 8);
	(void)life_save(life, "a", 2);
	assert_int_equal(dsr_lifecycle_preempted(&life->lc, "a"), 0);
	(void)life_load(life, "a", 0, 4);
	assert_int_equal(dsr_lifecycle_finished(&life->lc, "a", &delay), 0);
	assert_int_equal(delay, 0);
	meta = life_meta(life);
	assert_int_equal(meta.freed_count, 1);
}

static void saves_may_be_skipped(void **state)
{
	struct life *life = *state;
	uint8_t hash[32] = {1};

	assert_int_equal(dsr_lifecycle_new_request(&life->lc, "a", hash, 1, 32,
	                                           &(struct dsr_bin){0}, DASER_SKIP_SAVE),
	                 0);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 1, 1), 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_RESERVE), 0);
}

static void outputs_that_are_not_ours_are_ignored_and_the_others_taken(void **state)
{
	struct life *life = *state;
	const void *outputs[2];
	struct dsr_meta_job job;
	size_t lengths[2];
	uint8_t results[] = {0};

	life_new(life, "a", 1);
	job = life_save(life, "a", 1);
	outputs[0] = "not msgpack";
	lengths[0] = 11;
	dsr_output_write_head(life->pack, "engine-0", 1, 2);
	dsr_output_write_count(life->pack, 0);
	dsr_output_write_count(life->pack, 1);
	dsr_output_write_save(life->pack, life->lc.options.incarnation, job.id, results, 1);
	assert_int_equal(dsr_pack_result(life->pack, &outputs[1], &lengths[1]), 0);
	assert_int_equal(dsr_lifecycle_update(&life->lc, outputs, lengths, 2), -EBADMSG);
	assert_int_equal(life->lc.issued.first->ended, 1);
	/* Of another rank, of another engine, of an earlier scheduler object. */
	outputs[0] = outputs[1];
	lengths[0] = lengths[1];
	assert_int_equal(dsr_lifecycle_update(&life->lc, outputs, lengths, 1), -EBADMSG);
	dsr_output_write_head(life->pack, "engine-1", 0, 2);
	dsr_output_write_count(life->pack, 0);
	dsr_output_write_count(life->pack, 0);
	assert_int_equal(dsr_pack_result(life->pack, &outputs[0], &lengths[0]), 0);
	assert_int_equal(dsr_lifecycle_update(&life->lc, outputs, lengths, 1), -EBADMSG);
	dsr_output_write_head(life->pack, "engine-0", 0, 2);
	dsr_output_write_count(life->pack, 0);
	dsr_output_write_count(life->pack, 1);
	dsr_output_write_save(life->pack, life->lc.options.incarnation - 1, job.id, results, 1);
	assert_int_equal(dsr_pack_result(life->pack, &outputs[0], &lengths[0]), 0);
	assert_int_equal(dsr_lifecycle_update(&life->lc, outputs, lengths, 1), 0);
	assert_int_equal(life->lc.issued.first->ended, 1);
	assert_int_equal(life->lc.stats.errors, 3);
}

static void events_that_nobody_takes_are_counted(void **state)
{
	struct life *life = *state;
	uint32_t *ids = calloc(DSR_EVENTS_MAX + 10, sizeof(*ids));

	assert_non_null(ids);
	life_new(life, "a", DSR_EVENTS_MAX + 10);
	dsr_lifecycle_detached(&life->lc);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", ids, DSR_EVENTS_MAX + 10,
	                                         DSR_EVENTS_MAX + 10),
	                 0);
	assert_int_equal(life->lc.stats.errors, 10);
	assert_int_equal(life_events(life, DASER_BLOCK_DROPPED, DSR_REASON_DETACHED),
	                 DSR_EVENTS_MAX);
	free(ids);
}

static int open_many(void **state)
{
	return life_open_world(state, 64);
}

static void sixty_four_ranks_end_a_load_and_a_save(void **state)
{
	struct life *life = *state;
	struct dsr_meta_job job;
	uint64_t id;

	life_new(life, "a", 8);
	life_new(life, "b", 8);
	id = life_load(life, "a", 0, 8);
	job = life_save(life, "b", 8);
	for (uint32_t rank = 0; rank < 64; rank++) {
		uint32_t bad = rank % 3;

		assert_int_equal(life->lc.stats.loads, 0);
		assert_int_equal(life->lc.stats.stored_blocks, 0);
		assert_int_equal(life_report_load(life, rank, id, 8, &bad, 1), 0);
		assert_int_equal(life_report_stored(life, rank, job.id, 8), 0);
	}
	assert_int_equal(life->lc.stats.loads, 1);
	assert_int_equal(life->lc.stats.l1_hits, 5);
	assert_int_equal(life->lc.stats.stored_blocks, 8);
	assert_int_equal(life->lc.stats.errors, 0);
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, life_open, life_close)
#define TWO(name) cmocka_unit_test_setup_teardown(name, life_open_two, life_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(the_first_reservation_covers_all_and_the_next_the_rest),
		ONE(more_hashes_are_saved_later),
		ONE(a_save_goes_out_with_the_metadata_behind_its_answer),
		ONE(every_refusal_has_its_reason),
		ONE(an_event_has_the_hash_that_was_given),
		TWO(a_block_is_stored_when_every_rank_stored_it),
		TWO(one_rank_drops_a_block_for_all),
		TWO(what_nobody_was_told_of_is_abandoned_once),
		ONE(what_a_store_actor_gave_up_is_counted_and_not_abandoned),
		ONE(an_abandon_is_repeated_until_it_is_answered),
		ONE(the_end_waits_for_saves_that_are_out),
		ONE(the_end_does_not_wait_for_saves_that_are_over),
		ONE(an_answer_in_time_is_saved_after_the_end),
		ONE(an_answer_a_second_after_the_end_is_abandoned),
		ONE(preemption_gives_up_what_no_rank_knows),
		ONE(preemption_is_told_to_ranks_that_have_saves),
		ONE(blocks_that_change_hands_are_named_while_saves_are_out),
		ONE(the_end_of_a_loading_request_frees_its_older_saves),
		ONE(saves_may_be_skipped),
		TWO(outputs_that_are_not_ours_are_ignored_and_the_others_taken),
		ONE(events_that_nobody_takes_are_counted),
		cmocka_unit_test_setup_teardown(sixty_four_ranks_end_a_load_and_a_save, open_many,
	                                        life_close),
	};

	return cmocka_run_group_tests_name("native lifecycle, saves", tests, NULL, NULL);
}

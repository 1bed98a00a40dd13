/* SPDX-License-Identifier: Apache-2.0 */
#include "reservations.h"

#include <errno.h>
#include <string.h>

#include "rig.h"

static struct dsr_key keys[RIG_KEYS]; /* of blocks 0, 1, 2, ... */
static const uint64_t no_lanes[DSR_RESERVATION_OWNERS];

static int setup(void **state)
{
	static struct rig rig;

	rig_open(&rig, 16, 2);
	rig_chain(keys, 0, RIG_KEYS);
	*state = &rig;
	return 0;
}

static int teardown(void **state)
{
	struct rig *rig = *state;

	rig_check(rig);
	rig_close(rig);
	return 0;
}

static uint32_t report_abort(struct rig *rig, uint64_t id, uint32_t first, uint32_t count,
                             uint32_t except)
{
	struct dsr_lane_report report = {
		.owner = RIG_INCARNATION,
		.id = id,
		.refs = rig->refs + first,
		.count = count,
	};
	uint32_t aborted = dsr_reservations_abort(rig->reservations, &report, except);

	dsr_reservations_flush(rig->reservations);
	return aborted;
}

static void absent_blocks_are_reserved_and_others_are_told_why_not(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 2);
	assert_int_equal(rig_reserve(rig, 2, &keys[2], 2, &keys[1], 2, 1), 0);
	assert_int_equal(rig->got, 2);
	assert_int_equal(rig_reserve(rig, 3, keys, 6, NULL, 0, 1), 0);
	assert_int_equal(rig->status[0], -EEXIST);
	assert_int_equal(rig->status[1], -EEXIST);
	assert_int_equal(rig->status[2], -EBUSY);
	assert_int_equal(rig->status[3], -EBUSY);
	assert_int_equal(rig->status[4], 0);
	assert_int_equal(rig->status[5], 0);
	assert_int_equal(rig->got, 2);
	assert_int_equal(rig->refs[0].entry, dsr_cache_find(rig->cache, &keys[4]));
	assert_int_equal(dsr_cache_parent(rig->cache, rig->refs[0].entry),
	                 dsr_cache_find(rig->cache, &keys[3]));
	assert_int_equal(rig_counter(rig, DSR_COUNTER_BLOCKS_RESERVED), 6);
}

static void blocks_reserved_together_lie_together(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 16);
	/* All evicted, the deepest first; slots ascend all the same. */
	assert_int_equal(rig_reserve(rig, 2, &keys[100], 16, NULL, 0, 1), 0);
	assert_int_equal(rig->got, 16);
	for (uint32_t i = 1; i < 16; i++) {
		assert_int_equal(rig->refs[i].slot, rig->refs[i - 1].slot + 1);
		assert_int_equal(rig->refs[i].generation, rig->refs[i - 1].generation + 1);
		assert_int_equal(rig->refs[i].slot_seq, rig->refs[i - 1].slot_seq + 1);
	}
}

static void a_parent_that_is_not_there_makes_everything_unreachable(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 5, 1);
	assert_int_equal(rig_reserve(rig, 2, &keys[4], 3, &keys[3], 4, 1), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rig->status[i], -ENOENT);
	assert_int_equal(rig->got, 0);
}

static void a_full_cache_gives_what_it_can_and_never_a_block_after_a_gap(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_reserve(rig, 1, keys, 10, NULL, 0, 1), 0);
	assert_int_equal(rig_reserve(rig, 2, &keys[100], 8, NULL, 0, 1), 0);
	assert_int_equal(rig->got, 6);
	assert_int_equal(rig->status[5], 0);
	assert_int_equal(rig->status[6], -ENOSPC);
	assert_int_equal(rig->status[7], -ENOSPC);
}

static void the_own_chain_is_not_evicted_for_its_continuation(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 16);
	assert_int_equal(rig_reserve(rig, 2, keys, 18, NULL, 0, 1), 0);
	assert_int_equal(rig->status[15], -EEXIST);
	assert_int_equal(rig->status[16], -ENOSPC);
	assert_int_equal(rig_reserve(rig, 3, &keys[16], 1, &keys[15], 16, 1), 0);
	assert_int_equal(rig->status[0], -ENOSPC);
	assert_int_equal(rig_counts(rig).visible, 16);
	/* Once nothing of it is asked for, it goes. */
	assert_int_equal(rig_reserve(rig, 4, &keys[100], 1, NULL, 0, 1), 0);
	assert_int_equal(rig->status[0], 0);
	assert_int_equal(rig_state(rig, 15), DSR_ENTRY_FREE);
}

static void nothing_is_reserved_behind_a_block_that_is_being_aborted(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 1);
	assert_int_equal(rig_reserve(rig, 2, &keys[1], 1, &keys[0], 1, 1), 0);
	assert_int_equal(report_abort(rig, 2, 0, 1, 0), 1);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_ABORTING);
	assert_int_equal(rig_reserve(rig, 3, keys, 3, NULL, 0, 1), 0);
	assert_int_equal(rig->status[0], -EEXIST);
	assert_int_equal(rig->status[1], -EBUSY);
	assert_int_equal(rig->status[2], -ENOENT);
	assert_int_equal(rig_reserve(rig, 4, &keys[2], 1, &keys[1], 2, 1), 0);
	assert_int_equal(rig->status[0], -ENOENT);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_reserve(rig, 5, keys, 3, NULL, 0, 1), 0);
	assert_int_equal(rig->got, 2);
}

static void a_key_named_twice_is_reserved_once(void **state)
{
	struct rig *rig = *state;
	struct dsr_key twice[3] = {keys[0], keys[0], keys[1]};

	assert_int_equal(rig_reserve(rig, 1, twice, 3, NULL, 0, 1), 0);
	assert_int_equal(rig->status[0], 0);
	assert_int_equal(rig->status[1], -EBUSY);
	assert_int_equal(rig->status[2], 0);
	assert_int_equal(rig->got, 2);
}

static void a_repeat_gives_the_same_answer_and_reserves_nothing(void **state)
{
	struct rig *rig = *state;
	struct dsr_ref first[3];

	assert_int_equal(rig_reserve(rig, 5, keys, 3, NULL, 0, 1), 0);
	memcpy(first, rig->refs, sizeof(first));
	(void)rig_commit(rig, 5, 0, 0, 3);
	assert_int_equal(rig_reserve(rig, 5, keys, 3, NULL, 0, 1), 0);
	assert_int_equal(rig->got, 3);
	assert_memory_equal(first, rig->refs, sizeof(first));
	assert_int_equal(rig_counts(rig).reserved, 3);
	/* Also when it is done. */
	assert_int_equal(rig_commit(rig, 5, 1, 0, 3), 3);
	assert_int_equal(dsr_reservations_live(rig->reservations), 0);
	assert_int_equal(rig_reserve(rig, 5, keys, 3, NULL, 0, 1), 0);
	assert_memory_equal(first, rig->refs, sizeof(first));
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rig->status[i], 0);
}

static void a_repeat_with_other_keys_or_an_old_id_is_refused(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 10, 0, 1);
	assert_int_equal(rig_reserve(rig, 10, keys, 2, NULL, 0, 1), -EINVAL);
	assert_int_equal(rig_reserve(rig, 10, &keys[1], 1, NULL, 0, 1), -EINVAL);
	assert_int_equal(rig_reserve(rig, 10, keys, 1, NULL, 1, 1), -EINVAL);
	assert_int_equal(rig_reserve(rig, 9, keys, 1, NULL, 0, 1), -ESTALE);
	/* Four done ones are kept. */
	for (uint64_t id = 11; id < 15; id++)
		rig_store(rig, id, id, 1);
	assert_int_equal(rig_reserve(rig, 11, &keys[11], 1, NULL, 0, 1), 0);
	assert_int_equal(rig_reserve(rig, 10, keys, 1, NULL, 0, 1), -ESTALE);
}

static void one_lane_aborting_while_another_commits_aborts_the_block(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_reserve(rig, 1, keys, 3, NULL, 0, 3), 0);
	assert_int_equal(rig_commit(rig, 1, 0, 0, 3), 0);
	/* Lane 1, on device 1, gives up block 1, and with it block 2. */
	assert_int_equal(report_abort(rig, 1, 1, 1, 2), 2);
	assert_int_equal(rig_commit(rig, 1, 1, 0, 3), 1);
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_VISIBLE);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_ABORTING);
	assert_int_equal(rig_state(rig, 2), DSR_ENTRY_ABORTING);
	assert_int_equal(dsr_reservations_live(rig->reservations), 1);
	/* Block 2 was aborted by nobody's own report: device 1 is asked as well. */
	assert_int_equal(rig->cancel_count, 2);
	assert_int_equal(rig->cancels[0].count, 2);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_ABORTING);
	assert_true(rig_answer(rig, 1));
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_FREE);
	assert_int_equal(dsr_reservations_live(rig->reservations), 0);
	assert_int_equal(rig_counter(rig, DSR_COUNTER_BLOCKS_ABORTED), 2);
	assert_int_equal(rig_counter(rig, DSR_COUNTER_BLOCKS_COMMITTED), 1);
}

static void the_only_writer_need_not_be_asked_about_its_own_abort(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_reserve(rig, 1, keys, 1, NULL, 0, 1), 0);
	assert_int_equal(report_abort(rig, 1, 0, 1, 1), 1);
	assert_int_equal(rig->cancel_count, 0);
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_FREE);
}

static void repeats_and_late_reports_change_nothing(void **state)
{
	struct rig *rig = *state;
	struct dsr_lane_report report = {
		.owner = RIG_INCARNATION, .id = 1, .lane = 1, .refs = rig->refs, .count = 2};
	uint32_t committed, visible;

	assert_int_equal(rig_reserve(rig, 1, keys, 2, NULL, 0, 1), 0);
	(void)rig_commit(rig, 1, 0, 0, 2);
	dsr_reservations_commit(rig->reservations, &report, &committed, &visible);
	assert_int_equal(committed, 2);
	assert_int_equal(visible, 2);
	dsr_reservations_commit(rig->reservations, &report, &committed, &visible);
	assert_int_equal(committed, 0);
	assert_int_equal(visible, 0);
	assert_int_equal(report_abort(rig, 1, 0, 2, 0), 0);
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_VISIBLE);
	/* Another reservation's block, another engine's, another lane than there is. */
	assert_int_equal(rig_reserve(rig, 2, &keys[5], 1, NULL, 0, 1), 0);
	report.count = 1;
	dsr_reservations_commit(rig->reservations, &report, &committed, &visible);
	assert_int_equal(committed, 0);
	report.id = 2;
	report.owner = 5;
	dsr_reservations_commit(rig->reservations, &report, &committed, &visible);
	assert_int_equal(committed, 0);
	report.owner = RIG_INCARNATION;
	report.lane = 2;
	dsr_reservations_commit(rig->reservations, &report, &committed, &visible);
	assert_int_equal(committed, 0);
	report.lane = UINT32_MAX;
	dsr_reservations_commit(rig->reservations, &report, &committed, &visible);
	assert_int_equal(committed, 0);
	/* A commit after its abort is stale. */
	assert_int_equal(report_abort(rig, 2, 0, 1, 0), 1);
	report.lane = 1;
	dsr_reservations_commit(rig->reservations, &report, &committed, &visible);
	assert_int_equal(committed, 0);
	assert_int_equal(rig_state(rig, 5), DSR_ENTRY_ABORTING);
}

static void abandoning_gives_up_named_blocks_or_all(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_reserve(rig, 1, keys, 4, NULL, 0, 1), 0);
	assert_int_equal(
		dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, &rig->refs[3], 1), 0);
	dsr_reservations_flush(rig->reservations);
	assert_int_equal(rig_state(rig, 3), DSR_ENTRY_ABORTING);
	assert_int_equal(rig_state(rig, 2), DSR_ENTRY_RESERVED);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, NULL, 0), 0);
	dsr_reservations_flush(rig->reservations);
	assert_int_equal(rig_counts(rig).aborting, 4);
	/* One CANCEL is under way at a time, the next one takes what came meanwhile. */
	assert_int_equal(rig->cancel_count, 1);
	assert_int_equal(rig->cancels[0].count, 1);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig->cancels[0].count, 3);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_counts(rig).slots_free, 16);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, NULL, 0), 0);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 2, NULL, 0),
	                 -ENOENT);
}

static void aborting_takes_reserved_descendants_of_other_reservations(void **state)
{
	struct rig *rig = *state;
	struct dsr_key fork[2] = {keys[0], rig_key(50)};

	assert_int_equal(rig_reserve(rig, 1, keys, 2, NULL, 0, 1), 0);
	assert_int_equal(rig_reserve(rig, 2, &keys[2], 2, &keys[1], 2, 2), 0);
	assert_int_equal(rig_reserve(rig, 3, fork, 2, NULL, 0, 4), 0);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, NULL, 0), 0);
	dsr_reservations_flush(rig->reservations);
	assert_int_equal(rig_counts(rig).aborting, 5);
	assert_int_equal(rig->cancel_count, 3);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_counts(rig).aborting, 3);
	assert_true(rig_answer(rig, 1));
	assert_true(rig_answer(rig, 2));
	assert_int_equal(rig_counts(rig).slots_free, 16);
	assert_int_equal(dsr_reservations_live(rig->reservations), 0);
}

static void a_dead_store_actor_aborts_what_lacks_its_lanes(void **state)
{
	struct rig *rig = *state;
	uint64_t lanes[DSR_RESERVATION_OWNERS] = {[RIG_OWNER] = 2};

	/* Devices 0 and 1 write lanes 0 and 1. */
	assert_int_equal(rig_reserve(rig, 1, keys, 4, NULL, 0, 3), 0);
	(void)rig_commit(rig, 1, 1, 0, 2);
	assert_int_equal(dsr_reservations_device_dead(rig->reservations, 1, lanes), 2);
	dsr_reservations_flush(rig->reservations);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_RESERVED);
	assert_int_equal(rig_state(rig, 2), DSR_ENTRY_ABORTING);
	/* Only the living one is asked. */
	assert_int_equal(rig->cancel_count, 1);
	assert_int_equal(rig->cancels[0].device, 0);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_state(rig, 2), DSR_ENTRY_FREE);
	assert_int_equal(rig_commit(rig, 1, 0, 0, 1), 1);
	/* Its successor writes nothing of this reservation and is not asked either. */
	assert_int_equal(report_abort(rig, 1, 1, 1, 1), 1);
	assert_int_equal(rig->cancel_count, 0);
	assert_int_equal(dsr_reservations_live(rig->reservations), 0);
}

static void a_dead_store_actor_counts_as_answered(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_reserve(rig, 1, keys, 2, NULL, 0, 3), 0);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, NULL, 0), 0);
	dsr_reservations_flush(rig->reservations);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_ABORTING);
	(void)dsr_reservations_device_dead(rig->reservations, 1, no_lanes);
	dsr_reservations_flush(rig->reservations);
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_FREE);
	/* Its answer, should one have been under way, is of no effect. */
	assert_true(rig_answer(rig, 1));
}

static void a_store_actor_that_is_not_there_is_not_waited_for(void **state)
{
	struct rig *rig = *state;

	rig->dead = 1;
	assert_int_equal(rig_reserve(rig, 1, keys, 2, NULL, 0, 1), 0);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, NULL, 0), 0);
	dsr_reservations_flush(rig->reservations);
	assert_int_equal(rig_counts(rig).slots_free, 16);
}

static void a_cancel_that_was_not_taken_or_answered_is_sent_again(void **state)
{
	struct rig *rig = *state;
	uint64_t cookie;

	rig->refuse = 1;
	assert_int_equal(rig_reserve(rig, 1, keys, 2, NULL, 0, 1), 0);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, NULL, 0), 0);
	dsr_reservations_flush(rig->reservations);
	dsr_reservations_retry(rig->reservations);
	assert_int_equal(rig->cancel_count, 0);
	rig->refuse = 0;
	dsr_reservations_retry(rig->reservations);
	assert_int_equal(rig->cancel_count, 1);
	dsr_reservations_retry(rig->reservations);
	assert_int_equal(rig->cancel_count, 1);
	cookie = rig->cancels[0].cookie;
	dsr_reservations_unanswered(rig->reservations, cookie, 0);
	dsr_reservations_retry(rig->reservations);
	assert_int_equal(rig->cancel_count, 2);
	assert_int_equal(rig->cancels[1].cookie, cookie);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_counts(rig).slots_free, 16);
	assert_true(rig_answer(rig, 0)); /* of no effect */
}

static void answers_that_belong_to_nothing_are_ignored(void **state)
{
	struct rig *rig = *state;
	uint64_t cookie;

	assert_int_equal(rig_reserve(rig, 1, keys, 2, NULL, 0, 3), 0);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, NULL, 0), 0);
	dsr_reservations_flush(rig->reservations);
	cookie = rig->cancels[0].cookie;
	dsr_reservations_answered(rig->reservations, cookie + 1, 0);
	dsr_reservations_answered(rig->reservations, cookie + (UINT64_C(5) << 32), 0);
	dsr_reservations_answered(rig->reservations, cookie, 5);
	dsr_reservations_answered(rig->reservations, cookie, 77);
	dsr_reservations_answered(rig->reservations, UINT64_MAX, 0);
	dsr_reservations_flush(rig->reservations);
	assert_int_equal(rig_counts(rig).aborting, 2);
	assert_true(rig_answer(rig, 0));
	assert_true(rig_answer(rig, 1));
	assert_int_equal(rig_counts(rig).aborting, 0);
}

/* Two CANCELs of one batch are under way; the answer to the second is none for the next batch. */
static void a_late_answer_to_an_older_cancel_is_ignored(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_reserve(rig, 1, keys, 2, NULL, 0, 1), 0);
	assert_int_equal(report_abort(rig, 1, 1, 1, 0), 1);
	dsr_reservations_unanswered(rig->reservations, rig->cancels[0].cookie, 0);
	dsr_reservations_retry(rig->reservations);
	assert_int_equal(report_abort(rig, 1, 0, 1, 0), 1);
	assert_int_equal(rig->cancel_count, 2);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_counts(rig).aborting, 1);
	assert_int_equal(rig->cancel_count, 2);
	assert_true(rig_answer(rig, 0)); /* the late one */
	assert_int_equal(rig_counts(rig).aborting, 1);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_counts(rig).aborting, 0);
}

static void a_dead_engine_loses_what_is_not_visible(void **state)
{
	struct rig *rig = *state;

	rig_store(rig, 1, 0, 2);
	assert_int_equal(rig_reserve(rig, 2, &keys[2], 3, &keys[1], 2, 1), 0);
	dsr_reservations_owner_end(rig->reservations, RIG_OWNER);
	dsr_reservations_flush(rig->reservations);
	assert_int_equal(rig_counts(rig).visible, 2);
	assert_int_equal(rig_counts(rig).aborting, 3);
	/* Another process under the same number begins anew, with the slots still waiting. */
	dsr_reservations_owner_begin(rig->reservations, RIG_OWNER, 2002);
	assert_int_equal(rig_reserve(rig, 1, keys, 3, NULL, 0, 1), 0);
	assert_int_equal(rig->status[2], -EBUSY);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_counts(rig).slots_free, 14);
	assert_int_equal(dsr_reservations_live(rig->reservations), 0);
}

static void a_dead_worker_aborts_what_lacks_its_lane(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_reserve(rig, 1, keys, 3, NULL, 0, 3), 0);
	(void)rig_commit(rig, 1, 1, 0, 1);
	assert_int_equal(dsr_reservations_lanes_dead(rig->reservations, RIG_OWNER, 2), 2);
	dsr_reservations_flush(rig->reservations);
	/* Its store actor may still be copying, so both are asked. */
	assert_int_equal(rig->cancel_count, 2);
	assert_int_equal(rig_state(rig, 0), DSR_ENTRY_RESERVED);
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_ABORTING);
	assert_int_equal(dsr_reservations_lanes_dead(rig->reservations, 2, 2), 0);
}

/* Another engine may have committed a child first. */
static void a_visible_child_of_an_aborted_block_waits_for_its_parent(void **state)
{
	struct rig *rig = *state;
	struct dsr_ref child;

	assert_int_equal(rig_reserve(rig, 1, keys, 1, NULL, 0, 1), 0);
	assert_int_equal(rig_reserve(rig, 2, &keys[1], 1, &keys[0], 1, 1), 0);
	child = rig->refs[0];
	(void)rig_commit(rig, 2, 0, 0, 1);
	assert_int_equal(rig_commit(rig, 2, 1, 0, 1), 1);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, NULL, 0), 0);
	dsr_reservations_flush(rig->reservations);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(rig_state(rig, 1), DSR_ENTRY_VISIBLE);
	assert_int_equal(dsr_cache_prefix(rig->cache, keys, 2, NULL), 0);
	assert_int_equal(rig_reserve(rig, 3, keys, 2, NULL, 0, 1), 0);
	assert_int_equal(rig->status[1], -EEXIST);
	assert_int_equal(dsr_cache_parent(rig->cache, child.entry), rig->refs[0].entry);
	(void)rig_commit(rig, 3, 0, 0, 1);
	assert_int_equal(rig_commit(rig, 3, 1, 0, 1), 1);
	assert_int_equal(dsr_cache_prefix(rig->cache, keys, 2, NULL), 2);
}

static void too_many_live_reservations_are_refused_and_counted(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, 128, 1);
	for (uint64_t id = 1; id <= 64; id++)
		assert_int_equal(rig_reserve(&rig, id, &keys[id], 1, NULL, 0, 1), 0);
	assert_int_equal(rig_reserve(&rig, 65, &keys[65], 1, NULL, 0, 1), -EAGAIN);
	assert_int_equal(rig_counter(&rig, DSR_COUNTER_REFUSED_RESERVATIONS), 1);
	assert_int_equal(rig_reserve(&rig, 64, &keys[64], 1, NULL, 0, 1), 0); /* a repeat is none */
	assert_int_equal(dsr_reservations_abandon(rig.reservations, RIG_OWNER, 7, NULL, 0), 0);
	dsr_reservations_flush(rig.reservations);
	assert_true(rig_answer(&rig, 0));
	assert_int_equal(rig_reserve(&rig, 65, &keys[65], 1, NULL, 0, 1), 0);
	rig_check(&rig);
	rig_close(&rig);
}

static void an_answer_that_was_overwritten_is_stale(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, 512, 1);
	assert_int_equal(rig_reserve(&rig, 1, keys, 400, NULL, 0, 1), 0);
	/* 3,600 bytes each, of 65,536. */
	for (uint64_t id = 2; id < 22; id++)
		assert_int_equal(rig_reserve(&rig, id, keys, 400, NULL, 0, 1), 0);
	assert_int_equal(rig_reserve(&rig, 21, keys, 400, NULL, 0, 1), 0);
	for (uint64_t id = 22; id < 400; id++)
		assert_int_equal(rig_reserve(&rig, id, keys, 400, NULL, 0, 1), 0);
	assert_int_equal(rig_reserve(&rig, 1, keys, 400, NULL, 0, 1), -ESTALE);
	rig_check(&rig);
	rig_close(&rig);
}

static void serials_tell_what_is_left_of_older_ones(void **state)
{
	struct rig *rig = *state;
	uint64_t serial;

	assert_int_equal(dsr_reservations_oldest(rig->reservations), UINT64_MAX);
	assert_int_equal(rig_reserve(rig, 1, keys, 3, NULL, 0, 1), 0);
	serial = dsr_reservations_newest(rig->reservations);
	assert_int_equal(dsr_reservations_oldest(rig->reservations), serial);
	assert_int_equal(rig_reserve(rig, 2, &keys[50], 2, NULL, 0, 1), 0);
	assert_int_equal(dsr_reservations_left(rig->reservations, serial), 3);
	assert_int_equal(dsr_reservations_left(rig->reservations, serial + 1), 5);
	assert_int_equal(dsr_reservations_abandon(rig->reservations, RIG_OWNER, 1, NULL, 0), 0);
	dsr_reservations_flush(rig->reservations);
	assert_int_equal(dsr_reservations_left(rig->reservations, serial), 3);
	assert_true(rig_answer(rig, 0));
	assert_int_equal(dsr_reservations_left(rig->reservations, serial), 0);
	assert_int_equal(dsr_reservations_oldest(rig->reservations), serial + 1);
}

static void a_reservation_of_nothing_is_done_at_once(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_reserve(rig, 1, keys, 0, NULL, 0, 1), 0);
	assert_int_equal(dsr_reservations_live(rig->reservations), 0);
	assert_int_equal(rig_reserve(rig, 2, keys, DSR_RESERVATION_KEYS + 1, NULL, 0, 1), -EINVAL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(absent_blocks_are_reserved_and_others_are_told_why_not),
		T(blocks_reserved_together_lie_together),
		T(a_parent_that_is_not_there_makes_everything_unreachable),
		T(a_full_cache_gives_what_it_can_and_never_a_block_after_a_gap),
		T(the_own_chain_is_not_evicted_for_its_continuation),
		T(nothing_is_reserved_behind_a_block_that_is_being_aborted),
		T(a_key_named_twice_is_reserved_once),
		T(a_repeat_gives_the_same_answer_and_reserves_nothing),
		T(a_repeat_with_other_keys_or_an_old_id_is_refused),
		T(one_lane_aborting_while_another_commits_aborts_the_block),
		T(the_only_writer_need_not_be_asked_about_its_own_abort),
		T(repeats_and_late_reports_change_nothing),
		T(abandoning_gives_up_named_blocks_or_all),
		T(aborting_takes_reserved_descendants_of_other_reservations),
		T(a_dead_store_actor_aborts_what_lacks_its_lanes),
		T(a_dead_store_actor_counts_as_answered),
		T(a_store_actor_that_is_not_there_is_not_waited_for),
		T(a_cancel_that_was_not_taken_or_answered_is_sent_again),
		T(answers_that_belong_to_nothing_are_ignored),
		T(a_late_answer_to_an_older_cancel_is_ignored),
		T(a_dead_engine_loses_what_is_not_visible),
		T(a_dead_worker_aborts_what_lacks_its_lane),
		T(a_visible_child_of_an_aborted_block_waits_for_its_parent),
		T(too_many_live_reservations_are_refused_and_counted),
		T(an_answer_that_was_overwritten_is_stale),
		T(serials_tell_what_is_left_of_older_ones),
		T(a_reservation_of_nothing_is_done_at_once),
	};

	return cmocka_run_group_tests_name("scheduler_reservations", tests, NULL, NULL);
}

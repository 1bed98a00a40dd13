/* SPDX-License-Identifier: Apache-2.0 */
/* A service that goes away, stalls, comes back, or answers nonsense, at the scheduler object. */
#include "life.h"

#include <errno.h>

static const uint32_t table[] = {30, 31, 32, 33};

#define UNTOLD(reason) (DSR_RESULT_UNTOLD | DSR_REASON_##reason)

static void a_request_without_service_is_dropped_and_asked_for_again(void **state)
{
	struct life *life = *state;

	life_new(life, "a", 4);
	dsr_lifecycle_detached(&life->lc);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_DETACHED], 2);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_DETACHED], 2);
	dsr_lifecycle_attached(&life->lc, LIFE_SCHEDULER + 1);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 3, 3), 0);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->keys, 3);
	assert_false(life_last(life, DSR_MSG_RESERVE)->has_parent);
}

static void a_scheduler_takes_its_reservations_with_it(void **state)
{
	struct life *life = *state;
	const uint8_t stale[] = {UNTOLD(STALE)};
	struct dsr_meta_job job;
	uint64_t unanswered;

	life_new(life, "a", 4);
	job = life_save(life, "a", 1);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	life_reserve_all(life); /* granted */
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 3, 3), 0);
	unanswered = life_last(life, DSR_MSG_RESERVE)->cookie;
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 4, 4), 0); /* unsent */
	life->send_error = -EAGAIN;
	dsr_lifecycle_on_failed(&life->lc, DSR_MSG_RESERVE, unanswered, -EOWNERDEAD);
	dsr_lifecycle_detached(&life->lc);
	life->send_error = 0;
	assert_int_equal(life->lc.stats.drops[DSR_REASON_STALE], 1);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_ACTOR_GONE], 1);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_DETACHED], 1);
	dsr_lifecycle_attached(&life->lc, LIFE_SCHEDULER + 1);
	assert_int_equal(life_meta(life).save_count, 0);
	/* Its successor knows nothing of what is left: nothing to abandon there. */
	life->sent_count = 0;
	assert_int_equal(life_report_save(life, 0, job.id, stale, 1), 0);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 0);
	assert_int_equal(dsr_lifecycle_pending(&life->lc), 0);
}

static void a_stalled_scheduler_gets_back_what_it_holds_when_it_goes_on(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 0;

	life_new(life, "a", 4);
	life_new(life, "b", 4);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 1, 1), 0);
	(void)life_last(life, DSR_MSG_RESERVE);
	life->on_wait = life_answer_all;
	life->hits = 4;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "b", 0, &blocks), 0);
	dsr_lifecycle_stalled(&life->lc);
	life->sent_count = 0;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "b", 0, &blocks), 0);
	assert_int_equal(blocks, 0);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_DETACHED], 1);
	assert_int_equal(dsr_lifecycle_preempted(&life->lc, "b"), 0);
	assert_int_equal(dsr_lifecycle_preempted(&life->lc, "a"), 0);
	assert_int_equal(life->sent_count, 0);
	assert_false(dsr_lifecycle_flush(&life->lc));
	assert_int_equal(life->sent_count, 0);
	/* It goes on: the lease, and the reservation that it had already made. */
	dsr_lifecycle_attached(&life->lc, LIFE_SCHEDULER);
	assert_int_equal(life_sent_of(life, DSR_MSG_RELEASE), 1);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 3, 3), 0);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->depth, 0);
}

static void blocks_lost_to_a_stall_are_reserved_again(void **state)
{
	struct life *life = *state;

	life_new(life, "a", 4);
	(void)life_save(life, "a", 1);
	dsr_lifecycle_stalled(&life->lc);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	dsr_lifecycle_attached(&life->lc, LIFE_SCHEDULER);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 3, 3), 0);
	/* Not what is under way still. */
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->depth, 1);
	assert_int_equal(life_last(life, DSR_MSG_RESERVE)->keys, 2);
}

static void an_unanswered_reservation_is_abandoned(void **state)
{
	struct life *life = *state;

	life_new(life, "a", 2);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	dsr_lifecycle_on_failed(&life->lc, DSR_MSG_RESERVE,
	                        life_last(life, DSR_MSG_RESERVE)->cookie, -ETIMEDOUT);
	assert_int_equal(life_last(life, DSR_MSG_ABANDON)->refs, 0);
	assert_int_equal(life->lc.stats.drops[DSR_REASON_DEADLINE], 2);
	life_reserve_all(life); /* late: nobody waits for it */
	assert_int_equal(life_meta(life).save_count, 0);
}

static void an_answer_of_the_wrong_shape_is_no_answer(void **state)
{
	struct life *life = *state;
	const int32_t zero = 0;
	const struct dsr_msg_reserve_reply few = {.status = {.v = &zero, .n = 1}};

	life_new(life, "a", 2);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	dsr_lifecycle_on_reserve(&life->lc, life_last(life, DSR_MSG_RESERVE)->cookie, &few);
	assert_int_equal(life->lc.stats.errors, 1);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 1);
	assert_int_equal(life_meta(life).save_count, 0);
}

static void shutting_leaves_nothing_at_the_service(void **state)
{
	struct life *life = *state;
	uint32_t blocks = 0;

	life_new(life, "a", 4);
	life_new(life, "b", 4);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 1, 1), 0);
	life_reserve_all(life);
	assert_int_equal(dsr_lifecycle_scheduled(&life->lc, "a", table, 2, 2), 0);
	life->on_wait = life_answer_all;
	life->hits = 3;
	assert_int_equal(dsr_lifecycle_match(&life->lc, "b", 0, &blocks), 0);
	dsr_lifecycle_shut(&life->lc);
	assert_int_equal(life_sent_of(life, DSR_MSG_ABANDON), 2);
	assert_int_equal(life_sent_of(life, DSR_MSG_RELEASE), 1);
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, life_open, life_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(a_request_without_service_is_dropped_and_asked_for_again),
		ONE(a_scheduler_takes_its_reservations_with_it),
		ONE(a_stalled_scheduler_gets_back_what_it_holds_when_it_goes_on),
		ONE(blocks_lost_to_a_stall_are_reserved_again),
		ONE(an_unanswered_reservation_is_abandoned),
		ONE(an_answer_of_the_wrong_shape_is_no_answer),
		ONE(shutting_leaves_nothing_at_the_service),
	};

	return cmocka_run_group_tests_name("native lifecycle, service", tests, NULL, NULL);
}

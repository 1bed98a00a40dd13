/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include <string.h>

#include "rig.h"
#include "roles.h"

#define SECOND UINT64_C(1000000000)
#define OWN 7

struct fixture {
	struct dsr_watch watch;
	struct dsr_actor_row rows[DSR_ACTOR_ROWS];
	uint64_t now_ns;
	uint32_t killed;
	uint64_t incarnation;
	char why[128];
};

static int setup(void **state)
{
	static struct fixture f;

	memset(&f, 0, sizeof(f));
	f.now_ns = 1000 * SECOND;
	for (uint32_t i = 0; i < 3; i++) {
		f.rows[i].incarnation = OWN + i;
		f.rows[i].role = DSR_ROLE_LOAD;
		f.rows[i].state = DSR_ACTOR_READY;
		f.rows[i].progress_ns = f.now_ns;
	}
	*state = &f;
	return 0;
}

static void on_kill(void *self, const struct dsr_actor_row *row, uint64_t incarnation,
                    const char *why)
{
	struct fixture *f = self;

	assert_int_equal(row->incarnation, incarnation);
	f->killed++;
	f->incarnation = incarnation;
	strncpy(f->why, why, sizeof(f->why) - 1);
}

static void look(struct fixture *f, uint32_t seconds, uint32_t progressing)
{
	for (uint32_t s = 0; s < seconds; s++) {
		f->now_ns += SECOND;
		for (uint32_t i = 0; i < 3; i++)
			if ((progressing >> i & 1) != 0)
				f->rows[i].progress_ns = f->now_ns;
		dsr_watch_look(&f->watch, f->rows, OWN, f->now_ns, on_kill, f);
	}
}

static void actors_that_make_progress_are_left_alone(void **state)
{
	struct fixture *f = *state;

	look(f, 100, 7);
	assert_int_equal(f->killed, 0);
}

static void an_actor_without_progress_for_ten_seconds_is_killed_once(void **state)
{
	struct fixture *f = *state;

	look(f, 9, 5);
	assert_int_equal(f->killed, 0);
	look(f, 30, 5);
	assert_int_equal(f->killed, 1);
	assert_int_equal(f->incarnation, OWN + 1);
	assert_non_null(strstr(f->why, "no progress for 1"));
	/* Its successor has a life of its own. */
	f->rows[1].incarnation = 50;
	look(f, 9, 5);
	assert_int_equal(f->killed, 1);
	look(f, 5, 5);
	assert_int_equal(f->killed, 2);
}

static void a_pause_of_everything_is_nobodys_fault(void **state)
{
	struct fixture *f = *state;

	look(f, 50, 7);
	f->now_ns += 3600 * SECOND;
	look(f, 9, 0);
	assert_int_equal(f->killed, 0);
	look(f, 1, 7);
	look(f, 9, 0);
	assert_int_equal(f->killed, 0);
}

static void handles_of_dead_peers_kept_for_ten_seconds_are_a_reason(void **state)
{
	struct fixture *f = *state;

	f->rows[2].peer_handles = 3;
	look(f, 8, 7);
	f->rows[2].peer_handles = 0;
	look(f, 1, 7);
	f->rows[2].peer_handles = 1;
	look(f, 10, 7);
	assert_int_equal(f->killed, 0);
	look(f, 5, 7);
	assert_int_equal(f->killed, 1);
	assert_non_null(strstr(f->why, "1 handles of dead peers"));
}

static void what_was_started_by_hand_or_is_not_ready_is_never_killed(void **state)
{
	struct fixture *f = *state;

	f->rows[1].by_hand = 1;
	f->rows[2].state = DSR_ACTOR_STARTING;
	look(f, 100, 0);
	assert_int_equal(f->killed, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		T(actors_that_make_progress_are_left_alone),
		T(an_actor_without_progress_for_ten_seconds_is_killed_once),
		T(a_pause_of_everything_is_nobodys_fault),
		T(handles_of_dead_peers_kept_for_ten_seconds_are_a_reason),
		T(what_was_started_by_hand_or_is_not_ready_is_never_killed),
	};

	return cmocka_run_group_tests_name("scheduler_watch", tests, NULL, NULL);
}

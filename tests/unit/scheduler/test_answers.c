/* SPDX-License-Identifier: Apache-2.0 */
#include "answers.h"

#include <errno.h>
#include <string.h>

#include "rig.h"

static void an_answer_is_there_until_the_ring_went_round(void **state)
{
	struct dsr_answers *answers;
	uint64_t at[5];

	(void)state;
	assert_int_equal(dsr_answers_new(128, &answers), 0);
	for (uint64_t i = 0; i < 5; i++) {
		void *p = dsr_answers_put(answers, 30, &at[i]); /* 32 of 128 bytes each */

		assert_non_null(p);
		memset(p, (int)i, 30);
	}
	assert_null(dsr_answers_at(answers, at[0]));
	for (uint64_t i = 1; i < 5; i++) {
		const uint8_t *p = dsr_answers_at(answers, at[i]);

		assert_non_null(p);
		for (uint32_t k = 0; k < 30; k++)
			assert_int_equal(p[k], i);
	}
	dsr_answers_free(&answers);
	assert_null(answers);
}

static void an_answer_never_wraps_around_the_end(void **state)
{
	struct dsr_answers *answers;
	uint64_t first, second;
	uint8_t *a, *b;

	(void)state;
	assert_int_equal(dsr_answers_new(128, &answers), 0);
	a = dsr_answers_put(answers, 80, &first);
	b = dsr_answers_put(answers, 80, &second);
	assert_ptr_equal(a, b);
	assert_null(dsr_answers_at(answers, first));
	assert_ptr_equal(dsr_answers_at(answers, second), b);
	dsr_answers_free(&answers);
}

static void an_answer_that_can_never_fit_is_refused(void **state)
{
	struct dsr_answers *answers;
	uint64_t at;

	(void)state;
	assert_int_equal(dsr_answers_new(0, &answers), -EINVAL);
	assert_int_equal(dsr_answers_new(64, &answers), 0);
	assert_null(dsr_answers_put(answers, 65, &at));
	assert_null(dsr_answers_put(answers, SIZE_MAX, &at));
	assert_non_null(dsr_answers_put(answers, 64, &at));
	assert_non_null(dsr_answers_put(answers, 0, &at));
	dsr_answers_free(&answers);
	dsr_answers_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_there_until_the_ring_went_round),
		cmocka_unit_test(an_answer_never_wraps_around_the_end),
		cmocka_unit_test(an_answer_that_can_never_fit_is_refused),
	};

	return cmocka_run_group_tests_name("scheduler_answers", tests, NULL, NULL);
}

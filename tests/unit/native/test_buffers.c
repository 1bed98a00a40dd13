/* SPDX-License-Identifier: Apache-2.0 */
/* Staging buffers: lend numbers, quarantine, what comes back late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "buffers.h"

#define BUFFERS 3
#define BYTES 4096

static uint8_t memory[BUFFERS * BYTES];

static int open_pool(void **state)
{
	static struct dsr_buffers pool;

	assert_int_equal(dsr_buffers_init(&pool, memory, BYTES, BUFFERS), 0);
	*state = &pool;
	return 0;
}

static int close_pool(void **state)
{
	dsr_buffers_done(*state);
	return 0;
}

static void buffers_lie_behind_each_other_and_run_out(void **state)
{
	struct dsr_buffers *pool = *state;
	int owner;

	for (uint32_t i = 0; i < BUFFERS; i++) {
		struct dsr_buffer *buffer = dsr_buffers_take(pool, &owner);

		assert_non_null(buffer);
		assert_ptr_equal(buffer->base, memory + i * BYTES);
		assert_ptr_equal(buffer->owner, &owner);
	}
	assert_null(dsr_buffers_take(pool, &owner));
	assert_null(dsr_buffers_take_index(pool, 0, &owner));
	assert_null(dsr_buffers_take_index(pool, BUFFERS, &owner));
	assert_int_equal(pool->free, 0);
}

static void each_lending_has_a_greater_number(void **state)
{
	struct dsr_buffers *pool = *state;
	struct dsr_buffer *buffer = dsr_buffers_take(pool, NULL);
	uint64_t first = buffer->lend;

	dsr_buffers_relend(pool, buffer);
	assert_true(buffer->lend > first);
	first = buffer->lend;
	dsr_buffers_put(pool, buffer);
	assert_ptr_equal(dsr_buffers_take_index(pool, buffer->index, NULL), buffer);
	assert_true(buffer->lend > first);
}

static void only_what_is_out_is_found_by_its_lend_number(void **state)
{
	struct dsr_buffers *pool = *state;
	struct dsr_buffer *buffer = dsr_buffers_take(pool, NULL);
	uint64_t lend = buffer->lend;

	assert_null(dsr_buffers_lent(pool, buffer->index, lend));
	dsr_buffers_lend(pool, buffer);
	assert_ptr_equal(dsr_buffers_lent(pool, buffer->index, lend), buffer);
	assert_ptr_equal(dsr_buffers_by_lend(pool, lend), buffer);
	assert_null(dsr_buffers_lent(pool, buffer->index, lend + 1));
	assert_null(dsr_buffers_lent(pool, BUFFERS, lend));
	dsr_buffers_returned(pool, buffer);
	assert_null(dsr_buffers_lent(pool, buffer->index, lend));
	dsr_buffers_put(pool, buffer);
	assert_null(dsr_buffers_by_lend(pool, lend));
	assert_int_equal(pool->free, BUFFERS);
}

static void a_lent_buffer_cannot_be_put_back_before_it_returned(void **state)
{
	struct dsr_buffers *pool = *state;
	struct dsr_buffer *buffer = dsr_buffers_take(pool, NULL);

	dsr_buffers_lend(pool, buffer);
	dsr_buffers_put(pool, buffer);
	assert_int_equal(buffer->state, DSR_BUFFER_LENT);
	assert_int_equal(pool->free, BUFFERS - 1);
}

static void quarantine_ends_with_the_return_alone(void **state)
{
	struct dsr_buffers *pool = *state;
	int owner;
	struct dsr_buffer *buffer = dsr_buffers_take(pool, &owner);

	dsr_buffers_quarantine(pool, buffer); /* not out: nothing to wait for */
	assert_int_equal(pool->quarantined, 0);
	dsr_buffers_lend(pool, buffer);
	dsr_buffers_quarantine(pool, buffer);
	assert_int_equal(pool->quarantined, 1);
	assert_null(buffer->owner);
	dsr_buffers_put(pool, buffer);
	assert_int_equal(pool->free, BUFFERS - 1);
	assert_ptr_equal(dsr_buffers_by_lend(pool, buffer->lend), buffer);
	dsr_buffers_returned(pool, buffer);
	assert_int_equal(pool->quarantined, 0);
	dsr_buffers_put(pool, buffer);
	assert_int_equal(pool->free, BUFFERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(buffers_lie_behind_each_other_and_run_out,
	                                        open_pool, close_pool),
		cmocka_unit_test_setup_teardown(each_lending_has_a_greater_number, open_pool,
	                                        close_pool),
		cmocka_unit_test_setup_teardown(only_what_is_out_is_found_by_its_lend_number,
	                                        open_pool, close_pool),
		cmocka_unit_test_setup_teardown(a_lent_buffer_cannot_be_put_back_before_it_returned,
	                                        open_pool, close_pool),
		cmocka_unit_test_setup_teardown(quarantine_ends_with_the_return_alone, open_pool,
	                                        close_pool),
	};

	return cmocka_run_group_tests_name("native buffers", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A control segment with fixed numbers in it, and golden files. */
#ifndef DSR_TEST_CTL_H
#define DSR_TEST_CTL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <jansson.h>

#include "control.h"
#include "report.h"
#include "roles.h"

#define TEST_NOW_NS (UINT64_C(1000) * 1000 * 1000 * 1000)
#define TEST_GONE_PID 4040 /* test_is_alive says so */
#define TEST_ENTRIES 64

struct test_instance {
	int fd; /* owned */
	struct dsr_control control;
	struct dsr_pool_geometry geometry;
};

/* cmocka fixtures; *state is a struct test_instance. */
int test_instance_set_up(void **state);
int test_instance_tear_down(void **state);

/* A row of an actor that came to `state` and made progress `age_ms` before TEST_NOW_NS. */
void test_set_row(struct test_instance *t, uint32_t row, uint32_t role, const char *device,
                  uint32_t state, uint64_t age_ms);
/* Scheduler, metrics, and load and store of host:0, all up; counters, entries, records, pool. */
void test_fill(struct test_instance *t);
bool test_is_alive(int32_t pid, uint64_t start_ticks);

/* Compares with tests/golden/ctl/<name>, or writes that file when DSR_GOLDEN_UPDATE is set. */
void test_golden_text(const char *name, const char *text);
/* The same for JSON, indented; checks that it begins with {"schema":1, as daserctl writes it. Takes
 * the reference. */
void test_golden_json(const char *name, json_t *json);

/* As it is, indented. */
void test_golden_indented(const char *name, const json_t *json);

/* What `print(from, FILE *)` writes; freed by the caller. */
char *test_print(int (*print)(const json_t *, FILE *), const json_t *from);

#endif

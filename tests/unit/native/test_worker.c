/* SPDX-License-Identifier: Apache-2.0 */
/* Both objects without a service: options, geometry, loads and saves that cannot go anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daser/scheduler.h"
#include "daser/worker.h"
#include "meta.h"
#include "roles.h"

#define BLOCKS 16
#define BLOCK_BYTES 1000

static const uint8_t fingerprint[DASER_NAMESPACE_BYTES] = {7};
static char run_dir[] = "/tmp/daser-native-XXXXXX"; /* nobody serves it */

static struct daser_worker_options worker_options(void)
{
	return (struct daser_worker_options){.size = sizeof(struct daser_worker_options),
	                                     .run_dir = run_dir,
	                                     .engine = "engine-0",
	                                     .fingerprint = fingerprint,
	                                     .device = "host:0",
	                                     .world = 2,
	                                     .rank = 1,
	                                     .lanes = 1,
	                                     .writer = 1,
	                                     .block_tokens = 16,
	                                     .staging_ceiling = 8 << 20,
	                                     .device_total = UINT64_C(16) << 30,
	                                     .device_free = UINT64_C(8) << 30};
}

/* A worker without service and its KV cache. */
struct rank {
	struct daser_worker *worker;
	uint8_t *kv;
	struct dsr_pack *pack;
	uint64_t step;
};

static int open_with(void **state, const struct daser_worker_options *options)
{
	struct rank *rank = calloc(1, sizeof(*rank));
	struct daser_piece piece = {.block_stride = BLOCK_BYTES, .bytes = BLOCK_BYTES, .count = 1};
	const struct daser_geometry geometry = {
		.size = sizeof(geometry), .pieces = &piece, .piece_count = 1, .blocks = BLOCKS};

	assert_non_null(rank);
	rank->kv = calloc(BLOCKS, BLOCK_BYTES);
	assert_non_null(rank->kv);
	piece.base = rank->kv;
	assert_int_equal(dsr_pack_new(&rank->pack), 0);
	assert_int_equal(daser_worker_open(options, &rank->worker), 0);
	assert_int_equal(daser_worker_register(rank->worker, &geometry), 0);
	*state = rank;
	return 0;
}

static int open_writer(void **state)
{
	struct daser_worker_options options = worker_options();

	options.staging_ceiling = UINT64_C(256) << 20;
	return open_with(state, &options);
}

static int open_reader(void **state)
{
	struct daser_worker_options options = worker_options();

	options.staging_ceiling = UINT64_C(256) << 20;
	options.writer = 0;
	return open_with(state, &options);
}

static int close_rank(void **state)
{
	struct rank *rank = *state;

	daser_worker_close(&rank->worker);
	dsr_pack_free(&rank->pack);
	free(rank->kv);
	free(rank);
	return 0;
}

/* ---- metadata ---- */

static void write_job(struct rank *rank, const char *name, uint64_t id, const uint32_t *ids,
                      uint32_t count)
{
	const struct dsr_key keys[BLOCKS] = {{{1}}};
	const struct dsr_ref refs[BLOCKS] = {{0}};

	dsr_meta_write_job(rank->pack, name, (uint32_t)strlen(name), id, 9);
	dsr_meta_write_keys(rank->pack, keys, count);
	dsr_meta_write_refs(rank->pack, refs, count);
	dsr_meta_write_ids(rank->pack, ids, count);
}

/* Metadata of the next step with at most one load and one save. */
static const void *make_meta(struct rank *rank, const char *load, const char *save,
                             const uint32_t *ids, uint32_t count, size_t *ret_length)
{
	const struct dsr_meta head = {.engine = {.p = "engine-0", .n = 8},
	                              .incarnation = 5,
	                              .step = ++rank->step,
	                              .world = 2};
	const void *bytes;

	dsr_meta_write_head(rank->pack, &head);
	for (int i = 0; i < 4; i++)
		dsr_pack_array(rank->pack, 0);
	dsr_pack_array(rank->pack, load != NULL);
	if (load != NULL)
		write_job(rank, load, 100 + rank->step, ids, count);
	dsr_pack_array(rank->pack, save != NULL);
	if (save != NULL)
		write_job(rank, save, 200 + rank->step, ids, count);
	assert_int_equal(dsr_pack_result(rank->pack, &bytes, ret_length), 0);
	return bytes;
}

static void step(struct rank *rank, const char *load, const char *save, const uint32_t *ids,
                 uint32_t count)
{
	size_t length;
	const void *meta = make_meta(rank, load, save, ids, count, &length);

	assert_int_equal(daser_worker_preemptions(rank->worker, meta, length), 0);
	assert_int_equal(daser_worker_bind(rank->worker, meta, length), 0);
	assert_int_equal(daser_worker_start_load(rank->worker, NULL), 0);
	assert_int_equal(daser_worker_wait_for_save(rank->worker, NULL), 0);
}

static void a_load_without_service_fails_in_one_report(void **state)
{
	struct rank *rank = *state;
	const uint32_t ids[] = {3, 1, 2};
	struct daser_worker_output output = {.size = sizeof(output)};
	struct pollfd pollfd = {.fd = daser_worker_fd(rank->worker), .events = POLLIN};
	struct dsr_output parsed;
	struct dsr_output_load load;

	assert_int_equal(poll(&pollfd, 1, 0), 0);
	step(rank, "a", NULL, ids, 3);
	assert_int_equal(poll(&pollfd, 1, 0), 1);
	assert_int_equal(daser_worker_output(rank->worker, NULL, 0, &output), 0);
	assert_int_equal(output.finished_recving_count, 1);
	assert_string_equal(output.finished_recving[0], "a");
	assert_int_equal(output.failed_block_count, 3);
	assert_memory_equal(output.failed_blocks, ids, sizeof(ids));
	assert_int_equal(dsr_output_parse(output.bytes, output.length, &parsed), 0);
	assert_int_equal(parsed.rank, 1);
	load = dsr_output_next_load(&parsed.loads);
	assert_int_equal(load.incarnation, 5);
	assert_int_equal(load.id, 101);
	assert_int_equal(load.failed_count, 3);
	assert_int_equal(dsr_le32(load.failed + 4), DSR_REASON_DETACHED);
	/* Once and never again. */
	assert_int_equal(poll(&pollfd, 1, 0), 0);
	assert_int_equal(daser_worker_output(rank->worker, NULL, 0, &output), 0);
	assert_int_equal(output.finished_recving_count, 0);
	assert_int_equal(output.failed_block_count, 0);
	assert_int_equal(output.length, 0);
}

static void a_save_without_service_is_reported_to_be_abandoned(void **state)
{
	struct rank *rank = *state;
	const uint32_t ids[] = {4, 5};
	const char *finished[] = {"a", "other"};
	struct daser_worker_output output = {.size = sizeof(output)};
	struct dsr_output parsed;
	struct dsr_output_save save;

	step(rank, NULL, "a", ids, 2);
	assert_int_equal(daser_worker_output(rank->worker, finished, 2, &output), 0);
	assert_int_equal(output.finished_sending_count, 2);
	assert_int_equal(dsr_output_parse(output.bytes, output.length, &parsed), 0);
	save = dsr_output_next_save(&parsed.saves);
	assert_int_equal(save.id, 201);
	assert_int_equal(save.count, 2);
	assert_int_equal(save.results[0], DSR_RESULT_UNTOLD | DSR_REASON_DETACHED);
	assert_int_equal(daser_worker_output(rank->worker, NULL, 0, &output), 0);
	assert_int_equal(output.finished_sending_count, 0);
}

static void a_rank_that_does_not_write_has_nothing_against_it(void **state)
{
	struct rank *rank = *state;
	const uint32_t ids[] = {4, 5};
	const char *finished[] = {"a"};
	struct daser_worker_output output = {.size = sizeof(output)};
	struct daser_worker_stats stats = {.size = sizeof(stats)};
	struct dsr_output parsed;
	struct dsr_output_save save;

	step(rank, NULL, "a", ids, 2);
	assert_int_equal(daser_worker_output(rank->worker, finished, 1, &output), 0);
	assert_int_equal(output.finished_sending_count, 1);
	assert_int_equal(dsr_output_parse(output.bytes, output.length, &parsed), 0);
	save = dsr_output_next_save(&parsed.saves);
	assert_int_equal(save.count, 2);
	assert_int_equal(save.results[0], DSR_RESULT_STORED);
	assert_int_equal(save.results[1], DSR_RESULT_STORED);
	assert_int_equal(daser_worker_get_stats(rank->worker, &stats), 0);
	assert_int_equal(stats.store_buffers, 0);
	assert_int_equal(stats.load_buffers, 4);
}

static void metadata_that_is_not_ours_queues_nothing(void **state)
{
	struct rank *rank = *state;
	const uint32_t outside[] = {BLOCKS};
	const uint32_t ids[] = {1};
	struct daser_worker_output output = {.size = sizeof(output)};
	const void *meta;
	uint8_t *other;
	size_t length;

	assert_int_equal(daser_worker_bind(rank->worker, "x", 1), -EBADMSG);
	assert_int_equal(daser_worker_preemptions(rank->worker, NULL, 0), -EBADMSG);
	meta = make_meta(rank, "a", NULL, outside, 1, &length);
	assert_int_equal(daser_worker_bind(rank->worker, meta, length), -EBADMSG);
	meta = make_meta(rank, "a", NULL, ids, 1, &length);
	other = malloc(length);
	assert_non_null(other);
	memcpy(other, meta, length);
	*(uint8_t *)memmem(other, length, "engine-0", 8) = 'E';
	assert_int_equal(daser_worker_bind(rank->worker, other, length), -EBADMSG);
	free(other);
	assert_int_equal(daser_worker_start_load(rank->worker, NULL), 0);
	assert_int_equal(daser_worker_output(rank->worker, NULL, 0, &output), 0);
	assert_int_equal(output.finished_recving_count, 0);
	/* A step that was bound is not bound again. */
	assert_int_equal(daser_worker_bind(rank->worker, meta, length), 0);
	assert_int_equal(daser_worker_bind(rank->worker, meta, length), -EALREADY);
}

static void bad_worker_options_are_refused(void **state)
{
	struct daser_worker *worker = NULL;
	struct daser_worker_options o;

	(void)state;
	assert_int_equal(daser_worker_open(NULL, &worker), -EINVAL);
#define REFUSED(field, value, err)                                                                 \
	do {                                                                                       \
		o = worker_options();                                                              \
		o.field = (value);                                                                 \
		assert_int_equal(daser_worker_open(&o, &worker), (err));                           \
	} while (0)
	REFUSED(size, 0, -EINVAL);
	REFUSED(engine, NULL, -EINVAL);
	REFUSED(engine, "", -EINVAL);
	REFUSED(fingerprint, NULL, -EINVAL);
	REFUSED(device, "tape:0", -EINVAL);
	REFUSED(device, "cuda:0", -ENODEV);
	REFUSED(world, 0, -EINVAL);
	REFUSED(rank, 2, -EINVAL);
	REFUSED(lanes, 0, -EINVAL);
	REFUSED(lanes, 65, -EINVAL);
	REFUSED(lane, 1, -EINVAL);
	REFUSED(writer, 2, -EINVAL);
	REFUSED(block_tokens, 0, -EINVAL);
	REFUSED(staging_mode, "huge", -EINVAL);
	REFUSED(load_deadline_ms, 600001, -EINVAL);
	assert_null(worker);
}

static void staging_that_does_not_fit_is_refused(void **state)
{
	struct daser_worker_options options = worker_options();
	struct daser_worker *worker;
	uint8_t byte;
	struct daser_piece piece = {.base = &byte, .block_stride = 1, .bytes = 1, .count = 1};
	struct daser_geometry geometry = {
		.size = sizeof(geometry), .pieces = &piece, .piece_count = 1, .blocks = 1};
	struct daser_worker_output output = {.size = sizeof(output)};

	(void)state;
	options.device_free = UINT64_C(1) << 30; /* all of it must stay free */
	assert_int_equal(daser_worker_open(&options, &worker), 0);
	assert_int_equal(daser_worker_start_load(worker, NULL), -EINVAL); /* not registered */
	assert_int_equal(daser_worker_output(worker, NULL, 0, &output), -EINVAL);
	assert_int_equal(daser_worker_register(worker, &geometry), -E2BIG);
	piece.bytes = 0;
	assert_int_equal(daser_worker_register(worker, &geometry), -EINVAL);
	geometry.piece_count = 0;
	assert_int_equal(daser_worker_register(worker, &geometry), -EINVAL);
	daser_worker_close(&worker);
	daser_worker_close(&worker);
	daser_worker_close(NULL);
}

static void bad_scheduler_options_are_refused(void **state)
{
	struct daser_scheduler *scheduler = NULL;
	struct daser_scheduler_options o;

	(void)state;
	assert_int_equal(daser_scheduler_open(NULL, &scheduler), -EINVAL);
#undef REFUSED
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		o = (struct daser_scheduler_options){.size = sizeof(o),                            \
		                                     .run_dir = run_dir,                           \
		                                     .engine = "engine-0",                         \
		                                     .fingerprint = fingerprint,                   \
		                                     .world = 1,                                   \
		                                     .block_tokens = 16};                          \
		o.field = (value);                                                                 \
		assert_int_equal(daser_scheduler_open(&o, &scheduler), -EINVAL);                   \
	} while (0)
	REFUSED(size, 0);
	REFUSED(engine, NULL);
	REFUSED(fingerprint, NULL);
	REFUSED(world, 0);
	REFUSED(world, 4097);
	REFUSED(block_tokens, 0);
	REFUSED(lookup_wait_us, 1000001);
	REFUSED(lease_ttl_ms, 3600001);
	REFUSED(load_deadline_ms, 600001);
	REFUSED(max_requests, 16385);
	assert_null(scheduler);
	daser_scheduler_close(&scheduler);
	assert_int_equal(daser_scheduler_pending(NULL), -EINVAL);
	assert_int_equal(daser_scheduler_state(NULL), DASER_DETACHED);
}

static void the_library_says_what_it_is(void **state)
{
	uint8_t a[DASER_NAMESPACE_BYTES], b[DASER_NAMESPACE_BYTES];

	(void)state;
	assert_string_equal(daser_version(), "0.1.0");
	daser_fingerprint("model-a", 7, a);
	daser_fingerprint("model-b", 7, b);
	assert_memory_not_equal(a, b, sizeof(a));
	daser_fingerprint("model-a", 7, b);
	assert_memory_equal(a, b, sizeof(a));
}

static int make_run_dir(void **state)
{
	(void)state;
	return mkdtemp(run_dir) == NULL;
}

static int remove_run_dir(void **state)
{
	(void)state;
	return rmdir(run_dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_load_without_service_fails_in_one_report,
	                                        open_writer, close_rank),
		cmocka_unit_test_setup_teardown(a_save_without_service_is_reported_to_be_abandoned,
	                                        open_writer, close_rank),
		cmocka_unit_test_setup_teardown(a_rank_that_does_not_write_has_nothing_against_it,
	                                        open_reader, close_rank),
		cmocka_unit_test_setup_teardown(metadata_that_is_not_ours_queues_nothing,
	                                        open_writer, close_rank),
		cmocka_unit_test(bad_worker_options_are_refused),
		cmocka_unit_test(staging_that_does_not_fit_is_refused),
		cmocka_unit_test(bad_scheduler_options_are_refused),
		cmocka_unit_test(the_library_says_what_it_is),
	};

	return cmocka_run_group_tests_name("native worker", tests, make_run_dir, remove_run_dir);
}

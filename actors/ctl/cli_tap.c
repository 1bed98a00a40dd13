/* SPDX-License-Identifier: Apache-2.0 */
/* tap: prints what actors send and receive, until it is told to stop. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "errors.h"
#include "instance.h"
#include "json.h"
#include "loop.h"
#include "tap.h"
#include "tapline.h"
#include "target.h"
#include "util.h"

struct watch;

struct watched {
	struct watch *watch; /* borrowed */
	struct dsr_target target;
	struct dsr_tap_reader *reader; /* owned */
};

struct watch {
	struct dsr_cli *cli;     /* borrowed */
	struct dsr_loop *loop;   /* owned */
	struct dsr_timer *timer; /* owned */
	struct dsr_codec *codec; /* owned */
	struct watched *watched; /* owned, count of them */
	uint32_t count;
	uint64_t printed;
	int err; /* first failure to print */
};

static bool is_enough(const struct watch *watch)
{
	return watch->cli->count != 0 && watch->printed >= watch->cli->count;
}

static void on_message(void *self, const char *line, const void *frame, size_t bytes)
{
	struct watched *watched = self;
	struct watch *watch = watched->watch;
	FILE *out = watch->cli->out;
	json_t *tapline;
	int r;

	if (is_enough(watch) || watch->err < 0)
		return;
	tapline = dsr_tapline_json(watch->codec, watched->target.name, dsr_realtime_ns(), line,
	                           frame, bytes);
	if (watch->cli->is_json || tapline == NULL) {
		r = dsr_json_write(tapline, out);
	} else {
		r = dsr_tapline_print(tapline, out);
		json_decref(tapline);
	}
	/* whoever reads a pipe sees each line at once */
	if (r == 0 && fflush(out) == EOF)
		r = -EIO;
	watch->err = r;
	watch->printed++;
	if (r < 0 || is_enough(watch))
		dsr_loop_stop(watch->loop);
}

static void on_timeout(void *self)
{
	struct watch *watch = self;

	dsr_loop_stop(watch->loop);
}

/* The named actors, or all that may be running. */
static int choose(struct watch *watch, const struct dsr_instance *instance)
{
	const struct dsr_cli *cli = watch->cli;
	char why[256];

	for (int i = 0; i < cli->word_count; i++) {
		if (dsr_target_parse(cli->words[i], instance->reports, instance->report_count,
		                     &watch->watched[watch->count++].target, why, sizeof(why)) < 0)
			return dsr_cli_fail(cli, DSR_CTL_USAGE, "%s", why);
	}
	for (uint32_t i = 0; cli->word_count == 0 && i < instance->report_count; i++) {
		if (instance->reports[i].is_expected)
			dsr_target_of(&instance->reports[i],
			              &watch->watched[watch->count++].target);
	}
	return DSR_CTL_OK;
}

static int watch_open(struct watch *watch, const struct dsr_instance *instance)
{
	int r = dsr_loop_new(&watch->loop);

	if (r == 0)
		r = dsr_codec_new(&watch->codec);
	if (r == 0)
		r = dsr_timer_new(watch->loop, on_timeout, watch, &watch->timer);
	for (uint32_t i = 0; r == 0 && i < watch->count; i++) {
		struct watched *watched = &watch->watched[i];

		watched->watch = watch;
		r = dsr_tap_open(watch->loop, instance->run_dir, watched->target.role,
		                 watched->target.device, "", on_message, watched, &watched->reader);
	}
	if (r == 0 && watch->cli->timeout_ms != 0)
		dsr_timer_set(watch->timer, dsr_now_ns() + watch->cli->timeout_ms * 1000000);
	return r;
}

static void watch_close(struct watch *watch)
{
	for (uint32_t i = 0; i < watch->count; i++)
		dsr_tap_close(&watch->watched[i].reader);
	dsr_timer_free(&watch->timer);
	dsr_codec_free(&watch->codec);
	dsr_loop_free(&watch->loop);
}

static int watch_run(struct watch *watch, const struct dsr_instance *instance)
{
	const struct dsr_cli *cli = watch->cli;
	int r = choose(watch, instance);

	if (r != DSR_CTL_OK)
		return r;
	r = watch_open(watch, instance);
	if (r == 0)
		r = dsr_loop_run(watch->loop);
	watch_close(watch);
	if (r == 0)
		r = watch->err;
	if (r < 0)
		return dsr_cli_fail(cli, DSR_CTL_FAILED, "cannot tap: %s", strerror(-r));
	if (watch->printed < cli->count)
		return dsr_cli_fail(cli, DSR_CTL_FAILED,
		                    "%" PRIu64 " of %" PRIu64 " messages came in time",
		                    watch->printed, cli->count);
	return DSR_CTL_OK;
}

int dsr_cli_tap(struct dsr_cli *cli)
{
	struct dsr_instance *instance = NULL;
	struct watch watch = {.cli = cli};
	int r = dsr_instance_open(cli, cli->word_count == 0, &instance);

	if (r != DSR_CTL_OK)
		return r;
	watch.watched = calloc((size_t)cli->word_count + DSR_REPORT_MAX, sizeof(*watch.watched));
	if (watch.watched == NULL)
		r = dsr_cli_fail(cli, DSR_CTL_FAILED, "out of memory");
	else
		r = watch_run(&watch, instance);
	free(watch.watched);
	dsr_instance_close(&instance);
	return r;
}

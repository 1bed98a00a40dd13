/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that look and change nothing: status, requests, entries, config, layout. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "config.h"
#include "errors.h"
#include "instance.h"
#include "json.h"
#include "layout_json.h"
#include "memory.h"
#include "rows.h"
#include "status.h"
#include "util.h"

/* Takes the reference. print: NULL where JSON is the only form. Returns `status` or a failure. */
static int show(const struct dsr_cli *cli, int status, json_t *shown,
                int (*print)(const json_t *, FILE *))
{
	int r;

	if (cli->is_json || print == NULL || shown == NULL) {
		r = dsr_json_write(shown, cli->out);
	} else {
		r = print(shown, cli->out);
		json_decref(shown);
	}
	return r < 0 ? dsr_cli_fail(cli, DSR_CTL_FAILED, "cannot show the result: %s", strerror(-r))
	             : status;
}

int dsr_cli_status(struct dsr_cli *cli)
{
	struct dsr_instance *instance = NULL;
	struct dsr_status status;
	bool is_good = false;
	json_t *shown;
	int r = dsr_instance_open(cli, false, &instance);

	if (r != DSR_CTL_OK)
		return r;
	status = (struct dsr_status){
		.control = dsr_instance_has_control(instance) ? &instance->control : NULL,
		.geometry = instance->pool_epoch != 0 ? &instance->geometry : NULL,
		.pool_epoch = instance->pool_epoch,
		.run_dir = instance->run_dir,
		.metrics_port = instance->metrics_port,
		.now_ns = dsr_now_ns(),
		.is_alive = dsr_instance_is_alive,
	};
	shown = dsr_status_json(&status, &is_good);
	dsr_instance_close(&instance);
	return show(cli, is_good ? DSR_CTL_OK : DSR_CTL_DEGRADED, shown, dsr_status_print);
}

int dsr_cli_requests(struct dsr_cli *cli)
{
	struct dsr_instance *instance = NULL;
	json_t *shown;
	int r = dsr_instance_open(cli, true, &instance);

	if (r != DSR_CTL_OK)
		return r;
	shown = dsr_rows_requests(&instance->control, cli->limit);
	dsr_instance_close(&instance);
	return show(cli, DSR_CTL_OK, shown, dsr_rows_print_requests);
}

int dsr_cli_entries(struct dsr_cli *cli)
{
	struct dsr_rows_filter filter = {.limit = cli->limit, .has_state = cli->state != NULL};
	struct dsr_instance *instance = NULL;
	json_t *shown;
	int r;

	if (cli->state != NULL && dsr_rows_parse_state(cli->state, &filter.state) < 0)
		return dsr_cli_fail(cli, DSR_CTL_USAGE,
		                    "--state `%s`: expected free, reserved, visible or aborting",
		                    cli->state);
	r = dsr_instance_open(cli, true, &instance);
	if (r != DSR_CTL_OK)
		return r;
	filter.fd = instance->control_fd;
	shown = dsr_rows_entries(&instance->control, &filter);
	dsr_instance_close(&instance);
	return show(cli, DSR_CTL_OK, shown, dsr_rows_print_entries);
}

/* Parses cli's words as settings into *options and resolves them. */
static int take_settings(struct dsr_cli *cli, struct dsr_options *options, bool *ret_is_auto)
{
	char name[] = "config", why[512] = "";
	char **argv = calloc((size_t)cli->word_count + 2, sizeof(*argv));
	int argc = cli->word_count + 1, r = 0;

	if (argv == NULL)
		return dsr_cli_fail(cli, DSR_CTL_FAILED, "out of memory");
	argv[0] = name;
	if (cli->word_count > 0)
		memcpy(argv + 1, cli->words, (size_t)cli->word_count * sizeof(*argv));
	dsr_options_init(options);
	if (cli->run_dir != NULL)
		r = dsr_options_set(options, "run_dir", cli->run_dir, why, sizeof(why));
	if (r == 0)
		r = dsr_options_parse(options, &argc, argv, why, sizeof(why));
	if (r == 0 && argc > 1) {
		r = -EINVAL;
		snprintf(why, sizeof(why), "`%.64s` is no setting: expected --FLAG=VALUE", argv[1]);
	}
	*ret_is_auto = options->l1_size == 0;
	if (r == 0)
		r = dsr_options_resolve(options, why, sizeof(why));
	free(argv);
	return r == 0 ? DSR_CTL_OK : dsr_cli_fail(cli, DSR_CTL_USAGE, "%s", why);
}

int dsr_cli_config(struct dsr_cli *cli)
{
	struct dsr_options *options = malloc(sizeof(*options));
	struct dsr_memory memory = {0};
	json_t *shown = NULL;
	bool is_auto = false;
	int r;

	if (options == NULL)
		return dsr_cli_fail(cli, DSR_CTL_FAILED, "out of memory");
	r = take_settings(cli, options, &is_auto);
	if (r == DSR_CTL_OK && dsr_memory_read("/proc", "/sys/fs/cgroup", &memory) < 0)
		r = dsr_cli_fail(cli, DSR_CTL_FAILED, "/proc/meminfo cannot be read");
	if (r == DSR_CTL_OK)
		shown = dsr_config_json(options, is_auto, &memory);
	free(options);
	return r == DSR_CTL_OK ? show(cli, DSR_CTL_OK, shown, dsr_config_print) : r;
}

int dsr_cli_layout(struct dsr_cli *cli)
{
	return show(cli, DSR_CTL_OK, dsr_layout_json(), NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "instance.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "files.h"
#include "util.h"

bool dsr_instance_is_alive(int32_t pid, uint64_t start_ticks)
{
	int fd = dsr_pidfd_open(pid, start_ticks);

	if (fd < 0)
		return fd != -ESRCH; /* cannot tell: its progress decides */
	dsr_close(&fd);
	return true;
}

int dsr_instance_run_dir(const struct dsr_cli *cli, char *ret_run_dir)
{
	struct dsr_options *options = malloc(sizeof(*options));
	char why[256] = "";
	int r = 0;

	if (options == NULL)
		return dsr_cli_fail(cli, DSR_CTL_FAILED, "out of memory");
	dsr_options_init(options);
	if (cli->run_dir != NULL)
		r = dsr_options_set(options, "run_dir", cli->run_dir, why, sizeof(why));
	if (r == 0)
		r = dsr_options_resolve_run_dir(options, why, sizeof(why));
	if (r == 0)
		(void)dsr_copy_string(ret_run_dir, DSR_OPTION_TEXT_MAX, options->run_dir);
	free(options);
	return r == 0 ? DSR_CTL_OK : dsr_cli_fail(cli, DSR_CTL_USAGE, "%s", why);
}

static int broker_failed(const struct dsr_cli *cli, const char *run_dir, int r)
{
	if (r == -ENOTCONN || r == -ENOENT || r == -ENOTDIR)
		return dsr_cli_fail(cli, DSR_CTL_NOT_RUNNING, "no instance is running in `%s`",
		                    run_dir);
	if (r == -EACCES)
		return dsr_cli_fail(cli, DSR_CTL_FAILED,
		                    "`%s` belongs to another user, or is open to others", run_dir);
	if (r == -EPROTONOSUPPORT)
		return dsr_cli_fail(cli, DSR_CTL_FAILED,
		                    "the instance in `%s` speaks another protocol version: use its "
		                    "own daserctl",
		                    run_dir);
	return dsr_cli_fail(cli, DSR_CTL_FAILED, "the supervisor in `%s` does not answer: %s",
	                    run_dir, strerror(-r));
}

static int open_broker(const struct dsr_cli *cli, struct dsr_instance *instance)
{
	struct dsr_broker_hello hello = {
		.role = DSR_ROLE_CTL, .device = "", .incarnation = dsr_incarnation_new()};
	bool is_by_hand;
	int row;
	int r = dsr_broker_open(instance->run_dir, &hello, NULL, &instance->broker, &row,
	                        &is_by_hand);

	return r < 0 ? broker_failed(cli, instance->run_dir, r) : DSR_CTL_OK;
}

static int attach_control(const struct dsr_cli *cli, struct dsr_instance *instance)
{
	char why[256] = "";
	int r = dsr_broker_get(instance->broker, DSR_OBJECT_CONTROL);

	if (r == -ENOENT)
		return DSR_CTL_OK;
	if (r < 0)
		return broker_failed(cli, instance->run_dir, r);
	instance->control_fd = r;
	r = dsr_control_attach(instance->control_fd, false, &instance->control, why, sizeof(why));
	if (r == 0)
		return DSR_CTL_OK;
	dsr_close(&instance->control_fd);
	return dsr_cli_fail(cli, DSR_CTL_FAILED, "the control segment cannot be read: %s",
	                    why[0] != '\0' ? why : strerror(-r));
}

/* What cannot be had is not shown: the pool may be changing at this moment. */
static void read_pool(struct dsr_instance *instance)
{
	uint64_t epoch = atomic_load_explicit(&instance->control.scheduler->pool_epoch,
	                                      memory_order_acquire);
	char name[64], why[256];
	int fd;

	if (epoch == 0)
		return;
	snprintf(name, sizeof(name), DSR_OBJECT_POOL, (unsigned long long)epoch);
	fd = dsr_broker_get(instance->broker, name);
	if (fd < 0)
		return;
	if (dsr_report_geometry(fd, &instance->geometry, &instance->pool_epoch, why, sizeof(why)) <
	    0)
		instance->pool_epoch = 0;
	dsr_close(&fd);
}

static uint16_t read_metrics_port(const char *run_dir)
{
	char path[DSR_OPTION_TEXT_MAX + 32];
	unsigned port = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", run_dir, DSR_FILE_METRICS_PORT);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	if (fscanf(file, "%5u", &port) != 1 || port > UINT16_MAX)
		port = 0;
	fclose(file);
	return (uint16_t)port;
}

int dsr_instance_open(struct dsr_cli *cli, bool must_have_control,
                      struct dsr_instance **ret_instance)
{
	struct dsr_instance *instance = calloc(1, sizeof(*instance));
	int r;

	if (instance == NULL)
		return dsr_cli_fail(cli, DSR_CTL_FAILED, "out of memory");
	instance->control_fd = -1;
	r = dsr_instance_run_dir(cli, instance->run_dir);
	if (r == DSR_CTL_OK)
		r = open_broker(cli, instance);
	if (r == DSR_CTL_OK)
		r = attach_control(cli, instance);
	if (r == DSR_CTL_OK && instance->control_fd == -1 && must_have_control)
		r = dsr_cli_fail(cli, DSR_CTL_DEGRADED,
		                 "the instance in `%s` has no control segment yet: its scheduler "
		                 "has not started",
		                 instance->run_dir);
	if (r != DSR_CTL_OK) {
		dsr_instance_close(&instance);
		return r;
	}
	if (instance->control_fd != -1) {
		read_pool(instance);
		instance->report_count = dsr_report_actors(
			&instance->control, dsr_now_ns(), dsr_instance_is_alive, instance->reports);
	}
	instance->metrics_port = read_metrics_port(instance->run_dir);
	*ret_instance = instance;
	return DSR_CTL_OK;
}

void dsr_instance_close(struct dsr_instance **instance)
{
	struct dsr_instance *i = *instance;

	if (i == NULL)
		return;
	if (i->control_fd != -1)
		dsr_control_detach(&i->control);
	dsr_close(&i->control_fd);
	dsr_broker_close(&i->broker);
	free(i);
	*instance = NULL;
}

bool dsr_instance_has_control(const struct dsr_instance *instance)
{
	return instance->control_fd != -1;
}

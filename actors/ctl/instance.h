/* SPDX-License-Identifier: Apache-2.0 */
/* A running instance, as daserctl sees it: broker, read-only control segment, pool geometry. */
#ifndef DSR_CTL_INSTANCE_H
#define DSR_CTL_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker.h"
#include "cli.h"
#include "control.h"
#include "report.h"

struct dsr_instance {
	char run_dir[DSR_OPTION_TEXT_MAX];
	struct dsr_broker *broker; /* owned */
	int control_fd;            /* owned; -1: no control segment yet */
	struct dsr_control control;
	struct dsr_pool_geometry geometry;
	uint64_t pool_epoch;   /* 0: no pool yet */
	uint16_t metrics_port; /* 0: not served */
	struct dsr_actor_report reports[DSR_REPORT_MAX];
	uint32_t report_count;
};

/* Attaches to the instance of cli->run_dir and looks at its actors once. An instance without a
 * control segment is no error unless must_have_control. Returns DSR_CTL_OK, or another exit status
 * with one line on cli->err. Blocks some seconds at most. */
int dsr_instance_open(struct dsr_cli *cli, bool must_have_control,
                      struct dsr_instance **ret_instance);
void dsr_instance_close(struct dsr_instance **instance);
bool dsr_instance_has_control(const struct dsr_instance *instance);
/* dsr_report_alive_fn by pidfd. */
bool dsr_instance_is_alive(int32_t pid, uint64_t start_ticks);
/* Sets cli's run directory, else the default, into ret_run_dir (DSR_OPTION_TEXT_MAX bytes). Returns
 * as dsr_instance_open. */
int dsr_instance_run_dir(const struct dsr_cli *cli, char *ret_run_dir);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of daserctl: verbs, flags, help, exit statuses. */
#ifndef DSR_CTL_CLI_H
#define DSR_CTL_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* One call, parsed. Pointers are borrowed from main's arguments. */
struct dsr_cli {
	FILE *out;           /* results */
	FILE *err;           /* one line a failure */
	const char *run_dir; /* --run-dir, or NULL */
	bool is_json;
	uint64_t limit;
	uint64_t count;
	uint64_t timeout_ms;
	const char *state;
	bool is_entries;
	bool is_list;
	bool is_disarm;
	char **words; /* what is no flag, after the verb */
	int word_count;
};

/* Runs one call and returns its exit status (DSR_CTL_*). Nothing is kept between calls. */
int dsr_cli_main(int argc, char **argv, FILE *out, FILE *err);

/* Writes "daserctl: TEXT" to cli->err and returns `status`. */
int dsr_cli_fail(const struct dsr_cli *cli, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The verbs: each returns an exit status. */
int dsr_cli_status(struct dsr_cli *cli);
int dsr_cli_requests(struct dsr_cli *cli);
int dsr_cli_entries(struct dsr_cli *cli);
int dsr_cli_send(struct dsr_cli *cli);
int dsr_cli_tap(struct dsr_cli *cli);
int dsr_cli_drain(struct dsr_cli *cli);
int dsr_cli_reset(struct dsr_cli *cli);
int dsr_cli_fault(struct dsr_cli *cli);
int dsr_cli_config(struct dsr_cli *cli);
int dsr_cli_layout(struct dsr_cli *cli);

/* Lists the messages that `send` takes, for its help. */
void dsr_cli_list_messages(FILE *out);

#endif

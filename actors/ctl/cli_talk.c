/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that send requests: send, drain, reset, fault. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cli.h"
#include "errors.h"
#include "faults.h"
#include "fields.h"
#include "instance.h"
#include "json.h"
#include "replies.h"
#include "table.h"

/* Time that a reply may take beyond the time that the actor itself may wait. */
#define TALK_GRACE_MS 2000

static int write_json(const struct dsr_cli *cli, json_t *shown)
{
	int r = dsr_json_write(shown, cli->out);

	return r < 0 ? dsr_cli_fail(cli, DSR_CTL_FAILED, "cannot show the result: %s", strerror(-r))
	             : DSR_CTL_OK;
}

static const struct dsr_actor_report *report_of(const struct dsr_instance *instance,
                                                const struct dsr_target *target)
{
	for (uint32_t i = 0; i < instance->report_count; i++) {
		if (strcmp(instance->reports[i].name, target->name) == 0)
			return &instance->reports[i];
	}
	return NULL;
}

/* Why a call got no reply, with what its actor's row says. */
static int call_failed(const struct dsr_cli *cli, const struct dsr_instance *instance,
                       const struct dsr_call *call)
{
	const struct dsr_actor_report *report = report_of(instance, &call->target);
	char why[96] = "no such actor is known";

	if (call->err != -ENOTCONN)
		return dsr_cli_fail(cli, DSR_CTL_FAILED, "%s gave no reply: %s", call->target.name,
		                    strerror(-call->err));
	if (report != NULL)
		dsr_report_why(report, why, sizeof(why));
	return dsr_cli_fail(cli, DSR_CTL_FAILED, "%s cannot be reached: %s", call->target.name,
	                    why[0] != '\0' ? why : "it does not answer");
}

static int run_calls(const struct dsr_cli *cli, const struct dsr_instance *instance,
                     struct dsr_call *calls, uint32_t count, uint64_t timeout_ms)
{
	int r = dsr_call_all(instance->run_dir, calls, count, timeout_ms);

	return r < 0 ? dsr_cli_fail(cli, DSR_CTL_FAILED, "cannot connect: %s", strerror(-r))
	             : DSR_CTL_OK;
}

static int parse_target(const struct dsr_cli *cli, const struct dsr_instance *instance,
                        const char *text, struct dsr_target *ret_target)
{
	char why[256];
	int r = dsr_target_parse(text, instance->reports, instance->report_count, ret_target, why,
	                         sizeof(why));

	return r < 0 ? dsr_cli_fail(cli, DSR_CTL_USAGE, "%s", why) : DSR_CTL_OK;
}

/* ---- send ---- */

void dsr_cli_list_messages(FILE *out)
{
	const struct dsr_msg_info *info;

	fputs("\nRequests and their fields:\n", out);
	for (unsigned i = 0; (info = dsr_msg_at(i)) != NULL; i++) {
		if (info->kind != DSR_KIND_REQUEST || info->type == DSR_MSG_HELLO)
			continue;
		fprintf(out, "  %s (%s): %s\n", info->name, info->receiver, info->meaning);
		for (uint32_t f = 0; f < info->field_count; f++)
			fprintf(out, "      %-14s %-5s %s\n", info->fields[f].name,
			        info->fields[f].type, info->fields[f].doc);
	}
}

static int send_parsed(struct dsr_cli *cli, const struct dsr_instance *instance,
                       const struct dsr_fields *fields)
{
	struct dsr_call call = {.type = fields->info->type, .msg = &fields->msg};
	int r = parse_target(cli, instance, cli->words[0], &call.target);

	if (r == DSR_CTL_OK)
		r = run_calls(cli, instance, &call, 1, cli->timeout_ms);
	if (r != DSR_CTL_OK)
		return r;
	if (call.err != 0) {
		r = call_failed(cli, instance, &call);
	} else {
		r = cli->is_json ? write_json(cli, dsr_replies_send_json(&call))
		                 : (dsr_replies_send_print(&call, cli->out), DSR_CTL_OK);
		if (r == DSR_CTL_OK && call.reply_err != 0)
			r = DSR_CTL_FAILED;
	}
	dsr_call_done(&call);
	return r;
}

int dsr_cli_send(struct dsr_cli *cli)
{
	struct dsr_instance *instance = NULL;
	struct dsr_fields fields;
	char why[512] = "";
	int r = dsr_fields_parse(cli->words[1], cli->words + 2, cli->word_count - 2, &fields, why,
	                         sizeof(why));

	if (r < 0)
		return dsr_cli_fail(cli, r == -ENOMEM ? DSR_CTL_FAILED : DSR_CTL_USAGE,
		                    "%s: see daserctl send --help", why);
	if (fields.info->kind != DSR_KIND_REQUEST)
		r = dsr_cli_fail(cli, DSR_CTL_USAGE, "`%s` is no request: see daserctl send --help",
		                 fields.info->name);
	else if (fields.info->type == DSR_MSG_HELLO)
		r = dsr_cli_fail(cli, DSR_CTL_USAGE,
		                 "`hello` opens every connection by itself: send ping instead");
	else
		r = dsr_instance_open(cli, false, &instance);
	if (r == DSR_CTL_OK)
		r = send_parsed(cli, instance, &fields);
	dsr_instance_close(&instance);
	dsr_fields_done(&fields);
	return r;
}

/* ---- drain ---- */

/* The scheduler, which knows all reservations, and every store actor that is up. */
static uint32_t drain_targets(const struct dsr_instance *instance, const struct dsr_msg_drain *msg,
                              struct dsr_call *calls)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < instance->report_count && count < DSR_ACTOR_ROWS; i++) {
		const struct dsr_actor_report *report = &instance->reports[i];

		if (report->role != DSR_ROLE_SCHEDULER &&
		    (report->role != DSR_ROLE_STORE || !report->is_up))
			continue;
		calls[count] = (struct dsr_call){.type = DSR_MSG_DRAIN, .msg = msg};
		if (report->role == DSR_ROLE_STORE) {
			calls[count].row = &instance->control.rows[report->row];
			calls[count].row_incarnation = report->incarnation;
		}
		dsr_target_of(report, &calls[count++].target);
	}
	return count;
}

int dsr_cli_drain(struct dsr_cli *cli)
{
	struct dsr_msg_drain msg = {.timeout_ms = (uint32_t)cli->timeout_ms};
	struct dsr_call *calls = calloc(DSR_ACTOR_ROWS, sizeof(*calls));
	struct dsr_instance *instance = NULL;
	uint32_t count = 0;
	bool is_drained = true;
	int r;

	if (calls == NULL)
		return dsr_cli_fail(cli, DSR_CTL_FAILED, "out of memory");
	r = dsr_instance_open(cli, true, &instance);
	if (r == DSR_CTL_OK) {
		count = drain_targets(instance, &msg, calls);
		r = run_calls(cli, instance, calls, count, cli->timeout_ms + TALK_GRACE_MS);
	}
	for (uint32_t i = 0; i < count && r == DSR_CTL_OK; i++) {
		/* What a store actor had when it left, the scheduler aborts. */
		if (calls[i].target.role == DSR_ROLE_STORE && calls[i].err == -EOWNERDEAD)
			calls[i].err = 0;
		if (calls[i].err != 0)
			call_failed(cli, instance, &calls[i]);
		is_drained = is_drained && calls[i].err == 0 && calls[i].reply_err == 0;
	}
	if (r == DSR_CTL_OK && cli->is_json)
		r = write_json(cli, dsr_replies_drain_json(calls, count));
	else if (r == DSR_CTL_OK)
		dsr_replies_drain_print(calls, count, cli->out);
	for (uint32_t i = 0; i < count; i++)
		dsr_call_done(&calls[i]);
	free(calls);
	dsr_instance_close(&instance);
	return r == DSR_CTL_OK && !is_drained ? DSR_CTL_FAILED : r;
}

/* ---- reset ---- */

int dsr_cli_reset(struct dsr_cli *cli)
{
	struct dsr_msg_reset msg = {.entries_only = cli->is_entries};
	struct dsr_call call = {.type = DSR_MSG_RESET, .msg = &msg};
	struct dsr_instance *instance = NULL;
	int r = dsr_instance_open(cli, true, &instance);

	if (r == DSR_CTL_OK)
		r = parse_target(cli, instance, "scheduler", &call.target);
	if (r == DSR_CTL_OK)
		r = run_calls(cli, instance, &call, 1, cli->timeout_ms);
	if (r == DSR_CTL_OK && call.err != 0)
		r = call_failed(cli, instance, &call);
	else if (r == DSR_CTL_OK && cli->is_json)
		r = write_json(cli, dsr_replies_reset_json(&call));
	else if (r == DSR_CTL_OK)
		dsr_replies_reset_print(&call, cli->out);
	if (r == DSR_CTL_OK && call.reply_err != 0)
		r = DSR_CTL_FAILED;
	dsr_call_done(&call);
	dsr_instance_close(&instance);
	return r;
}

/* ---- fault ---- */

static int list_faults(struct dsr_cli *cli)
{
	json_t *shown = dsr_replies_faults_json();
	int r;

	if (cli->is_json || shown == NULL)
		return write_json(cli, shown);
	r = dsr_replies_faults_print(shown, cli->out);
	json_decref(shown);
	return r < 0 ? dsr_cli_fail(cli, DSR_CTL_FAILED, "cannot show the result: %s", strerror(-r))
	             : DSR_CTL_OK;
}

/* The named actor, or all that are up. */
static int fault_targets(struct dsr_cli *cli, const struct dsr_instance *instance,
                         struct dsr_call *calls, uint32_t *ret_count)
{
	uint32_t count = 0;

	if (cli->word_count > 0) {
		*ret_count = 1;
		return parse_target(cli, instance, cli->words[0], &calls[0].target);
	}
	for (uint32_t i = 0; i < instance->report_count && count < DSR_ACTOR_ROWS; i++) {
		if (instance->reports[i].is_up)
			dsr_target_of(&instance->reports[i], &calls[count++].target);
	}
	*ret_count = count;
	return DSR_CTL_OK;
}

static int fault_all(struct dsr_cli *cli, const struct dsr_instance *instance,
                     struct dsr_call *calls)
{
	const char *spec = cli->is_disarm ? "" : cli->words[1];
	struct dsr_msg_fault msg = {.spec = {.p = spec, .n = (uint32_t)strlen(spec)}};
	uint32_t count = 0;
	bool is_good = true;
	int r = fault_targets(cli, instance, calls, &count);

	for (uint32_t i = 0; i < count; i++) {
		calls[i].type = DSR_MSG_FAULT;
		calls[i].msg = &msg;
	}
	if (r == DSR_CTL_OK)
		r = run_calls(cli, instance, calls, count, cli->timeout_ms);
	for (uint32_t i = 0; i < count && r == DSR_CTL_OK; i++) {
		if (calls[i].err != 0)
			call_failed(cli, instance, &calls[i]);
		is_good = is_good && calls[i].err == 0 && calls[i].reply_err == 0;
	}
	if (r == DSR_CTL_OK && cli->is_json)
		r = write_json(cli, dsr_replies_fault_json(spec, calls, count));
	else if (r == DSR_CTL_OK)
		dsr_replies_fault_print(spec, calls, count, cli->out);
	for (uint32_t i = 0; i < count; i++)
		dsr_call_done(&calls[i]);
	return r == DSR_CTL_OK && !is_good ? DSR_CTL_FAILED : r;
}

int dsr_cli_fault(struct dsr_cli *cli)
{
	struct dsr_instance *instance = NULL;
	struct dsr_call *calls;
	int r;

	if (cli->is_list && !cli->is_disarm && cli->word_count == 0)
		return list_faults(cli);
	if (cli->is_list || (cli->is_disarm ? cli->word_count > 1 : cli->word_count != 2))
		return dsr_cli_fail(cli, DSR_CTL_USAGE,
		                    "fault takes ROLE[-DEVICE] SPEC, --list, or --disarm "
		                    "[ROLE[-DEVICE]]: see daserctl fault --help");
	calls = calloc(DSR_ACTOR_ROWS, sizeof(*calls));
	if (calls == NULL)
		return dsr_cli_fail(cli, DSR_CTL_FAILED, "out of memory");
	r = dsr_instance_open(cli, true, &instance);
	if (r == DSR_CTL_OK)
		r = fault_all(cli, instance, calls);
	dsr_instance_close(&instance);
	free(calls);
	return r;
}

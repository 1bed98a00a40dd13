/* SPDX-License-Identifier: Apache-2.0 */
#include "replies.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "faults.h"
#include "fields.h"
#include "json.h"
#include "table.h"

static const char *type_name(uint32_t type)
{
	const struct dsr_msg_info *info = dsr_msg_info(type);

	return info != NULL ? info->name : "?";
}

/* The first thing that went wrong: no reply, or the reply's err. */
static int err_of(const struct dsr_call *call)
{
	return call->err != 0 ? call->err : call->reply_err;
}

static const char *err_name(int err)
{
	const char *name = err < 0 && err > -4096 ? strerrorname_np(-err) : NULL;

	return err == 0 ? "" : name != NULL ? name : "?";
}

/* {"actor":...,"err":...,"error":"ETIMEDOUT"} */
static json_t *outcome_json(const struct dsr_call *call)
{
	json_t *object = json_object();

	dsr_json_set(&object, "actor", json_string(call->target.name));
	dsr_json_set(&object, "err", json_integer(err_of(call)));
	dsr_json_set(&object, "error", json_string(err_name(err_of(call))));
	return object;
}

json_t *dsr_replies_send_json(const struct dsr_call *call)
{
	json_t *object = dsr_json_new();

	dsr_json_set(&object, "actor", json_string(call->target.name));
	dsr_json_set(&object, "incarnation", dsr_json_u64(call->incarnation));
	dsr_json_set(&object, "request", json_string(type_name(call->type)));
	dsr_json_set(&object, "elapsed_ns", dsr_json_u64(call->elapsed_ns));
	dsr_json_set(&object, "reply", json_incref(call->reply));
	return object;
}

void dsr_replies_send_print(const struct dsr_call *call, FILE *out)
{
	char elapsed[DSR_TABLE_TEXT];

	fprintf(out, "%s %s after %s: ", call->target.name, type_name(call->type + 1),
	        dsr_table_time(call->elapsed_ns, elapsed));
	dsr_fields_print(call->reply, out);
	fputc('\n', out);
}

json_t *dsr_replies_drain_json(const struct dsr_call *calls, uint32_t count)
{
	json_t *object = dsr_json_new(), *actors = json_array();
	bool is_drained = true;
	uint64_t left = 0;

	for (uint32_t i = 0; i < count; i++) {
		json_t *actor = outcome_json(&calls[i]);
		uint64_t own = dsr_json_get_u64(calls[i].reply, "left");

		is_drained = is_drained && err_of(&calls[i]) == 0;
		left += own;
		dsr_json_set(&actor, "left",
		             calls[i].reply != NULL ? dsr_json_u64(own) : json_null());
		dsr_json_append(&actors, actor);
	}
	dsr_json_set(&object, "drained", json_boolean(is_drained));
	dsr_json_set(&object, "left", dsr_json_u64(left));
	dsr_json_set(&object, "actors", actors);
	return object;
}

void dsr_replies_drain_print(const struct dsr_call *calls, uint32_t count, FILE *out)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct dsr_call *call = &calls[i];

		if (err_of(call) == 0)
			fprintf(out, "%s: drained\n", call->target.name);
		else if (call->reply != NULL)
			fprintf(out, "%s: not drained (%s), left %" PRIu64 "\n", call->target.name,
			        err_name(err_of(call)), dsr_json_get_u64(call->reply, "left"));
		else
			fprintf(out, "%s: not drained (%s)\n", call->target.name,
			        err_name(err_of(call)));
	}
}

json_t *dsr_replies_reset_json(const struct dsr_call *call)
{
	json_t *object = dsr_json_new();

	dsr_json_set(&object, "err", json_integer(err_of(call)));
	dsr_json_set(&object, "error", json_string(err_name(err_of(call))));
	dsr_json_set(&object, "reason", json_string(dsr_json_get_text(call->reply, "reason")));
	dsr_json_set(&object, "entries", dsr_json_u64(dsr_json_get_u64(call->reply, "entries")));
	return object;
}

void dsr_replies_reset_print(const struct dsr_call *call, FILE *out)
{
	if (err_of(call) == 0)
		fprintf(out, "blocks forgotten: %" PRIu64 "\n",
		        dsr_json_get_u64(call->reply, "entries"));
	else
		fprintf(out, "refused (%s): %s\n", err_name(err_of(call)),
		        dsr_json_get_text(call->reply, "reason"));
}

json_t *dsr_replies_fault_json(const char *spec, const struct dsr_call *calls, uint32_t count)
{
	json_t *object = dsr_json_new(), *actors = json_array();

	for (uint32_t i = 0; i < count; i++) {
		json_t *actor = outcome_json(&calls[i]);

		dsr_json_set(&actor, "reason",
		             json_string(dsr_json_get_text(calls[i].reply, "reason")));
		dsr_json_append(&actors, actor);
	}
	dsr_json_set(&object, "spec", dsr_json_text(spec, strlen(spec)));
	dsr_json_set(&object, "actors", actors);
	return object;
}

void dsr_replies_fault_print(const char *spec, const struct dsr_call *calls, uint32_t count,
                             FILE *out)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct dsr_call *call = &calls[i];

		if (err_of(call) == 0)
			fprintf(out, "%s: %s%s\n", call->target.name,
			        spec[0] != '\0' ? "armed " : "disarmed", spec);
		else
			fprintf(out, "%s: refused (%s) %s\n", call->target.name,
			        err_name(err_of(call)), dsr_json_get_text(call->reply, "reason"));
	}
}

json_t *dsr_replies_faults_json(void)
{
	json_t *object = dsr_json_new(), *points = json_array();

	for (unsigned i = 0; i < DSR_FAULT_COUNT; i++) {
		json_t *point = json_object();

		dsr_json_set(&point, "point", json_string(dsr_fault_name(i)));
		dsr_json_set(&point, "role", json_string(dsr_fault_role(i)));
		dsr_json_set(&point, "meaning", json_string(dsr_fault_meaning(i)));
		dsr_json_append(&points, point);
	}
	dsr_json_set(&object, "faults", points);
	return object;
}

int dsr_replies_faults_print(const json_t *faults, FILE *out)
{
	struct dsr_table *table;
	const json_t *point;
	size_t i;
	int r = dsr_table_new("POINT,ROLE,WHERE AND WHAT IT HEEDS BESIDE kill stop delay", &table);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(faults, "faults"), i, point)
	{
		dsr_table_cell(table, "%s", dsr_json_get_text(point, "point"));
		dsr_table_cell(table, "%s", dsr_json_get_text(point, "role"));
		dsr_table_cell(table, "%s", dsr_json_get_text(point, "meaning"));
	}
	r = dsr_table_print(table, out);
	dsr_table_free(&table);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tapline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "fields.h"
#include "json.h"

/* "in load host:0 123": direction, role, device or `-`, incarnation. */
struct origin {
	char direction[8];
	char role[24];
	char device[72];
	uint64_t incarnation;
};

static bool parse_line(const char *line, struct origin *ret_origin)
{
	return sscanf(line, "%7s %23s %71s %" SCNu64, ret_origin->direction, ret_origin->role,
	              ret_origin->device, &ret_origin->incarnation) == 4;
}

static void set_envelope(json_t **object, const struct dsr_env *env)
{
	const struct dsr_msg_info *info = dsr_msg_info(env->type);

	dsr_json_set(object, "message", json_string(info != NULL ? info->name : "?"));
	dsr_json_set(object, "type", dsr_json_u64(env->type));
	dsr_json_set(object, "from", dsr_json_u64(env->from));
	dsr_json_set(object, "to", dsr_json_u64(env->to));
	dsr_json_set(object, "req", dsr_json_u64(env->req));
}

json_t *dsr_tapline_json(struct dsr_codec *codec, const char *actor, uint64_t time_ns,
                         const char *line, const void *frame, size_t bytes)
{
	struct origin origin = {.direction = "?", .role = "?", .device = "-"};
	bool has_device = parse_line(line, &origin) && strcmp(origin.device, "-") != 0;
	const char *separator = has_device ? "-" : "", *device = has_device ? origin.device : "";
	json_t *object = dsr_json_new();
	struct dsr_env env = {0};
	union dsr_msg msg;
	int r;

	dsr_json_set(&object, "time_ns", dsr_json_u64(time_ns));
	dsr_json_set(&object, "actor", json_string(actor));
	dsr_json_set(&object, "direction", dsr_json_text(origin.direction, SIZE_MAX));
	dsr_json_set(&object, "peer", json_sprintf("%s%s%s", origin.role, separator, device));
	dsr_json_set(&object, "peer_incarnation", dsr_json_u64(origin.incarnation));
	dsr_json_set(&object, "bytes", json_integer((json_int_t)bytes));
	r = dsr_codec_unpack(codec, frame, bytes, &env, &msg);
	set_envelope(&object, &env);
	if (r < 0) {
		const char *name = strerrorname_np(-r);

		dsr_json_set(&object, "error", json_string(name != NULL ? name : "?"));
		return object;
	}
	dsr_json_set(&object, "fields", dsr_fields_json(dsr_msg_info(env.type), &msg));
	return object;
}

static void print_time(uint64_t time_ns, FILE *out)
{
	time_t seconds = (time_t)(time_ns / 1000000000);
	struct tm tm;
	char text[32];

	if (gmtime_r(&seconds, &tm) == NULL || strftime(text, sizeof(text), "%T", &tm) == 0)
		fputs("? ", out);
	else
		fprintf(out, "%s.%06" PRIu64 " ", text, time_ns / 1000 % 1000000);
}

int dsr_tapline_print(const json_t *tapline, FILE *out)
{
	const json_t *fields = json_object_get(tapline, "fields");
	const char *direction = dsr_json_get_text(tapline, "direction");

	print_time(dsr_json_get_u64(tapline, "time_ns"), out);
	fprintf(out, "%s %s %s %s #%" PRIu64 ": ", dsr_json_get_text(tapline, "actor"),
	        strcmp(direction, "in") == 0 ? "<-" : "->", dsr_json_get_text(tapline, "peer"),
	        dsr_json_get_text(tapline, "message"), dsr_json_get_u64(tapline, "req"));
	if (fields != NULL)
		dsr_fields_print(fields, out);
	else
		fprintf(out, "cannot be decoded (%s), %" PRIu64 " bytes",
		        dsr_json_get_text(tapline, "error"), dsr_json_get_u64(tapline, "bytes"));
	return fputc('\n', out) == EOF ? -EIO : 0;
}

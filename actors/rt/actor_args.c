/* SPDX-License-Identifier: Apache-2.0 */
#include "actor_args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "files.h"
#include "version.h"

/* clang-format off */
static const struct dsr_role_info roles[] = {
#define DSR_ROLE(NAME, name, number, exe, per_device, ready_ms, stop_ms, restart)                  \
	{DSR_ROLE_##NAME, #name, exe, (per_device) != 0, stop_ms},
#include "actors.def"
#undef DSR_ROLE
};
/* clang-format on */

const struct dsr_role_info *dsr_role_info(enum dsr_role role)
{
	size_t i;

	for (i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (roles[i].role == role)
			return &roles[i];
	return NULL;
}

/* Value of `--name=VALUE` or `--name VALUE` at argv[*at], which then moves past it; NULL: another
 * flag, or (with a line in ret_why) no value. */
static const char *take_value(const char *name, char **argv, int *at, char *ret_why,
                              size_t why_bytes)
{
	size_t n = strlen(name);

	if (strncmp(argv[*at], name, n) != 0)
		return NULL;
	if (argv[*at][n] == '=')
		return argv[(*at)++] + n + 1;
	if (argv[*at][n] != '\0')
		return NULL;
	if (!argv[*at + 1]) {
		(void)snprintf(ret_why, why_bytes, "%s: a value is missing", name);
		return NULL;
	}
	*at += 2;
	return argv[*at - 1];
}

static int parse_stop_fd(const char *text, int *ret_fd, char *ret_why, size_t why_bytes)
{
	char *end;
	long fd = strtol(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || fd > 1 << 20) {
		(void)snprintf(ret_why, why_bytes, "--stop-fd: value `%.64s`, expected a number",
		               text);
		return -EINVAL;
	}
	*ret_fd = (int)fd;
	return 0;
}

static int parse_own(const struct dsr_role_info *role, char **argv, struct dsr_actor_args *args,
                     char *ret_why, size_t why_bytes)
{
	const char *value;
	int at = 1;

	ret_why[0] = '\0';
	while (argv[at]) {
		if (strcmp(argv[at], "--help") == 0) {
			args->is_help = true;
			at++;
		} else if (strcmp(argv[at], "--version") == 0) {
			args->is_version = true;
			at++;
		} else if ((value = take_value("--device", argv, &at, ret_why, why_bytes))) {
			args->device = value;
		} else if ((value = take_value("--stop-fd", argv, &at, ret_why, why_bytes))) {
			if (parse_stop_fd(value, &args->stop_fd, ret_why, why_bytes) < 0)
				return -EINVAL;
		} else if ((value = take_value("--fault", argv, &at, ret_why, why_bytes)) &&
		           args->fault_count < DSR_ACTOR_FAULTS_MAX) {
			args->faults[args->fault_count++] = value;
		} else {
			if (!ret_why[0])
				(void)snprintf(ret_why, why_bytes,
				               "argument `%.64s` is not known, see %s --help",
				               value ? value : argv[at], role->executable);
			return -EINVAL;
		}
	}
	return 0;
}

static int check_device(const struct dsr_role_info *role, const char *device, char *ret_why,
                        size_t why_bytes)
{
	if (!role->per_device && device[0])
		(void)snprintf(ret_why, why_bytes, "--device: a %s serves all devices", role->name);
	else if (role->per_device && !device[0])
		(void)snprintf(ret_why, why_bytes,
		               "--device is missing, expected a name such as "
		               "host:0");
	else if (device[0] && !dsr_device_name_ok(device))
		(void)snprintf(ret_why, why_bytes,
		               "--device: value `%.64s`, expected a name such as "
		               "host:0",
		               device);
	else
		return 0;
	return -EINVAL;
}

int dsr_actor_args_parse(const struct dsr_role_info *role, int argc, char **argv,
                         struct dsr_options *options, struct dsr_actor_args *ret_args,
                         char *ret_why, size_t why_bytes)
{
	struct dsr_actor_args args = {.device = "", .stop_fd = -1};
	char **rest = calloc((size_t)argc + 1, sizeof(*rest));
	int r;

	if (!rest)
		return -ENOMEM;
	memcpy(rest, argv, (size_t)argc * sizeof(*rest));
	r = dsr_options_parse(options, &argc, rest, ret_why, why_bytes);
	r = r ? r : parse_own(role, rest, &args, ret_why, why_bytes);
	if (r == 0 && !args.is_help && !args.is_version)
		r = check_device(role, args.device, ret_why, why_bytes);
	free(rest);
	if (r == 0)
		*ret_args = args;
	return r;
}

void dsr_actor_args_help(const struct dsr_role_info *role)
{
	/* style-ok: stdout: help is asked for by a person */
	FILE *f = stdout;
	const struct dsr_option_info *info;
	unsigned i;

	(void)fprintf(f, "usage: %s%s [--KEY VALUE]...\n\n", role->executable,
	              role->per_device ? " --device NAME" : "");
	(void)fprintf(f, "An actor of DaseR; `daser up` starts it. Settings of the supervisor hold "
	                 "unless given here.\n\n");
	if (role->per_device)
		(void)fprintf(f,
		              "  --device NAME\n        Device that it serves, such as host:0.\n");
	for (i = 0; (info = dsr_option_info(i)); i++)
		(void)fprintf(f, "  --%s VALUE\n        %s (%s; default: %s)\n", info->flag,
		              info->help, info->accepted, info->def[0] ? info->def : "empty");
	(void)fprintf(f,
	              "  --fault POINT[:nth=N]:ACTION\n        For tests, may be repeated. ACTION: "
	              "kill, stop, fail=ERRNO, delay=MS, drop, corrupt. POINT:\n");
	for (i = 0; i < DSR_FAULT_COUNT; i++)
		if (strcmp(dsr_fault_role(i), role->name) == 0)
			(void)fprintf(f, "          %s: %s\n", dsr_fault_name(i),
			              dsr_fault_meaning(i));
	(void)fprintf(f, "  --stop-fd FD\n        Inherited descriptor: readable means stop.\n"
	                 "  --help, --version\n");
}

void dsr_actor_args_version(const struct dsr_role_info *role)
{
	/* style-ok: stdout: asked for by a person */
	(void)fprintf(stdout, "%s %s, protocol %d.%d, layout %d.%d\n", role->executable,
	              DSR_VERSION, DSR_PROTOCOL_MAJOR, DSR_PROTOCOL_MINOR, DSR_LAYOUT_MAJOR,
	              DSR_LAYOUT_MINOR);
}

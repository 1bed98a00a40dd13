/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"

enum kind { TEXT, CHOICE, FLAG, NUMBER, REAL, SIZE };

struct setting {
	const char *flag, *def, *accepted, *help;
	enum kind kind;
	size_t offset; /* of the field in struct replay_settings */
};

static const struct setting settings_table[] = {
#define REPLAY_SETTING(field, flag, TYPE, def, accepted, help)                                     \
	{flag, def, accepted, help, TYPE, offsetof(struct replay_settings, field)},
#include "settings.def"
#undef REPLAY_SETTING
};

#define SETTING_COUNT (sizeof(settings_table) / sizeof(settings_table[0]))
#define OPT_BASE 1000 /* getopt values of the table's rows */
#define OPT_WORKER_FD 900
#define OPT_RANK 901

__attribute__((format(printf, 3, 4))) static int refuse(char *why, size_t bytes, const char *format,
                                                        ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, bytes, format, args);
	va_end(args);
	return -EINVAL;
}

static void *field_of(struct replay_settings *settings, const struct setting *setting)
{
	return (char *)settings + setting->offset;
}

/* Digits only: no sign, no space, no base but ten. */
static int parse_number(const char *text, uint64_t *ret_number)
{
	char *end = NULL;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0')
		return -EINVAL;
	*ret_number = value;
	return 0;
}

static int parse_real(const char *text, double *ret_real)
{
	char *end = NULL;

	if ((text[0] < '0' || text[0] > '9') && text[0] != '.')
		return -EINVAL;
	errno = 0;
	double value = strtod(text, &end);
	if (errno != 0 || end == text || *end != '\0')
		return -EINVAL;
	*ret_real = value;
	return 0;
}

static bool is_choice(const char *accepted, const char *value)
{
	size_t length = strlen(value);

	for (const char *p = accepted; p && length > 0;
	     p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
		if (strncmp(p, value, length) == 0 && (p[length] == '|' || p[length] == '\0'))
			return true;
	return false;
}

/* "low..high", each as `parse` takes it. */
static bool in_range_u64(const char *accepted, uint64_t value,
                         int (*parse)(const char *, uint64_t *))
{
	char text[64];
	uint64_t low = 0, high = UINT64_MAX;

	(void)snprintf(text, sizeof(text), "%s", accepted);
	char *dots = strstr(text, "..");
	if (!dots)
		return true;
	*dots = '\0';
	return parse(text, &low) == 0 && parse(dots + 2, &high) == 0 && value >= low &&
	       value <= high;
}

static bool in_range_real(const char *accepted, double value)
{
	char *end = NULL;
	double low = strtod(accepted, &end);
	const char *dots = strstr(accepted, "..");

	/* strtod may take the first dot along */
	return dots && value >= low && value <= strtod(dots + 2, NULL);
}

static int set(struct replay_settings *settings, const struct setting *setting, const char *value)
{
	void *field = field_of(settings, setting);
	uint64_t number = 0;
	double real = 0;

	switch (setting->kind) {
	case TEXT:
		*(const char **)field = value;
		return 0;
	case CHOICE:
		if (!is_choice(setting->accepted, value))
			return -EINVAL;
		*(const char **)field = value;
		return 0;
	case FLAG:
		*(bool *)field = true;
		return 0;
	case NUMBER:
		if (parse_number(value, &number) < 0 ||
		    !in_range_u64(setting->accepted, number, parse_number))
			return -EINVAL;
		*(uint64_t *)field = number;
		return 0;
	case SIZE:
		if (dsr_parse_size(value, &number) < 0 ||
		    !in_range_u64(setting->accepted, number, dsr_parse_size))
			return -EINVAL;
		*(uint64_t *)field = number;
		return 0;
	case REAL:
		if (parse_real(value, &real) < 0 || !in_range_real(setting->accepted, real))
			return -EINVAL;
		*(double *)field = real;
		return 0;
	}
	return -EINVAL;
}

static int parse_phases(struct replay_settings *settings, char *why, size_t bytes)
{
	const char *p = settings->phases;

	settings->phase_count = 0;
	for (;;) {
		size_t length = strcspn(p, ",");
		static const char *const known[] = {"cold", "warm", "drain"};
		const char *name = NULL;

		for (size_t i = 0; i < 3; i++)
			if (strlen(known[i]) == length && strncmp(known[i], p, length) == 0)
				name = known[i];
		if (!name)
			return refuse(why, bytes,
			              "--phases `%s`: `%.*s` is none of cold, drain, warm",
			              settings->phases, (int)length, p);
		if (settings->phase_count == REPLAY_PHASES_MAX)
			return refuse(why, bytes, "--phases `%s`: more than %d phases",
			              settings->phases, REPLAY_PHASES_MAX);
		(void)snprintf(settings->phase_names[settings->phase_count++],
		               REPLAY_PHASE_NAME_MAX, "%s", name);
		if (p[length] == '\0')
			return 0;
		p += length + 1;
	}
}

/* Settings that only fit together. */
static int check(struct replay_settings *s, char *why, size_t bytes)
{
	uint64_t wait = s->settle ? 1000000 : 300;
	uint64_t runs = strcmp(s->layout, "layer") == 0 ? 2 * s->layers : 1;
	uint64_t t = s->block_tokens;

	if (strcmp(s->lookup_wait_us, "auto") != 0 &&
	    (parse_number(s->lookup_wait_us, &wait) < 0 || wait > 1000000))
		return refuse(why, bytes, "--lookup-wait `%s`: expected auto or 0..1000000",
		              s->lookup_wait_us);
	s->wait_us = (uint32_t)wait;
	if (s->save_deadline_ms == 0)
		s->save_deadline_ms = s->settle ? 30000 : 1000;
	if (strcmp(s->workload, "auto") == 0)
		s->workload = s->trace[0] != '\0' ? "trace" : "multiturn";
	if (strcmp(s->workload, "trace") == 0) {
		if (s->trace[0] == '\0')
			return refuse(why, bytes, "--workload trace needs --trace FILE");
		if (REPLAY_SPAN_TOKENS % t != 0 && t % REPLAY_SPAN_TOKENS != 0)
			return refuse(why, bytes,
			              "--block-tokens %llu: of a trace it divides 512 or is a "
			              "multiple of it",
			              (unsigned long long)t);
	} else if (s->trace[0] != '\0') {
		return refuse(why, bytes, "--trace `%s`: --workload %s reads none", s->trace,
		              s->workload);
	}
	if (s->block_bytes % (8 * runs) != 0)
		return refuse(why, bytes,
		              "--block-bytes %llu: expected a multiple of %llu (8 bytes in each of "
		              "%llu runs)",
		              (unsigned long long)s->block_bytes, (unsigned long long)(8 * runs),
		              (unsigned long long)runs);
	if (strlen(s->engine) > 60)
		return refuse(why, bytes, "--engine `%s`: longer than 60 bytes", s->engine);
	return parse_phases(s, why, bytes);
}

static void defaults(struct replay_settings *settings)
{
	*settings = (struct replay_settings){.worker_fd = -1};
	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (settings_table[i].kind != FLAG)
			(void)set(settings, &settings_table[i], settings_table[i].def);
}

static void long_options(struct option *options)
{
	for (size_t i = 0; i < SETTING_COUNT; i++)
		options[i] = (struct option){
			.name = settings_table[i].flag,
			.has_arg = settings_table[i].kind == FLAG ? no_argument : required_argument,
			.val = OPT_BASE + (int)i,
		};
	options[SETTING_COUNT] = (struct option){.name = "help", .val = 'h'};
	options[SETTING_COUNT + 1] = (struct option){.name = "version", .val = 'V'};
	options[SETTING_COUNT + 2] = (struct option){
		.name = "worker-fd", .has_arg = required_argument, .val = OPT_WORKER_FD};
	/* --rank is for people who look at a list of processes */
	options[SETTING_COUNT + 3] =
		(struct option){.name = "rank", .has_arg = required_argument, .val = OPT_RANK};
	options[SETTING_COUNT + 4] = (struct option){0};
}

static int take(struct replay_settings *settings, int option, const char *value, char *why,
                size_t bytes)
{
	uint64_t fd = 0;

	if (option == 'h') {
		settings->help = true;
	} else if (option == 'V') {
		settings->version = true;
	} else if (option == OPT_WORKER_FD) {
		if (parse_number(value, &fd) < 0 || fd > 65535)
			return refuse(why, bytes, "--worker-fd `%s`: expected a descriptor", value);
		settings->worker_fd = (int)fd;
	} else if (option >= OPT_BASE) {
		const struct setting *setting = &settings_table[option - OPT_BASE];

		if (set(settings, setting, value) < 0)
			return refuse(why, bytes, "--%s `%s`: expected %s", setting->flag, value,
			              setting->accepted);
	}
	return 0;
}

int replay_settings_parse(struct replay_settings *ret_settings, int argc, char **argv,
                          char *ret_why, size_t why_bytes)
{
	struct option options[SETTING_COUNT + 5];
	struct replay_settings settings;

	defaults(&settings);
	long_options(options);
	opterr = 0;
	optind = 0; /* a test parses more than once */
	for (;;) {
		int option = getopt_long(argc, argv, ":h", options, NULL);

		if (option == -1)
			break;
		if (option == '?')
			return refuse(ret_why, why_bytes,
			              "`%s`: no such flag, or it takes no value (see --help)",
			              argv[optind > 0 ? optind - 1 : 0]);
		if (option == ':')
			return refuse(ret_why, why_bytes, "`%s` needs a value",
			              argv[optind > 0 ? optind - 1 : 0]);
		int r = take(&settings, option, optarg, ret_why, why_bytes);
		if (r < 0)
			return r;
	}
	if (optind < argc)
		return refuse(ret_why, why_bytes, "`%s`: expected flags only (see --help)",
		              argv[optind]);
	if (!settings.help && !settings.version && settings.worker_fd == -1) {
		int r = check(&settings, ret_why, why_bytes);
		if (r < 0)
			return r;
	}
	*ret_settings = settings;
	return 0;
}

void replay_settings_help(FILE *file)
{
	(void)fprintf(file, "Usage: daser-replay [flags]\n"
	                    "Drives libdaser as an engine does, with one process for each rank, "
	                    "and checks every\n"
	                    "byte that comes back. Exit status: 0 good, 1 something mismatched, "
	                    "hung or failed,\n"
	                    "2 wrong flags.\n\n");
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		const struct setting *s = &settings_table[i];
		char left[64];

		(void)snprintf(left, sizeof(left), "--%s%s%s", s->flag, s->kind == FLAG ? "" : " ",
		               s->kind == FLAG ? "" : s->accepted);
		(void)fprintf(file, "  %s\n      %s", left, s->help);
		if (s->kind != FLAG && s->def[0] != '\0')
			(void)fprintf(file, " [%s]", s->def);
		(void)fputc('\n', file);
	}
}

json_t *replay_settings_json(const struct replay_settings *settings)
{
	json_t *object = json_object();

	for (size_t i = 0; object && i < SETTING_COUNT; i++) {
		const struct setting *s = &settings_table[i];
		const void *field = (const char *)settings + s->offset;
		json_t *value = NULL;

		switch (s->kind) {
		case TEXT:
		case CHOICE:
			value = json_string(*(const char *const *)field);
			if (!value)
				value = json_string("(not UTF-8)");
			break;
		case FLAG:
			value = json_boolean(*(const bool *)field);
			break;
		case NUMBER:
		case SIZE:
			value = json_integer((json_int_t) * (const uint64_t *)field);
			break;
		case REAL:
			value = json_real(*(const double *)field);
			break;
		}
		if (!value || json_object_set_new(object, s->flag, value) < 0) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}

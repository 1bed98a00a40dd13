/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "log.h"
#include "options.h"
#include "version.h"

enum flag_kind { FLAG_SET, FLAG_NUMBER, FLAG_TEXT };

struct flag {
	const char *name; /* without dashes */
	const char *value;
	enum flag_kind kind;
	size_t offset; /* in struct dsr_cli */
	uint64_t max;
	const char *help;
};

static const struct flag common_flags[] = {
	{"run-dir", "DIR", FLAG_TEXT, offsetof(struct dsr_cli, run_dir), 0,
         "directory of the instance; else $DASER_RUN_DIR, else the default"},
	{"json", NULL, FLAG_SET, offsetof(struct dsr_cli, is_json), 0,
         "JSON instead of text for people"},
	{NULL, NULL, FLAG_SET, 0, 0, NULL},
};

#define LIMIT_MAX UINT32_MAX
#define TIMEOUT_MAX_MS 3600000
#define FLAG_TIMEOUT(text)                                                                         \
	{                                                                                          \
		"timeout", "MS", FLAG_NUMBER, offsetof(struct dsr_cli, timeout_ms),                \
			TIMEOUT_MAX_MS, (text)                                                     \
	}
#define FLAG_LIMIT(text)                                                                           \
	{                                                                                          \
		"limit", "N", FLAG_NUMBER, offsetof(struct dsr_cli, limit), LIMIT_MAX, (text)      \
	}
#define FLAG_END                                                                                   \
	{                                                                                          \
		NULL, NULL, FLAG_SET, 0, 0, NULL                                                   \
	}

static const struct flag no_flags[] = {FLAG_END};
static const struct flag requests_flags[] = {FLAG_LIMIT("rows at most (20); 0: all that are kept"),
                                             FLAG_END};
static const struct flag entries_flags[] = {
	FLAG_LIMIT("rows at most (50); 0: all"),
	{"state", "STATE", FLAG_TEXT, offsetof(struct dsr_cli, state), 0,
         "rows of one state: free, reserved, visible or aborting; else all but free"},
	FLAG_END};
static const struct flag send_flags[] = {FLAG_TIMEOUT("longest wait for the reply (2000)"),
                                         FLAG_END};
static const struct flag tap_flags[] = {
	FLAG_TIMEOUT("stop after this time; else when interrupted"),
	{"count", "N", FLAG_NUMBER, offsetof(struct dsr_cli, count), LIMIT_MAX,
         "stop after N messages; fewer within --timeout is exit status 1"},
	FLAG_END};
static const struct flag drain_flags[] = {FLAG_TIMEOUT("longest wait (30000)"), FLAG_END};
static const struct flag reset_flags[] = {{"entries", NULL, FLAG_SET,
                                           offsetof(struct dsr_cli, is_entries), 0,
                                           "forget the blocks that nobody uses, keep the geometry"},
                                          FLAG_TIMEOUT("longest wait (10000)"),
                                          FLAG_END};
static const struct flag fault_flags[] = {
	{"list", NULL, FLAG_SET, offsetof(struct dsr_cli, is_list), 0, "list the fault points"},
	{"disarm", NULL, FLAG_SET, offsetof(struct dsr_cli, is_disarm), 0,
         "disarm all points, of one actor or of every one"},
	FLAG_TIMEOUT("longest wait for the reply (2000)"),
	FLAG_END};

struct verb {
	const char *name;
	const char *words; /* as in the usage line */
	int word_min, word_max;
	uint64_t limit, timeout_ms; /* defaults */
	const struct flag *flags;
	int (*run)(struct dsr_cli *cli);
	const char *summary;
	const char *help;
};

static const struct verb verbs[] = {
	{"status", "", 0, 0, 0, 0, no_flags, dsr_cli_status, "actors, pool, cache use, counters",
         "Exit status 4 while an expected actor is not up: scheduler, metrics, and load and store "
         "of\neach known device."},
	{"requests", "", 0, 0, 20, 0, requests_flags, dsr_cli_requests,
         "finished loads and stores, newest first",
         "One row for each load or store of one rank. Times: total = open + wait + ipc + copy + kv "
         "+ sync."},
	{"entries", "", 0, 0, 50, 0, entries_flags, dsr_cli_entries, "rows of the entry table", ""},
	{"send", "ROLE[-DEVICE] MESSAGE [FIELD=VALUE ...]", 2, INT32_MAX, 0, 2000, send_flags,
         dsr_cli_send, "send a request to an actor and print its reply",
         "Values: integers (decimal or 0x...), text, hex bytes; keys as hex, comma separated; "
         "references as\nGENERATION:SLOT_SEQ:ENTRY:SLOT, comma separated; lists of integers comma "
         "separated. A field\nthat is not given is 0 or empty. Exit status 1 when the reply's err "
         "is not 0 or none comes."},
	{"tap", "[ROLE[-DEVICE] ...]", 0, INT32_MAX, 0, 0, tap_flags, dsr_cli_tap,
         "print the messages that actors send and receive",
         "Without an actor: all of them. What cannot be printed fast enough is lost. --json: one "
         "object a line."},
	{"drain", "", 0, 0, 0, 30000, drain_flags, dsr_cli_drain,
         "wait until every accepted store is committed or given up", ""},
	{"reset", "", 0, 0, 0, 10000, reset_flags, dsr_cli_reset,
         "forget all blocks and the geometry",
         "Refused while an engine, lease, reservation or quarantine is left."},
	{"fault", "ROLE[-DEVICE] SPEC | --list | --disarm [ROLE[-DEVICE]]", 0, 2, 0, 2000,
         fault_flags, dsr_cli_fault, "make something go wrong on purpose",
         "SPEC: POINT[:nth=N]:ACTION; ACTION: kill, stop, fail=ERRNO, delay=MS, drop or corrupt."},
	{"config", "[--FLAG=VALUE ...]", 0, INT32_MAX, 0, 0, NULL, dsr_cli_config,
         "check settings and print what they come to",
         "Takes every setting as a flag; starts nothing. Exit status 2 with one line when one is "
         "not good."},
	{"layout", "", 0, 0, 0, 0, no_flags, dsr_cli_layout,
         "roles, shared structs, states, reasons and counters of this build", ""},
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

int dsr_cli_fail(const struct dsr_cli *cli, int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("daserctl: ", cli->err);
	vfprintf(cli->err, format, arguments);
	fputc('\n', cli->err);
	va_end(arguments);
	return status;
}

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < VERBS; i++) {
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	}
	return NULL;
}

static void print_help(FILE *out)
{
	fputs("usage: daserctl [--run-dir DIR] VERB [--json] [flags]\n\n", out);
	for (size_t i = 0; i < VERBS; i++)
		fprintf(out, "  %-9s %s\n", verbs[i].name, verbs[i].summary);
	fputs("\ndaserctl VERB --help tells more; daserctl --version.\n"
	      "Exit status: 0 good, 1 failed, 2 usage, 3 not running, 4 degraded.\n",
	      out);
}

static void print_flags(FILE *out, const struct flag *flags)
{
	for (; flags->name != NULL; flags++) {
		char left[48];

		snprintf(left, sizeof(left), "--%s%s%s", flags->name,
		         flags->value != NULL ? " " : "", flags->value != NULL ? flags->value : "");
		fprintf(out, "  %-16s %s\n", left, flags->help);
	}
}

static void print_settings(FILE *out)
{
	const struct dsr_option_info *info;

	fputs("\nSettings:\n", out);
	for (unsigned i = 0; (info = dsr_option_info(i)) != NULL; i++)
		fprintf(out, "  --%s VALUE (%s; default %s)\n      %s\n", info->flag,
		        info->accepted, info->def[0] != '\0' ? info->def : "empty", info->help);
}

static void print_verb_help(FILE *out, const struct verb *verb)
{
	fprintf(out, "usage: daserctl %s%s%s [flags]\n\n%c%s.\n", verb->name,
	        verb->words[0] != '\0' ? " " : "", verb->words, verb->summary[0] - 'a' + 'A',
	        verb->summary + 1);
	if (verb->help[0] != '\0')
		fprintf(out, "%s\n", verb->help);
	fputc('\n', out);
	if (verb->flags != NULL)
		print_flags(out, verb->flags);
	print_flags(out, common_flags);
	if (verb->run == dsr_cli_config)
		print_settings(out);
	if (verb->run == dsr_cli_send)
		dsr_cli_list_messages(out);
}

static const struct flag *find_flag(const struct flag *flags, const char *name, size_t length)
{
	for (; flags != NULL && flags->name != NULL; flags++) {
		if (strlen(flags->name) == length && strncmp(flags->name, name, length) == 0)
			return flags;
	}
	return NULL;
}

static int set_number(struct dsr_cli *cli, const struct flag *flag, const char *text)
{
	char *end = NULL;
	unsigned long long number = 0;

	errno = 0;
	if (text[0] >= '0' && text[0] <= '9')
		number = strtoull(text, &end, 10);
	if (end == NULL || *end != '\0' || errno != 0 || number > flag->max)
		return dsr_cli_fail(cli, DSR_CTL_USAGE,
		                    "--%s `%s` is not a number from 0 to %" PRIu64, flag->name,
		                    text, flag->max);
	*(uint64_t *)(void *)((char *)cli + flag->offset) = number;
	return DSR_CTL_OK;
}

/* Takes the flag at argv[*at]; *at moves over its value. */
static int take_flag(struct dsr_cli *cli, const struct verb *verb, int argc, char **argv, int *at)
{
	const char *name = argv[*at] + 2;
	size_t length = strcspn(name, "=");
	const char *value = name[length] == '=' ? name + length + 1 : NULL;
	const struct flag *flag = find_flag(common_flags, name, length);

	if (flag == NULL && verb != NULL)
		flag = find_flag(verb->flags, name, length);
	if (flag == NULL)
		return dsr_cli_fail(cli, DSR_CTL_USAGE,
		                    "unknown flag `--%.*s`%s%s: see daserctl%s%s --help",
		                    (int)length, name, verb != NULL ? " of " : "",
		                    verb != NULL ? verb->name : "", verb != NULL ? " " : "",
		                    verb != NULL ? verb->name : "");
	if (flag->kind == FLAG_SET) {
		if (value != NULL)
			return dsr_cli_fail(cli, DSR_CTL_USAGE, "--%s takes no value, got `%s`",
			                    flag->name, value);
		*(bool *)(void *)((char *)cli + flag->offset) = true;
		return DSR_CTL_OK;
	}
	if (value == NULL) {
		if (*at + 1 >= argc)
			return dsr_cli_fail(cli, DSR_CTL_USAGE, "--%s needs a value: %s",
			                    flag->name, flag->value);
		value = argv[++*at];
	}
	if (flag->kind == FLAG_NUMBER)
		return set_number(cli, flag, value);
	*(const char **)(void *)((char *)cli + flag->offset) = value;
	return DSR_CTL_OK;
}

/* What `config` takes beside the common flags are settings: left in place as words. */
static bool is_setting(const struct verb *verb, const char *text)
{
	size_t length;

	if (verb == NULL || verb->flags != NULL)
		return false;
	length = strcspn(text + 2, "=");
	return find_flag(common_flags, text + 2, length) == NULL ||
	       strncmp(text, "--run-dir", 9) == 0;
}

/* Sorts argv into flags and words; the first word is the verb. */
static int parse(struct dsr_cli *cli, int argc, char **argv, const struct verb **ret_verb,
                 bool *ret_help)
{
	const struct verb *verb = NULL;
	bool is_ended = false;

	for (int i = 1; i < argc; i++) {
		char *text = argv[i];
		int r;

		if (!is_ended && strcmp(text, "--") == 0) {
			is_ended = true;
		} else if (!is_ended && (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0)) {
			*ret_help = true;
		} else if (!is_ended && strncmp(text, "--", 2) == 0 && !is_setting(verb, text)) {
			r = take_flag(cli, verb, argc, argv, &i);
			if (r != DSR_CTL_OK)
				return r;
		} else if (verb == NULL) {
			verb = find_verb(text);
			if (verb == NULL)
				return dsr_cli_fail(cli, DSR_CTL_USAGE,
				                    "unknown verb `%s`: see daserctl --help", text);
			cli->limit = verb->limit;
			cli->timeout_ms = verb->timeout_ms;
		} else {
			cli->words[cli->word_count++] = text;
		}
	}
	*ret_verb = verb;
	return DSR_CTL_OK;
}

static int run(struct dsr_cli *cli, int argc, char **argv)
{
	const struct verb *verb = NULL;
	bool wants_help = false;
	int r;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		fprintf(cli->out, "daserctl %s\n", DSR_VERSION);
		return DSR_CTL_OK;
	}
	r = parse(cli, argc, argv, &verb, &wants_help);
	if (r != DSR_CTL_OK)
		return r;
	if (wants_help) {
		if (verb != NULL)
			print_verb_help(cli->out, verb);
		else
			print_help(cli->out);
		return DSR_CTL_OK;
	}
	if (verb == NULL)
		return dsr_cli_fail(cli, DSR_CTL_USAGE, "no verb given: see daserctl --help");
	if (cli->word_count < verb->word_min || cli->word_count > verb->word_max)
		return dsr_cli_fail(cli, DSR_CTL_USAGE, "%s takes `%s`: see daserctl %s --help",
		                    verb->name, verb->words[0] != '\0' ? verb->words : "no words",
		                    verb->name);
	return verb->run(cli);
}

int dsr_cli_main(int argc, char **argv, FILE *out, FILE *err)
{
	struct dsr_cli cli = {.out = out, .err = err};
	int r;

	dsr_log_init("daserctl", DSR_LOG_ERROR, 0);
	cli.words = calloc((size_t)argc + 1, sizeof(*cli.words));
	if (cli.words == NULL)
		return dsr_cli_fail(&cli, DSR_CTL_FAILED, "out of memory");
	r = run(&cli, argc, argv);
	free(cli.words);
	if (fflush(out) == EOF && r == DSR_CTL_OK)
		return dsr_cli_fail(&cli, DSR_CTL_FAILED, "cannot write the result: %s",
		                    strerror(errno));
	return r;
}

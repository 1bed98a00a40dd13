/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "util.h"

#define KEY_MAX 64
#define AUTO_ALIGN (UINT64_C(2) << 20)
#define AUTO_PERCENT 25

enum option_type {
	OPTION_STR,
	OPTION_LIST,
	OPTION_SIZE,
	OPTION_MS,
	OPTION_US,
	OPTION_BOOL,
	OPTION_ENUM
};

struct option {
	const char *key;
	const char *type_name;
	const char *def;
	const char *accepted;
	const char *help;
	enum option_type type;
	size_t offset; /* in struct dsr_options */
};

/* clang-format off */
static const struct option options_table[] = {
#define DSR_OPTION(field, key, TYPE, def, accepted, help)                                          \
	{key, #TYPE, def, accepted, help, OPTION_##TYPE, offsetof(struct dsr_options, field)},
#include "options.def"
#undef DSR_OPTION
};
/* clang-format on */

#define OPTION_COUNT (sizeof(options_table) / sizeof(options_table[0]))

/* Made once from the table above, then never changed. */
static struct dsr_option_info infos[OPTION_COUNT];
static char flags[OPTION_COUNT][KEY_MAX];
static pthread_once_t infos_once = PTHREAD_ONCE_INIT;

static void to_flag(const char *key, char *ret_flag)
{
	size_t i;

	for (i = 0; key[i] && i < KEY_MAX - 1; i++)
		ret_flag[i] = key[i] == '.' || key[i] == '_' ? '-' : key[i];
	ret_flag[i] = '\0';
}

static void make_infos(void)
{
	size_t i;

	for (i = 0; i < OPTION_COUNT; i++) {
		const struct option *o = &options_table[i];

		to_flag(o->key, flags[i]);
		infos[i] = (struct dsr_option_info){.key = o->key,
		                                    .flag = flags[i],
		                                    .type = o->type_name,
		                                    .def = o->def,
		                                    .accepted = o->accepted,
		                                    .help = o->help};
	}
}

const struct dsr_option_info *dsr_option_info(unsigned index)
{
	(void)pthread_once(&infos_once, make_infos);
	return index < OPTION_COUNT ? &infos[index] : NULL;
}

static const struct option *find(const char *key)
{
	char flag[KEY_MAX];
	unsigned i;

	if (strlen(key) >= sizeof(flag))
		return NULL;
	to_flag(key, flag);
	for (i = 0; i < OPTION_COUNT; i++) {
		if (strcmp(key, options_table[i].key) == 0)
			return &options_table[i];
		/* Exactly the flag form: "l1_size" is neither. */
		if (strcmp(key, flag) == 0 && strcmp(key, dsr_option_info(i)->flag) == 0)
			return &options_table[i];
	}
	return NULL;
}

/* ---- values ---- */

static int parse_digits(const char **p, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *s = *p;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
			return -EINVAL;
	}
	*p = s;
	*ret_value = value;
	return 0;
}

static int parse_integer(const char *text, uint64_t *ret_value)
{
	uint64_t value;

	if (parse_digits(&text, &value) < 0 || *text)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))

/* value.fraction units in bytes; a fraction of nine digits at most keeps the product in 64 bits. */
int dsr_parse_size(const char *text, uint64_t *ret_bytes)
{
	uint64_t whole;
	uint64_t fraction = 0;
	uint64_t scale = 1;
	unsigned __int128 bytes;
	size_t unit;

	if (parse_digits(&text, &whole) < 0)
		return -EINVAL;
	if (*text == '.') {
		for (text++; *text >= '0' && *text <= '9' && scale < 1000000000; text++) {
			fraction = fraction * 10 + (uint64_t)(*text - '0');
			scale *= 10;
		}
		if (scale == 1 || *text == '\0') /* "1." and "1.5": half a byte */
			return -EINVAL;
	}
	for (unit = 0; unit < UNIT_COUNT && strcmp(text, units[unit]) != 0; unit++)
		;
	if (unit == UNIT_COUNT)
		return -EINVAL;
	bytes = ((unsigned __int128)whole << (10 * unit)) +
	        (((unsigned __int128)fraction << (10 * unit)) / scale);
	if (bytes > UINT64_MAX)
		return -EINVAL;
	*ret_bytes = (uint64_t)bytes;
	return 0;
}

void dsr_format_size(uint64_t bytes, char *ret_text, size_t text_bytes)
{
	size_t unit = 0;

	while (unit + 1 < UNIT_COUNT && bytes >> (10 * (unit + 1)) > 0)
		unit++;
	if (bytes % (UINT64_C(1) << (10 * unit)) == 0)
		(void)snprintf(ret_text, text_bytes, "%" PRIu64 "%s", bytes >> (10 * unit),
		               units[unit]);
	else
		(void)snprintf(ret_text, text_bytes, "%.1f%s",
		               (double)bytes / (double)(UINT64_C(1) << (10 * unit)), units[unit]);
}

/* "min..max" */
static bool in_range(const char *accepted, uint64_t value)
{
	const char *dots = strstr(accepted, "..");
	char low[KEY_MAX];
	uint64_t min;
	uint64_t max;

	if (!dots || (size_t)(dots - accepted) >= sizeof(low))
		return false;
	memcpy(low, accepted, (size_t)(dots - accepted));
	low[dots - accepted] = '\0';
	return dsr_parse_size(low, &min) == 0 && dsr_parse_size(dots + 2, &max) == 0 &&
	       value >= min && value <= max;
}

/* Position of value among "a|b|c". */
static int find_enum(const char *accepted, const char *value, uint32_t *ret_index)
{
	size_t n = strlen(value);
	const char *p = accepted;
	uint32_t i;

	for (i = 0; p; i++) {
		if (n > 0 && strncmp(p, value, n) == 0 && (p[n] == '|' || p[n] == '\0')) {
			*ret_index = i;
			return 0;
		}
		p = strchr(p, '|');
		if (p)
			p++;
	}
	return -EINVAL;
}

/* A form that `accepted` names in words. */
static bool text_fits(const char *accepted, const char *value)
{
	static const char host[] = "127.0.0.1:";
	uint64_t port;

	const char *p;

	for (p = value; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	if (p - value >= DSR_OPTION_TEXT_MAX)
		return false;
	if (strcmp(accepted, "127.0.0.1:port") != 0 || value[0] == '\0')
		return true;
	return strncmp(value, host, sizeof(host) - 1) == 0 &&
	       parse_integer(value + sizeof(host) - 1, &port) == 0 && port <= 65535;
}

static int set_value(const struct option *o, void *field, const char *value)
{
	uint64_t number;
	uint32_t index;

	switch (o->type) {
	case OPTION_STR:
	case OPTION_LIST:
		if (!text_fits(o->accepted, value))
			return -EINVAL;
		return dsr_copy_string(field, DSR_OPTION_TEXT_MAX, value);
	case OPTION_SIZE:
		if (strcmp(o->def, "auto") == 0 && strcmp(value, "auto") == 0)
			number = 0; /* below every minimum: not resolved */
		else if (dsr_parse_size(value, &number) < 0 || !in_range(o->accepted, number))
			return -EINVAL;
		memcpy(field, &number, sizeof(number));
		return 0;
	case OPTION_MS:
	case OPTION_US:
		if (parse_integer(value, &number) < 0 || !in_range(o->accepted, number))
			return -EINVAL;
		memcpy(field, &number, sizeof(number));
		return 0;
	case OPTION_BOOL:
		if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
			return -EINVAL;
		*(bool *)field = value[0] == 't';
		return 0;
	case OPTION_ENUM:
		if (find_enum(o->accepted, value, &index) < 0)
			return -EINVAL;
		memcpy(field, &index, sizeof(index));
		return 0;
	}
	return -EINVAL;
}

static void *field_of(const struct option *o, struct dsr_options *options)
{
	return (char *)options + o->offset;
}

void dsr_options_init(struct dsr_options *options)
{
	size_t i;

	memset(options, 0, sizeof(*options));
	for (i = 0; i < OPTION_COUNT; i++)
		(void)set_value(&options_table[i], field_of(&options_table[i], options),
		                options_table[i].def);
}

int dsr_options_set(struct dsr_options *options, const char *key, const char *value, char *ret_why,
                    size_t why_bytes)
{
	const struct option *o = find(key);

	if (!o) {
		(void)snprintf(ret_why, why_bytes, "no setting `%.64s`", key);
		return -ENOENT;
	}
	if (set_value(o, field_of(o, options), value) < 0) {
		(void)snprintf(ret_why, why_bytes, "%s: value `%.64s`, expected %s%s", o->key,
		               value, o->accepted, strcmp(o->def, "auto") == 0 ? " or auto" : "");
		return -EINVAL;
	}
	return 0;
}

/* Takes the flag at argv[i]; returns how many arguments it took, 0 when it is not ours. */
static int take_flag(struct dsr_options *options, int left, char **argv, char *ret_why,
                     size_t why_bytes)
{
	const char *flag = argv[0] + 2;
	const char *equals = strchr(flag, '=');
	char name[KEY_MAX];
	size_t n = equals ? (size_t)(equals - flag) : strlen(flag);
	int r;

	if (n == 0 || n >= sizeof(name))
		return 0;
	memcpy(name, flag, n);
	name[n] = '\0';
	if (strpbrk(name, "._") || !find(name))
		return 0;
	if (!equals && left < 2) {
		(void)snprintf(ret_why, why_bytes, "--%s: a value is missing", name);
		return -EINVAL;
	}
	r = dsr_options_set(options, name, equals ? equals + 1 : argv[1], ret_why, why_bytes);
	return r < 0 ? r : equals ? 1 : 2;
}

int dsr_options_parse(struct dsr_options *options, int *argc, char **argv, char *ret_why,
                      size_t why_bytes)
{
	int kept = *argc > 0;
	int i = kept;
	int r;

	while (i < *argc && strcmp(argv[i], "--") != 0) {
		r = strncmp(argv[i], "--", 2) == 0
		            ? take_flag(options, *argc - i, argv + i, ret_why, why_bytes)
		            : 0;
		if (r < 0)
			return r;
		if (r == 0)
			argv[kept++] = argv[i++];
		i += r;
	}
	while (i < *argc)
		argv[kept++] = argv[i++];
	if (kept < *argc)
		argv[kept] = NULL;
	*argc = kept;
	return 0;
}

int dsr_options_text(const struct dsr_options *options, unsigned index, char *ret_text,
                     size_t text_bytes)
{
	const struct option *o = index < OPTION_COUNT ? &options_table[index] : NULL;
	const char *field = o ? (const char *)options + o->offset : NULL;
	const char *p;
	uint64_t number;
	uint32_t i;

	if (!o)
		return -ENOENT;
	switch (o->type) {
	case OPTION_STR:
	case OPTION_LIST:
		return dsr_copy_string(ret_text, text_bytes, field);
	case OPTION_BOOL:
		return dsr_copy_string(ret_text, text_bytes, *field ? "true" : "false");
	case OPTION_SIZE:
	case OPTION_MS:
	case OPTION_US:
		memcpy(&number, field, sizeof(number));
		if (number == 0 && strcmp(o->def, "auto") == 0)
			return dsr_copy_string(ret_text, text_bytes, "auto");
		i = (uint32_t)snprintf(ret_text, text_bytes, "%" PRIu64, number);
		return i < text_bytes ? 0 : -E2BIG;
	case OPTION_ENUM:
		memcpy(&i, field, sizeof(i));
		for (p = o->accepted; i > 0 && p; i--)
			p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL;
		if (!p)
			return -EINVAL;
		i = (uint32_t)snprintf(ret_text, text_bytes, "%.*s", (int)strcspn(p, "|"), p);
		return i < text_bytes ? 0 : -E2BIG;
	}
	return -EINVAL;
}

/* ---- what depends on the machine ---- */

int dsr_options_resolve_run_dir(struct dsr_options *options, char *ret_why, size_t why_bytes)
{
	const char *env = getenv("DASER_RUN_DIR");
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char text[DSR_OPTION_TEXT_MAX];
	int n;

	if (options->run_dir[0])
		return 0;
	if (env && env[0])
		n = snprintf(text, sizeof(text), "%s", env);
	else if (xdg && xdg[0])
		n = snprintf(text, sizeof(text), "%s/daser", xdg);
	else
		n = snprintf(text, sizeof(text), "/tmp/daser-%ju", (uintmax_t)getuid());
	if (n < 0 || (size_t)n >= sizeof(text)) {
		(void)snprintf(ret_why, why_bytes, "run_dir: longer than %zu bytes",
		               sizeof(text) - 1);
		return -ENAMETOOLONG;
	}
	(void)dsr_copy_string(options->run_dir, sizeof(options->run_dir), text);
	return 0;
}

static int resolve_l1(struct dsr_options *options, char *ret_why, size_t why_bytes)
{
	struct dsr_memory memory;
	uint64_t limit;
	char size[32];
	char available[32];
	char headroom[32];
	bool is_auto = options->l1_size == 0;
	int r = dsr_memory_read("/proc", "/sys/fs/cgroup", &memory);

	if (r < 0) {
		(void)snprintf(ret_why, why_bytes, "l1.size: MemAvailable of /proc/meminfo: %s",
		               strerror(-r));
		return r;
	}
	limit = is_auto ? memory.available / 100 * AUTO_PERCENT : memory.available;
	if (memory.headroom < limit)
		limit = memory.headroom;
	if (is_auto)
		options->l1_size = limit - limit % AUTO_ALIGN;
	if (options->l1_size > 0 && options->l1_size <= limit)
		return 0;
	dsr_format_size(options->l1_size, size, sizeof(size));
	dsr_format_size(memory.available, available, sizeof(available));
	dsr_format_size(memory.headroom, headroom, sizeof(headroom));
	(void)snprintf(ret_why, why_bytes,
	               "l1.size: %s does not fit, MemAvailable is %s, the cgroup's headroom %s",
	               is_auto ? "auto" : size, available,
	               memory.headroom == UINT64_MAX ? "unlimited" : headroom);
	if (is_auto)
		options->l1_size = 0;
	return -ENOMEM;
}

int dsr_options_resolve(struct dsr_options *options, char *ret_why, size_t why_bytes)
{
	char size[32];
	int r = dsr_options_resolve_run_dir(options, ret_why, why_bytes);

	if (r < 0)
		return r;
	if (options->l2_size > 0 && options->l2_dirs[0] == '\0') {
		dsr_format_size(options->l2_size, size, sizeof(size));
		(void)snprintf(ret_why, why_bytes, "l2.size: %s needs l2.dirs, which is empty",
		               size);
		return -EINVAL;
	}
	return resolve_l1(options, ret_why, why_bytes);
}

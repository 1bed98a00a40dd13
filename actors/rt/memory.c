/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where one version of cgroups keeps its numbers. */
struct hierarchy {
	const char *controller; /* field 2 of /proc/self/cgroup; "" in version 2 */
	const char *mount;      /* below the cgroup directory */
	const char *limit, *usage, *cache;
};

static const struct hierarchy hierarchies[] = {
	{"", "", "memory.max", "memory.current", "inactive_file"},
	{"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
         "total_inactive_file"},
};

/* Version 1 writes "no limit" as the greatest page-aligned signed number. */
#define NO_LIMIT (UINT64_C(1) << 62)

/* Value of the line `name VALUE` or `name: VALUE` of a file. */
static int read_named(const char *path, const char *name, uint64_t *ret_value)
{
	FILE *f = fopen(path, "re");
	char line[256];
	char word[128];
	uint64_t value;
	int r = -ENODATA;

	if (!f)
		return -errno;
	while (r < 0 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%127s %" SCNu64, word, &value) != 2)
			continue;
		word[strcspn(word, ":")] = '\0';
		if (strcmp(word, name) != 0)
			continue;
		*ret_value = value;
		r = 0;
	}
	(void)fclose(f);
	return r;
}

/* The number a file consists of; -ENODATA for "max" and the like. */
static int read_number(const char *path, uint64_t *ret_value)
{
	FILE *f = fopen(path, "re");
	uint64_t value;
	int r;

	if (!f)
		return -errno;
	r = fscanf(f, "%" SCNu64, &value) == 1 ? 0 : -ENODATA;
	(void)fclose(f);
	if (r == 0)
		*ret_value = value;
	return r;
}

static bool join(char *ret_path, const char *a, const char *b, const char *c)
{
	int n = snprintf(ret_path, PATH_MAX, "%s%s/%s", a, b, c);

	return n > 0 && n < PATH_MAX;
}

/* Lowers *headroom to that of the group in `dir`/`group`, if it has a limit. */
static void take_group(const struct hierarchy *h, const char *dir, const char *group,
                       uint64_t *headroom)
{
	char path[PATH_MAX];
	uint64_t limit;
	uint64_t usage;
	uint64_t cache = 0;

	if (!join(path, dir, group, h->limit) || read_number(path, &limit) < 0 || limit >= NO_LIMIT)
		return;
	if (!join(path, dir, group, h->usage) || read_number(path, &usage) < 0)
		return;
	if (join(path, dir, group, "memory.stat"))
		(void)read_named(path, h->cache, &cache);
	usage -= cache < usage ? cache : usage;
	limit = usage < limit ? limit - usage : 0;
	if (limit < *headroom)
		*headroom = limit;
}

/* The group and all above it. In a container the path may be the host's, unknown here: groups that
 * are not there count for nothing, and the walk ends at the mount's root. */
static void take_path(const struct hierarchy *h, const char *cgroup, char *group,
                      uint64_t *headroom)
{
	char dir[PATH_MAX];
	char *slash;
	int n = snprintf(dir, sizeof(dir), "%s%s", cgroup, h->mount);

	if (n < 0 || (size_t)n >= sizeof(dir))
		return;
	while ((slash = strrchr(group, '/'))) {
		take_group(h, dir, group, headroom);
		*slash = '\0';
	}
	take_group(h, dir, "", headroom);
}

static bool has_controller(const char *list, const char *name)
{
	size_t n = strlen(name);
	const char *p;

	if (n == 0)
		return list[0] == '\0';
	for (p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, name, n) == 0 && (p[n] == '\0' || p[n] == ','))
			return true;
	}
	return false;
}

/* A line is `number:controllers:path`. */
static void take_line(const char *cgroup, char *line, uint64_t *headroom)
{
	char *controllers = strchr(line, ':');
	char *group = controllers ? strchr(controllers + 1, ':') : NULL;
	size_t i;

	if (!group)
		return;
	controllers++;
	*group++ = '\0';
	group[strcspn(group, "\n")] = '\0';
	for (i = 0; i < sizeof(hierarchies) / sizeof(hierarchies[0]); i++) {
		if (has_controller(controllers, hierarchies[i].controller)) {
			take_path(&hierarchies[i], cgroup, group, headroom);
			return;
		}
	}
}

int dsr_memory_read(const char *proc, const char *cgroup, struct dsr_memory *ret_memory)
{
	struct dsr_memory memory = {.headroom = UINT64_MAX};
	char path[PATH_MAX];
	char line[PATH_MAX];
	FILE *f;

	if (!join(path, proc, "", "meminfo"))
		return -ENAMETOOLONG;
	if (read_named(path, "MemAvailable", &memory.available) < 0)
		return -ENODATA;
	memory.available *= 1024; /* the file counts in kB */
	f = join(path, proc, "", "self/cgroup") ? fopen(path, "re") : NULL;
	while (f && fgets(line, sizeof(line), f))
		take_line(cgroup, line, &memory.headroom);
	if (f)
		(void)fclose(f);
	*ret_memory = memory;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ERRNO_LAST 133 /* EHWPOISON, the last one of Linux */
#define DELAY_MS_MAX 600000
#define ACTIONS "kill, stop, fail=ERRNO, delay=MS, drop or corrupt"

/* clang-format off */
static const struct {
	const char *name, *role, *meaning;
} points[] = {
#define DSR_FAULT(NAME, name, role, meaning) {#name, #role, meaning},
#include "faults.def"
#undef DSR_FAULT
};
/* clang-format on */

const char *dsr_fault_name(unsigned point)
{
	return point < DSR_FAULT_COUNT ? points[point].name : "?";
}

const char *dsr_fault_role(unsigned point)
{
	return point < DSR_FAULT_COUNT ? points[point].role : "?";
}

const char *dsr_fault_meaning(unsigned point)
{
	return point < DSR_FAULT_COUNT ? points[point].meaning : "?";
}

#if DSR_WITH_FAULTS

enum deed { DEED_NONE, DEED_KILL, DEED_STOP, DEED_FAIL, DEED_DELAY, DEED_DROP, DEED_CORRUPT };

struct fault {
	enum deed deed;
	int value;          /* errno of fail, ms of delay */
	unsigned long left; /* times the point is still passed unharmed */
};

struct dsr_faults {
	struct fault faults[DSR_FAULT_COUNT];
};

static bool parse_number(const char *text, unsigned long max, unsigned long *ret_value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret_value = strtoul(text, &end, 10);
	return errno == 0 && *end == '\0' && *ret_value <= max;
}

static bool parse_errno(const char *text, int *ret_errno)
{
	unsigned long value;
	int i;

	if (parse_number(text, ERRNO_LAST, &value) && value > 0) {
		*ret_errno = (int)value;
		return true;
	}
	for (i = 1; i <= ERRNO_LAST; i++) {
		const char *name = strerrorname_np(i);

		if (name && strcmp(name, text) == 0) {
			*ret_errno = i;
			return true;
		}
	}
	return false;
}

static bool parse_action(const char *text, struct fault *ret_fault)
{
	static const struct {
		const char *name;
		enum deed deed;
	} plain[] = {{"kill", DEED_KILL},
	             {"stop", DEED_STOP},
	             {"drop", DEED_DROP},
	             {"corrupt", DEED_CORRUPT}};
	unsigned long ms;
	size_t i;

	for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (strcmp(text, plain[i].name) == 0) {
			ret_fault->deed = plain[i].deed;
			return true;
		}
	}
	if (strncmp(text, "fail=", 5) == 0) {
		ret_fault->deed = DEED_FAIL;
		return parse_errno(text + 5, &ret_fault->value);
	}
	if (strncmp(text, "delay=", 6) == 0 && parse_number(text + 6, DELAY_MS_MAX, &ms)) {
		ret_fault->deed = DEED_DELAY;
		ret_fault->value = (int)ms;
		return true;
	}
	return false;
}

/* POINT[:nth=N]:ACTION; fills why and returns -EINVAL on the first part that is none. */
static int parse_spec(const char *spec, unsigned *ret_point, struct fault *ret_fault, char *ret_why,
                      size_t why_bytes)
{
	struct fault fault = {0};
	unsigned long nth = 1;
	char text[128];
	char *action;
	char *word;
	unsigned i;

	if ((size_t)snprintf(text, sizeof(text), "%s", spec) >= sizeof(text)) {
		(void)snprintf(ret_why, why_bytes, "fault spec longer than %zu", sizeof(text) - 1);
		return -EINVAL;
	}
	action = strchr(text, ':');
	if (action)
		*action++ = '\0';
	for (i = 0; i < DSR_FAULT_COUNT && strcmp(points[i].name, text) != 0; i++)
		;
	if (i == DSR_FAULT_COUNT) {
		(void)snprintf(ret_why, why_bytes, "no fault point `%s`, see --help", text);
		return -EINVAL;
	}
	if (action && strncmp(action, "nth=", 4) == 0) {
		word = action + 4;
		action = strchr(word, ':');
		if (action)
			*action++ = '\0';
		if (!parse_number(word, ULONG_MAX - 1, &nth) || nth == 0) {
			(void)snprintf(ret_why, why_bytes, "nth `%s`, expected 1 or more", word);
			return -EINVAL;
		}
	}
	if (!action || !parse_action(action, &fault)) {
		(void)snprintf(ret_why, why_bytes, "fault action `%s`, expected " ACTIONS,
		               action ? action : "");
		return -EINVAL;
	}
	fault.left = nth - 1;
	*ret_point = i;
	*ret_fault = fault;
	return 0;
}

int dsr_faults_arm(struct dsr_faults *faults, const char *spec, char *ret_why, size_t why_bytes)
{
	struct fault fault;
	unsigned point;
	int r = parse_spec(spec, &point, &fault, ret_why, why_bytes);

	if (r == 0)
		faults->faults[point] = fault;
	return r;
}

void dsr_faults_disarm(struct dsr_faults *faults)
{
	memset(faults->faults, 0, sizeof(faults->faults));
}

enum dsr_fault_action dsr_fault_at(struct dsr_faults *faults, enum dsr_fault point, int *ret_err)
{
	struct fault *fault;

	if (!faults)
		return DSR_FAULT_NONE;
	fault = &faults->faults[point];
	if (fault->deed == DEED_NONE)
		return DSR_FAULT_NONE;
	if (fault->left > 0) {
		fault->left--;
		return DSR_FAULT_NONE;
	}
	switch (fault->deed) {
	case DEED_KILL:
		(void)kill(getpid(), SIGKILL);
		break;
	case DEED_STOP:
		fault->deed = DEED_NONE; /* continued, it goes on */
		(void)kill(getpid(), SIGSTOP);
		break;
	case DEED_DELAY:
		(void)poll(NULL, 0, fault->value);
		break;
	case DEED_FAIL:
		if (ret_err)
			*ret_err = -fault->value;
		return DSR_FAULT_FAIL;
	case DEED_DROP:
		return DSR_FAULT_DROP;
	case DEED_CORRUPT:
		return DSR_FAULT_CORRUPT;
	case DEED_NONE:
		break;
	}
	return DSR_FAULT_NONE;
}

#else

struct dsr_faults {
	char unused;
};

int dsr_faults_arm(struct dsr_faults *faults, const char *spec, char *ret_why, size_t why_bytes)
{
	(void)faults;
	(void)spec;
	(void)snprintf(ret_why, why_bytes, "fault points are compiled out (-Dfaults=false)");
	return -ENOTSUP;
}

void dsr_faults_disarm(struct dsr_faults *faults)
{
	(void)faults;
}

enum dsr_fault_action dsr_fault_at(struct dsr_faults *faults, enum dsr_fault point, int *ret_err)
{
	(void)faults;
	(void)point;
	(void)ret_err;
	return DSR_FAULT_NONE;
}

#endif

int dsr_faults_new(struct dsr_faults **ret_faults)
{
	struct dsr_faults *faults = calloc(1, sizeof(*faults));

	if (!faults)
		return -ENOMEM;
	*ret_faults = faults;
	return 0;
}

void dsr_faults_free(struct dsr_faults **faults)
{
	free(*faults);
	*faults = NULL;
}

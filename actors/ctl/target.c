/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "files.h"

struct target_role {
	const char *name;
	enum dsr_role role;
	bool is_per_device;
	bool is_actor;
};

static const struct target_role roles[] = {
#define DSR_ROLE(NAME, name, number, exe, per_device, ready_ms, stop_ms, restart)                  \
	{#name, DSR_ROLE_##NAME, (per_device) != 0, (restart) != 0},
#include "actors.def"
#undef DSR_ROLE
};
#define ROLES (sizeof(roles) / sizeof(roles[0]))

static const struct target_role *find_role(const char *text, size_t length)
{
	for (size_t i = 0; i < ROLES; i++) {
		if (roles[i].is_actor && strlen(roles[i].name) == length &&
		    strncmp(roles[i].name, text, length) == 0)
			return &roles[i];
	}
	return NULL;
}

static const struct target_role *role_of(uint32_t number)
{
	for (size_t i = 0; i < ROLES; i++) {
		if ((uint32_t)roles[i].role == number)
			return &roles[i];
	}
	return NULL;
}

static void set_target(const struct target_role *role, const char *device,
                       struct dsr_target *ret_target)
{
	ret_target->role = role->role;
	snprintf(ret_target->device, sizeof(ret_target->device), "%s", device);
	snprintf(ret_target->name, sizeof(ret_target->name), "%s%s%s", role->name,
	         device[0] != '\0' ? "-" : "", device);
}

/* The one actor of a role, NULL when there are none or several. */
static const struct dsr_actor_report *
only_one(const struct target_role *role, const struct dsr_actor_report *reports, uint32_t count)
{
	const struct dsr_actor_report *found = NULL;

	for (uint32_t i = 0; i < count; i++) {
		if (reports[i].role != (uint32_t)role->role || !reports[i].is_expected)
			continue;
		if (found != NULL)
			return NULL;
		found = &reports[i];
	}
	return found;
}

int dsr_target_parse(const char *text, const struct dsr_actor_report *reports, uint32_t count,
                     struct dsr_target *ret_target, char *ret_why, size_t why_bytes)
{
	size_t length = strcspn(text, "-");
	const char *device = text[length] == '-' ? text + length + 1 : "";
	const struct target_role *role = find_role(text, length);
	const struct dsr_actor_report *only;

	if (role == NULL) {
		snprintf(ret_why, why_bytes,
		         "`%.64s` is no actor: expected scheduler, metrics, load-DEVICE or "
		         "store-DEVICE",
		         text);
		return -EINVAL;
	}
	if (text[length] == '-' && (!role->is_per_device || !dsr_device_name_ok(device))) {
		snprintf(ret_why, why_bytes, "`%.80s`: %s%s", text,
		         role->is_per_device ? "this is no device name" : role->name,
		         role->is_per_device ? "" : " has no device");
		return -EINVAL;
	}
	if (role->is_per_device && device[0] == '\0') {
		only = only_one(role, reports, count);
		if (only == NULL) {
			snprintf(ret_why, why_bytes,
			         "`%s` needs a device, as in %s-host:0: see daserctl status",
			         role->name, role->name);
			return -EINVAL;
		}
		device = only->device;
	}
	set_target(role, device, ret_target);
	return 0;
}

void dsr_target_of(const struct dsr_actor_report *report, struct dsr_target *ret_target)
{
	const struct target_role *role = role_of(report->role);

	/* reports hold known roles alone */
	set_target(role != NULL ? role : &roles[0], report->device, ret_target);
}

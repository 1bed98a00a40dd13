/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "counters.h"
#include "roles.h"

struct report_role {
	uint32_t number;
	bool is_started; /* by the supervisor */
	bool is_per_device;
};

static const struct report_role report_roles[] = {
#define DSR_ROLE(NAME, name, number, exe, per_device, ready_ms, stop_ms, restart)                  \
	{(number), (restart) != 0, (per_device) != 0},
#include "actors.def"
#undef DSR_ROLE
};
#define REPORT_ROLES (sizeof(report_roles) / sizeof(report_roles[0]))

static bool is_device_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == ':' || c == '-' || c == '_' || c == '.';
}

static void copy_device(const char *src, char *dst)
{
	size_t n = strnlen(src, DSR_DEVICE_NAME_MAX - 1);

	for (size_t i = 0; i < n; i++)
		dst[i] = is_device_char(src[i]) ? src[i] : '?';
	dst[n] = '\0';
}

static void name_report(struct dsr_actor_report *report)
{
	snprintf(report->name, sizeof(report->name), "%s%s%s", dsr_role_name(report->role),
	         report->device[0] != '\0' ? "-" : "", report->device);
}

static void read_leaving(const struct dsr_actor_row *row, uint64_t now_ns,
                         struct dsr_actor_report *report)
{
	uint64_t seen_ns = atomic_load_explicit(&row->heartbeat_ns, memory_order_relaxed);
	bool is_draining = report->state == DSR_ACTOR_DRAINING;

	report->has_left = report->state == DSR_ACTOR_STOPPED || (is_draining && report->is_gone);
	report->is_leaving = (is_draining && !report->is_gone) ||
	                     (report->has_left && now_ns < seen_ns + DSR_REPORT_LEAVING_NS);
}

static void read_row(const struct dsr_control *control, uint32_t index, uint64_t now_ns,
                     dsr_report_alive_fn *is_alive, struct dsr_actor_report *report)
{
	const struct dsr_actor_row *row = &control->rows[index];
	uint64_t progress_ns = atomic_load_explicit(&row->progress_ns, memory_order_acquire);

	memset(report, 0, sizeof(*report));
	report->row = index;
	report->role = row->role;
	report->state = atomic_load_explicit(&row->state, memory_order_acquire);
	report->incarnation = atomic_load_explicit(&row->incarnation, memory_order_acquire);
	report->pid = row->pid;
	report->is_by_hand = row->by_hand != 0;
	/* the actor may have moved it after now_ns was read */
	report->progress_age_ns = now_ns > progress_ns ? now_ns - progress_ns : 0;
	report->restarts = atomic_load_explicit(&control->counters[index].v[DSR_COUNTER_RESTARTS],
	                                        memory_order_relaxed);
	report->is_gone = report->state != DSR_ACTOR_STOPPED && is_alive != NULL &&
	                  !is_alive(row->pid, row->start_ticks);
	read_leaving(row, now_ns, report);
	report->is_up = !report->is_gone && dsr_actor_row_is_up(row, now_ns, DSR_REPORT_MAX_AGE_NS);
	copy_device(row->device, report->device);
	name_report(report);
}

static const struct report_role *find_role(uint32_t number)
{
	for (size_t i = 0; i < REPORT_ROLES; i++) {
		if (report_roles[i].number == number && report_roles[i].is_started)
			return &report_roles[i];
	}
	return NULL;
}

static struct dsr_actor_report *find_report(struct dsr_actor_report *reports, uint32_t count,
                                            uint32_t role, const char *device)
{
	for (uint32_t i = 0; i < count; i++) {
		if (reports[i].role == role && strcmp(reports[i].device, device) == 0)
			return &reports[i];
	}
	return NULL;
}

/* Marks the actor as expected, adding it when it has no row; returns the new count. */
static uint32_t expect(struct dsr_actor_report *reports, uint32_t count, uint32_t role,
                       const char *device)
{
	struct dsr_actor_report *found = find_report(reports, count, role, device);

	if (found == NULL && count < DSR_REPORT_MAX) {
		found = &reports[count++];
		memset(found, 0, sizeof(*found));
		found->row = DSR_REPORT_NO_ROW;
		found->role = role;
		memcpy(found->device, device, strlen(device) + 1);
		name_report(found);
	}
	if (found != NULL)
		found->is_expected = true;
	return count;
}

/* True when report i is of a device whose actors should all be up. */
static bool is_of_known_device(const struct dsr_actor_report *reports, uint32_t count, uint32_t i)
{
	const struct report_role *role = find_role(reports[i].role);

	if (role == NULL || !role->is_per_device || reports[i].device[0] == '\0' ||
	    reports[i].has_left)
		return false;
	for (uint32_t j = 0; j < count; j++) {
		if (reports[j].is_leaving && strcmp(reports[j].device, reports[i].device) == 0)
			return false;
	}
	return true;
}

static bool stands_after(const struct dsr_actor_report *a, const struct dsr_actor_report *b)
{
	return a->role != b->role ? a->role > b->role : a->row > b->row;
}

/* Insertion sort: some dozens of rows, nearly in order already. */
static void sort_reports(struct dsr_actor_report *reports, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		struct dsr_actor_report moved = reports[i];
		uint32_t at = i;

		for (; at > 0 && stands_after(&reports[at - 1], &moved); at--)
			reports[at] = reports[at - 1];
		reports[at] = moved;
	}
}

uint32_t dsr_report_actors(const struct dsr_control *control, uint64_t now_ns,
                           dsr_report_alive_fn *is_alive, struct dsr_actor_report *reports)
{
	uint32_t count = 0, rows;

	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++) {
		const struct dsr_actor_row *row = &control->rows[i];

		if (atomic_load_explicit(&row->incarnation, memory_order_acquire) == 0 ||
		    find_role(row->role) == NULL)
			continue;
		read_row(control, i, now_ns, is_alive, &reports[count++]);
	}
	rows = count;
	for (size_t r = 0; r < REPORT_ROLES; r++) {
		const struct report_role *role = &report_roles[r];

		if (!role->is_started)
			continue;
		if (!role->is_per_device)
			count = expect(reports, count, role->number, "");
		for (uint32_t i = 0; i < rows && role->is_per_device; i++) {
			char device[DSR_DEVICE_NAME_MAX];

			if (!is_of_known_device(reports, rows, i))
				continue;
			memcpy(device, reports[i].device, sizeof(device));
			count = expect(reports, count, role->number, device);
		}
	}
	sort_reports(reports, count);
	return count;
}

bool dsr_report_is_good(const struct dsr_actor_report *reports, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (reports[i].is_expected && !reports[i].is_up)
			return false;
	}
	return true;
}

void dsr_report_why(const struct dsr_actor_report *report, char *ret_text, size_t text_bytes)
{
	if (report->is_up)
		snprintf(ret_text, text_bytes, "%s", "");
	else if (report->row == DSR_REPORT_NO_ROW)
		snprintf(ret_text, text_bytes, "never started");
	else if (report->state == DSR_ACTOR_ABSENT)
		snprintf(ret_text, text_bytes, "ended with an error");
	else if (report->is_gone)
		snprintf(ret_text, text_bytes, "process %d is gone", report->pid);
	else if (report->state != DSR_ACTOR_READY)
		snprintf(ret_text, text_bytes, "%s", dsr_actor_state_name(report->state));
	else
		snprintf(ret_text, text_bytes, "no progress for %.1f s",
		         (double)report->progress_age_ns / 1e9);
}

void dsr_report_l1(const struct dsr_control *control, const struct dsr_pool_geometry *geometry,
                   struct dsr_l1_report *ret_report)
{
	uint64_t slot_bytes, slots_free;

	memset(ret_report, 0, sizeof(*ret_report));
	if (geometry == NULL)
		return;
	slot_bytes = geometry->slot_stride * geometry->lanes;
	slots_free = atomic_load_explicit(&control->scheduler->slots_free, memory_order_relaxed);
	if (slots_free > geometry->slots)
		slots_free = geometry->slots;
	ret_report->slots_used = geometry->slots - slots_free;
	ret_report->bytes_used = ret_report->slots_used * slot_bytes;
	ret_report->bytes_capacity = geometry->slots * slot_bytes;
}

int dsr_report_geometry(int fd, struct dsr_pool_geometry *ret_geometry, uint64_t *ret_epoch,
                        char *ret_why, size_t why_bytes)
{
	struct dsr_segment segment;
	const struct dsr_pool_geometry *geometry;
	int r = dsr_segment_map(fd, false, &segment);

	if (r < 0) {
		snprintf(ret_why, why_bytes, "the pool's descriptor is no sealed memory file");
		return r;
	}
	r = dsr_segment_check(&segment, DSR_POOL_MAGIC, ret_why, why_bytes);
	if (r < 0)
		goto out_unmap;
	geometry = dsr_segment_section(&segment, DSR_SECTION_GEOMETRY, sizeof(*geometry), 1);
	if (geometry == NULL) {
		snprintf(ret_why, why_bytes, "the pool has no geometry section");
		r = -EPROTONOSUPPORT;
		goto out_unmap;
	}
	*ret_geometry = *geometry;
	*ret_epoch = ((const struct dsr_segment_header *)segment.base)->epoch;
out_unmap:
	dsr_segment_unmap(&segment);
	return r;
}

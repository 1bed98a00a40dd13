/* SPDX-License-Identifier: Apache-2.0 */
#include "quarantine.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "roles.h"
#include "util.h"

/* Also true of a process that has ended and was not reaped yet: its copies have ended, too. */
static bool process_is_dead(int32_t pid, uint64_t start_ticks)
{
	struct pollfd poll_fd = {.fd = dsr_pidfd_open(pid, start_ticks), .events = POLLIN};
	int r;

	if (poll_fd.fd < 0)
		return poll_fd.fd == -ESRCH;
	r = poll(&poll_fd, 1, 0);
	dsr_close(&poll_fd.fd);
	return r == 1;
}

uint32_t dsr_quarantine_begin(struct dsr_quarantine *quarantine, const struct dsr_actor_row *rows)
{
	*quarantine = (struct dsr_quarantine){0};
	/* Rows of the entry table written before are seen by whoever we do not see here yet.
	 * Partner: the fence of dsr_l1_check, which a store actor passes after it is READY. */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++) {
		struct dsr_quarantine_writer *writer = &quarantine->writers[i];
		uint64_t incarnation =
			atomic_load_explicit(&rows[i].incarnation, memory_order_acquire);

		if (incarnation == 0 || rows[i].role != DSR_ROLE_STORE ||
		    process_is_dead(rows[i].pid, rows[i].start_ticks))
			continue;
		writer->incarnation = incarnation;
		writer->pid = rows[i].pid;
		writer->start_ticks = rows[i].start_ticks;
		memcpy(writer->device, rows[i].device, sizeof(writer->device));
		writer->device[sizeof(writer->device) - 1] = '\0';
		quarantine->left++;
	}
	return quarantine->left;
}

void dsr_quarantine_end(struct dsr_quarantine *quarantine, uint32_t writer)
{
	if (writer >= DSR_ACTOR_ROWS || quarantine->writers[writer].incarnation == 0)
		return;
	quarantine->writers[writer].incarnation = 0;
	quarantine->left--;
}

uint32_t dsr_quarantine_meet(struct dsr_quarantine *quarantine, const char *device,
                             uint64_t incarnation)
{
	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++) {
		const struct dsr_quarantine_writer *writer = &quarantine->writers[i];

		if (writer->incarnation == 0 || strcmp(writer->device, device) != 0)
			continue;
		if (writer->incarnation == incarnation)
			return i;
		/* The role lock has one holder at a time. */
		if (writer->incarnation < incarnation)
			dsr_quarantine_end(quarantine, i);
	}
	return DSR_ACTOR_ROWS;
}

void dsr_quarantine_sweep(struct dsr_quarantine *quarantine)
{
	for (uint32_t i = 0; i < DSR_ACTOR_ROWS; i++) {
		const struct dsr_quarantine_writer *writer = &quarantine->writers[i];

		if (writer->incarnation != 0 && process_is_dead(writer->pid, writer->start_ticks))
			dsr_quarantine_end(quarantine, i);
	}
}

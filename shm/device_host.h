/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the host device share. Internal to shm/. */
#ifndef DSR_SHM_DEVICE_HOST_H
#define DSR_SHM_DEVICE_HOST_H

#include <stdatomic.h>
#include <stdint.h>

struct dsr_device {
	int fd;                   /* owned: eventfd */
	_Atomic uint32_t streams; /* open ones */
};

/* Makes dsr_device_fd readable. Any thread. */
void dsr_device_signal(struct dsr_device *device);

#endif

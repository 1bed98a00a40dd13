/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's staging buffers as its load or store actor holds them. */
#ifndef DSR_MOVER_ATTACHMENT_H
#define DSR_MOVER_ATTACHMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker.h"
#include "codec.h"
#include "device.h"
#include "jobs.h"
#include "layout.h"
#include "link.h"

#define DSR_ATTACHMENT_BUFFERS_MAX 256
#define DSR_ATTACHMENT_CANARY_MAX 65536
#define DSR_ATTACHMENT_BYTES_MAX (UINT64_C(1) << 44)
#define DSR_ATTACHMENT_NAME_MAX 128

enum dsr_attachment_state {
	DSR_ATTACHMENT_FREE = 0,
	DSR_ATTACHMENT_WAITING,  /* for the copies of the one that it replaces */
	DSR_ATTACHMENT_CHECKING, /* its pattern is being read */
	DSR_ATTACHMENT_ACTIVE,
	DSR_ATTACHMENT_CLOSING, /* its copies end; nothing more is taken */
};

/* What ATTACH said, copied and checked. */
struct dsr_attachment_spec {
	char engine[DSR_ATTACHMENT_NAME_MAX];
	char object[DSR_ATTACHMENT_NAME_MAX]; /* "" when there is a handle */
	uint8_t handle[DSR_DEVICE_HANDLE_MAX];
	uint32_t handle_bytes;
	uint32_t rank, lane;
	uint32_t buffers, canary_bytes;
	uint64_t pool_epoch;
	uint64_t offset, buffer_bytes;
	uint64_t canary;
};

struct dsr_attachment_buffer {
	uint64_t last_lend; /* greatest ever seen */
	struct dsr_job job; /* owned */
};

/* Zeroed: free. */
struct dsr_attachment {
	enum dsr_attachment_state state;
	struct dsr_peer *peer; /* borrowed; NULL once it is dead */
	uint64_t incarnation;  /* of the worker */
	uint64_t req;          /* of the ATTACH or DETACH that is not answered */
	bool is_asked;         /* there is such a one */
	bool is_mapped;
	struct dsr_attachment_spec spec;
	struct dsr_device_memory staging;      /* owned when is_mapped */
	struct dsr_attachment_buffer *buffers; /* owned when is_mapped, [spec.buffers] */
	uint8_t *pattern;                      /* owned when is_mapped, [spec.canary_bytes] */
	struct dsr_job_line line;
	uint32_t live;   /* jobs accepted and not yet answered */
	bool is_reading; /* the pattern is being copied */
	bool is_marked;  /* and `event` stands behind that */
	struct dsr_event event;
	uint64_t reading_ns;
};

/* Checks what needs no pool. -EINVAL: ret_why (at least 128 bytes) names the field, its value and
 * what is expected. */
int dsr_attachment_parse(const struct dsr_msg_attach *m, struct dsr_attachment_spec *ret_spec,
                         char *ret_why, size_t why_bytes);
/* The same against the pool: the lane, and that a slot fits into a buffer. -EINVAL. */
int dsr_attachment_fits(const struct dsr_attachment_spec *spec,
                        const struct dsr_pool_geometry *geometry, char *ret_why, size_t why_bytes);

/* Imports staging and makes its buffers. -EINVAL: not what was said; -EAGAIN: the supervisor does
 * not answer; -ENOMEM; -EIO. Blocks as dsr_broker_get. */
int dsr_attachment_map(struct dsr_attachment *attachment, struct dsr_device *device,
                       struct dsr_broker *broker, char *ret_why, size_t why_bytes);
/* Closes it. No copy may be under way. */
void dsr_attachment_unmap(struct dsr_attachment *attachment, struct dsr_device *device);

/* First byte of a buffer. */
uint8_t *dsr_attachment_buffer(const struct dsr_attachment *attachment, uint32_t buffer);
/* Takes a lending of a buffer: its free job, and a lending of that number or a lower one is never
 * taken again. -ENOENT: no such buffer; -ESTALE: the number is not greater than the last; -EINVAL:
 * the buffer's last lending is not over. */
int dsr_attachment_lend(struct dsr_attachment *attachment, uint32_t buffer, uint64_t lend,
                        struct dsr_job **ret_job);

#endif

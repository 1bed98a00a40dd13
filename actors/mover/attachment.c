/* SPDX-License-Identifier: Apache-2.0 */
#include "attachment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define ATTACHMENT_OBJECT_PREFIX "staging/"

static int attachment_copy_name(char *dst, struct dsr_str text, const char *field, char *ret_why,
                                size_t why_bytes)
{
	if (text.n >= DSR_ATTACHMENT_NAME_MAX || memchr(text.p, 0, text.n) != NULL) {
		(void)snprintf(ret_why, why_bytes, "%s of %" PRIu32 " bytes, expected at most %d",
		               field, text.n, DSR_ATTACHMENT_NAME_MAX - 1);
		return -EINVAL;
	}
	memcpy(dst, text.p, text.n);
	dst[text.n] = '\0';
	return 0;
}

static int attachment_check_sizes(const struct dsr_msg_attach *m, char *ret_why, size_t why_bytes)
{
	uint64_t bytes;

	if (m->buffers == 0 || m->buffers > DSR_ATTACHMENT_BUFFERS_MAX)
		(void)snprintf(ret_why, why_bytes, "buffers %" PRIu32 ", expected 1 to %d",
		               m->buffers, DSR_ATTACHMENT_BUFFERS_MAX);
	else if (m->buffer_bytes == 0 ||
	         __builtin_mul_overflow(m->buffer_bytes, m->buffers, &bytes) ||
	         __builtin_add_overflow(bytes, m->offset, &bytes) ||
	         bytes > DSR_ATTACHMENT_BYTES_MAX)
		(void)snprintf(ret_why, why_bytes,
		               "%" PRIu32 " buffers of %" PRIu64 " bytes at %" PRIu64
		               ", expected 1 to %" PRIu64 " bytes in all",
		               m->buffers, m->buffer_bytes, m->offset, DSR_ATTACHMENT_BYTES_MAX);
	else if (m->canary_bytes == 0 || m->canary_bytes > DSR_ATTACHMENT_CANARY_MAX ||
	         m->canary_bytes > m->buffer_bytes)
		(void)snprintf(ret_why, why_bytes,
		               "canary_bytes %" PRIu32 ", expected 1 to %d within a buffer",
		               m->canary_bytes, DSR_ATTACHMENT_CANARY_MAX);
	else
		return 0;
	return -EINVAL;
}

int dsr_attachment_parse(const struct dsr_msg_attach *m, struct dsr_attachment_spec *ret_spec,
                         char *ret_why, size_t why_bytes)
{
	const size_t prefix = strlen(ATTACHMENT_OBJECT_PREFIX);
	struct dsr_attachment_spec spec = {
		.handle_bytes = m->handle.n,
		.rank = m->rank,
		.lane = m->lane,
		.buffers = m->buffers,
		.canary_bytes = m->canary_bytes,
		.pool_epoch = m->pool_epoch,
		.offset = m->offset,
		.buffer_bytes = m->buffer_bytes,
		.canary = m->canary,
	};
	int r;

	r = attachment_copy_name(spec.engine, m->engine, "engine", ret_why, why_bytes);
	if (r == 0)
		r = attachment_copy_name(spec.object, m->object, "object", ret_why, why_bytes);
	if (r == 0)
		r = attachment_check_sizes(m, ret_why, why_bytes);
	if (r < 0)
		return r;
	if (m->handle.n > sizeof(spec.handle) || (m->handle.n > 0) == (m->object.n > 0)) {
		(void)snprintf(ret_why, why_bytes,
		               "handle of %" PRIu32 " bytes and object `%s`, expected one of them",
		               m->handle.n, spec.object);
		return -EINVAL;
	}
	/* Never another object of the supervisor's: control segment and pool are not staging. */
	if (m->object.n > 0 && strncmp(spec.object, ATTACHMENT_OBJECT_PREFIX, prefix) != 0) {
		(void)snprintf(ret_why, why_bytes, "object `%.60s`, expected `%s...`", spec.object,
		               ATTACHMENT_OBJECT_PREFIX);
		return -EINVAL;
	}
	if (m->handle.n > 0)
		memcpy(spec.handle, m->handle.p, m->handle.n);
	*ret_spec = spec;
	return 0;
}

int dsr_attachment_fits(const struct dsr_attachment_spec *spec,
                        const struct dsr_pool_geometry *geometry, char *ret_why, size_t why_bytes)
{
	if (spec->lane >= geometry->lanes)
		(void)snprintf(ret_why, why_bytes, "lane %" PRIu32 ", the pool has %" PRIu32,
		               spec->lane, geometry->lanes);
	else if (spec->buffer_bytes < geometry->slot_bytes)
		(void)snprintf(ret_why, why_bytes,
		               "buffer_bytes %" PRIu64 ", expected at least a slot of %" PRIu64,
		               spec->buffer_bytes, geometry->slot_bytes);
	else
		return 0;
	return -EINVAL;
}

static int attachment_import(struct dsr_attachment *a, struct dsr_device *device,
                             struct dsr_broker *broker, char *ret_why, size_t why_bytes)
{
	uint64_t bytes = a->spec.offset + a->spec.buffer_bytes * a->spec.buffers;
	int fd = -1, r;

	if (a->spec.object[0] != '\0') {
		fd = dsr_broker_get(broker, a->spec.object);
		if (fd < 0) {
			(void)snprintf(ret_why, why_bytes, "object `%.60s` at the supervisor: %s",
			               a->spec.object, strerrordesc_np(-fd));
			return fd == -ENOENT ? -EINVAL : -EAGAIN;
		}
	}
	r = dsr_device_import(device, a->spec.handle, a->spec.handle_bytes, fd, bytes, &a->staging);
	if (r < 0)
		(void)snprintf(ret_why, why_bytes, "importing %" PRIu64 " bytes of staging: %s",
		               bytes, strerrordesc_np(-r));
	if (fd >= 0)
		dsr_close(&fd);
	return r == 0 || r == -EINVAL || r == -ENOMEM ? r : -EIO;
}

int dsr_attachment_map(struct dsr_attachment *a, struct dsr_device *device,
                       struct dsr_broker *broker, char *ret_why, size_t why_bytes)
{
	int r;

	a->buffers = calloc(a->spec.buffers, sizeof(*a->buffers));
	a->pattern = calloc(1, a->spec.canary_bytes);
	if (a->buffers == NULL || a->pattern == NULL) {
		(void)snprintf(ret_why, why_bytes, "no memory for %" PRIu32 " buffers",
		               a->spec.buffers);
		r = -ENOMEM;
		goto err;
	}
	r = attachment_import(a, device, broker, ret_why, why_bytes);
	if (r < 0)
		goto err;
	a->is_mapped = true;
	return 0;

err:
	free(a->buffers);
	free(a->pattern);
	a->buffers = NULL;
	a->pattern = NULL;
	return r;
}

void dsr_attachment_unmap(struct dsr_attachment *a, struct dsr_device *device)
{
	if (!a->is_mapped)
		return;
	dsr_device_release(device, &a->staging);
	for (uint32_t i = 0; i < a->spec.buffers; i++)
		dsr_job_done(&a->buffers[i].job);
	free(a->buffers);
	free(a->pattern);
	a->buffers = NULL;
	a->pattern = NULL;
	a->is_mapped = false;
}

uint8_t *dsr_attachment_buffer(const struct dsr_attachment *a, uint32_t buffer)
{
	return a->staging.base + a->spec.offset + a->spec.buffer_bytes * buffer;
}

int dsr_attachment_lend(struct dsr_attachment *a, uint32_t buffer, uint64_t lend,
                        struct dsr_job **ret_job)
{
	struct dsr_attachment_buffer *b;

	if (buffer >= a->spec.buffers)
		return -ENOENT;
	b = &a->buffers[buffer];
	if (lend <= b->last_lend)
		return -ESTALE;
	b->last_lend = lend;
	if (b->job.is_live)
		return -EINVAL;
	*ret_job = &b->job;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "buffers.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

int dsr_buffers_init(struct dsr_buffers *buffers, uint8_t *base, uint64_t bytes, uint32_t count)
{
	*buffers = (struct dsr_buffers){.bytes = bytes};
	if (count == 0)
		return 0;
	buffers->v = calloc(count, sizeof(*buffers->v));
	if (buffers->v == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		buffers->v[i].base = base + i * bytes;
		buffers->v[i].index = i;
	}
	buffers->count = count;
	buffers->free = count;
	return 0;
}

void dsr_buffers_done(struct dsr_buffers *buffers)
{
	free(buffers->v);
	*buffers = (struct dsr_buffers){0};
}

struct dsr_buffer *dsr_buffers_take_index(struct dsr_buffers *buffers, uint32_t index, void *owner)
{
	struct dsr_buffer *buffer;

	if (index >= buffers->count || buffers->v[index].state != DSR_BUFFER_FREE)
		return NULL;
	buffer = &buffers->v[index];
	buffer->state = DSR_BUFFER_HELD;
	buffer->owner = owner;
	buffer->first = 0;
	buffer->count = 0;
	buffer->readers = 0;
	buffers->free--;
	dsr_buffers_relend(buffers, buffer);
	return buffer;
}

struct dsr_buffer *dsr_buffers_take(struct dsr_buffers *buffers, void *owner)
{
	if (buffers->free == 0)
		return NULL;
	for (uint32_t i = 0; i < buffers->count; i++)
		if (buffers->v[i].state == DSR_BUFFER_FREE)
			return dsr_buffers_take_index(buffers, i, owner);
	return NULL;
}

void dsr_buffers_put(struct dsr_buffers *buffers, struct dsr_buffer *buffer)
{
	if (buffer->state != DSR_BUFFER_HELD)
		return;
	buffer->state = DSR_BUFFER_FREE;
	buffer->owner = NULL;
	buffers->free++;
}

void dsr_buffers_relend(struct dsr_buffers *buffers, struct dsr_buffer *buffer)
{
	buffer->lend = ++buffers->last_lend;
}

void dsr_buffers_lend(struct dsr_buffers *buffers, struct dsr_buffer *buffer)
{
	(void)buffers;
	if (buffer->state == DSR_BUFFER_HELD)
		buffer->state = DSR_BUFFER_LENT;
}

void dsr_buffers_returned(struct dsr_buffers *buffers, struct dsr_buffer *buffer)
{
	if (buffer->state == DSR_BUFFER_QUARANTINED)
		buffers->quarantined--;
	if (buffer->state == DSR_BUFFER_LENT || buffer->state == DSR_BUFFER_QUARANTINED)
		buffer->state = DSR_BUFFER_HELD;
}

void dsr_buffers_quarantine(struct dsr_buffers *buffers, struct dsr_buffer *buffer)
{
	if (buffer->state != DSR_BUFFER_LENT)
		return;
	buffer->state = DSR_BUFFER_QUARANTINED;
	buffer->owner = NULL;
	buffers->quarantined++;
}

static int is_out(const struct dsr_buffer *buffer)
{
	return buffer->state == DSR_BUFFER_LENT || buffer->state == DSR_BUFFER_QUARANTINED;
}

struct dsr_buffer *dsr_buffers_lent(struct dsr_buffers *buffers, uint32_t index, uint64_t lend)
{
	struct dsr_buffer *buffer;

	if (index >= buffers->count)
		return NULL;
	buffer = &buffers->v[index];
	return buffer->lend == lend && is_out(buffer) ? buffer : NULL;
}

struct dsr_buffer *dsr_buffers_by_lend(struct dsr_buffers *buffers, uint64_t lend)
{
	for (uint32_t i = 0; i < buffers->count; i++)
		if (buffers->v[i].lend == lend && is_out(&buffers->v[i]))
			return &buffers->v[i];
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack/pack.h>
#include <msgpack/sbuffer.h>

/* ---- packing ---- */

struct dsr_pack {
	msgpack_sbuffer buffer; /* owned */
	msgpack_packer packer;
	int error;
};

int dsr_pack_new(struct dsr_pack **ret_pack)
{
	struct dsr_pack *pack = calloc(1, sizeof(*pack));

	if (pack == NULL)
		return -ENOMEM;
	msgpack_sbuffer_init(&pack->buffer);
	msgpack_packer_init(&pack->packer, &pack->buffer, msgpack_sbuffer_write);
	*ret_pack = pack;
	return 0;
}

void dsr_pack_free(struct dsr_pack **pack)
{
	if (pack == NULL || *pack == NULL)
		return;
	msgpack_sbuffer_destroy(&(*pack)->buffer);
	free(*pack);
	*pack = NULL;
}

void dsr_pack_clear(struct dsr_pack *pack)
{
	pack->buffer.size = 0;
	pack->error = 0;
}

static void note(struct dsr_pack *pack, int r)
{
	if (r != 0)
		pack->error = -ENOMEM;
}

void dsr_pack_array(struct dsr_pack *pack, uint32_t count)
{
	note(pack, msgpack_pack_array(&pack->packer, count));
}

void dsr_pack_uint(struct dsr_pack *pack, uint64_t value)
{
	note(pack, msgpack_pack_uint64(&pack->packer, value));
}

void dsr_pack_str(struct dsr_pack *pack, const char *text, uint32_t bytes)
{
	note(pack, msgpack_pack_str(&pack->packer, bytes));
	note(pack, msgpack_pack_str_body(&pack->packer, text, bytes));
}

void dsr_pack_bin(struct dsr_pack *pack, uint32_t bytes)
{
	note(pack, msgpack_pack_bin(&pack->packer, bytes));
}

void dsr_pack_bytes(struct dsr_pack *pack, const void *bytes, uint32_t count)
{
	if (count > 0)
		note(pack, msgpack_pack_bin_body(&pack->packer, bytes, count));
}

void dsr_pack_le32(struct dsr_pack *pack, uint32_t value)
{
	uint8_t b[4];

	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(value >> (8 * i));
	dsr_pack_bytes(pack, b, sizeof(b));
}

void dsr_pack_le64(struct dsr_pack *pack, uint64_t value)
{
	uint8_t b[8];

	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(value >> (8 * i));
	dsr_pack_bytes(pack, b, sizeof(b));
}

int dsr_pack_result(const struct dsr_pack *pack, const void **ret_bytes, size_t *ret_length)
{
	if (pack->error < 0)
		return pack->error;
	*ret_bytes = pack->buffer.data;
	*ret_length = pack->buffer.size;
	return 0;
}

/* ---- reading ---- */

/* First bytes of msgpack's types. */
enum {
	TAG_FIXARRAY = 0x90, /* 0x90 .. 0x9f */
	TAG_FIXSTR = 0xa0,   /* 0xa0 .. 0xbf */
	TAG_BIN8 = 0xc4,
	TAG_BIN16 = 0xc5,
	TAG_BIN32 = 0xc6,
	TAG_UINT8 = 0xcc,
	TAG_UINT16 = 0xcd,
	TAG_UINT32 = 0xce,
	TAG_UINT64 = 0xcf,
	TAG_STR8 = 0xd9,
	TAG_STR16 = 0xda,
	TAG_STR32 = 0xdb,
	TAG_ARRAY16 = 0xdc,
	TAG_ARRAY32 = 0xdd,
};

struct dsr_wire dsr_wire_of(const void *bytes, size_t length)
{
	return (struct dsr_wire){.p = bytes, .left = bytes == NULL ? 0 : length};
}

/* The next `count` bytes, or NULL. */
static const uint8_t *wire_take(struct dsr_wire *wire, size_t count)
{
	const uint8_t *p = wire->p;

	if (wire->is_bad || wire->left < count) {
		wire->is_bad = true;
		return NULL;
	}
	wire->p += count;
	wire->left -= count;
	return p;
}

/* A big-endian number of `count` bytes. */
static uint64_t wire_number(struct dsr_wire *wire, unsigned count)
{
	const uint8_t *p = wire_take(wire, count);
	uint64_t value = 0;

	for (unsigned i = 0; p != NULL && i < count; i++)
		value = value << 8 | p[i];
	return value;
}

static uint8_t wire_tag(struct dsr_wire *wire)
{
	const uint8_t *p = wire_take(wire, 1);

	return p == NULL ? 0 : p[0];
}

/* Ends the reading of a number: what is above `max` is as bad as a wrong type. */
static uint64_t wire_checked(struct dsr_wire *wire, uint64_t value, bool is_right, uint64_t max)
{
	if (!is_right || value > max)
		wire->is_bad = true;
	return wire->is_bad ? 0 : value;
}

uint32_t dsr_wire_array(struct dsr_wire *wire, uint32_t max)
{
	uint8_t tag = wire_tag(wire);
	bool is_right = true;
	uint64_t n = 0;

	if ((tag & 0xf0) == TAG_FIXARRAY)
		n = tag & 0x0f;
	else if (tag == TAG_ARRAY16)
		n = wire_number(wire, 2);
	else if (tag == TAG_ARRAY32)
		n = wire_number(wire, 4);
	else
		is_right = false;
	return (uint32_t)wire_checked(wire, n, is_right, max);
}

uint64_t dsr_wire_uint(struct dsr_wire *wire, uint64_t max)
{
	uint8_t tag = wire_tag(wire);
	bool is_right = true;
	uint64_t n = 0;

	if (tag < 0x80)
		n = tag;
	else if (tag >= TAG_UINT8 && tag <= TAG_UINT64)
		n = wire_number(wire, 1u << (tag - TAG_UINT8));
	else
		is_right = false;
	return wire_checked(wire, n, is_right, max);
}

struct dsr_str dsr_wire_str(struct dsr_wire *wire, uint32_t max)
{
	uint8_t tag = wire_tag(wire);
	bool is_right = true;
	uint64_t n = 0;
	const uint8_t *p;

	if ((tag & 0xe0) == TAG_FIXSTR)
		n = tag & 0x1f;
	else if (tag >= TAG_STR8 && tag <= TAG_STR32)
		n = wire_number(wire, 1u << (tag - TAG_STR8));
	else
		is_right = false;
	n = wire_checked(wire, n, is_right, max);
	p = wire_take(wire, n);
	return p == NULL ? (struct dsr_str){0}
	                 : (struct dsr_str){.p = (const char *)p, .n = (uint32_t)n};
}

struct dsr_bin dsr_wire_bin(struct dsr_wire *wire, uint32_t max)
{
	uint8_t tag = wire_tag(wire);
	bool is_right = tag >= TAG_BIN8 && tag <= TAG_BIN32;
	uint64_t n = is_right ? wire_number(wire, 1u << (tag - TAG_BIN8)) : 0;
	const uint8_t *p;

	n = wire_checked(wire, n, is_right, max);
	p = wire_take(wire, n);
	return p == NULL ? (struct dsr_bin){0} : (struct dsr_bin){.p = p, .n = (uint32_t)n};
}

uint32_t dsr_le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t dsr_le64(const uint8_t *p)
{
	return (uint64_t)dsr_le32(p) | (uint64_t)dsr_le32(p + 4) << 32;
}

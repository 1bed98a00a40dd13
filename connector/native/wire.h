/* SPDX-License-Identifier: Apache-2.0 */
/* msgpack with only what step metadata and worker output use: unsigned integers, strings, bytes and
 * arrays. Packing goes through msgpack-c into memory that is kept and used again. Reading walks the
 * bytes in place and builds nothing: no length in foreign bytes makes it allocate. */
#ifndef DSR_NATIVE_WIRE_H
#define DSR_NATIVE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec.h"

struct dsr_pack;

int dsr_pack_new(struct dsr_pack **ret_pack);
void dsr_pack_free(struct dsr_pack **pack);

void dsr_pack_clear(struct dsr_pack *pack);
void dsr_pack_array(struct dsr_pack *pack, uint32_t count);
void dsr_pack_uint(struct dsr_pack *pack, uint64_t value);
void dsr_pack_str(struct dsr_pack *pack, const char *text, uint32_t bytes);
/* Announces bytes that follow in pieces. */
void dsr_pack_bin(struct dsr_pack *pack, uint32_t bytes);
void dsr_pack_bytes(struct dsr_pack *pack, const void *bytes, uint32_t count);
/* Pieces of announced bytes, little endian. */
void dsr_pack_le32(struct dsr_pack *pack, uint32_t value);
void dsr_pack_le64(struct dsr_pack *pack, uint64_t value);
/* What was packed since clear, the pack's, valid until the next call. -ENOMEM: something did not
 * fit. */
int dsr_pack_result(const struct dsr_pack *pack, const void **ret_bytes, size_t *ret_length);

/* A place in foreign bytes. The first thing that is not what was asked for makes it bad; a bad one
 * gives zeros and empty slices. Copying it remembers the place. */
struct dsr_wire {
	const uint8_t *p; /* borrowed */
	size_t left;
	bool is_bad;
};

struct dsr_wire dsr_wire_of(const void *bytes, size_t length);
/* Number of elements that follow, at most `max`. */
uint32_t dsr_wire_array(struct dsr_wire *wire, uint32_t max);
uint64_t dsr_wire_uint(struct dsr_wire *wire, uint64_t max);
struct dsr_str dsr_wire_str(struct dsr_wire *wire, uint32_t max);
struct dsr_bin dsr_wire_bin(struct dsr_wire *wire, uint32_t max);

/* Numbers inside bytes, little endian. */
uint32_t dsr_le32(const uint8_t *p);
uint64_t dsr_le64(const uint8_t *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a block: its key inside a namespace.
 *
 * A namespace fingerprint is 32 bytes that stand for all that section 5 of the design lists (model,
 * revision, dtype, layout, TP shape, hash algorithm and seed, digest and payload format, ...).
 * key = block hash (up to 32 bytes, zero padded) XOR mask, where mask = 256 bits of
 * XXH3 over (namespace, variant); variant is LoRA content version and weight epoch, or empty.
 * Within one namespace and variant the mapping is one to one, so a key is exactly as
 * collision-resistant as the engine's own hash.
 */
#ifndef DSR_KEY_H
#define DSR_KEY_H

#include <stdint.h>

#define DSR_KEY_BYTES 32
#define DSR_NAMESPACE_BYTES 32
#define DSR_LANES_MAX 64 /* lanes stored are one bit each in a 64-bit word */

struct dsr_key {
	uint8_t b[DSR_KEY_BYTES];
};

/* Where a block lies in L1, as a scheduler hands it out. Checked by the reader before and after
 * the copy: `generation` against the entry, `slot_seq` against the slot. */
struct dsr_ref {
	uint64_t generation;
	uint64_t slot_seq;
	uint32_t entry; /* index into the entry table */
	uint32_t slot;  /* index into each lane of the L1 pool */
};

#endif

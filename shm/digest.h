/* SPDX-License-Identifier: Apache-2.0 */
/* The end-to-end digest: 64 bits over one block's payload in one lane.
 *
 * Definition, to be matched bit for bit by every implementation (all numbers 64 bit, little endian,
 * multiplication `*` modulo 2^64):
 *   P = 0x9e3779b97f4a7c15
 *   the payload, zero-padded to a multiple of 16 bytes, is unit 0, 1, ...; unit i = words (x, y)
 *   a = (2 i + 1) * P + seed;  b = (2 i + 2) * P + rotl64(seed, 32)
 *   (hi, lo) = (x XOR a) * (y XOR b) as 128 bits
 *   f = lo XOR hi XOR rotl64(x, 23) XOR rotl64(y XOR a, 47)
 *   sum += f                                          (order of units does not matter: parallel)
 *   r = sum + bytes * P;  r ^= r >> 32;  r *= 0xd6e8feb86659fd93;  r ^= r >> 32;
 *   r *= 0xd6e8feb86659fd93;  r ^= r >> 32;  digest = r
 * The fold carries every input bit into the whole word; the two rotations keep a factor that
 * happens to be zero from hiding the other.
 */
#ifndef DSR_SHM_DIGEST_H
#define DSR_SHM_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "key.h"

/* Running digest over parts that arrive in order; parts may have any length. */
struct dsr_digest {
	uint64_t seed;
	uint64_t sum;
	uint64_t bytes;
	uint8_t tail[16]; /* bytes % 16 of them wait for their unit */
};

void dsr_digest_init(struct dsr_digest *digest, uint64_t seed);
void dsr_digest_add(struct dsr_digest *digest, const void *data, size_t bytes);
/* As dsr_digest_add, copying data to dst on the way (one pass over memory). No overlap. */
void dsr_digest_copy(struct dsr_digest *digest, void *dst, const void *data, size_t bytes);
uint64_t dsr_digest_value(const struct dsr_digest *digest);
/* All at once. */
uint64_t dsr_digest_of(const void *data, size_t bytes, uint64_t seed);

/* Seed of a block in a lane: what the engine knows and takes from no reply. XXH3_64 over key and
 * lane (little endian). */
uint64_t dsr_digest_seed(const struct dsr_key *key, uint32_t lane);

/* Mask of a namespace and variant, and the key of a block hash under it: see key.h.
 * mask = F(fingerprint, F(variant)), where F is dsr_fingerprint. */
void dsr_key_mask(const uint8_t *fingerprint, const void *variant, size_t variant_bytes,
                  struct dsr_key *ret_mask);
/* hash_bytes <= DSR_KEY_BYTES, else -EINVAL. */
int dsr_key_make(const struct dsr_key *mask, const void *hash, size_t hash_bytes,
                 struct dsr_key *ret_key);
/* F: 256 bits over text, XXH3_128 with seed 0 and with seed 0x44535232, each as its low and its
 * high 64-bit word, little endian. */
void dsr_fingerprint(const void *text, size_t bytes, uint8_t *ret_fingerprint);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "digest.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define DIGEST_P UINT64_C(0x9e3779b97f4a7c15)
#define DIGEST_MIX UINT64_C(0xd6e8feb86659fd93)
#define DIGEST_UNIT 16

#define DIGEST_KEY_SEED UINT64_C(0)            /* of the first 128 bits of a fingerprint */
#define DIGEST_KEY_SEED_2 UINT64_C(0x44535232) /* of the second */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are loaded as they lie in memory");
static_assert(DSR_NAMESPACE_BYTES == 32 && DSR_KEY_BYTES == 32, "two times 128 bits of XXH3");

__extension__ typedef unsigned __int128 digest_u128;

static inline uint64_t digest_rotl(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

/* f of unit (x, y); a and b are the unit's two keys. */
static inline uint64_t digest_fold(uint64_t x, uint64_t y, uint64_t a, uint64_t b)
{
	digest_u128 product = (digest_u128)(x ^ a) * (y ^ b);

	return (uint64_t)product ^ (uint64_t)(product >> 64) ^ digest_rotl(x, 23) ^
	       digest_rotl(y ^ a, 47);
}

static inline uint64_t digest_a(uint64_t unit, uint64_t seed)
{
	return (2 * unit + 1) * DIGEST_P + seed;
}

static inline uint64_t digest_b(uint64_t unit, uint64_t seed)
{
	return (2 * unit + 2) * DIGEST_P + digest_rotl(seed, 32);
}

/* One unit at src, copied to dst unless NULL: the digest is of the very words that were written. */
__attribute__((always_inline)) static inline uint64_t digest_unit(uint8_t *dst, const uint8_t *src,
                                                                  uint64_t a, uint64_t b)
{
	uint64_t x, y;

	memcpy(&x, src, sizeof(x));
	memcpy(&y, src + sizeof(x), sizeof(y));
	if (dst != NULL) {
		memcpy(dst, &x, sizeof(x));
		memcpy(dst + sizeof(x), &y, sizeof(y));
	}
	return digest_fold(x, y, a, b);
}

/* Whole units, the first one numbered `unit`. Four sums, so that no addition waits for another. */
__attribute__((always_inline)) static inline uint64_t
digest_units(uint8_t *dst, const uint8_t *src, size_t count, uint64_t unit, uint64_t seed)
{
	uint64_t a = digest_a(unit, seed), b = digest_b(unit, seed);
	uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;

	for (; count >= 4; count -= 4) {
		s0 += digest_unit(dst, src, a, b);
		s1 += digest_unit(dst != NULL ? dst + 16 : NULL, src + 16, a + 2 * DIGEST_P,
		                  b + 2 * DIGEST_P);
		s2 += digest_unit(dst != NULL ? dst + 32 : NULL, src + 32, a + 4 * DIGEST_P,
		                  b + 4 * DIGEST_P);
		s3 += digest_unit(dst != NULL ? dst + 48 : NULL, src + 48, a + 6 * DIGEST_P,
		                  b + 6 * DIGEST_P);
		a += 8 * DIGEST_P;
		b += 8 * DIGEST_P;
		src += 64;
		if (dst != NULL)
			dst += 64;
	}
	for (; count > 0; count--) {
		s0 += digest_unit(dst, src, a, b);
		a += 2 * DIGEST_P;
		b += 2 * DIGEST_P;
		src += DIGEST_UNIT;
		if (dst != NULL)
			dst += DIGEST_UNIT;
	}
	return s0 + s1 + s2 + s3;
}

/* Specialised by its callers: dst is NULL or not at compile time. */
__attribute__((always_inline)) static inline void
digest_feed(struct dsr_digest *digest, uint8_t *dst, const uint8_t *src, size_t bytes)
{
	size_t held = digest->bytes % DIGEST_UNIT;
	uint64_t unit = digest->bytes / DIGEST_UNIT;
	size_t units, n;

	digest->bytes += bytes;
	if (held > 0) {
		n = DIGEST_UNIT - held < bytes ? DIGEST_UNIT - held : bytes;
		memcpy(digest->tail + held, src, n);
		if (dst != NULL) {
			memcpy(dst, digest->tail + held, n);
			dst += n;
		}
		src += n;
		bytes -= n;
		if (held + n < DIGEST_UNIT)
			return;
		digest->sum += digest_units(NULL, digest->tail, 1, unit, digest->seed);
		unit++;
	}
	units = bytes / DIGEST_UNIT;
	digest->sum += digest_units(dst, src, units, unit, digest->seed);
	n = bytes % DIGEST_UNIT;
	if (n == 0)
		return;
	memcpy(digest->tail, src + units * DIGEST_UNIT, n);
	if (dst != NULL)
		memcpy(dst + units * DIGEST_UNIT, digest->tail, n);
}

void dsr_digest_init(struct dsr_digest *digest, uint64_t seed)
{
	*digest = (struct dsr_digest){.seed = seed};
}

void dsr_digest_add(struct dsr_digest *digest, const void *data, size_t bytes)
{
	if (bytes > 0)
		digest_feed(digest, NULL, data, bytes);
}

void dsr_digest_copy(struct dsr_digest *digest, void *dst, const void *data, size_t bytes)
{
	if (bytes > 0)
		digest_feed(digest, dst, data, bytes);
}

uint64_t dsr_digest_value(const struct dsr_digest *digest)
{
	size_t held = digest->bytes % DIGEST_UNIT;
	uint64_t r = digest->sum;

	if (held > 0) {
		uint8_t last[DIGEST_UNIT] = {0};

		memcpy(last, digest->tail, held);
		r += digest_units(NULL, last, 1, digest->bytes / DIGEST_UNIT, digest->seed);
	}
	r += digest->bytes * DIGEST_P;
	r ^= r >> 32;
	r *= DIGEST_MIX;
	r ^= r >> 32;
	r *= DIGEST_MIX;
	r ^= r >> 32;
	return r;
}

uint64_t dsr_digest_of(const void *data, size_t bytes, uint64_t seed)
{
	struct dsr_digest digest;

	dsr_digest_init(&digest, seed);
	dsr_digest_add(&digest, data, bytes);
	return dsr_digest_value(&digest);
}

uint64_t dsr_digest_seed(const struct dsr_key *key, uint32_t lane)
{
	uint8_t text[sizeof(key->b) + sizeof(lane)];

	memcpy(text, key->b, sizeof(key->b));
	memcpy(text + sizeof(key->b), &lane, sizeof(lane));
	return XXH3_64bits(text, sizeof(text));
}

void dsr_fingerprint(const void *text, size_t bytes, uint8_t *ret_fingerprint)
{
	const void *at = bytes > 0 ? text : "";
	XXH128_hash_t first = XXH3_128bits_withSeed(at, bytes, DIGEST_KEY_SEED);
	XXH128_hash_t second = XXH3_128bits_withSeed(at, bytes, DIGEST_KEY_SEED_2);
	const uint64_t words[4] = {first.low64, first.high64, second.low64, second.high64};

	memcpy(ret_fingerprint, words, sizeof(words));
}

void dsr_key_mask(const uint8_t *fingerprint, const void *variant, size_t variant_bytes,
                  struct dsr_key *ret_mask)
{
	uint8_t text[2 * DSR_NAMESPACE_BYTES];

	memcpy(text, fingerprint, DSR_NAMESPACE_BYTES);
	dsr_fingerprint(variant, variant_bytes, text + DSR_NAMESPACE_BYTES);
	dsr_fingerprint(text, sizeof(text), ret_mask->b);
}

int dsr_key_make(const struct dsr_key *mask, const void *hash, size_t hash_bytes,
                 struct dsr_key *ret_key)
{
	struct dsr_key key = *mask;

	if (hash_bytes > sizeof(key.b))
		return -EINVAL;
	for (size_t i = 0; i < hash_bytes; i++)
		key.b[i] ^= ((const uint8_t *)hash)[i];
	*ret_key = key;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "content.h"

#include "rng.h"

#define CHECK_WORDS 64 /* compared without a branch */

/* An arithmetic series with an odd step never repeats within 2^64 words; the shift spreads the high
 * bits and is one to one. Two adds and a shift a word: as fast as memory. */
static inline uint64_t word(uint64_t value)
{
	return value ^ (value >> 31);
}

uint64_t replay_content_seed(uint64_t block, uint32_t lane)
{
	return replay_mix(block + replay_mix(lane + UINT64_C(0x5bd1e9955bd1e995)));
}

static uint64_t step_of(uint64_t seed)
{
	return replay_mix(seed) | 1;
}

void replay_content_fill(uint64_t seed, uint64_t first, uint64_t *words, uint64_t count)
{
	uint64_t step = step_of(seed);
	uint64_t value = seed + first * step;

	for (uint64_t i = 0; i < count; i++)
		words[i] = word(value + i * step);
}

static uint64_t differing_bytes(uint64_t difference)
{
	uint64_t bytes = 0;

	for (; difference != 0; difference >>= 8)
		bytes += (difference & 0xff) != 0;
	return bytes;
}

uint64_t replay_content_check(uint64_t seed, uint64_t first, const uint64_t *words, uint64_t count,
                              uint64_t *ret_first)
{
	uint64_t step = step_of(seed);
	uint64_t value = seed + first * step;
	uint64_t wrong = 0;

	for (uint64_t at = 0; at < count; at += CHECK_WORDS) {
		uint64_t end = count - at < CHECK_WORDS ? count : at + CHECK_WORDS;
		uint64_t any = 0;

		for (uint64_t i = at; i < end; i++)
			any |= words[i] ^ word(value + i * step);
		for (uint64_t i = at; any != 0 && i < end; i++) {
			uint64_t difference = words[i] ^ word(value + i * step);

			if (difference != 0 && wrong == 0)
				*ret_first = i * 8 + (uint64_t)__builtin_ctzll(difference) / 8;
			wrong += differing_bytes(difference);
		}
	}
	return wrong;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded numbers for everything random in a run: the same seed gives the same run. */
#ifndef REPLAY_RNG_H
#define REPLAY_RNG_H

#include <stdint.h>

struct replay_rng {
	uint64_t state;
};

/* One bijective mixing step (splitmix64's finaliser). */
static inline uint64_t replay_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static inline uint64_t replay_rng_next(struct replay_rng *rng)
{
	rng->state += UINT64_C(0x9e3779b97f4a7c15);
	return replay_mix(rng->state);
}

/* 0 <= result < 1 */
static inline double replay_rng_unit(struct replay_rng *rng)
{
	return (double)(replay_rng_next(rng) >> 11) * 0x1.0p-53;
}

/* 0 <= result < limit; limit > 0. */
static inline uint32_t replay_rng_below(struct replay_rng *rng, uint32_t limit)
{
	return (uint32_t)((replay_rng_next(rng) >> 32) * limit >> 32);
}

#endif

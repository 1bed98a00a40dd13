/* SPDX-License-Identifier: Apache-2.0 */
/* What the seqlocks of shm/ have in common. Internal to shm/.
 *
 * A reader may copy a row while its writer changes it; the copy is then thrown away, but making it
 * must be no race: each word is one relaxed atomic access, and fences order them against the row's
 * number. The builtins are used since the fields are plain (only the number is _Atomic); rows are
 * arrays of 8-byte words. */
#ifndef DSR_SHM_SEQLOCK_H
#define DSR_SHM_SEQLOCK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* gcc's thread sanitizer does not follow fences and says so. It needs not: what they order here are
 * atomic accesses, which are no race in whatever order. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* Writer, between the odd number and the words. Partner: dsr_seq_fence_read. */
static inline void dsr_seq_fence_write(void)
{
	atomic_thread_fence(memory_order_release);
}

/* Reader, between the words and the second look at the number: who saw a word of a writer also sees
 * its odd number. Partner: dsr_seq_fence_write. */
static inline void dsr_seq_fence_read(void)
{
	atomic_thread_fence(memory_order_acquire);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/* dst is private; src is shared. */
static inline void dsr_words_load(void *dst, const void *src, size_t words)
{
	for (size_t i = 0; i < words; i++) {
		uint64_t word = __atomic_load_n((const uint64_t *)src + i, __ATOMIC_RELAXED);

		memcpy((uint8_t *)dst + i * sizeof(word), &word, sizeof(word));
	}
}

/* dst is shared; src is private. */
static inline void dsr_words_store(void *dst, const void *src, size_t words)
{
	for (size_t i = 0; i < words; i++) {
		uint64_t word;

		memcpy(&word, (const uint8_t *)src + i * sizeof(word), sizeof(word));
		__atomic_store_n((uint64_t *)dst + i, word, __ATOMIC_RELAXED);
	}
}

#endif

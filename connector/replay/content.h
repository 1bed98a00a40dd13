/* SPDX-License-Identifier: Apache-2.0 */
/* What a block holds: words that follow from its seed, so that every byte can be checked anywhere.
 * All words of a block differ, and blocks of different seeds differ in every place. */
#ifndef REPLAY_CONTENT_H
#define REPLAY_CONTENT_H

#include <stdint.h>

/* Seed of a block's content in one lane. */
uint64_t replay_content_seed(uint64_t block, uint32_t lane);
/* Words [first, first + count) of the content into `words`. */
void replay_content_fill(uint64_t seed, uint64_t first, uint64_t *words, uint64_t count);
/* Bytes that differ; *ret_first is the offset of the first one from `words`, when there is one. */
uint64_t replay_content_check(uint64_t seed, uint64_t first, const uint64_t *words, uint64_t count,
                              uint64_t *ret_first);

#endif

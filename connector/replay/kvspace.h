/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one rank's KV cache, in the layout that the settings ask for, and its contents.
 *
 * A block's payload is `runs` runs of `run_bytes` bytes; tokens share each run evenly, as the
 * tokens of a block share the planes of each layer. */
#ifndef REPLAY_KVSPACE_H
#define REPLAY_KVSPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "daser/worker.h"

struct replay_kvspace {
	uint8_t *base; /* owned: mapping of `bytes` */
	uint64_t bytes;
	struct daser_piece *pieces; /* owned; bases borrow from `base` */
	uint32_t piece_count;
	uint32_t blocks;
	uint32_t block_tokens;
	uint64_t block_bytes;
	uint64_t run_bytes;
};

/* layers 0: one piece, a block is contiguous. Else a piece for each layer: two runs, K and V, each
 * in a plane of all blocks. block_bytes is a multiple of 8 * 2 * layers. -ENOMEM. */
int replay_kvspace_open(struct replay_kvspace *space, uint32_t blocks, uint64_t block_bytes,
                        uint32_t block_tokens, uint32_t layers);
void replay_kvspace_close(struct replay_kvspace *space);

/* Writes tokens [from, to) of a block's content. */
void replay_kvspace_fill(struct replay_kvspace *space, uint32_t id, uint64_t seed, uint32_t from,
                         uint32_t to);
/* Bytes of the first `tokens` tokens that differ from the content; *ret_first is the first one's
 * offset in the payload. */
uint64_t replay_kvspace_check(const struct replay_kvspace *space, uint32_t id, uint64_t seed,
                              uint32_t tokens, uint64_t *ret_first);
/* Fills a block with what no content is. */
void replay_kvspace_poison(struct replay_kvspace *space, uint32_t id);
/* True when the block holds nothing but poison. */
bool replay_kvspace_is_poisoned(const struct replay_kvspace *space, uint32_t id);

#endif

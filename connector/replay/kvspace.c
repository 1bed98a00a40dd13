/* SPDX-License-Identifier: Apache-2.0 */
#include "kvspace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "content.h"

#define POISON 0xdb

int replay_kvspace_open(struct replay_kvspace *space, uint32_t blocks, uint64_t block_bytes,
                        uint32_t block_tokens, uint32_t layers)
{
	struct replay_kvspace s = {
		.bytes = blocks * block_bytes,
		.piece_count = layers ? layers : 1,
		.blocks = blocks,
		.block_tokens = block_tokens,
		.block_bytes = block_bytes,
		.run_bytes = layers ? block_bytes / (2 * layers) : block_bytes,
	};

	s.pieces = calloc(s.piece_count, sizeof(*s.pieces));
	if (!s.pieces)
		return -ENOMEM;
	s.base = mmap(NULL, s.bytes, PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s.base == MAP_FAILED) {
		free(s.pieces);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < s.piece_count; i++)
		s.pieces[i] = (struct daser_piece){
			.base = s.base + i * (s.bytes / s.piece_count),
			.block_stride = s.run_bytes,
			.bytes = s.run_bytes,
			.stride = layers ? s.run_bytes * blocks : 0,
			.count = layers ? 2 : 1,
		};
	*space = s;
	return 0;
}

void replay_kvspace_close(struct replay_kvspace *space)
{
	if (space->base)
		(void)munmap(space->base, space->bytes);
	free(space->pieces);
	*space = (struct replay_kvspace){0};
}

/* Run `run` of a block, in payload order. */
static uint64_t *run_of(const struct replay_kvspace *space, uint32_t id, uint64_t run)
{
	uint64_t count = space->pieces[0].count;
	const struct daser_piece *piece = &space->pieces[run / count];

	return (uint64_t *)(void *)((uint8_t *)piece->base + id * piece->block_stride +
	                            run % count * piece->stride);
}

void replay_kvspace_fill(struct replay_kvspace *space, uint32_t id, uint64_t seed, uint32_t from,
                         uint32_t to)
{
	uint64_t words = space->run_bytes / 8;
	uint64_t first = words * from / space->block_tokens;
	uint64_t end = words * to / space->block_tokens;

	for (uint64_t run = 0; run < space->block_bytes / space->run_bytes; run++)
		replay_content_fill(seed, run * words + first, run_of(space, id, run) + first,
		                    end - first);
}

uint64_t replay_kvspace_check(const struct replay_kvspace *space, uint32_t id, uint64_t seed,
                              uint32_t tokens, uint64_t *ret_first)
{
	uint64_t words = space->run_bytes / 8;
	uint64_t count = words * tokens / space->block_tokens;
	uint64_t wrong = 0;

	for (uint64_t run = 0; run < space->block_bytes / space->run_bytes; run++) {
		uint64_t first = 0;
		uint64_t here = replay_content_check(seed, run * words, run_of(space, id, run),
		                                     count, &first);

		if (here > 0 && wrong == 0)
			*ret_first = run * space->run_bytes + first;
		wrong += here;
	}
	return wrong;
}

void replay_kvspace_poison(struct replay_kvspace *space, uint32_t id)
{
	for (uint64_t run = 0; run < space->block_bytes / space->run_bytes; run++)
		(void)memset(run_of(space, id, run), POISON, space->run_bytes);
}

bool replay_kvspace_is_poisoned(const struct replay_kvspace *space, uint32_t id)
{
	for (uint64_t run = 0; run < space->block_bytes / space->run_bytes; run++) {
		const uint8_t *bytes = (const uint8_t *)run_of(space, id, run);

		/* all equal to the first, and that is poison */
		if (bytes[0] != POISON || memcmp(bytes, bytes + 1, space->run_bytes - 1) != 0)
			return false;
	}
	return true;
}

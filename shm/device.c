/* SPDX-License-Identifier: Apache-2.0 */
/* What every device shares: the description of a KV cache. */
#include "device.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "why.h"

/* True when the piece's last byte, in the last block, has an address. */
static bool piece_is_addressable(const struct dsr_piece *piece, uint32_t blocks)
{
	uint64_t block_off, run_off, end;

	return !__builtin_mul_overflow(piece->block_stride, (uint64_t)blocks - 1, &block_off) &&
	       !__builtin_mul_overflow(piece->stride, piece->count - 1, &run_off) &&
	       !__builtin_add_overflow(block_off, run_off, &end) &&
	       !__builtin_add_overflow(end, piece->bytes, &end) &&
	       !__builtin_add_overflow(end, (uint64_t)(uintptr_t)piece->base, &end);
}

static int piece_check(const struct dsr_piece *piece, uint32_t index, uint32_t blocks,
                       char *ret_why, size_t why_bytes)
{
	uint64_t payload;

	if (piece->base == NULL || piece->bytes == 0 || piece->count == 0)
		dsr_why(ret_why, why_bytes,
		        "piece %" PRIu32 " base %p bytes %" PRIu64 " count %" PRIu64
		        ", expected none to be 0",
		        index, (const void *)piece->base, piece->bytes, piece->count);
	else if (piece->count > 1 && piece->stride < piece->bytes)
		dsr_why(ret_why, why_bytes,
		        "piece %" PRIu32 " stride %" PRIu64 ", expected at least its %" PRIu64
		        " bytes: runs overlap",
		        index, piece->stride, piece->bytes);
	else if (blocks > 1 && piece->block_stride < piece->bytes)
		dsr_why(ret_why, why_bytes,
		        "piece %" PRIu32 " block_stride %" PRIu64 ", expected at least its %" PRIu64
		        " bytes: blocks overlap",
		        index, piece->block_stride, piece->bytes);
	else if (!piece_is_addressable(piece, blocks) ||
	         __builtin_mul_overflow(piece->bytes, piece->count, &payload))
		dsr_why(ret_why, why_bytes,
		        "piece %" PRIu32 " with %" PRIu32 " blocks of %" PRIu64 " runs of %" PRIu64
		        " bytes, expected to end inside the address space",
		        index, blocks, piece->count, piece->bytes);
	else
		return 0;
	return -EINVAL;
}

/* Runs that touch are one run: movers then copy the piece at once. */
static struct dsr_piece piece_joined(const struct dsr_piece *piece)
{
	struct dsr_piece joined = *piece;

	if (joined.count == 1 || joined.stride == joined.bytes) {
		joined.bytes *= joined.count;
		joined.count = 1;
		joined.stride = joined.bytes;
	}
	return joined;
}

int dsr_kv_layout_init(struct dsr_kv_layout *layout, const struct dsr_piece *pieces,
                       uint32_t piece_count, uint32_t blocks, char *ret_why, size_t why_bytes)
{
	struct dsr_kv_layout made = {.piece_count = piece_count, .blocks = blocks};
	int r;

	if (pieces == NULL || piece_count == 0 || blocks == 0) {
		dsr_why(ret_why, why_bytes,
		        "%" PRIu32 " pieces of %" PRIu32 " blocks, expected at least one of each",
		        piece_count, blocks);
		return -EINVAL;
	}
	made.pieces = calloc(piece_count, sizeof(*made.pieces));
	if (made.pieces == NULL) {
		dsr_why(ret_why, why_bytes, "no memory for %" PRIu32 " pieces", piece_count);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < piece_count; i++) {
		r = piece_check(&pieces[i], i, blocks, ret_why, why_bytes);
		if (r < 0)
			goto err_free;
		if (__builtin_add_overflow(made.payload_bytes, pieces[i].bytes * pieces[i].count,
		                           &made.payload_bytes)) {
			dsr_why(ret_why, why_bytes,
			        "piece %" PRIu32 ": a block's payload exceeds 2^64 bytes", i);
			r = -EINVAL;
			goto err_free;
		}
		made.pieces[i] = piece_joined(&pieces[i]);
	}
	*layout = made;
	return 0;

err_free:
	free(made.pieces);
	return r;
}

void dsr_kv_layout_done(struct dsr_kv_layout *layout)
{
	if (layout == NULL)
		return;
	free(layout->pieces);
	*layout = (struct dsr_kv_layout){0};
}

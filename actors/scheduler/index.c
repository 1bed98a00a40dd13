/* SPDX-License-Identifier: Apache-2.0 */
#include "index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "log.h"
#include "mem.h"

#define INDEX_COUNT_MAX (UINT32_C(1) << 30)
#define INDEX_BATCH 16 /* keys whose cells and entries are on their way from memory together */

struct index_cell {
	uint32_t entry; /* number + 1; 0: the cell is empty */
	uint32_t tag;
};

struct dsr_index {
	struct index_cell *cells;        /* owned; mask + 1 of them */
	const struct dsr_entry *entries; /* borrowed */
	uint64_t seed;
	uint32_t mask;
	uint32_t count;
	uint32_t used;
};

int dsr_index_new(const struct dsr_entry *entries, uint32_t count, uint64_t seed,
                  struct dsr_index **ret_index)
{
	struct dsr_index *index;
	uint64_t cells = 16;

	if (count == 0 || count > INDEX_COUNT_MAX)
		return -EINVAL;
	index = calloc(1, sizeof(*index));
	if (index == NULL)
		return -ENOMEM;
	while (cells < UINT64_C(2) * count)
		cells *= 2;
	index->cells = dsr_mem_map_huge(cells * sizeof(*index->cells));
	if (index->cells == NULL) {
		free(index);
		return -ENOMEM;
	}
	index->entries = entries;
	index->seed = seed;
	index->mask = (uint32_t)(cells - 1);
	index->count = count;
	*ret_index = index;
	return 0;
}

void dsr_index_free(struct dsr_index **index)
{
	if (index == NULL || *index == NULL)
		return;
	dsr_mem_unmap((*index)->cells, ((size_t)(*index)->mask + 1) * sizeof(*(*index)->cells));
	free(*index);
	*index = NULL;
}

uint32_t dsr_index_tag(const struct dsr_index *index, const struct dsr_key *key)
{
	return (uint32_t)XXH3_64bits_withSeed(key->b, DSR_KEY_BYTES, index->seed);
}

static uint32_t index_find_tagged(const struct dsr_index *index, const struct dsr_key *key,
                                  uint32_t tag)
{
	for (uint32_t at = tag & index->mask;; at = (at + 1) & index->mask) {
		const struct index_cell *cell = &index->cells[at];

		if (cell->entry == 0)
			return DSR_ENTRY_NONE;
		if (cell->tag == tag &&
		    memcmp(&index->entries[cell->entry - 1].key, key, sizeof(*key)) == 0)
			return cell->entry - 1;
	}
}

uint32_t dsr_index_find(const struct dsr_index *index, const struct dsr_key *key)
{
	return index_find_tagged(index, key, dsr_index_tag(index, key));
}

static void index_find_batch(const struct dsr_index *index, const struct dsr_key *keys,
                             uint32_t count, uint32_t *ret_entries)
{
	uint32_t tags[INDEX_BATCH];

	for (uint32_t i = 0; i < count; i++) {
		tags[i] = dsr_index_tag(index, &keys[i]);
		__builtin_prefetch(&index->cells[tags[i] & index->mask]);
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t entry = index->cells[tags[i] & index->mask].entry;

		if (entry != 0)
			__builtin_prefetch(&index->entries[entry - 1].key);
	}
	for (uint32_t i = 0; i < count; i++)
		ret_entries[i] = index_find_tagged(index, &keys[i], tags[i]);
}

void dsr_index_find_all(const struct dsr_index *index, const struct dsr_key *keys, uint32_t count,
                        uint32_t *ret_entries)
{
	for (uint32_t i = 0; i < count; i += INDEX_BATCH) {
		uint32_t n = count - i < INDEX_BATCH ? count - i : INDEX_BATCH;

		index_find_batch(index, &keys[i], n, &ret_entries[i]);
	}
}

void dsr_index_insert(struct dsr_index *index, uint32_t tag, uint32_t entry)
{
	uint32_t at = tag & index->mask;

	dsr_assert(index->used < index->count);
	while (index->cells[at].entry != 0)
		at = (at + 1) & index->mask;
	index->cells[at] = (struct index_cell){.entry = entry + 1, .tag = tag};
	index->used++;
}

/* Cells behind a hole move into it, unless that would put them before their home. */
static void index_close_hole(struct dsr_index *index, uint32_t hole)
{
	uint32_t at = hole;

	for (;;) {
		const struct index_cell *cell;

		at = (at + 1) & index->mask;
		cell = &index->cells[at];
		if (cell->entry == 0)
			break;
		if (((at - cell->tag) & index->mask) < ((at - hole) & index->mask))
			continue;
		index->cells[hole] = *cell;
		hole = at;
	}
	index->cells[hole] = (struct index_cell){0};
}

bool dsr_index_remove(struct dsr_index *index, uint32_t tag, uint32_t entry)
{
	for (uint32_t at = tag & index->mask;; at = (at + 1) & index->mask) {
		if (index->cells[at].entry == 0)
			return false;
		if (index->cells[at].entry != entry + 1)
			continue;
		index_close_hole(index, at);
		index->used--;
		return true;
	}
}

uint32_t dsr_index_used(const struct dsr_index *index)
{
	return index->used;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "idmap.h"

#include <errno.h>
#include <stdlib.h>

#include <xxhash.h>

#include "log.h"
#include "mem.h"

#define IDMAP_COUNT_MAX (UINT32_C(1) << 30)

struct idmap_cell {
	uint64_t owner;
	uint64_t id;
	uint32_t number; /* + 1; 0: the cell is empty */
};

struct dsr_idmap {
	struct idmap_cell *cells; /* owned; mask + 1 of them, at most half used */
	uint32_t mask;
	uint32_t count;
	uint32_t used;
};

int dsr_idmap_new(uint32_t count, struct dsr_idmap **ret_map)
{
	struct dsr_idmap *map;
	uint64_t cells = 16;

	if (count == 0 || count > IDMAP_COUNT_MAX)
		return -EINVAL;
	map = calloc(1, sizeof(*map));
	if (map == NULL)
		return -ENOMEM;
	while (cells < UINT64_C(2) * count)
		cells *= 2;
	map->mask = (uint32_t)(cells - 1);
	map->count = count;
	map->cells = dsr_mem_map(cells * sizeof(*map->cells));
	if (map->cells == NULL) {
		free(map);
		return -ENOMEM;
	}
	*ret_map = map;
	return 0;
}

void dsr_idmap_free(struct dsr_idmap **map)
{
	if (map == NULL || *map == NULL)
		return;
	dsr_mem_unmap((*map)->cells, ((size_t)(*map)->mask + 1) * sizeof(*(*map)->cells));
	free(*map);
	*map = NULL;
}

static uint32_t idmap_home(const struct dsr_idmap *map, uint64_t owner, uint64_t id)
{
	return (uint32_t)XXH3_64bits_withSeed(&id, sizeof(id), owner) & map->mask;
}

/* The pair's cell, or the empty one where it would go. */
static uint32_t idmap_place(const struct dsr_idmap *map, uint64_t owner, uint64_t id)
{
	uint32_t at = idmap_home(map, owner, id);

	while (map->cells[at].number != 0 &&
	       (map->cells[at].id != id || map->cells[at].owner != owner))
		at = (at + 1) & map->mask;
	return at;
}

uint32_t dsr_idmap_find(const struct dsr_idmap *map, uint64_t owner, uint64_t id)
{
	/* Of an empty cell this is 0 - 1, which is DSR_IDMAP_NONE. */
	return map->cells[idmap_place(map, owner, id)].number - 1;
}

void dsr_idmap_insert(struct dsr_idmap *map, uint64_t owner, uint64_t id, uint32_t number)
{
	uint32_t at = idmap_place(map, owner, id);

	dsr_assert(map->used < map->count && map->cells[at].number == 0);
	map->cells[at] = (struct idmap_cell){.owner = owner, .id = id, .number = number + 1};
	map->used++;
}

void dsr_idmap_remove(struct dsr_idmap *map, uint64_t owner, uint64_t id)
{
	uint32_t hole = idmap_place(map, owner, id), at = hole;

	if (map->cells[hole].number == 0)
		return;
	map->used--;
	/* Cells behind the hole move into it, unless that would put them before their home. */
	for (;;) {
		const struct idmap_cell *cell;
		uint32_t home;

		at = (at + 1) & map->mask;
		cell = &map->cells[at];
		if (cell->number == 0)
			break;
		home = idmap_home(map, cell->owner, cell->id);
		if (((at - home) & map->mask) < ((at - hole) & map->mask))
			continue;
		map->cells[hole] = *cell;
		hole = at;
	}
	map->cells[hole] = (struct idmap_cell){0};
}

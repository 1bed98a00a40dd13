/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_daser.h"

#include <stdlib.h>
#include <string.h>

#include "daser/daser.h"

struct fake_node {
	struct fake_node *next;
	struct fake_key key;
	uint8_t value[];
};

void *fake_map_get(struct fake_map *map, const struct fake_key *key, size_t bytes, bool make)
{
	struct fake_node **link = &map->buckets[(key->b[0] | key->b[1] << 8) & 4095];

	for (; *link; link = &(*link)->next)
		if (memcmp(&(*link)->key, key, sizeof(*key)) == 0)
			return (*link)->value;
	if (!make)
		return NULL;
	struct fake_node *node = calloc(1, sizeof(*node) + bytes);

	if (!node)
		abort();
	node->key = *key;
	*link = node;
	return node->value;
}

void fake_map_clear(struct fake_map *map)
{
	for (uint32_t i = 0; i < 4096; i++)
		while (map->buckets[i]) {
			struct fake_node *node = map->buckets[i];

			map->buckets[i] = node->next;
			free(node);
		}
}

bool fake_is(const char *word)
{
	const char *words = getenv("FAKE_DASER");
	size_t length = strlen(word);

	for (const char *p = words; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, word, length) == 0 && (p[length] == ',' || p[length] == '\0'))
			return true;
	return false;
}

void fake_put_op(struct replay_buf *buf, uint32_t op, const char *name, uint32_t count)
{
	replay_put_u32(buf, op);
	replay_put_text(buf, name);
	replay_put_u32(buf, count);
}

bool fake_get_op(struct replay_view *view, struct fake_op *ret_op)
{
	if (view->failed || view->at == view->end)
		return false;
	ret_op->op = replay_get_u32(view);
	ret_op->name = replay_get_text(view);
	ret_op->count = replay_get_u32(view);
	ret_op->ids = replay_get_raw(view, ret_op->count, sizeof(uint32_t));
	ret_op->keys = replay_get_raw(view, ret_op->count, sizeof(struct fake_key));
	return !view->failed;
}

const char *daser_version(void)
{
	return "fake";
}

void daser_fingerprint(const void *text, size_t bytes, uint8_t *ret_fingerprint)
{
	(void)memset(ret_fingerprint, 0, DASER_NAMESPACE_BYTES);
	(void)memcpy(ret_fingerprint, text,
	             bytes < DASER_NAMESPACE_BYTES ? bytes : DASER_NAMESPACE_BYTES);
}

int daser_drain(const char *run_dir, uint32_t timeout_ms, uint64_t *ret_left)
{
	(void)run_dir;
	(void)timeout_ms;
	if (!fake_is("drain_fails"))
		return 0;
	*ret_left = 7;
	return -110; /* ETIMEDOUT */
}

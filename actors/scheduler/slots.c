/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include <errno.h>
#include <stdlib.h>

#include "log.h"
#include "mem.h"

struct dsr_slots {
	uint64_t *free_bits;   /* owned: bit per slot, 1 = free */
	uint64_t *groups;      /* owned: bit per word of free_bits, 1 = it has a free slot */
	uint64_t *quarantined; /* owned: bit per slot */
	uint32_t words;
	uint32_t group_words;
	uint32_t count;
	uint32_t left;
	uint32_t in_quarantine;
	uint32_t cursor; /* where the next search starts; < count */
};

int dsr_slots_new(uint32_t count, struct dsr_slots **ret_slots)
{
	struct dsr_slots *slots;

	if (count == 0 || count == DSR_SLOT_NONE)
		return -EINVAL;
	slots = calloc(1, sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	slots->count = count;
	slots->words = (count - 1) / 64 + 1;
	slots->group_words = (slots->words - 1) / 64 + 1;
	slots->free_bits = dsr_mem_map((size_t)slots->words * 8);
	slots->groups = dsr_mem_map((size_t)slots->group_words * 8);
	slots->quarantined = dsr_mem_map((size_t)slots->words * 8);
	if (slots->free_bits == NULL || slots->groups == NULL || slots->quarantined == NULL) {
		dsr_slots_free(&slots);
		return -ENOMEM;
	}
	for (uint32_t slot = 0; slot < count; slot++)
		slots->free_bits[slot / 64] |= UINT64_C(1) << slot % 64;
	for (uint32_t word = 0; word < slots->words; word++)
		slots->groups[word / 64] |= UINT64_C(1) << word % 64;
	slots->left = count;
	*ret_slots = slots;
	return 0;
}

void dsr_slots_free(struct dsr_slots **slots)
{
	if (slots == NULL || *slots == NULL)
		return;
	dsr_mem_unmap((*slots)->free_bits, (size_t)(*slots)->words * 8);
	dsr_mem_unmap((*slots)->groups, (size_t)(*slots)->group_words * 8);
	dsr_mem_unmap((*slots)->quarantined, (size_t)(*slots)->words * 8);
	free(*slots);
	*slots = NULL;
}

static bool slots_is_free(const struct dsr_slots *slots, uint32_t slot)
{
	return slots->free_bits[slot / 64] >> slot % 64 & 1;
}

static void slots_clear(struct dsr_slots *slots, uint32_t slot)
{
	uint32_t word = slot / 64;

	slots->free_bits[word] &= ~(UINT64_C(1) << slot % 64);
	if (slots->free_bits[word] == 0)
		slots->groups[word / 64] &= ~(UINT64_C(1) << word % 64);
	slots->left--;
}

static void slots_set(struct dsr_slots *slots, uint32_t slot)
{
	slots->free_bits[slot / 64] |= UINT64_C(1) << slot % 64;
	slots->groups[slot / 64 / 64] |= UINT64_C(1) << slot / 64 % 64;
	slots->left++;
}

/* First free slot of a word at or behind `from`, which has at least one in the whole bitmap. */
static uint32_t slots_next(const struct dsr_slots *slots, uint32_t from)
{
	uint32_t word = from / 64, group;
	uint64_t bits = slots->free_bits[word] & ~UINT64_C(0) << from % 64;

	if (bits != 0)
		return word * 64 + (uint32_t)__builtin_ctzll(bits);
	group = word / 64;
	/* Not the word itself: its bits before `from` come last, after a whole round. */
	bits = slots->groups[group] & (word % 64 == 63 ? 0 : ~UINT64_C(0) << (word % 64 + 1));
	while (bits == 0) {
		group = group + 1 < slots->group_words ? group + 1 : 0;
		bits = slots->groups[group];
	}
	word = group * 64 + (uint32_t)__builtin_ctzll(bits);
	return word * 64 + (uint32_t)__builtin_ctzll(slots->free_bits[word]);
}

uint32_t dsr_slots_take(struct dsr_slots *slots)
{
	uint32_t slot;

	if (slots->left == 0)
		return DSR_SLOT_NONE;
	slot = slots_next(slots, slots->cursor);
	slots_clear(slots, slot);
	slots->cursor = slot + 1 < slots->count ? slot + 1 : 0;
	return slot;
}

bool dsr_slots_take_one(struct dsr_slots *slots, uint32_t slot)
{
	if (slot >= slots->count || !slots_is_free(slots, slot))
		return false;
	slots_clear(slots, slot);
	return true;
}

void dsr_slots_put(struct dsr_slots *slots, uint32_t slot)
{
	dsr_assert(slot < slots->count && !slots_is_free(slots, slot));
	slots_set(slots, slot);
}

bool dsr_slots_quarantine(struct dsr_slots *slots, uint32_t slot)
{
	if (!dsr_slots_take_one(slots, slot))
		return false;
	slots->quarantined[slot / 64] |= UINT64_C(1) << slot % 64;
	slots->in_quarantine++;
	return true;
}

uint32_t dsr_slots_end_quarantine(struct dsr_slots *slots)
{
	uint32_t ended = slots->in_quarantine;

	for (uint32_t word = 0; slots->in_quarantine > 0; word++) {
		for (; slots->quarantined[word] != 0; slots->in_quarantine--) {
			uint32_t bit = (uint32_t)__builtin_ctzll(slots->quarantined[word]);

			slots->quarantined[word] &= ~(UINT64_C(1) << bit);
			slots_set(slots, word * 64 + bit);
		}
	}
	return ended;
}

uint32_t dsr_slots_left(const struct dsr_slots *slots)
{
	return slots->left;
}

uint32_t dsr_slots_quarantined(const struct dsr_slots *slots)
{
	return slots->in_quarantine;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entry_table.h"

#include <errno.h>
#include <stdatomic.h>

#include "seqlock.h"

#define ENTRY_WORDS (sizeof(struct dsr_entry) / 8)
#define ENTRY_TRIES 64 /* a write is some 16 stores: only a dead writer outlasts this */

void dsr_entry_write_begin(struct dsr_entry *entry)
{
	uint64_t seq = atomic_load_explicit(&entry->seq, memory_order_relaxed);

	/* Next odd number: also from an odd one, which a dead scheduler left. */
	atomic_store_explicit(&entry->seq, (seq + 1) | 1, memory_order_relaxed);
	dsr_seq_fence_write();
}

void dsr_entry_write_end(struct dsr_entry *entry)
{
	uint64_t seq = atomic_load_explicit(&entry->seq, memory_order_relaxed);

	/* Partner: the first, acquire load in dsr_entry_read. */
	atomic_store_explicit(&entry->seq, (seq | 1) + 1, memory_order_release);
}

void dsr_entry_write(struct dsr_entry *entry, const struct dsr_entry *value)
{
	dsr_entry_write_begin(entry);
	dsr_words_store((uint64_t *)entry + 1, (const uint64_t *)value + 1, ENTRY_WORDS - 1);
	dsr_entry_write_end(entry);
}

int dsr_entry_read(const struct dsr_entry *entry, unsigned tries, struct dsr_entry *ret_entry)
{
	struct dsr_entry copy;
	uint64_t before, after;

	for (; tries > 0; tries--) {
		/* Partner: the release store in dsr_entry_write_end. */
		before = atomic_load_explicit(&entry->seq, memory_order_acquire);
		if (before & 1)
			continue;
		dsr_words_load((uint64_t *)&copy + 1, (const uint64_t *)entry + 1, ENTRY_WORDS - 1);
		dsr_seq_fence_read();
		after = atomic_load_explicit(&entry->seq, memory_order_relaxed);
		if (before == after) {
			atomic_init(&copy.seq, before);
			*ret_entry = copy;
			return 0;
		}
	}
	return -EAGAIN;
}

bool dsr_entry_matches(const struct dsr_entry *entries, uint32_t count, const struct dsr_ref *ref,
                       uint32_t state)
{
	struct dsr_entry entry;

	if (ref->entry >= count)
		return false;
	/* The check after a copy: its loads from the slot must not be moved behind this one. */
	dsr_seq_fence_read();
	if (dsr_entry_read(&entries[ref->entry], ENTRY_TRIES, &entry) < 0)
		return false;
	return entry.generation == ref->generation && entry.l1_slot == ref->slot &&
	       entry.slot_seq == ref->slot_seq && entry.state == state;
}

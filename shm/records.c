/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "digest.h"
#include "seqlock.h"

/* seq | RECORD_BODY_WORDS words | check */
#define RECORD_BODY_WORDS (sizeof(struct dsr_record) / 8 - 2)

static_assert(offsetof(struct dsr_record, seq) == 0, "the body follows seq");
static_assert(offsetof(struct dsr_record, check) == (1 + RECORD_BODY_WORDS) * 8,
              "check follows the body");

static uint64_t record_check(const struct dsr_record *record, uint64_t seq)
{
	return dsr_digest_of((const uint64_t *)record + 1, RECORD_BODY_WORDS * 8, seq);
}

/* Makes the row odd for record number n. False when a later lap already has it: ours would be the
 * older record, so it is the one to lose. An odd row of an earlier lap is taken over: its writer is
 * dead, or so slow that its late words will fail the check. */
static bool record_take(struct dsr_record *row, uint64_t n)
{
	uint64_t seq = atomic_load_explicit(&row->seq, memory_order_relaxed);

	do {
		if (seq > 2 * n)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&row->seq, &seq, 2 * n + 1, memory_order_relaxed, memory_order_relaxed));
	dsr_seq_fence_write();
	return true;
}

void dsr_records_append(struct dsr_control *control, const struct dsr_record *record)
{
	uint64_t n =
		atomic_fetch_add_explicit(&control->record_head->head, 1, memory_order_relaxed);
	struct dsr_record *row = &control->records[n % DSR_RECORDS];
	struct dsr_record copy = *record;
	uint64_t writing = 2 * n + 1;

	if (!record_take(row, n))
		return;
	copy.request[sizeof(copy.request) - 1] = '\0';
	copy.check = record_check(&copy, writing + 1);
	dsr_words_store((uint64_t *)row + 1, (const uint64_t *)&copy + 1, RECORD_BODY_WORDS + 1);
	/* Fails when a later lap took the row over meanwhile: then it is no longer ours to finish.
	 * Partner: the acquire load in record_read. */
	(void)atomic_compare_exchange_strong_explicit(&row->seq, &writing, writing + 1,
	                                              memory_order_release, memory_order_relaxed);
}

static bool record_read(const struct dsr_record *row, uint64_t n, struct dsr_record *ret_record)
{
	uint64_t seq = 2 * n + 2;

	if (atomic_load_explicit(&row->seq, memory_order_acquire) != seq)
		return false;
	dsr_words_load((uint64_t *)ret_record + 1, (const uint64_t *)row + 1,
	               RECORD_BODY_WORDS + 1);
	dsr_seq_fence_read();
	if (atomic_load_explicit(&row->seq, memory_order_relaxed) != seq)
		return false;
	atomic_init(&ret_record->seq, seq);
	if (ret_record->check != record_check(ret_record, seq))
		return false;
	ret_record->request[sizeof(ret_record->request) - 1] = '\0';
	return true;
}

uint32_t dsr_records_read(const struct dsr_control *control, struct dsr_record *ret_records,
                          uint32_t max)
{
	uint64_t head = atomic_load_explicit(&control->record_head->head, memory_order_acquire);
	uint64_t rows = head < DSR_RECORDS ? head : DSR_RECORDS;
	uint32_t count = 0;

	for (uint64_t i = 1; i <= rows && count < max; i++)
		if (record_read(&control->records[(head - i) % DSR_RECORDS], head - i,
		                &ret_records[count]))
			count++;
	return count;
}

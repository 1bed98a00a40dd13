/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "roles.h"

/* A block is visible a moment after every writing rank handed it over: a lookup within this time
 * after the report may not have seen it. Only tells two causes apart, never how many were lost. */
#define COMMIT_NS UINT64_C(20000000)

enum fate { UNKNOWN, IN_FLIGHT, STORED, DROPPED };

struct record {
	struct replay_key key;
	uint64_t stored_ns;
	uint64_t ticket; /* of the request that asked for it first */
	uint32_t next;   /* of the bucket, 0: the last */
	uint8_t fate;
	uint8_t cause; /* of DROPPED; of IN_FLIGHT: of a drop that only follows from another */
};

struct replay_ledger {
	struct record *records; /* owned; record 0 is unused */
	uint32_t *buckets;      /* owned */
	uint32_t count, capacity, bucket_mask;
};

const char *replay_cause_name(enum replay_cause cause)
{
	static const char *const names[] = {
#define REPLAY_CAUSE_NAME(NAME, name) #name,
		REPLAY_CAUSES(REPLAY_CAUSE_NAME)
#undef REPLAY_CAUSE_NAME
	};

	return (unsigned)cause < REPLAY_CAUSE_COUNT ? names[cause] : "unknown";
}

int replay_ledger_new(struct replay_ledger **ret_ledger)
{
	struct replay_ledger *ledger = calloc(1, sizeof(*ledger));

	if (!ledger)
		return -ENOMEM;
	ledger->count = 1;
	*ret_ledger = ledger;
	return 0;
}

void replay_ledger_free(struct replay_ledger **ledger)
{
	if (!ledger || !*ledger)
		return;
	free((*ledger)->records);
	free((*ledger)->buckets);
	free(*ledger);
	*ledger = NULL;
}

static struct record *find(const struct replay_ledger *ledger, const struct replay_key *key)
{
	if (ledger->capacity == 0)
		return NULL;
	uint32_t at = ledger->buckets[key->lo & ledger->bucket_mask];

	while (at != 0 &&
	       (ledger->records[at].key.lo != key->lo || ledger->records[at].key.hi != key->hi))
		at = ledger->records[at].next;
	return at ? &ledger->records[at] : NULL;
}

static void link_record(struct replay_ledger *ledger, uint32_t at)
{
	uint32_t *bucket = &ledger->buckets[ledger->records[at].key.lo & ledger->bucket_mask];

	ledger->records[at].next = *bucket;
	*bucket = at;
}

/* Room for `more` records. */
static int grow(struct replay_ledger *ledger, uint32_t more)
{
	uint32_t capacity = ledger->capacity ? ledger->capacity : 4096;

	if (ledger->capacity - ledger->count >= more && ledger->capacity > 0)
		return 0;
	while (capacity - ledger->count < more)
		capacity *= 2;
	struct record *records = reallocarray(ledger->records, capacity, sizeof(*records));
	if (!records)
		return -ENOMEM;
	ledger->records = records;
	uint32_t *buckets = calloc(capacity, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	free(ledger->buckets);
	ledger->buckets = buckets;
	ledger->bucket_mask = capacity - 1;
	ledger->capacity = capacity;
	for (uint32_t i = 1; i < ledger->count; i++)
		link_record(ledger, i);
	return 0;
}

int replay_ledger_arrive(struct replay_ledger *ledger, const struct replay_key *keys,
                         uint32_t count, uint64_t ticket, uint32_t *ret_seen)
{
	uint32_t seen = 0;
	int r = grow(ledger, count);

	if (r < 0)
		return r;
	while (seen < count && find(ledger, &keys[seen]))
		seen++;
	for (uint32_t i = seen; i < count; i++) {
		if (find(ledger, &keys[i]))
			continue;
		ledger->records[ledger->count] = (struct record){.key = keys[i], .ticket = ticket};
		link_record(ledger, ledger->count++);
	}
	*ret_seen = seen;
	return 0;
}

void replay_ledger_leave(struct replay_ledger *ledger, const struct replay_key *keys,
                         uint32_t count, uint64_t ticket, bool is_aborted)
{
	for (uint32_t i = 0; i < count; i++) {
		struct record *record = find(ledger, &keys[i]);

		if (record && record->fate == UNKNOWN && record->ticket == ticket) {
			record->fate = DROPPED;
			record->cause = is_aborted ? REPLAY_ABORTED : REPLAY_OTHER;
		}
	}
}

void replay_ledger_loaded(struct replay_ledger *ledger, const struct replay_key *keys,
                          uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct record *record = find(ledger, &keys[i]);

		if (record && record->fate == UNKNOWN)
			record->fate = STORED;
	}
}

void replay_ledger_lost(struct replay_ledger *ledger, const struct replay_key *keys, uint32_t count,
                        enum replay_cause cause)
{
	for (uint32_t i = 0; i < count; i++) {
		struct record *record = find(ledger, &keys[i]);

		if (record && record->fate == IN_FLIGHT)
			record->cause = (uint8_t)cause;
	}
}

/* `other` is what a drop counts for that only follows from another rank's. */
static enum replay_cause cause_of(uint32_t reason, enum replay_cause other)
{
	switch (reason) {
	case DSR_REASON_QUEUE_FULL:
	case DSR_REASON_NO_SLOT:
	case DSR_REASON_ORPHAN:
	case DSR_REASON_DEADLINE:
		return REPLAY_REFUSED_STORE;
	case DSR_REASON_PREEMPTED:
		return REPLAY_PREEMPTED;
	case DSR_REASON_ABORTED:
		return REPLAY_ABORTED;
	case DSR_REASON_CANCELLED:
	case DSR_REASON_STALE:
	case DSR_REASON_LANE:
		return other;
	default:
		return REPLAY_OTHER;
	}
}

void replay_ledger_event(struct replay_ledger *ledger, const struct daser_block_event *event,
                         uint64_t now_ns)
{
	struct replay_key key;

	(void)memcpy(&key, event->hash, sizeof(key));
	struct record *record = find(ledger, &key);

	if (!record)
		return;
	if (event->fate == DASER_BLOCK_RESERVED) {
		record->fate = IN_FLIGHT;
		record->cause = REPLAY_OTHER;
	} else if (event->fate == DASER_BLOCK_STORED) {
		record->fate = STORED;
		record->stored_ns = now_ns;
	} else if (event->reason == DSR_REASON_DUPLICATE) {
		/* somebody has it or writes it: who reserved it reports its fate. Unknown here
		 * means that another engine did, or an engine before this one. */
		if (record->fate == UNKNOWN)
			record->fate = STORED;
	} else {
		enum replay_cause other = REPLAY_OTHER;

		if (record->fate == IN_FLIGHT || record->fate == DROPPED)
			other = (enum replay_cause)record->cause;
		record->fate = DROPPED;
		record->cause = (uint8_t)cause_of(event->reason, other);
	}
}

enum replay_cause replay_ledger_cause(const struct replay_ledger *ledger,
                                      const struct replay_key *key, uint64_t ticket,
                                      uint64_t lookup_ns)
{
	const struct record *record = find(ledger, key);

	if (!record)
		return REPLAY_FIRST_USE;
	switch ((enum fate)record->fate) {
	case UNKNOWN:
		/* who asked first is still at it */
		return record->ticket != ticket ? REPLAY_IN_FLIGHT_DUPLICATE : REPLAY_FIRST_USE;
	case IN_FLIGHT:
		return REPLAY_IN_FLIGHT_DUPLICATE;
	case STORED:
		return record->stored_ns != 0 && record->stored_ns + COMMIT_NS > lookup_ns
		               ? REPLAY_IN_FLIGHT_DUPLICATE
		               : REPLAY_EVICTION_ORDER;
	case DROPPED:
		return (enum replay_cause)record->cause;
	}
	return REPLAY_OTHER;
}

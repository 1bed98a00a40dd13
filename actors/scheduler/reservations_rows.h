/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the reservations, shared by reservations*.c alone. */
#ifndef DSR_SCHEDULER_RESERVATIONS_ROWS_H
#define DSR_SCHEDULER_RESERVATIONS_ROWS_H

#include "answers.h"
#include "idmap.h"
#include "reservations.h"

#define RESERVATION_NONE UINT32_MAX

enum reservation_state { RESERVATION_FREE = 0, RESERVATION_LIVE = 1, RESERVATION_DONE = 2 };

/* Entries or reservations, linked by number. */
struct number_list {
	uint32_t first;
	uint32_t last;
	uint32_t count;
};

struct reservation {
	uint64_t owner_incarnation;
	uint64_t id;
	uint64_t serial;
	uint64_t keys_hash; /* a repeat must ask for the same */
	uint64_t answer_at;
	uint64_t generation; /* of its first reserved block; the others follow */
	uint64_t slot_seq;   /* likewise */
	uint32_t keys;
	uint32_t reserved;
	uint32_t owner;             /* RESERVATION_NONE: its process is gone */
	uint32_t devices;           /* writers that live */
	struct number_list open;    /* RESERVED entries */
	struct number_list pending; /* ABORTING entries that no CANCEL was sent for */
	struct number_list flying;  /* ABORTING entries of the CANCEL under way */
	uint32_t pending_to;        /* devices that must answer for the pending ones */
	uint32_t flying_to;         /* devices that have not answered */
	uint32_t unsent;            /* of these, those it must be sent to (again) */
	uint32_t batch;             /* number of the CANCEL under way */
	uint32_t next;              /* live: next younger; done: next younger of the owner; free */
	uint32_t prev;              /* live: next older */
	uint32_t next_dirty;
	bool is_dirty;
	uint8_t state;
};

struct reservation_owner {
	uint64_t incarnation; /* 0: none */
	uint64_t last_id;
	struct number_list done;
};

/* A block's place in its reservation. */
struct reservation_link {
	uint32_t next;
	uint32_t prev;
	uint32_t reservation;
};

struct dsr_reservations {
	struct dsr_reservations_options options;
	struct dsr_cache *cache;        /* borrowed */
	struct reservation *rows;       /* owned; valid below rows_used */
	struct reservation_link *links; /* owned: of every entry */
	struct dsr_idmap *ids;          /* owned: (incarnation, id) -> row */
	struct dsr_answers *answers;    /* owned */
	uint32_t *entries;              /* owned: scratch, DSR_RESERVATION_KEYS of them */
	int32_t *status;                /* owned: scratch of one answer */
	struct dsr_ref *refs;           /* owned: scratch of one answer */
	struct dsr_ref *cancel_refs;    /* owned: scratch of one CANCEL */
	struct reservation_owner owners[DSR_RESERVATION_OWNERS];
	struct number_list live; /* in order of serial */
	uint32_t row_count;
	uint32_t rows_used;
	uint32_t free_row;
	uint32_t first_dirty;
	uint64_t serial;
};

/* Puts an entry at the end of a list of its reservation, or takes it out. */
void dsr_reservations_list_add(struct dsr_reservations *r, struct number_list *list,
                               uint32_t entry);
void dsr_reservations_list_remove(struct dsr_reservations *r, struct number_list *list,
                                  uint32_t entry);
/* Marks for dsr_reservations_flush. */
void dsr_reservations_set_dirty(struct dsr_reservations *r, uint32_t row);
/* A live reservation without blocks is done. */
void dsr_reservations_finish(struct dsr_reservations *r, uint32_t row);

#endif

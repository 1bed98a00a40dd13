/* SPDX-License-Identifier: Apache-2.0 */
/* One slot, two rows that can name it, and a load actor that copies from it while it is evicted,
 * bound again and written: leases, their end by time, mismatches, and death of the scheduler.
 *
 * Budgets (-D): BINDS, LEASES, RELINKS, MISMATCHES, SCHED_DEATHS. What the scheduler does between
 * messages is not atomic here: the reader sees every word that it writes, in the order of the
 * writes. */
#include "daser.pml"

#ifndef BINDS
#define BINDS 3
#endif
#ifndef LEASES
#define LEASES 2
#endif
#ifndef RELINKS
#define RELINKS 0
#endif
#ifndef MISMATCHES
#define MISMATCHES 0
#endif

#define ROWS 2
#define NONE 255

/* ---- shared memory ---- */
Row row[ROWS];
bool mismatched[ROWS];    /* flag of the row: a reader found other bytes than were stored */
byte slot_seq;            /* of the one slot */
byte half[2];             /* its bytes: the binding that wrote each half */

/* ---- messages ---- */
byte told;                /* gen that the store actor may write; 0: none */
byte committed;           /* gen that it has written */

/* ---- what the properties look at; no actor reads it ---- */
bool is_writing;          /* the store actor copies into the slot */
byte bindings;            /* ever made: their numbers stand for their bytes */
byte binding[ROWS];       /* of what each row names */

/* The lease of the engine, one at a time: the reference that it has, and the bytes it wants. */
byte ref_row = NONE, ref_gen, ref_binding;
bool is_live;             /* given by the present scheduler and not over */
bool is_old;              /* given by an earlier one, its time is not over */

/* ---- the load actor ---- */

#define is_named(row_, gen_) (names(row[row_], gen_, VISIBLE) && slot_seq == gen_)

/* Takes a reference, also one whose lease is over by now, and reports one block. */
proctype Load()
{
	byte first, second;
	bool is_good;

	/* An odd row is looked at again; a dead scheduler's until the next one has rebuilt it. */
end:	do
	:: atomic { ref_row != NONE ->
		row[ref_row].state != ODD;
		is_good = is_named(ref_row, ref_gen) };
	   if
	   :: is_good ->
		first = half[0];
		second = half[1];
#if !defined(MUTANT_NO_CHECK_AFTER)
		atomic { row[ref_row].state != ODD -> is_good = is_named(ref_row, ref_gen) }
#endif
	   :: else -> skip
	   fi;
	   atomic {
		HOLDS(3, !is_good || (first == ref_binding && second == ref_binding));
		ref_row = NONE;
		ref_gen = 0; ref_binding = 0; first = 0; second = 0; is_good = false
	   }
	od
}

/* ---- the store actor: writes what it was told, as slowly as it likes ---- */

proctype Store()
{
	byte g, bytes;

end:	do
	:: atomic { told != 0 -> g = told; bytes = bindings; told = 0; is_writing = true };
	   half[0] = bytes;
	   half[1] = bytes;
	   atomic { is_writing = false; committed = g; g = 0; bytes = 0 }
	od
}

/* ---- the scheduler ---- */

inline drop(row_)
{
	put_row(row[row_], FREE, row[row_].gen);
	mismatched[row_] = false
}

/* The old block's row is free before the slot is bound again, and its sequence is another before
 * anyone is told of the new block. */
inline reserve(row_)
{
	HOLDS(2, !is_live && !is_old);
	HOLDS(2, !is_writing && told == 0);
	binds--;
	is_bound = true;
	take_gen(g);
	bindings++;
	binding[row_] = bindings;
#if defined(MUTANT_WRITER_TOLD_FIRST)
	told = g;
	slot_seq = g;
	if
	:: victim != NONE -> drop(victim)
	:: else -> skip
	fi;
	victim = NONE;
	put_row(row[row_], RESERVED, g);
#else
	slot_seq = g;
	put_row(row[row_], RESERVED, g);
	told = g;
#endif
	g = 0
}

inline evict(row_)
{
#if defined(MUTANT_WRITER_TOLD_FIRST)
	victim = row_;
#else
	drop(row_);
#endif
	is_bound = false
}

inline lease(row_)
{
	HOLDS(1, half[0] == binding[row_] && half[1] == binding[row_]);
	leases_left--;
	is_leased = true;
	is_live = true;
	leased_row = row_;
	ref_row = row_;
	ref_gen = row[row_].gen;
	ref_binding = binding[row_]
}

inline end_lease()
{
	is_leased = false;
	is_live = false
}

/* A row with other bytes than were stored is leased no more and goes with its last lease, also with
 * one of an earlier scheduler. */
inline mismatch(row_)
{
	mismatches--;
	mismatched[row_] = true
}

#if defined(MUTANT_MISMATCH_DROPS_LEASED)
#define can_go(row_) (mismatched[row_] && row[row_].state == VISIBLE)
#elif defined(MUTANT_MISMATCH_FORGETS_OLD_LEASES)
#define can_go(row_) (mismatched[row_] && row[row_].state == VISIBLE && !is_leased)
#else
#define can_go(row_) (mismatched[row_] && row[row_].state == VISIBLE && !is_leased && may_evict)
#endif

#define is_kept(row_) \
	(row[row_].state == VISIBLE && row[row_].gen == slot_seq && !mismatched[row_])

inline take_over(row_)
{
	if
	:: is_kept(row_) -> is_bound = true
	:: !is_kept(row_) && row[row_].state != FREE ->
		put_row(row[row_], ABORTING, row[row_].gen);
		is_quarantined = true
	:: !is_kept(row_) && row[row_].state == FREE -> skip
	fi
}

inline leave(row_)
{
	if
	:: !is_kept(row_) && row[row_].state != FREE -> drop(row_)
	:: else -> skip
	fi
}

#define can_lease(row_) \
	(leases_left > 0 && is_bound && !is_leased && ref_row == NONE && !is_old && \
	 row[row_].state == VISIBLE && !mismatched[row_])
#if defined(MUTANT_LEASE_IGNORED)
#define can_evict(row_) (binds > 0 && is_bound && row[row_].state == VISIBLE && may_evict)
#else
#define can_evict(row_) \
	(binds > 0 && is_bound && row[row_].state == VISIBLE && may_evict && !is_leased)
#endif
#if defined(MUTANT_QUARANTINE_IGNORES_LEASES)
#define can_end_quarantine (is_quarantined && !is_writing)
#else
#define can_end_quarantine (is_quarantined && !is_writing && may_evict)
#endif

proctype Scheduler()
{
	bool is_bound, is_leased, is_quarantined;
	bool may_evict = true;
	byte leased_row;
#if defined(MUTANT_WRITER_TOLD_FIRST)
	byte victim = NONE;
#endif
	byte binds = BINDS, leases_left = LEASES, relinks = RELINKS, mismatches = MISMATCHES;
	byte g;

end:	do
	:: can_evict(0) -> evict(0)
	:: can_evict(1) -> evict(1)
	:: binds > 0 && !is_bound && !is_quarantined && row[0].state == FREE -> reserve(0)
	:: binds > 0 && !is_bound && !is_quarantined && row[1].state == FREE -> reserve(1)
	:: atomic { committed != 0 ->
		if
		:: names(row[0], committed, RESERVED) -> put_row(row[0], VISIBLE, row[0].gen)
		:: names(row[1], committed, RESERVED) -> put_row(row[1], VISIBLE, row[1].gen)
		:: else -> skip
		fi;
		committed = 0 }
	:: atomic { can_lease(0) -> lease(0) }
	:: atomic { can_lease(1) -> lease(1) }
	/* RELEASE, or its time is over; the engine may still be loading. */
	:: is_leased -> end_lease()
	:: mismatches > 0 && row[0].state == VISIBLE && !mismatched[0] -> mismatch(0)
	:: can_go(0) -> drop(0); is_bound = false
	/* Another parent is written into a visible row. */
	:: relinks > 0 && row[0].state == VISIBLE ->
		relinks--;
		put_row(row[0], VISIBLE, row[0].gen)
	:: atomic { !may_evict && !is_old -> may_evict = true }
	/* CANCEL is answered: what the old scheduler allowed is not written any more. */
	:: atomic { can_end_quarantine ->
		told = 0;
		committed = 0;
		leave(0);
		leave(1);
		is_quarantined = false }
	:: atomic { sched_deaths_left > 0 -> sched_deaths_left--; goto died }
	od;

died:	atomic {
		is_old = is_old || is_live;
		is_live = false;
		is_leased = false;
		is_quarantined = false;
		is_bound = false;
		leased_row = 0;
		g = 0
	};
	/* What is not taken over stays in the table until its quarantine is over. */
	atomic {
#if !defined(MUTANT_EVICTS_AFTER_RESTART)
		may_evict = false;
#endif
#if defined(MUTANT_GENERATIONS_RESTART)
		next_gen = 1;
#endif
		take_over(0);
		take_over(1);
		goto end
	}
}

init {
	atomic {
		row[0].state = FREE;
		row[1].state = FREE;
		run Scheduler();
		run Store();
		run Load()
	};
	/* The time of a lease that no scheduler knows passes. */
end:	do
	:: is_old -> is_old = false
	od
}

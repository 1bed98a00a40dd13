/* SPDX-License-Identifier: Apache-2.0 */
/* The store side: RESERVE, STORE, COMMIT, ABORT, CANCEL over lanes; leases and eviction; death and
 * restart of store actors, scheduler and engine.
 *
 * Budgets (-D): SLOTS, BINDS, STORE_DEATHS, SCHED_DEATHS, ENGINE_DEATHS, REPEATS, LEASES, ABANDONS.
 * -DWARM: the last slot holds a block from the beginning.
 * Two store actors: of two lanes of one engine, or (-DREPLICAS) of two engines that write one lane.
 * Every run ends: at `timeout` nothing is left to do, and the Monitor looks for what leaked. */
#include "daser.pml"

#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef BINDS
#define BINDS 2
#endif
#ifndef STORE_DEATHS
#define STORE_DEATHS 0
#endif
#ifndef ENGINE_DEATHS
#define ENGINE_DEATHS 0
#endif
#ifndef REPEATS
#define REPEATS 0
#endif
#ifndef LEASES
#define LEASES 0
#endif
#ifndef ABANDONS
#define ABANDONS 0
#endif

#define STORES 2
#define UPS 4
#define DOWNS 4
#define bit(number_) (1 << (number_))
#define TORN 255

mtype:message = { COMMIT, ABORT, CANCEL, CANCEL_ALL, HELLO };

/* Store actors. An incarnation stands in the actor table from its start on; the role lock keeps the
 * next one from starting before the last is reaped. */
byte store[STORES] = 1;
bool store_killed[STORES]; /* SIGKILLed; its copies may still run */
byte store_reaped[STORES]; /* last incarnation whose pidfd is readable: its copies have stopped */
byte store_deaths_left = STORE_DEATHS;
bool engine_killed;        /* and the scheduler has not noticed */
byte engine_deaths_left = ENGINE_DEATHS;
byte abandons_left = ABANDONS;

/* ---- shared memory ---- */
Row row[SLOTS];            /* of each slot its row: a row names one slot for as long as it lives */

/* ---- connections; each message names the incarnations that it comes from and goes to ---- */
chan grant[STORES] = [BINDS] of { byte, byte, byte, byte };           /* slot, gen, scheduler, to */
chan up[STORES] = [UPS] of { mtype:message, byte, byte, byte, byte }; /* slot, gen, from, to */
chan down[STORES] = [DOWNS] of { mtype:message, byte, byte, byte, byte };
byte abandon[SLOTS];       /* gen of an ABANDON under way; an older one would be stale */

/* ---- what the properties look at; no actor reads it ---- */
byte copy_gen[STORES];     /* 0: this actor copies nothing */
byte copy_slot[STORES];
byte bytes[STORES * SLOTS]; /* by lane and slot: the gen of what is there; TORN: a part of it */
bool leased[SLOTS];        /* the engine holds a lease given by the present scheduler */
bool old_lease[SLOTS];     /* one given by an earlier one, whose time is not over */
byte quarantined;          /* slots; what the scheduler says of itself */

#define is_copied_to(slot_) \
	((copy_gen[0] != 0 && copy_slot[0] == slot_) || (copy_gen[1] != 0 && copy_slot[1] == slot_))
#if defined(REPLICAS)
#define place(store_, slot_) (slot_)
#define is_whole(slot_) (bytes[slot_] == row[slot_].gen && !is_copied_to(slot_))
#else
#define place(store_, slot_) (store_ * SLOTS + slot_)
#define is_whole(slot_) \
	(bytes[slot_] == row[slot_].gen && bytes[SLOTS + slot_] == row[slot_].gen && \
	 !is_copied_to(slot_))
#endif

/* ---- store actors ---- */

/* What an actor tells of a block; kept, since it is repeated until it is answered. */
inline tell(what_, slot_, gen_)
{
	up[l]!what_, slot_, gen_, store[l], my_sched;
	if
	:: repeats > 0 ->
		told = what_;
		told_slot = slot_;
		told_gen = gen_
	:: else -> skip
	fi
}

inline forget_told()
{
	told = 0;
	told_slot = 0;
	told_gen = 0
}

inline send_abandon()
{
	if
	:: g > abandon[s] -> abandon[s] = g
	:: else -> skip
	fi
}

/* The worker reports a refused save as dropped, the engine abandons it. */
inline refuse()
{
#if defined(MUTANT_REFUSED_SAVE_FORGOTTEN)
	skip
#else
	send_abandon()
#endif
}

inline forget_job()
{
	job_slot = 0;
	job_gen = 0;
	job_sched = 0
}

inline forget_cancel()
{
	cancel = 0;
	cancel_slot = 0;
	cancel_gen = 0;
	can_answer = false
}

/* What a worker makes of a granted block, at any time, also when the engine is dead: a STORE, which
 * may have been sent to an earlier incarnation; a DROP; or nothing, which the engine tells by
 * ABANDON. */
inline on_grant()
{
	if
	:: true -> /* STORE */
		if
		:: sc == my_sched ->
			job_slot = s;
			job_gen = g;
			job_sched = sc
		:: sc != my_sched -> refuse() /* -ESTALE */
		fi
	:: sc == my_sched -> tell(ABORT, s, g) /* DROP */
	:: send_abandon()
	:: to != store[l] -> skip /* sent to a dead one: its death tells */
	fi;
	s = 0; g = 0; sc = 0; to = 0
}

inline on_down()
{
	if
	:: to != store[l] -> skip
	:: to == store[l] && what == HELLO ->
		if
		:: sc == asked -> my_sched = sc
		:: else -> skip
		fi
	:: to == store[l] && what != HELLO && sc != my_sched -> skip
	:: to == store[l] && what != HELLO && sc == my_sched ->
		cancel = what;
		cancel_slot = s;
		cancel_gen = g;
#if defined(MUTANT_CANCEL_ANSWERED_AT_ONCE)
		can_answer = true
#else
		can_answer = (copy_gen[l] == 0)
#endif
	fi;
	what = 0; s = 0; g = 0; sc = 0; to = 0
}

/* The copy runs from here to its end, whatever becomes of the process before it is reaped. */
inline begin_copy()
{
	HOLDS(2, row[job_slot].gen == job_gen);
	copy_gen[l] = job_gen;
	copy_slot[l] = job_slot;
	bytes[place(l, job_slot)] = TORN;
#if defined(MUTANT_COMMIT_BEFORE_COPY)
	tell(COMMIT, job_slot, job_gen);
#endif
	is_good = false
}

inline end_copy()
{
	bytes[place(l, copy_slot[l])] = copy_gen[l];
	if
	:: job_sched != my_sched -> skip /* a dead scheduler's: nobody is to be told */
	:: job_sched == my_sched -> tell(COMMIT, job_slot, job_gen)
	:: job_sched == my_sched -> tell(ABORT, job_slot, job_gen) /* it failed */
	fi;
	copy_gen[l] = 0;
	copy_slot[l] = 0;
	forget_job();
#if !defined(MUTANT_CANCEL_FORGOTTEN)
	can_answer = (cancel != 0)
#endif
}

inline die()
{
	atomic {
		copy_gen[l] = 0;
		copy_slot[l] = 0;
		store_reaped[l] = store[l];
		store_killed[l] = false;
		my_sched = 0;
		asked = 0;
		is_good = false;
		forget_job();
		forget_told();
		forget_cancel();
		store[l]++
	}
}

proctype Store(byte l)
{
	byte my_sched = 1, asked = 1;        /* served by; said HELLO to */
	byte job_slot, job_gen, job_sched;   /* accepted STORE; gen 0: none */
	mtype:message told;                  /* last COMMIT or ABORT */
	byte told_slot, told_gen;
	mtype:message cancel;                /* CANCEL not answered yet */
	byte cancel_slot, cancel_gen;
	bool can_answer;                     /* every copy that it waits for has ended */
	byte repeats = REPEATS;
	bool is_good;
	mtype:message what;
	byte s, g, sc, to;

end:	do
	/* The scheduler is a new one: what the old one was to be told is void. */
	:: atomic { asked != sched && !sched_killed && nfull(up[l]) ->
		asked = sched;
#if defined(MUTANT_ACCEPTS_BEFORE_HELLO_REPLY)
		my_sched = sched;
#else
		my_sched = 0;
#endif
		forget_told();
		forget_cancel();
		if
		:: job_gen != 0 && copy_gen[l] == 0 -> forget_job()
		:: else -> skip
		fi;
		up[l]!HELLO, 0, 0, store[l], 0 }
	:: atomic { job_gen == 0 && nfull(up[l]) && nempty(grant[l]) ->
		grant[l]?s, g, sc, to;
		on_grant() }
	:: atomic { cancel == 0 && nempty(down[l]) ->
		down[l]?what, s, g, sc, to;
		on_down() }
	:: atomic { cancel != 0 && can_answer && nfull(up[l]) ->
		up[l]!cancel, cancel_slot, cancel_gen, store[l], my_sched;
		forget_cancel() }
	/* The entry is looked at right before the copy is submitted. Others run between the
	 * two, this actor does nothing else. */
	:: atomic { job_gen != 0 && copy_gen[l] == 0 && row[job_slot].state != ODD ->
#if defined(MUTANT_STORE_UNCHECKED)
		is_good = true
#else
		is_good = names(row[job_slot], job_gen, RESERVED)
#endif
	   };
	   if
	   :: atomic { is_good -> begin_copy() }
	   :: atomic { !is_good -> forget_job() }
	   fi
	:: atomic { copy_gen[l] != 0 && nfull(up[l]) -> end_copy() }
	:: atomic { repeats > 0 && told != 0 && my_sched != 0 && nfull(up[l]) ->
		repeats--;
		up[l]!told, told_slot, told_gen, store[l], my_sched;
		if
		:: repeats == 0 -> forget_told()
		:: else -> skip
		fi }
	/* SIGKILL. Reaped, the copies have stopped; then the supervisor starts the next one. */
	:: atomic { store_deaths_left > 0 ->
		store_deaths_left--;
		store_killed[l] = true };
	   die()
	od
}

/* ---- the scheduler ---- */

inline free_slot(slot_)
{
	put_row(row[slot_], FREE, row[slot_].gen);
	writers[slot_] = 0;
	lanes[slot_] = 0;
	stored[slot_] = 0;
	waits[slot_] = 0
}

inline send_cancel(lane_, slot_)
{
	if
	:: waits[slot_] & bit(lane_) ->
		down[lane_]!CANCEL, slot_, row[slot_].gen, sched, known[lane_]
	:: else -> skip
	fi
}

/* RESERVED -> ABORTING; the slot is free when every writer has answered. except_: whose own report
 * it is, or who is dead. */
inline abort_slot(slot_, except_)
{
	put_row(row[slot_], ABORTING, row[slot_].gen);
#if defined(MUTANT_FREED_WITHOUT_CANCEL)
	waits[slot_] = 0;
#else
	waits[slot_] = writers[slot_] & ~(except_);
#endif
	send_cancel(0, slot_);
	send_cancel(1, slot_);
	if
	:: waits[slot_] == 0 -> free_slot(slot_)
	:: else -> skip
	fi
}

inline on_commit()
{
	if
#if defined(MUTANT_LATE_COMMIT)
	:: row[s].gen == g && (row[s].state == RESERVED || row[s].state == ABORTING) ->
#elif defined(MUTANT_COMMIT_OF_ANY_BINDING)
	:: row[s].state == RESERVED ->
#else
	:: names(row[s], g, RESERVED) ->
#endif
		stored[s] = stored[s] | bit(l);
		if
#if defined(MUTANT_VISIBLE_WITH_ONE_LANE)
		:: stored[s] != 0 ->
#else
		:: stored[s] == lanes[s] ->
#endif
			HOLDS(1, is_whole(s));
			put_row(row[s], VISIBLE, row[s].gen)
		:: else -> skip
		fi
	:: else -> skip /* stale */
	fi
}

inline on_abort()
{
	if
	:: names(row[s], g, RESERVED) -> abort_slot(s, bit(l))
	:: else -> skip
	fi
}

inline on_cancelled()
{
	if
	:: row[s].gen == g && (waits[s] & bit(l)) ->
		waits[s] = waits[s] & ~bit(l);
		if
		:: waits[s] == 0 -> free_slot(s)
		:: else -> skip
		fi
	:: else -> skip
	fi
}

/* A peer whose process cannot be opened any more is none. */
inline on_hello()
{
	if
	:: from <= store_reaped[l] -> skip
	:: else ->
		known[l] = from;
		down[l]!HELLO, 0, 0, sched, from;
#if !defined(MUTANT_CANCEL_NOT_REPEATED)
		/* What was sent before may not have been taken: repeated until answered. */
		for (i : 0 .. SLOTS - 1) {
			send_cancel(l, i)
		}
		i = 0;
#endif
		if
		:: quarantined != 0 && answered[l] != from ->
			down[l]!CANCEL_ALL, 0, 0, sched, from
		:: else -> skip
		fi
	fi
}

inline on_up()
{
	if
	:: what == HELLO -> on_hello()
#if defined(MUTANT_NO_ENVELOPE_CHECK)
	:: what != HELLO ->
#else
	:: what != HELLO && (to != sched || from != known[l]) -> skip
	:: what != HELLO && to == sched && from == known[l] ->
#endif
		if
		:: what == COMMIT -> on_commit()
		:: what == ABORT -> on_abort()
		:: what == CANCEL -> on_cancelled()
		:: what == CANCEL_ALL -> answered[l] = store[l]
		fi
	fi;
	what = 0; s = 0; g = 0; from = 0; to = 0; l = 0
}

inline on_abandon()
{
	g = abandon[s];
	abandon[s] = 0;
	if
	:: names(row[s], g, RESERVED) -> abort_slot(s, 0)
	:: else -> skip
	fi;
	s = 0; g = 0
}

/* Store actor l is confirmed dead: what lacks its lane is aborted, its answers are not
 * waited for any more. */
inline bury()
{
	for (s : 0 .. SLOTS - 1) {
		writers[s] = writers[s] & ~bit(l);
		if
		:: row[s].state == RESERVED && !(stored[s] & bit(l)) -> abort_slot(s, bit(l))
		:: row[s].state == ABORTING && (waits[s] & bit(l)) ->
			waits[s] = waits[s] & ~bit(l);
			if
			:: waits[s] == 0 -> free_slot(s)
			:: else -> skip
			fi
		:: else -> skip
		fi
	}
	known[l] = 0;
	s = 0; l = 0
}

/* An engine's process is dead: its reservations are given up, its leases are released. */
inline bury_engine()
{
	for (s : 0 .. SLOTS - 1) {
		leases[s] = false;
		if
		:: row[s].state == RESERVED ->
#if defined(MUTANT_ENGINE_DEATH_FREES)
			free_slot(s)
#else
			abort_slot(s, 0)
#endif
		:: else -> skip
		fi
	}
	s = 0;
	engine_killed = false
}

/* What a new scheduler finds in the table: whole visible rows stay. The slot of every other row
 * that is not free is quarantined, and its row stays in the table until the quarantine ends: the
 * next scheduler, should this one die before, must find it, too. */
inline rebuild()
{
	for (s : 0 .. SLOTS - 1) {
		writers[s] = 0;
		lanes[s] = 0;
		stored[s] = 0;
		waits[s] = 0;
		leases[s] = false;
		old_lease[s] = old_lease[s] || leased[s];
		leased[s] = false;
		if
		:: row[s].state == VISIBLE || row[s].state == FREE -> skip
		:: row[s].state != VISIBLE && row[s].state != FREE ->
#if defined(MUTANT_RESTART_FREES)
			put_row(row[s], FREE, row[s].gen)
#else
#if defined(MUTANT_QUARANTINE_UNWRITTEN)
			put_row(row[s], FREE, row[s].gen);
#else
			put_row(row[s], ABORTING, row[s].gen);
#endif
			quarantined = quarantined | bit(s)
#endif
		fi
	}
	s = 0
}

/* Every store actor has answered CANCEL or is confirmed dead. */
inline end_quarantine()
{
	for (s : 0 .. SLOTS - 1) {
		if
		:: quarantined & bit(s) ->
			quarantined = quarantined & ~bit(s);
			put_row(row[s], FREE, row[s].gen)
		:: else -> skip
		fi
	}
	s = 0
}

/* writers_: the stores that will write it, each its lane. */
inline bind(slot_, writers_)
{
	HOLDS(2, !is_copied_to(slot_));
	HOLDS(2, !leased[slot_] && !old_lease[slot_]);
	take_gen(g);
	put_row(row[slot_], RESERVED, g);
	lanes[slot_] = writers_;
	writers[slot_] = writers_;
	if
	:: lanes[slot_] & bit(0) -> grant[0]!slot_, g, sched, known[0]
	:: else -> skip
	fi;
	if
	:: lanes[slot_] & bit(1) -> grant[1]!slot_, g, sched, known[1]
	:: else -> skip
	fi;
	g = 0
}

#if defined(REPLICAS)
#define has_writers (known[0] != 0 || known[1] != 0)
#else
#define has_writers (known[0] != 0 && known[1] != 0)
#endif

inline reserve(slot_)
{
	binds--;
#if defined(REPLICAS)
	if
	:: known[0] != 0 -> bind(slot_, bit(0))
	:: known[1] != 0 -> bind(slot_, bit(1))
	fi
#else
	bind(slot_, bit(0) | bit(1))
#endif
}

inline grant_lease(slot_)
{
	HOLDS(1, is_whole(slot_));
	leases_left--;
	leases[slot_] = true;
	leased[slot_] = !engine_killed
}

/* Confirmed dead: the pidfd is readable, so its copies have stopped. */
#if defined(MUTANT_UNCONFIRMED_DEATH)
#define is_dead(lane_) \
	(known[lane_] != 0 && (store_killed[lane_] || store_reaped[lane_] >= known[lane_]))
#else
#define is_dead(lane_) (known[lane_] != 0 && store_reaped[lane_] >= known[lane_])
#endif
/* The last incarnation of a store actor is buried before the next one's HELLO is answered. */
#if defined(MUTANT_HELLO_BEFORE_BURIAL)
#define can_take(lane_) nempty(up[lane_])
#else
#define can_take(lane_) \
	(nempty(up[lane_]) && !(is_dead(lane_) && up[lane_]?[HELLO, _, _, _, _]))
#endif
#define has_answered(lane_) (answered[lane_] == store[lane_] || store_reaped[lane_] >= store[lane_])
#define can_reserve(slot_) \
	(binds > 0 && row[slot_].state == FREE && !(quarantined & bit(slot_)))
#if defined(MUTANT_LEASE_IGNORED)
#define can_evict(slot_) (binds > 0 && row[slot_].state == VISIBLE && may_evict)
#else
#define can_evict(slot_) \
	(binds > 0 && row[slot_].state == VISIBLE && may_evict && !leases[slot_])
#endif

proctype Scheduler()
{
	byte known[STORES];     /* incarnation of the peer, 0: none */
	byte answered[STORES];  /* incarnation that has answered CANCEL_ALL */
	byte writers[SLOTS];   /* stores that live and may write it */
	byte lanes[SLOTS];     /* stores that must commit */
	byte stored[SLOTS];    /* that have */
	byte waits[SLOTS];     /* stores that have not answered CANCEL */
	bool leases[SLOTS];
	bool may_evict = true; /* false for one lease TTL after a restart */
	byte binds = BINDS;
	byte leases_left = LEASES;
	mtype:message what;
	byte l, s, g, from, to, i;

	known[0] = 1;
	known[1] = 1;
end:	do
	:: atomic {
		if
		:: can_take(0) -> l = 0
		:: can_take(1) -> l = 1
		fi;
		up[l]?what, s, g, from, to;
		on_up() }
	:: atomic {
		if
		:: is_dead(0) -> l = 0
		:: is_dead(1) -> l = 1
		fi;
		bury() }
	:: atomic {
		if
		:: abandon[0] != 0 -> s = 0
		:: abandon[SLOTS - 1] != 0 -> s = SLOTS - 1
		fi;
		on_abandon() }
	:: atomic { engine_killed -> bury_engine() }
	:: atomic { quarantined != 0 && has_answered(0) && has_answered(1) -> end_quarantine() }

	/* RESERVE, evicting where it must. */
	:: atomic { can_reserve(0) && has_writers -> reserve(0) }
	:: atomic { can_evict(0) -> free_slot(0) }
#if SLOTS > 1
	:: atomic { can_reserve(1) && has_writers -> reserve(1) }
	:: atomic { can_evict(1) -> free_slot(1) }
#endif

	/* LEASE, and its end by RELEASE or by time. */
	:: atomic { leases_left > 0 && row[0].state == VISIBLE && !leases[0] -> grant_lease(0) }
	:: atomic { leases[0] -> leases[0] = false; leased[0] = false }
	/* One lease TTL after a restart every older lease is over. */
	:: atomic { !may_evict && !old_lease[0] -> may_evict = true }

	:: atomic { sched_deaths_left > 0 -> sched_deaths_left--; goto died }
	od;

	/* Of the dead one nothing is left but the control segment. */
died:	atomic {
		sched_killed = true;
		quarantined = 0;
		known[0] = 0; known[1] = 0;
		answered[0] = 0; answered[1] = 0;
		what = 0; l = 0; s = 0; g = 0; from = 0; to = 0; i = 0
	};
	atomic {
		sched++;
		sched_killed = false;
#if !defined(MUTANT_EVICTS_AFTER_RESTART)
		may_evict = false;
#endif
#if defined(MUTANT_GENERATIONS_RESTART)
		next_gen = 1;
#endif
		rebuild();
		goto end
	}
}

/* ---- the world ---- */

init {
	atomic {
		row[0].state = FREE;
		row[SLOTS - 1].state = FREE;
#if defined(WARM)
		take_gen(row[SLOTS - 1].gen);
		row[SLOTS - 1].state = VISIBLE;
		bytes[place(0, SLOTS - 1)] = row[SLOTS - 1].gen;
		bytes[place(1, SLOTS - 1)] = row[SLOTS - 1].gen;
#endif
		run Scheduler();
		run Monitor();
		run Store(0);
		run Store(1)
	};
end:	do
	:: atomic { engine_deaths_left > 0 && !engine_killed ->
		engine_deaths_left--;
		engine_killed = true;
		leased[0] = false;
		old_lease[0] = false }
	/* An engine that cannot tell any more what became of a reservation gives it up. */
	:: atomic { abandons_left > 0 && row[0].state == RESERVED ->
		abandons_left--;
		abandon[0] = row[0].gen }
	/* The time of a lease that no scheduler knows passes. */
	:: old_lease[0] -> old_lease[0] = false
	od
}

/* When nothing can happen any more, every reservation has ended and every slot can be used. */
proctype Monitor()
{
	timeout;
	HOLDS(5, row[0].state == FREE || row[0].state == VISIBLE);
#if SLOTS > 1
	HOLDS(5, row[1].state == FREE || row[1].state == VISIBLE);
#endif
	HOLDS(5, quarantined == 0);
	HOLDS(5, copy_gen[0] == 0 && copy_gen[1] == 0);
	HOLDS(5, !sched_killed && !engine_killed && !store_killed[0] && !store_killed[1])
}

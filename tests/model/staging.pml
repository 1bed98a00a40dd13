/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's loads through its staging buffers: a load actor that dies, hangs or is slow;
 * deadlines; scatters on a stream of the worker's own.
 *
 * Sizes and budgets (-D): BUFFERS, BATCH (blocks of a buffer; a load has two, so with 1 it streams
 * batch after batch), ACTOR_DEATHS, HANGS. -DLIVENESS adds the formula. */
#include "daser.pml"

#ifndef BUFFERS
#define BUFFERS 1
#endif
#ifndef BATCH
#define BATCH 1
#endif
#ifndef ACTOR_DEATHS
#define ACTOR_DEATHS 0
#endif
#ifndef HANGS
#define HANGS 0
#endif

#define LOADS 2
#define JOBS 2            /* of the actor, at a time */
#define BLOCKS 2          /* of a load */
#define NONE 255          /* no load, no buffer */
#define TORN 255

mtype:block_state = { WAITING, SENT, ARRIVED, LOADED, FAILED };
mtype:buffer_state = { UNUSED, HELD, LENT, QUARANTINED };
mtype:message = { SEGMENT, REPLY };

/* ---- the load actor as others see it ---- */
byte actor = 1;           /* incarnation */
bool actor_killed;        /* a copy of it may still run */
byte actor_reaped;        /* last incarnation whose pidfd is readable: its copies have stopped */
bool actor_hung;          /* started by hand, so nobody kills it */

chan to_actor = [2] of { byte, byte, byte, byte, byte }; /* buffer, lend, first, count, to */
chan to_worker = [3] of { mtype:message, byte, byte, bool, byte }; /* lend, position, err, from */

/* ---- the worker's stream ---- */
chan launched = [BUFFERS * BATCH] of { byte, byte, byte };         /* place, block, buffer */
chan completed = [BUFFERS * BATCH] of { byte, byte };              /* block, buffer */

bool is_expired[LOADS];   /* load.deadline_ms is over */

/* ---- what the properties look at; nobody else reads it ---- */
byte staging[BUFFERS * BATCH];   /* block that is there; TORN: a part of one, a copy may run */
bool is_written[LOADS * BLOCKS]; /* a scatter has written this KV block */
byte reports[LOADS];
bool is_clean;            /* no buffer is out */

/* ---- the load actor: two jobs at a time, each block after block, each block a segment ---- */

inline take_load(j_)
{
	to_actor?buffer[j_], lend[j_], first[j_], count[j_], to;
	if
#if defined(MUTANT_NO_ENVELOPE_CHECK)
	:: true -> skip
#else
	:: to == actor -> skip
	:: to != actor -> forget_load(j_)
#endif
	fi;
	to = 0
}

inline tell_segment(j_, err_)
{
	to_worker!SEGMENT, lend[j_], at[j_], err_, actor;
	at[j_]++
}

inline forget_load(j_)
{
	buffer[j_] = 0;
	lend[j_] = 0;
	first[j_] = 0;
	count[j_] = 0;
	at[j_] = 0;
	is_copying[j_] = false
}

#define place(j_) (buffer[j_] * BATCH + at[j_])

inline end_copy(j_)
{
	staging[place(j_)] = first[j_] + at[j_];
	is_copying[j_] = false;
	if
	:: tell_segment(j_, false)
	:: tell_segment(j_, true) /* evicted meanwhile */
	fi
}

#define is_looking(j_) (at[j_] < count[j_] && !is_copying[j_])

proctype Actor()
{
	byte buffer[JOBS], lend[JOBS], first[JOBS], count[JOBS], at[JOBS];
	bool is_copying[JOBS];
	byte to, j;
	byte hangs = HANGS, deaths = ACTOR_DEATHS;

end:	do
	:: atomic { (count[0] == 0 || count[1] == 0) && nempty(to_actor) ->
		j = (count[0] == 0 -> 0 : 1);
		take_load(j);
		j = 0 }
	/* The row is odd: look again, for ever if need be. */
	:: is_looking(0) || is_looking(1) -> skip
	:: atomic { nfull(to_worker) && (is_looking(0) || is_looking(1)) ->
		if
		:: is_looking(0) -> j = 0
		:: is_looking(1) -> j = 1
		fi;
		tell_segment(j, true); /* evicted */
		j = 0 }
	:: atomic { is_looking(0) -> staging[place(0)] = TORN; is_copying[0] = true }
	:: atomic { is_looking(1) -> staging[place(1)] = TORN; is_copying[1] = true }
	:: atomic { is_copying[0] && nfull(to_worker) -> end_copy(0) }
	:: atomic { is_copying[1] && nfull(to_worker) -> end_copy(1) }
	:: atomic { count[0] != 0 && at[0] == count[0] && nfull(to_worker) ->
		to_worker!REPLY, lend[0], 0, false, actor;
		forget_load(0) }
	:: atomic { count[1] != 0 && at[1] == count[1] && nfull(to_worker) ->
		to_worker!REPLY, lend[1], 0, false, actor;
		forget_load(1) }
	:: atomic { hangs > 0 -> actor_hung = true; break }
	:: atomic { deaths > 0 ->
		deaths--;
		actor_killed = true };
	   atomic {
		actor_killed = false;
		actor_reaped = actor;
		actor++;
		forget_load(0);
		forget_load(1)
	   }
	od;
end_hung:
	false
}
#undef place

/* ---- the stream ---- */

proctype Stream()
{
	byte place, block, buffer;

end:	do
	:: launched?place, block, buffer;
	   atomic {
		HOLDS(4, staging[place] == block);
		HOLDS(4, reports[block / BLOCKS] == 0);
		is_written[block] = true
	   };
	   atomic { completed!block, buffer; place = 0; block = 0; buffer = 0 }
	od
}

/* ---- the worker ---- */

#if defined(MUTANT_QUARANTINE_FOR_EVER)
#define is_out(b_) (status[b_] == LENT)
#else
#define is_out(b_) (status[b_] == LENT || status[b_] == QUARANTINED)
#endif
#define has_result(block_) (state[block_] == LOADED || state[block_] == FAILED)

/* A load ends when every block has its result, no reply can launch a scatter any more, and no
 * scatter runs. */
inline check_end(load_)
{
	if
#if defined(MUTANT_REPORTS_BEFORE_LAST_SCATTER)
	:: reports[load_] == 0 && lends[load_] == 0 &&
#else
	:: reports[load_] == 0 && lends[load_] == 0 && pending[load_] == 0 &&
#endif
	   has_result(load_ * BLOCKS) && has_result(load_ * BLOCKS + 1) ->
		HOLDS(4, state[load_ * BLOCKS] == FAILED || is_written[load_ * BLOCKS]);
		HOLDS(4, state[load_ * BLOCKS + 1] == FAILED || is_written[load_ * BLOCKS + 1]);
		reports[load_]++
	:: else -> skip
	fi
}

inline fail_blocks(load_, state_)
{
	for (i : load_ * BLOCKS .. load_ * BLOCKS + BLOCKS - 1) {
		if
		:: state[i] == state_ -> state[i] = FAILED
		:: else -> skip
		fi
	}
	i = 0
}

/* Ours again; free when no scatter reads it. */
inline give_back(b_)
{
	status[b_] = HELD;
	owner[b_] = NONE;
	check_free(b_)
}

inline check_free(b_)
{
	if
#if defined(MUTANT_RELENT_BEFORE_SCATTER)
	:: status[b_] == HELD -> status[b_] = UNUSED
#else
	:: status[b_] == HELD && readers[b_] == 0 -> status[b_] = UNUSED
#endif
	:: else -> skip
	fi
}

/* The next batch of a load. */
inline send(load_, b_)
{
	last_lend++;
	status[b_] = LENT;
	lend[b_] = last_lend;
	owner[b_] = load_;
	first[b_] = unsent[load_];
	lends[load_]++;
	to_actor!b_, last_lend, first[b_], BATCH, attached;
	for (i : 0 .. BATCH - 1) {
		state[unsent[load_]] = SENT;
		unsent[load_]++
	}
	i = 0
}

/* The buffer of that lending, also one in quarantine; NONE: a late or foreign answer. */
inline find_buffer()
{
	if
	:: from == attached && is_out(0) && lend[0] == number -> b = 0
#if BUFFERS > 1
	:: from == attached && is_out(1) && lend[1] == number -> b = 1
#endif
	:: else -> b = NONE
	fi
}

inline on_segment()
{
	if
	:: b != NONE && owner[b] != NONE ->
		l = owner[b];
		if
		:: err -> state[first[b] + at] = FAILED
		:: else ->
			state[first[b] + at] = ARRIVED;
			pending[l]++;
			readers[b]++;
			launched!b * BATCH + at, first[b] + at, b
		fi;
		l = 0
	:: else -> skip
	fi
}

inline on_reply()
{
	if
	:: b != NONE && owner[b] != NONE ->
		l = owner[b];
		lends[l]--;
		give_back(b);
		check_end(l);
		l = 0
	:: b != NONE && owner[b] == NONE -> give_back(b)
	:: else -> skip
	fi
}

/* Nothing is sent of the load any more and no answer does anything for it; its buffers stay out,
 * and it does not wait for them. */
inline quarantine(b_)
{
	if
	:: status[b_] == LENT && owner[b_] == l ->
#if defined(MUTANT_DEADLINE_FREES_STAGING)
		give_back(b_)
#else
		status[b_] = QUARANTINED;
#if !defined(MUTANT_LATE_SEGMENT_SCATTERED)
		owner[b_] = NONE
#endif
#endif
	:: else -> skip
	fi
}

inline on_deadline()
{
	fail_blocks(l, WAITING);
	fail_blocks(l, SENT);
#if defined(MUTANT_REPORTS_BEFORE_LAST_SCATTER)
	fail_blocks(l, ARRIVED);
#endif
	unsent[l] = (l + 1) * BLOCKS;
	quarantine(0);
#if BUFFERS > 1
	quarantine(1);
#endif
#if !defined(MUTANT_WAITS_FOR_STAGING)
	lends[l] = 0;
#endif
#if defined(MUTANT_DEADLINE_OF_ENDED_LOAD)
	if
	:: reports[l] > 0 -> reports[l]++
	:: else -> skip
	fi;
#endif
	check_end(l);
	is_expired[l] = false;
	l = 0
}

inline give_up(load_)
{
	fail_blocks(load_, WAITING);
	fail_blocks(load_, SENT);
	unsent[load_] = (load_ + 1) * BLOCKS;
	lends[load_] = 0;
	check_end(load_)
}

inline take_back(b_)
{
	if
	:: is_out(b_) -> give_back(b_)
	:: else -> skip
	fi
}

/* The actor is confirmed dead: what has not arrived fails, its buffers are ours again. */
inline detach()
{
	attached = 0;
	take_back(0);
#if BUFFERS > 1
	take_back(1);
#endif
	give_up(0);
	if
	:: is_started -> give_up(1)
	:: else -> skip
	fi
}

/* Without an actor it ends at once. */
inline start()
{
	is_started = true;
	unsent[1] = BLOCKS;
	if
	:: attached == 0 -> give_up(1)
	:: else -> skip
	fi
}

#define can_send(load_, b_) \
	(attached != 0 && nfull(to_actor) && status[b_] == UNUSED && \
	 unsent[load_] < (load_ + 1) * BLOCKS)

proctype Worker()
{
	byte attached = 1;            /* incarnation of the actor, 0: none */
	bool is_started;              /* the second load; the first one is from the beginning */
	byte unsent[LOADS];           /* first block not sent */
	byte lends[LOADS];            /* buffers that the load waits for */
	byte pending[LOADS];          /* scatters launched and not completed */
	mtype:block_state state[LOADS * BLOCKS];
	mtype:buffer_state status[BUFFERS];
	byte lend[BUFFERS], owner[BUFFERS], first[BUFFERS], readers[BUFFERS];
	byte last_lend;
	mtype:message what;
	byte number, at, from, block, b, l, i;
	bool err;

	atomic {
		unsent[1] = LOADS * BLOCKS;
		for (i : 0 .. LOADS * BLOCKS - 1) {
			state[i] = WAITING
		}
		for (i : 0 .. BUFFERS - 1) {
			status[i] = UNUSED;
			owner[i] = NONE
		}
		i = 0
	};
end:	do
	:: atomic { can_send(0, 0) -> send(0, 0) }
	:: atomic { can_send(1, 0) -> send(1, 0) }
#if BUFFERS > 1
	:: atomic { can_send(0, 1) -> send(0, 1) }
	:: atomic { can_send(1, 1) -> send(1, 1) }
#endif
	:: atomic { !is_started -> start() }
	:: atomic { to_worker?what, number, at, err, from ->
		find_buffer();
		if
		:: what == SEGMENT -> on_segment()
		:: what == REPLY -> on_reply()
		fi;
		what = 0; number = 0; at = 0; err = false; from = 0; b = 0 }
	:: atomic { completed?block, b ->
		l = block / BLOCKS;
		readers[b]--;
		pending[l]--;
		if
		:: state[block] == ARRIVED -> state[block] = LOADED
		:: else -> skip
		fi;
		check_free(b);
		check_end(l);
		block = 0; b = 0; l = 0 }
#if !defined(MUTANT_NO_DEADLINE)
#if defined(MUTANT_DEADLINE_OF_ENDED_LOAD)
	:: atomic { is_expired[0] -> l = 0; on_deadline() }
	:: atomic { is_expired[1] && is_started -> l = 1; on_deadline() }
#else
	:: atomic { is_expired[0] && reports[0] == 0 -> l = 0; on_deadline() }
	:: atomic { is_expired[1] && is_started && reports[1] == 0 -> l = 1; on_deadline() }
#endif
#endif
	:: atomic { attached != 0 && actor_reaped >= attached -> detach() }
	:: atomic { attached == 0 && actor > actor_reaped && !actor_killed -> attached = actor }
	:: atomic { timeout ->
		is_clean = (status[0] == UNUSED && status[BUFFERS - 1] == UNUSED);
		break }
	od;
	HOLDS(4, reports[0] == 1 && reports[1] == 1);
	HOLDS(5, is_clean || actor_hung)
}

/* ---- time ---- */

proctype Clock(byte l)
{
	is_expired[l] = true
}

init {
	atomic {
		run Worker();
		run Actor();
		run Stream();
		run Clock(0);
		run Clock(1)
	}
}

#if defined(LIVENESS)
/* Property 4: every load is reported. That it is once, the assertions say. */
ltl every_load_ends { <> (reports[0] > 0 && reports[1] > 0) }
#endif

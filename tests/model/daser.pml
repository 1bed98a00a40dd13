/* SPDX-License-Identifier: Apache-2.0 */
/* What the models share: the entry table as the control segment holds it, the numbers that outlive
 * a scheduler, and how a property is stated. README.md says what stands for what.
 *
 * Generation and slot sequence are one number `gen` here: without a second tier they change
 * together. Content is modelled by the gen that wrote it, which is stricter than by key. */

/* The condition belongs to property `number` (README.md). The number is part of the assertion, so
 * that it stands in spin's message and run.sh can tell which one a mutant broke. */
#define HOLDS(number, condition) assert((condition) || number == 0)

#ifndef SCHED_DEATHS
#define SCHED_DEATHS 0
#endif

/* ODD: the scheduler died while it wrote the row. While it lives a reader that finds an odd row
 * looks again, so a write is one step. */
mtype:row_state = { FREE, RESERVED, VISIBLE, ABORTING, ODD };

typedef Row {
	mtype:row_state state;
	byte gen
};

#define names(row_, gen_, state_) (row_.state == state_ && row_.gen == gen_)

byte sched = 1;           /* incarnation of the present scheduler */
bool sched_killed;        /* it is dead and the next one has not begun */
byte sched_deaths_left = SCHED_DEATHS;
byte next_gen = 1;        /* in the control segment: above every number ever given */

/* The scheduler writes a row, or dies in the middle of it: the rest of its handler never comes. */
inline put_row(row_, state_, gen_)
{
	if
	:: sched_deaths_left > 0 ->
		sched_deaths_left--;
		row_.state = ODD;
		goto died
	:: true ->
		row_.state = state_;
		row_.gen = gen_
	fi
}

/* A number for a new binding, stored before it is used. */
inline take_gen(gen_)
{
	gen_ = next_gen;
	next_gen++
}

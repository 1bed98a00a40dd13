/* SPDX-License-Identifier: Apache-2.0 */
/* A supervisor's attach socket in a thread, for tests: it can answer as it should, and otherwise.
 */
#ifndef DSR_TEST_FAKE_SUPERVISOR_H
#define DSR_TEST_FAKE_SUPERVISOR_H

#include <stdbool.h>

enum fake_manner {
	FAKE_GOOD,
	FAKE_MUTE,         /* takes requests, answers none */
	FAKE_LATE,         /* holds answers back until the manner changes */
	FAKE_EVENT_FIRST,  /* an event before each answer */
	FAKE_GARBAGE,      /* answers what is no JSON, with a descriptor */
	FAKE_MANY_FDS,     /* three descriptors beside each answer */
	FAKE_NO_FD,        /* forgets the descriptor of `get` */
	FAKE_BAD_ROW,      /* a row that there is not */
	FAKE_BAD_OPTIONS,  /* a setting that its parser refuses */
	FAKE_HANG_UP,      /* closes instead of answering */
	FAKE_OTHER_VERSION /* refuses hello with EPROTONOSUPPORT */
};

struct fake;

/* Serves run_dir/attach.sock; the actor's row is `row`. */
struct fake *fake_start(const char *run_dir, int row);
void fake_stop(struct fake **fake);
void fake_set(struct fake *fake, enum fake_manner manner);
/* Sends a datagram to every connection. */
void fake_send(struct fake *fake, const char *text);
void fake_hang_up(struct fake *fake);
/* Descriptor of an object (the caller's), -1: none. */
int fake_object(struct fake *fake, const char *name);
/* Gives it an object (fd is taken over). */
void fake_put(struct fake *fake, const char *name, int fd);
/* Waits until so many `ready` came; so many connections are open. */
void fake_wait_ready(struct fake *fake, unsigned count);
void fake_wait_connections(struct fake *fake, unsigned count);
/* Forgets requests noted so far, and waits until one of that op comes. */
void fake_wait_request(struct fake *fake, const char *op);
/* The last request of that op as JSON text; "" when there was none. Valid until fake_stop. */
const char *fake_request(struct fake *fake, const char *op);
/* The options object that hello answers with, as JSON text. */
void fake_set_options(struct fake *fake, const char *json);

#endif

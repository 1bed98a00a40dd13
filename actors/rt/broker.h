/* SPDX-License-Identifier: Apache-2.0 */
/* Client of the supervisor's attach socket, run_dir/attach.sock (AF_UNIX, SOCK_SEQPACKET).
 *
 * The supervisor holds every memfd by name, knows who lives, and hands descriptors to processes of
 * its own uid. One datagram = one JSON object, at most 8 KiB; a descriptor rides beside it.
 * Requests of the client and their answers ({"ok":true,...} or
 * {"ok":false,"errno":N,"error":TEXT}):
 *   {"op":"hello","role":R,"device":D,"pid":P,"start_ticks":T,"incarnation":I,"protocol":[M,m]}
 *        -> {"ok":true,"row":N,"by_hand":B,"options":{key: text, ...}}  (row -1 for non-actors;
 *           by_hand true when the supervisor did not start this process)
 *   {"op":"get","name":N}                 -> {"ok":true} + descriptor; ENOENT
 *   {"op":"put","name":N} + descriptor    -> {"ok":true}; EEXIST. Objects "staging/..." go when the
 *                                            connection that put them closes, others stay.
 *   {"op":"drop","name":N}                -> {"ok":true}
 *   {"op":"ready"}                        -> {"ok":true}   an actor is serving
 *   {"op":"spawn","device":D}             -> {"ok":true}   a load/store pair is wanted
 *   {"op":"retire","device":D}            -> {"ok":true}   its last worker has left for good
 *   {"op":"kill","role":R,"device":D,"incarnation":I,"why":W} -> {"ok":true}  it does not progress
 * Events of the supervisor, at any time: {"event":"spawn","device":D},
 * {"event":"retire","device":D} (to daser-all alone), {"event":"stop"}. End of file means that the
 * supervisor is gone. R is a role's name in actors.def, N an object's name (files.h) or errno.
 */
#ifndef DSR_RT_BROKER_H
#define DSR_RT_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "roles.h"

struct dsr_broker; /* used by one thread at a time */

struct dsr_broker_hello {
	enum dsr_role role;
	const char *device; /* "" when none */
	uint64_t incarnation;
};

/* Connects and says hello. ret_row: the actor row, -1 for other roles. options (may be NULL) gets
 * the supervisor's effective settings. -ENOTCONN: nobody serves the run directory; -EACCES: it
 * belongs to another user or is open to others; -EPROTONOSUPPORT; -EEXIST: this actor lives
 * already. Blocks at most 2 s. */
int dsr_broker_open(const char *run_dir, const struct dsr_broker_hello *hello,
                    struct dsr_options *options, struct dsr_broker **ret_broker, int *ret_row,
                    bool *ret_by_hand);
void dsr_broker_close(struct dsr_broker **broker);

/* Each blocks at most 2 s (-ETIMEDOUT). -ENOTCONN when the supervisor is gone. */
int dsr_broker_get(struct dsr_broker *broker,
                   const char *name); /* descriptor, caller's, or errno */
int dsr_broker_put(struct dsr_broker *broker, const char *name, int fd); /* fd is borrowed */
int dsr_broker_drop(struct dsr_broker *broker, const char *name);
int dsr_broker_ready(struct dsr_broker *broker);
int dsr_broker_spawn(struct dsr_broker *broker, const char *device);
int dsr_broker_retire(struct dsr_broker *broker, const char *device);
int dsr_broker_kill(struct dsr_broker *broker, enum dsr_role role, const char *device,
                    uint64_t incarnation, const char *why);

/* For a loop: readable when an event or the end came. */
int dsr_broker_fd(const struct dsr_broker *broker);
enum dsr_broker_event {
	DSR_BROKER_NONE,
	DSR_BROKER_SPAWN,
	DSR_BROKER_RETIRE,
	DSR_BROKER_STOP,
	DSR_BROKER_GONE
};
/* Next event without blocking; device (at least DSR_DEVICE_NAME_MAX bytes) is set for spawn and
 * retire. */
enum dsr_broker_event dsr_broker_next(struct dsr_broker *broker, char *ret_device);

#endif

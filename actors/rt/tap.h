/* SPDX-License-Identifier: Apache-2.0 */
/* Watching an actor's messages: a copy of each, sent and received, for whoever subscribes.
 *
 * The actor binds run_dir/tap-<role>[-<device>].sock. Without subscribers a message costs one test.
 * The tap is lossy: a subscriber that is slower than the actor misses messages. One published
 * message is two parts, a line and the frame as it was on the wire. The line is `in` or `out`, then
 * role, device (`-` when none) and incarnation of the peer, separated by blanks; a peer that did
 * not say HELLO is `? - 0`. */
#ifndef DSR_RT_TAP_H
#define DSR_RT_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"
#include "roles.h"

/* The publishing side, used by link.c. */
struct dsr_tap;
int dsr_tap_bind(struct dsr_loop *loop, void *zmq, const char *run_dir, enum dsr_role role,
                 const char *device, struct dsr_tap **ret_tap);
void dsr_tap_unbind(struct dsr_tap **tap);
bool dsr_tap_is_watched(const struct dsr_tap *tap); /* tap may be NULL */
void dsr_tap_publish(struct dsr_tap *tap, const char *line, const void *frame, size_t bytes);

/* The watching side, used by daserctl. fn runs in the loop; line is NUL-terminated. `prefix` ("in
 * load", "" for all) selects lines that begin with it. The actor may start later, die and come
 * back. */
struct dsr_tap_reader;
typedef void dsr_tap_fn(void *self, const char *line, const void *frame, size_t bytes);
int dsr_tap_open(struct dsr_loop *loop, const char *run_dir, enum dsr_role role, const char *device,
                 const char *prefix, dsr_tap_fn *fn, void *self,
                 struct dsr_tap_reader **ret_reader);
void dsr_tap_close(struct dsr_tap_reader **reader);

#endif

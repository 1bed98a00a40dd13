/* SPDX-License-Identifier: Apache-2.0 */
/* A ZeroMQ socket without a link behind it: a peer that can misbehave. */
#ifndef DSR_TEST_RAW_PEER_H
#define DSR_TEST_RAW_PEER_H

#include "codec.h"
#include "loop.h"
#include "roles.h"

struct raw_peer;

/* A DEALER connected to an actor's socket; own_id (may be NULL) is a routing id of its own choice.
 */
struct raw_peer *raw_connect(const char *run_dir, enum dsr_role role, const char *device,
                             const char *own_id);
/* A ROUTER bound in an actor's place. */
struct raw_peer *raw_bind(const char *run_dir, enum dsr_role role, const char *device);
void raw_close(struct raw_peer **raw);

/* Sends one part or two. A ROUTER sends to whom it heard last. */
void raw_send(struct raw_peer *raw, const void *bytes, size_t n);
void raw_send_two(struct raw_peer *raw, const void *bytes, size_t n);
void raw_send_msg(struct raw_peer *raw, const struct dsr_env *env, const void *msg);
/* HELLO of this process with the given identity. */
void raw_send_hello(struct raw_peer *raw, enum dsr_role role, const char *device,
                    uint64_t incarnation, uint64_t req);

/* The next message while the loop turns; slices are valid until the next one. Fails the test when
 * none comes. */
void raw_recv_any(struct raw_peer *raw, struct dsr_loop *loop, struct dsr_env *ret_env,
                  union dsr_msg *ret_msg);
/* The same without the PINGs of a quiet link. */
void raw_recv(struct raw_peer *raw, struct dsr_loop *loop, struct dsr_env *ret_env,
              union dsr_msg *ret_msg);
/* raw_recv of that type. */
void raw_expect(struct raw_peer *raw, struct dsr_loop *loop, uint32_t type, struct dsr_env *ret_env,
                union dsr_msg *ret_msg);

#endif

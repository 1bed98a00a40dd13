/* SPDX-License-Identifier: Apache-2.0 */
/* libdaser: the engine's side of DaseR, in plain C.
 *
 * Two objects, for the two roles of a vLLM connector: `struct daser_scheduler` (daser/scheduler.h)
 * in the process that schedules, `struct daser_worker` (daser/worker.h) in each rank's process.
 * They need not be in one process and never talk to each other: the caller carries two byte
 * strings, the step's metadata (scheduler -> every worker) and the worker's output (each worker ->
 * scheduler), as vLLM does.
 *
 * Rules for every function: errors are negative errno and leave outputs untouched; pointers passed
 * in are borrowed for the call; nothing here ends the process, blocks beyond what its comment says,
 * or raises a signal. Objects are used by one thread at a time; different objects are independent.
 * A service that is absent, dies or does not fit is no error: matches are 0, saves are dropped
 * and counted, loads fail block by block, and it reattaches by itself.
 */
#ifndef DASER_DASER_H
#define DASER_DASER_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DASER_API __attribute__((visibility("default")))
#else
#define DASER_API
#endif

#define DASER_NAMESPACE_BYTES 32
#define DASER_HASH_MAX 32

/* State of a connection to the service. */
enum daser_state {
	DASER_DETACHED = 0, /* no service, or still looking for it */
	DASER_ATTACHED = 1, /* serving */
	DASER_REFUSED = 2,  /* the service said no: daser_*_reason tells why; tried again at each
	                       restart of it */
};

/* Release of the library, such as "0.1.0". Static; never NULL. Any thread. */
DASER_API const char *daser_version(void);

/* Namespace fingerprint of `text` (all that tells two caches apart, in any unambiguous form):
 * 256 bits of XXH3 into ret_fingerprint[32]. Pure; any thread. */
DASER_API void daser_fingerprint(const void *text, size_t bytes, uint8_t *ret_fingerprint);

/* Waits until every store that was accepted before the call is committed or given up, in all actors
 * of run_dir (NULL: the default). 0, -ETIMEDOUT (*ret_left, may be NULL: blocks left), -ENOTCONN.
 * Blocks at most timeout_ms. Any thread. */
DASER_API int daser_drain(const char *run_dir, uint32_t timeout_ms, uint64_t *ret_left);

#endif

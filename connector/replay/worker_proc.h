/* SPDX-License-Identifier: Apache-2.0 */
/* The process of one rank: owns its KV cache and a daser_worker, and does what the engine's steps
 * say: computes (writes contents), reads (checks contents), loads and saves through libdaser. */
#ifndef REPLAY_WORKER_PROC_H
#define REPLAY_WORKER_PROC_H

/* Serves the engine at the other end of the socket until STOP or the engine's death. Returns the
 * exit status of the process. */
int replay_worker_main(int fd);

#endif

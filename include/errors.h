/* SPDX-License-Identifier: Apache-2.0 */
/* Error vocabulary and exit statuses: one meaning and one reach for each code.
 *
 * Functions return >= 0 for success and a negative errno for failure. The same numbers travel in
 * the `err` field of every reply (sign included). How far an error reaches:
 *
 * request  -EAGAIN          a bounded queue or pool is full, ask again later (always counted)
 *          -ENOENT          no such entry, lease, reservation or buffer
 *          -ENOSPC          no slot could be had: L1 is full of what may not be evicted
 *          -EBADMSG         bytes that are not what they must be (digest mismatch, malformed frame)
 *          -EEXIST          somebody else has it or is writing it
 *          -ETIMEDOUT       the deadline passed
 *          -ECANCELED       given up on purpose (CANCEL, abort, shutdown)
 *          -EINVAL          a value outside its range; nothing was done
 * peer     -ESTALE          the addressed or the sending incarnation is not the current one
 *          -EOWNERDEAD      the peer is confirmed dead
 *          -EHOSTUNREACH    no such peer is connected (ROUTER_MANDATORY)
 *          -EPROTO          the peer breaks the protocol (nothing is accepted before HELLO)
 *          -EPROTONOSUPPORT another protocol or layout version
 * engine   -EXDEV           another fingerprint or geometry than the one this instance serves
 *          -ENOTCONN        the service is not there (yet); the engine runs without it
 * process  -ENODEV, -ENOMEM, -EIO   this process cannot go on as it should
 */
#ifndef DSR_ERRORS_H
#define DSR_ERRORS_H

/* Exit statuses of an actor, read by the supervisor. */
#define DSR_EXIT_OK 0        /* stopped as asked */
#define DSR_EXIT_FAILURE 1   /* ran, then could not go on: restart */
#define DSR_EXIT_USAGE 2     /* bad flag or value: restarting cannot help */
#define DSR_EXIT_LOCKED 3    /* the role lock is held: another actor of this role lives */
#define DSR_EXIT_NO_BROKER 4 /* no supervisor answers in the run directory */
#define DSR_EXIT_ORPHANED 5  /* the supervisor went away; drained and stopped */
#define DSR_EXIT_VERSION 6   /* layout or protocol version differs: restarting cannot help */

/* Exit statuses of daserctl and daser. */
#define DSR_CTL_OK 0
#define DSR_CTL_FAILED 1
#define DSR_CTL_USAGE 2
#define DSR_CTL_NOT_RUNNING 3
#define DSR_CTL_DEGRADED 4

#endif

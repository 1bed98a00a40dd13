/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of a mover: ATTACH, DETACH, and their end. An attachment is closed when nothing runs
 * on its memory any more; until then nothing new is submitted to it. */
#ifndef DSR_MOVER_WORKERS_H
#define DSR_MOVER_WORKERS_H

#include "mover.h"

/* Handlers of ATTACH and DETACH; the reply comes when the pattern was read, or the copies ended. A
 * worker that attaches again replaces what it had. */
void dsr_workers_on_attach(struct dsr_mover *mover, struct dsr_peer *peer,
                           const struct dsr_env *env, const struct dsr_msg_attach *msg);
void dsr_workers_on_detach(struct dsr_mover *mover, struct dsr_peer *peer,
                           const struct dsr_env *env);
/* The peer is confirmed dead: its queued jobs are dropped, its memory closed after the copies. */
void dsr_workers_dead(struct dsr_mover *mover, const struct dsr_peer *peer);

/* The attachment that a worker has or waits for, or NULL. */
struct dsr_attachment *dsr_workers_find(struct dsr_mover *mover, const struct dsr_peer *peer);
/* Memory of any worker is mapped. */
bool dsr_workers_have_maps(const struct dsr_mover *mover);
/* Goes on with what may have ended. */
void dsr_workers_turn(struct dsr_mover *mover);
/* Closes all memory. No copy may be under way. */
void dsr_workers_close(struct dsr_mover *mover);

#endif

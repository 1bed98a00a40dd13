/* SPDX-License-Identifier: Apache-2.0 */
/* A process for tests that kill one.
 *   rt_peer serve RUN_DIR ROLE DEVICE            binds; answers LOOKUP, but one without keys
 *   rt_peer join RUN_DIR ROLE DEVICE TO_ROLE     connects to the actor of TO_ROLE and stays
 * ROLE and TO_ROLE are numbers of actors.def. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "util.h"

struct peer {
	struct dsr_link *link;
};

static void on_lookup(struct peer *self, struct dsr_peer *peer, const struct dsr_env *env,
                      const struct dsr_msg_lookup *m)
{
	const struct dsr_msg_lookup_reply reply = {.hits = m->keys.n};

	if (m->keys.n > 0)
		(void)dsr_peer_reply(self->link, peer, env, &reply);
}

int main(int argc, char **argv)
{
	const struct dsr_link_ops ops = {.on[DSR_MSG_LOOKUP] =
	                                         DSR_HANDLER(lookup, struct peer, on_lookup)};
	struct peer self = {0};
	struct dsr_loop *loop;
	struct dsr_link_options options = {.ops = &ops, .self = &self};

	if (argc < 5 || dsr_loop_new(&loop) < 0)
		return 2;
	options.run_dir = argv[2];
	options.role = (enum dsr_role)strtoul(argv[3], NULL, 10);
	options.device = argv[4];
	options.incarnation = dsr_incarnation_new();
	if (dsr_link_new(loop, &options, &self.link) < 0)
		return 1;
	if (argc == 6 ? dsr_link_connect(self.link, (enum dsr_role)strtoul(argv[5], NULL, 10), "")
	              : dsr_link_bind(self.link))
		return 1;
	return dsr_loop_run(loop) < 0;
}

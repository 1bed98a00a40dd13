/* SPDX-License-Identifier: Apache-2.0 */
/* Command line of an actor. Used by actor.c. */
#ifndef DSR_RT_ACTOR_ARGS_H
#define DSR_RT_ACTOR_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"
#include "roles.h"

#define DSR_ACTOR_FAULTS_MAX 16

/* A line of actors.def. */
struct dsr_role_info {
	enum dsr_role role;
	const char *name;
	const char *executable;
	bool per_device;
	unsigned stop_ms;
};
const struct dsr_role_info *dsr_role_info(enum dsr_role role); /* NULL: none such */

struct dsr_actor_args {
	const char *device; /* borrowed from argv, as the others; "" when none */
	const char *faults[DSR_ACTOR_FAULTS_MAX];
	unsigned fault_count;
	int stop_fd; /* -1 when not given */
	bool is_help, is_version;
};

/* Takes the flags of options.def into *options and the rest into *ret_args; argv is left as it is.
 * -EINVAL with a line in ret_why (at least 256 bytes). */
int dsr_actor_args_parse(const struct dsr_role_info *role, int argc, char **argv,
                         struct dsr_options *options, struct dsr_actor_args *ret_args,
                         char *ret_why, size_t why_bytes);
/* What --help and --version write to standard output. */
void dsr_actor_args_help(const struct dsr_role_info *role);
void dsr_actor_args_version(const struct dsr_role_info *role);

#endif

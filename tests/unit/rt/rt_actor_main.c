/* SPDX-License-Identifier: Apache-2.0 */
#include "rt_actor.h"

int main(int argc, char **argv)
{
	return dsr_actor_run(rt_actor_ops(), argc, argv, NULL, false);
}

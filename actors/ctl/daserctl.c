/* SPDX-License-Identifier: Apache-2.0 */
/* daserctl: looks at a running instance and talks to its actors by hand. */
#include "cli.h"

int main(int argc, char **argv)
{
	return dsr_cli_main(argc, argv, stdout, stderr);
}

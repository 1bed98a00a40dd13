/* SPDX-License-Identifier: Apache-2.0 */
#include "daser/daser.h"

#include "digest.h"
#include "version.h"

const char *daser_version(void)
{
	return DSR_VERSION;
}

void daser_fingerprint(const void *text, size_t bytes, uint8_t *ret_fingerprint)
{
	dsr_fingerprint(text, bytes, ret_fingerprint);
}

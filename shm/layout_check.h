/* SPDX-License-Identifier: Apache-2.0 */
/* What include/layout.h lays out, printed: for the golden dump and its test. */
#ifndef DSR_SHM_LAYOUT_CHECK_H
#define DSR_SHM_LAYOUT_CHECK_H

#include <stdio.h>

/* Writes the layout version, every constant and number of an enumeration, and every shared struct
 * with the offset and size of each field; one a line. 0 or -EIO. */
int dsr_layout_dump(FILE *file);

#endif

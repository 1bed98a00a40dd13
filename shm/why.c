/* SPDX-License-Identifier: Apache-2.0 */
#include "why.h"

#include <stdarg.h>
#include <stdio.h>

void dsr_why(char *why, size_t why_bytes, const char *format, ...)
{
	va_list args;

	if (why == NULL || why_bytes == 0)
		return;
	va_start(args, format);
	(void)vsnprintf(why, why_bytes, format, args);
	va_end(args);
}

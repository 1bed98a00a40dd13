/* SPDX-License-Identifier: Apache-2.0 */
#include "last_words.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "log.h"

#define STACK_BYTES (64 << 10)

/* snprintf is not for signal handlers. Returns the new end. */
static size_t put_text(char *line, size_t at, const char *text)
{
	while (*text)
		line[at++] = *text++;
	return at;
}

static size_t put_number(char *line, size_t at, uint64_t value, unsigned base)
{
	char digits[24];
	size_t n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value > 0);
	while (n > 0)
		line[at++] = digits[--n];
	return at;
}

/* The handler is reset by SA_RESETHAND, and the signal is blocked until it returns: then it comes
 * again, with its default action and the registers of the fault. */
static void on_fatal(int number, siginfo_t *info, void *context)
{
	char line[128];
	size_t at = 0;

	(void)context;
	at = put_text(line, at, "signal ");
	at = put_number(line, at, (uint64_t)number, 10);
	if (info->si_code > 0) { /* the kernel's: a fault of our own */
		at = put_text(line, at, " at 0x");
		at = put_number(line, at, (uint64_t)(uintptr_t)info->si_addr, 16);
	} else {
		at = put_text(line, at, " sent by pid ");
		at = put_number(line, at, (uint64_t)info->si_pid, 10);
	}
	line[at] = '\0';
	dsr_log_last_words(line);
	(void)raise(number);
}

void dsr_last_words_catch(void)
{
	static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	struct sigaction action = {.sa_sigaction = on_fatal,
	                           .sa_flags = (int)(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND)};
	struct sigaction before;
	size_t i;

	(void)sigemptyset(&action.sa_mask);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
			(void)sigaction(numbers[i], &action, NULL);
	}
}

void *dsr_last_words_stack_new(void)
{
	stack_t before;
	stack_t mine = {.ss_size = STACK_BYTES};

	if (sigaltstack(NULL, &before) == -1 || !(before.ss_flags & SS_DISABLE))
		return NULL;
	mine.ss_sp = malloc(STACK_BYTES);
	if (mine.ss_sp && sigaltstack(&mine, NULL) == -1) {
		free(mine.ss_sp);
		mine.ss_sp = NULL;
	}
	return mine.ss_sp;
}

void dsr_last_words_stack_free(void **stack)
{
	const stack_t none = {.ss_flags = SS_DISABLE};

	if (!*stack)
		return;
	(void)sigaltstack(&none, NULL);
	free(*stack);
	*stack = NULL;
}

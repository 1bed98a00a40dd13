/* SPDX-License-Identifier: Apache-2.0 */
/* Last words of a process that a signal ends. Used by actor.c. */
#ifndef DSR_RT_LAST_WORDS_H
#define DSR_RT_LAST_WORDS_H

/* Handlers for the fatal signals: what happened goes to the dying thread's last words
 * (dsr_log_set_last_words), then the signal does what it does. Handlers that somebody else set
 * (a sanitizer's) stay. */
void dsr_last_words_catch(void);

/* A stack for those handlers in the calling thread, so that a stack overflow is told, too; NULL
 * where the thread has one already. dsr_last_words_stack_free takes it back. */
void *dsr_last_words_stack_new(void);
void dsr_last_words_stack_free(void **stack);

#endif

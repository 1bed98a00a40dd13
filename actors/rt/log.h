/* SPDX-License-Identifier: Apache-2.0 */
/* Logging: one line to descriptor 2 per event, text or JSON, rate limited by call site.
 *
 * Lower case, value after its name, names in ticks, errno text last, no newline. No prompt data,
 * no keys of users' content. error: this actor cannot go on as it should; warn: it can (say what
 * was done instead); info: life cycle; debug: per object. More than 10 lines of one call site
 * within a second are counted and told in one line afterwards. Thread-safe.
 *
 * Text: `store host:0: warn: ring full after 3 tries`. JSON: {"level","who","message"}. Control
 * characters and bytes that are not UTF-8 come out as `?`, so an event is always one line. */
#ifndef DSR_RT_LOG_H
#define DSR_RT_LOG_H

#include <stdbool.h>

#include "layout.h"

enum dsr_log_level { DSR_LOG_ERROR = 0, DSR_LOG_WARN = 1, DSR_LOG_INFO = 2, DSR_LOG_DEBUG = 3 };

struct dsr_log_site {
	const char *file;
	int line;
	/* the rest belongs to log.c */
	long long window_s;
	unsigned in_window;
	unsigned suppressed;
	enum dsr_log_level level;
	struct dsr_log_site *next; /* of the sites with suppressed lines */
};

/* Process-wide sink. `who` ("store host:0") is copied; it names the lines of the calling thread,
 * and those of threads that never called this if it is the first. is_json as log.format. */
void dsr_log_init(const char *who, enum dsr_log_level level, int is_json);
void dsr_log_at(struct dsr_log_site *site, enum dsr_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Tells how many lines were suppressed at sites whose second is over. dsr_log_at does so too; a
 * timer should, and is_last at the end of a process tells all. */
void dsr_log_flush(bool is_last);

#define dsr_log(level, ...)                                                                        \
	do {                                                                                       \
		static struct dsr_log_site dsr_site = {.file = __FILE__, .line = __LINE__};        \
		dsr_log_at(&dsr_site, (level), __VA_ARGS__);                                       \
	} while (0)

/* Where the calling thread leaves its last words (borrowed until replaced); NULL: nowhere. */
void dsr_log_set_last_words(struct dsr_last_words *words);
/* Leaves `text`, unless there are last words already: the first cause counts. Async-signal-safe. */
void dsr_log_last_words(const char *text);

/* Our own bugs only, never foreign bytes: writes last words and aborts. Always compiled in. */
#define dsr_assert(x) ((x) ? (void)0 : dsr_assert_failed(#x, __FILE__, __LINE__))
void dsr_assert_failed(const char *what, const char *file, int line) __attribute__((noreturn));

#endif

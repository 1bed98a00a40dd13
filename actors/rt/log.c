/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

#define WHO_MAX 96
#define MESSAGE_MAX 1024
#define LINE_MAX_BYTES (2 * (WHO_MAX + MESSAGE_MAX) + 64) /* JSON escapes double a byte at most */
#define LINES_PER_SECOND 10

/* The sink: what the guide lets a process have one of. */
static struct {
	pthread_mutex_t lock; /* over all but level */
	_Atomic int level;
	int is_json;
	char who[WHO_MAX];
	struct dsr_log_site *suppressed; /* borrowed: sites are static */
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = DSR_LOG_INFO};

static _Thread_local char thread_who[WHO_MAX];
static _Thread_local struct dsr_last_words *thread_words;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void dsr_log_init(const char *who, enum dsr_log_level level, int is_json)
{
	(void)dsr_copy_string(thread_who, sizeof(thread_who), who);
	(void)pthread_mutex_lock(&sink.lock);
	if (sink.who[0] == '\0')
		(void)dsr_copy_string(sink.who, sizeof(sink.who), who);
	sink.is_json = is_json;
	(void)pthread_mutex_unlock(&sink.lock);
	atomic_store(&sink.level, (int)level);
}

/* Appends text to line at *at, cleaned, escaped for JSON when wanted. */
static void append_text(char *line, size_t *at, const char *text, int is_json)
{
	size_t left = strlen(text);
	size_t n;
	uint32_t c;

	while (left > 0 && *at + 8 < LINE_MAX_BYTES) {
		n = dsr_utf8_next(text, left, &c);
		if (n == 0 || c < ' ' || (c >= 0x7f && c < 0xa0)) {
			line[(*at)++] = '?';
			n = n ? n : 1;
		} else {
			if (is_json && (c == '"' || c == '\\'))
				line[(*at)++] = '\\';
			memcpy(line + *at, text, n);
			*at += n;
		}
		text += n;
		left -= n;
	}
}

static void append_raw(char *line, size_t *at, const char *text)
{
	size_t n = strlen(text);

	if (*at + n + 8 >= LINE_MAX_BYTES)
		return;
	memcpy(line + *at, text, n);
	*at += n;
}

/* One write a line, so that lines of several processes on one pipe stay whole. */
static void write_all(const char *p, size_t n)
{
	ssize_t done;

	while (n > 0) {
		done = write(STDERR_FILENO, p, n);
		if (done == -1 && errno == EINTR)
			continue;
		if (done <= 0)
			return; /* nobody reads: a log is no reason to stop */
		p += done;
		n -= (size_t)done;
	}
}

/* With the sink's lock held. */
static void emit(enum dsr_log_level level, const char *message)
{
	const char *who = thread_who[0] ? thread_who : sink.who;
	char line[LINE_MAX_BYTES];
	size_t at = 0;

	if (sink.is_json) {
		append_raw(line, &at, "{\"level\":\"");
		append_raw(line, &at, level_names[level]);
		append_raw(line, &at, "\",\"who\":\"");
		append_text(line, &at, who, 1);
		append_raw(line, &at, "\",\"message\":\"");
		append_text(line, &at, message, 1);
		append_raw(line, &at, "\"}");
	} else {
		append_text(line, &at, who, 0);
		append_raw(line, &at, who[0] ? ": " : "");
		append_raw(line, &at, level_names[level]);
		append_raw(line, &at, ": ");
		append_text(line, &at, message, 0);
	}
	line[at++] = '\n';
	write_all(line, at);
}

/* With the sink's lock held: takes sites whose second is over out of the list and tells of them. */
static void tell_suppressed(long long now_s, bool is_last)
{
	struct dsr_log_site **p = &sink.suppressed;
	struct dsr_log_site *site;
	const char *file;
	char text[256];

	while ((site = *p)) {
		if (!is_last && site->window_s >= now_s) {
			p = &site->next;
			continue;
		}
		*p = site->next;
		file = strrchr(site->file, '/');
		(void)snprintf(text, sizeof(text), "%u more lines of `%s:%d` were left out",
		               site->suppressed, file ? file + 1 : site->file, site->line);
		site->suppressed = 0;
		emit(site->level, text);
	}
}

static bool may_pass(struct dsr_log_site *site, enum dsr_log_level level, long long now_s)
{
	if (site->window_s != now_s) {
		site->window_s = now_s;
		site->in_window = 0;
	}
	if (site->in_window < LINES_PER_SECOND) {
		site->in_window++;
		return true;
	}
	if (site->suppressed++ == 0) {
		site->level = level;
		site->next = sink.suppressed;
		sink.suppressed = site;
	}
	return false;
}

void dsr_log_at(struct dsr_log_site *site, enum dsr_log_level level, const char *format, ...)
{
	long long now_s = (long long)(dsr_now_ns() / UINT64_C(1000000000));
	int saved = errno;
	char message[MESSAGE_MAX];
	va_list args;

	if ((int)level > atomic_load_explicit(&sink.level, memory_order_relaxed))
		return;
	va_start(args, format);
	(void)vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	(void)pthread_mutex_lock(&sink.lock);
	tell_suppressed(now_s, false);
	if (may_pass(site, level, now_s))
		emit(level, message);
	(void)pthread_mutex_unlock(&sink.lock);
	errno = saved;
}

void dsr_log_flush(bool is_last)
{
	(void)pthread_mutex_lock(&sink.lock);
	tell_suppressed((long long)(dsr_now_ns() / UINT64_C(1000000000)), is_last);
	(void)pthread_mutex_unlock(&sink.lock);
}

void dsr_log_set_last_words(struct dsr_last_words *words)
{
	thread_words = words;
}

void dsr_log_last_words(const char *text)
{
	struct dsr_last_words *words = thread_words;
	size_t i;

	if (!words || words->text[0])
		return;
	/* From the end to the start: a reader sees nothing or all but its first byte. */
	for (i = 0; text[i] && i < sizeof(words->text) - 1; i++)
		;
	words->text[i] = '\0';
	while (i-- > 0)
		words->text[i] = text[i];
}

void dsr_assert_failed(const char *what, const char *file, int line)
{
	const char *name = strrchr(file, '/');
	char text[sizeof(thread_words->text)];

	(void)snprintf(text, sizeof(text), "assertion `%s` failed at %s:%d", what,
	               name ? name + 1 : file, line);
	dsr_log_last_words(text);
	dsr_log(DSR_LOG_ERROR, "%s", text);
	abort();
}

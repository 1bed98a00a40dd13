/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <jansson.h>

#include "last_words.h"
#include "rt_test.h"

/* Standard error goes to a file between capture_begin and capture_end. */
struct capture {
	FILE *file;
	int saved;
	char text[65536];
};

static void capture_begin(struct capture *c)
{
	c->file = tmpfile();
	assert_non_null(c->file);
	c->saved = dup(STDERR_FILENO);
	assert_int_equal(dup2(fileno(c->file), STDERR_FILENO), STDERR_FILENO);
}

static void capture_end(struct capture *c)
{
	size_t n;

	assert_int_equal(dup2(c->saved, STDERR_FILENO), STDERR_FILENO);
	(void)close(c->saved);
	rewind(c->file);
	n = fread(c->text, 1, sizeof(c->text) - 1, c->file);
	c->text[n] = '\0';
	(void)fclose(c->file);
}

static struct capture capture;

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void a_line_names_who_and_level(void **state)
{
	(void)state;
	dsr_log_init("store host:0", DSR_LOG_INFO, 0);
	capture_begin(&capture);
	dsr_log(DSR_LOG_WARN, "ring full after %d tries", 3);
	dsr_log(DSR_LOG_DEBUG, "not shown");
	capture_end(&capture);
	assert_string_equal(capture.text, "store host:0: warn: ring full after 3 tries\n");
}

static void errno_is_left_alone(void **state)
{
	(void)state;
	dsr_log_init("x", DSR_LOG_INFO, 0);
	capture_begin(&capture);
	errno = EXDEV;
	dsr_log(DSR_LOG_INFO, "a");
	assert_int_equal(errno, EXDEV);
	capture_end(&capture);
}

static void foreign_bytes_make_no_second_line(void **state)
{
	(void)state;
	dsr_log_init("x", DSR_LOG_INFO, 0);
	capture_begin(&capture);
	dsr_log(DSR_LOG_INFO, "name `%s`", "a\nerror: b\x1b[31m\xff\xc3\xa4");
	capture_end(&capture);
	assert_string_equal(capture.text, "x: info: name `a?error: b?[31m?\xc3\xa4`\n");
}

static void a_json_line_is_json(void **state)
{
	json_t *json;

	(void)state;
	dsr_log_init("load \"0\"", DSR_LOG_DEBUG, 1);
	capture_begin(&capture);
	dsr_log(DSR_LOG_DEBUG, "path `%s`", "C:\\x \"y\" \xc3\xa4\n\xff");
	capture_end(&capture);
	json = json_loads(capture.text, 0, NULL);
	assert_non_null(json);
	assert_string_equal(json_string_value(json_object_get(json, "level")), "debug");
	assert_string_equal(json_string_value(json_object_get(json, "who")), "load \"0\"");
	assert_string_equal(json_string_value(json_object_get(json, "message")),
	                    "path `C:\\x \"y\" \xc3\xa4??`");
	json_decref(json);
}

static void a_long_line_is_cut_and_stays_one(void **state)
{
	static char text[5000];

	(void)state;
	memset(text, '"', sizeof(text) - 1);
	dsr_log_init("x", DSR_LOG_INFO, 1);
	capture_begin(&capture);
	dsr_log(DSR_LOG_INFO, "%s", text);
	capture_end(&capture);
	assert_int_equal(count_lines(capture.text), 1);
	json_decref(json_loads(capture.text, 0, NULL));
	assert_int_equal(strlen(capture.text) > 1500, 1);
}

static void a_site_is_limited_and_what_is_left_out_is_told(void **state)
{
	unsigned passed;
	unsigned left_out = 0;
	const char *told;
	int i;

	(void)state;
	dsr_log_init("x", DSR_LOG_INFO, 0);
	capture_begin(&capture);
	for (i = 0; i < 1000; i++)
		dsr_log(DSR_LOG_INFO, "same");
	dsr_log(DSR_LOG_INFO, "another site");
	dsr_log_flush(true);
	dsr_log_flush(true);
	capture_end(&capture);
	passed = count_lines(capture.text) - 2;
	assert_in_range(passed, 10, 20); /* 20: a second ended meanwhile */
	assert_non_null(strstr(capture.text, "x: info: another site\n"));
	for (told = capture.text; (told = strstr(told, "x: info: ")); told++) {
		unsigned n;

		if (sscanf(told, "x: info: %u more lines of `test_log.c:", &n) == 1)
			left_out += n;
	}
	assert_in_range(left_out + passed, 999, 1000);
	assert_non_null(strstr(capture.text, "were left out\n"));
}

static void *log_much(void *self)
{
	int i;

	dsr_log_init(self, DSR_LOG_INFO, 0);
	for (i = 0; i < 200; i++)
		dsr_log(DSR_LOG_INFO, "%d", i);
	return NULL;
}

static void threads_write_whole_lines_under_their_own_name(void **state)
{
	static char one[] = "one";
	static char two[] = "two";
	pthread_t threads[2];
	char *line;
	char *rest = NULL;
	int n;

	(void)state;
	capture_begin(&capture);
	assert_int_equal(pthread_create(&threads[0], NULL, log_much, one), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, log_much, two), 0);
	assert_int_equal(pthread_join(threads[0], NULL), 0);
	assert_int_equal(pthread_join(threads[1], NULL), 0);
	capture_end(&capture);
	dsr_log_flush(true);
	for (line = strtok_r(capture.text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		assert_true(sscanf(line, "one: info: %d", &n) == 1 ||
		            sscanf(line, "two: info: %d", &n) == 1);
}

static void the_first_last_words_count(void **state)
{
	struct dsr_last_words words = {0};

	(void)state;
	dsr_log_last_words("nowhere to leave them");
	dsr_log_set_last_words(&words);
	dsr_log_last_words("the cause");
	dsr_log_last_words("what came of it");
	assert_string_equal(words.text, "the cause");
	words.text[0] = '\0';
	{
		char text[400];

		memset(text, 'y', sizeof(text) - 1);
		text[sizeof(text) - 1] = '\0';
		dsr_log_last_words(text);
	}
	assert_int_equal(strlen(words.text), sizeof(words.text) - 1);
	dsr_log_set_last_words(NULL);
}

/* ---- deaths, in processes of their own ---- */

extern char **environ;

static char *this_program;

static void die_by_assertion(void)
{
	dsr_assert(environ == NULL);
}

static void die_by_fault(void)
{
	int *volatile nowhere = (int *)16;

	*nowhere = 1;
}

static unsigned die_by_overflow(unsigned depth)
{
	volatile char page[4096];

	page[0] = (char)depth;
	return depth ? die_by_overflow(depth - 1) + (unsigned)page[0] : 0;
}

/* A sanitizer has handlers of its own, which stay. */
static bool has_own_handlers;

/* Runs this program again as `how`, with the words in a shared page at descriptor 9. */
static int run_dying(const char *how, struct dsr_last_words *ret_words)
{
	int fd = memfd_create("words", 0);
	char name[32];
	char *argv[] = {this_program, name, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status;

	(void)snprintf(name, sizeof(name), "%s", how);
	assert_int_equal(ftruncate(fd, sizeof(*ret_words)), 0);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	(void)posix_spawn_file_actions_adddup2(&actions, fd, 9);
	(void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
	assert_int_equal(posix_spawn(&pid, this_program, &actions, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(pread(fd, ret_words, sizeof(*ret_words), 0), sizeof(*ret_words));
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(fd);
	return status;
}

static int dying_main(const char *how)
{
	struct dsr_last_words *words =
		mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, 9, 0);
	struct rlimit none = {0};

	if (words == MAP_FAILED)
		return 1;
	(void)setrlimit(RLIMIT_CORE, &none);
	dsr_log_set_last_words(words);
	(void)dsr_last_words_stack_new();
	dsr_last_words_catch();
	if (strcmp(how, "assert") == 0)
		die_by_assertion();
	else if (strcmp(how, "fault") == 0)
		die_by_fault();
	else if (strcmp(how, "overflow") == 0)
		(void)die_by_overflow(UINT32_MAX);
	else
		(void)raise(SIGFPE);
	return 0;
}

static void a_failed_assertion_leaves_its_words(void **state)
{
	struct dsr_last_words words;
	int status = run_dying("assert", &words);

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_non_null(strstr(words.text, "assertion `environ == NULL` failed at test_log.c:"));
}

static void a_fault_leaves_its_address(void **state)
{
	struct dsr_last_words words;
	int status;

	(void)state;
	if (has_own_handlers)
		skip();
	status = run_dying("fault", &words);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	assert_string_equal(words.text, "signal 11 at 0x10");
}

static void a_stack_overflow_leaves_words(void **state)
{
	struct dsr_last_words words;
	int status;

	(void)state;
	if (has_own_handlers)
		skip();
	status = run_dying("overflow", &words);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	assert_non_null(strstr(words.text, "signal 11 at 0x"));
}

static void a_sent_signal_tells_who_sent_it(void **state)
{
	struct dsr_last_words words;
	int status;

	(void)state;
	if (has_own_handlers)
		skip();
	status = run_dying("signal", &words);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGFPE);
	assert_non_null(strstr(words.text, "signal 8 sent by pid "));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_names_who_and_level),
		cmocka_unit_test(errno_is_left_alone),
		cmocka_unit_test(foreign_bytes_make_no_second_line),
		cmocka_unit_test(a_json_line_is_json),
		cmocka_unit_test(a_long_line_is_cut_and_stays_one),
		cmocka_unit_test(a_site_is_limited_and_what_is_left_out_is_told),
		cmocka_unit_test(threads_write_whole_lines_under_their_own_name),
		cmocka_unit_test(the_first_last_words_count),
		cmocka_unit_test(a_failed_assertion_leaves_its_words),
		cmocka_unit_test(a_fault_leaves_its_address),
		cmocka_unit_test(a_stack_overflow_leaves_words),
		cmocka_unit_test(a_sent_signal_tells_who_sent_it),
	};
	struct sigaction action;

	this_program = argv[0];
	if (argc > 1)
		return dying_main(argv[1]);
	(void)sigaction(SIGSEGV, NULL, &action); /* before cmocka sets its own */
	has_own_handlers = action.sa_handler != SIG_DFL;
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The server in its loop, and clients that behave well and badly. */
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl_test.h"
#include "util.h"

#define DEADLINE_NS (UINT64_C(20) * 1000 * 1000 * 1000)
#define CONNECTIONS 4
#define IDLE_S 1

struct server {
	struct dsr_loop *loop;
	struct dsr_http *http;
	int pages; /* made */
};

static int on_page(void *self, const char *path, FILE *body, const char **ret_type)
{
	struct server *server = self;

	server->pages++;
	if (strcmp(path, "/big") == 0) {
		for (int i = 0; i < 100000; i++)
			fputs("0123456789\n", body);
		return 200;
	}
	if (strcmp(path, "/fail") == 0)
		return -ENOMEM;
	if (strcmp(path, "/sick") == 0) {
		*ret_type = "application/json";
		fputs("{}", body);
		return 503;
	}
	if (strcmp(path, "/page") != 0)
		return 404;
	fputs("hello\n", body);
	return 200;
}

static int open_at(struct server *server, const char *listen, char *why, size_t why_bytes)
{
	struct dsr_http_options options = {.listen = listen,
	                                   .connections = CONNECTIONS,
	                                   .idle_s = IDLE_S,
	                                   .page = on_page,
	                                   .self = server};

	return dsr_http_open(server->loop, &options, &server->http, why, why_bytes);
}

static int set_up(void **state)
{
	struct server *server = calloc(1, sizeof(*server));
	char why[256] = "";

	if (server == NULL || dsr_loop_new(&server->loop) < 0)
		return -1;
	if (open_at(server, "127.0.0.1:0", why, sizeof(why)) < 0)
		return -1;
	*state = server;
	return 0;
}

static int tear_down(void **state)
{
	struct server *server = *state;

	dsr_http_close(&server->http);
	dsr_loop_free(&server->loop);
	free(server);
	return 0;
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
	                              .sin_port = htons(port),
	                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd != -1);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == -1)
		assert_int_equal(errno, EINPROGRESS);
	return fd;
}

/* What a client has received. */
struct answer {
	char *text; /* owned */
	size_t bytes;
	bool is_closed;
};

static void answer_free(struct answer *answer)
{
	free(answer->text);
	*answer = (struct answer){0};
}

static void receive(int fd, struct answer *answer)
{
	char part[65536];
	ssize_t n;

	while ((n = recv(fd, part, sizeof(part), 0)) > 0) {
		answer->text = realloc(answer->text, answer->bytes + (size_t)n + 1);
		assert_non_null(answer->text);
		memcpy(answer->text + answer->bytes, part, (size_t)n);
		answer->bytes += (size_t)n;
		answer->text[answer->bytes] = '\0';
	}
	if (n == 0 || (errno != EAGAIN && errno != ENOTCONN))
		answer->is_closed = true;
}

/* Sends `request` and lets the server run until it closes the connection. */
static struct answer ask(struct server *server, int fd, const char *request)
{
	uint64_t deadline = dsr_now_ns() + DEADLINE_NS;
	struct answer answer = {0};
	size_t sent = 0, length = strlen(request);

	while (!answer.is_closed && dsr_now_ns() < deadline) {
		ssize_t n =
			sent < length ? send(fd, request + sent, length - sent, MSG_NOSIGNAL) : 0;

		if (n > 0)
			sent += (size_t)n;
		assert_true(dsr_loop_step(server->loop, 5) >= 0);
		receive(fd, &answer);
	}
	assert_true(answer.is_closed);
	return answer;
}

static struct answer ask_new(struct server *server, const char *request)
{
	int fd = connect_to(dsr_http_port(server->http));
	struct answer answer = ask(server, fd, request);

	close(fd);
	return answer;
}

static void expect(struct server *server, const char *request, int status, const char *part)
{
	struct answer answer = ask_new(server, request);
	int found = 0;

	assert_non_null(answer.text);
	assert_int_equal(sscanf(answer.text, "HTTP/1.%*d %d", &found), 1);
	assert_int_equal(found, status);
	if (strstr(answer.text, part) == NULL)
		fail_msg("no `%s` in `%s`", part, answer.text);
	answer_free(&answer);
}

#define CLOSE " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

static void get_and_head_are_served(void **state)
{
	struct answer answer;

	expect(*state, "GET /page" CLOSE, 200, "\r\n\r\nhello\n");
	expect(*state, "GET /page?query=1" CLOSE, 200, "\r\n\r\nhello\n");
	expect(*state, "GET /sick" CLOSE, 503, "application/json");
	answer = ask_new(*state, "HEAD /page" CLOSE);
	assert_non_null(strstr(answer.text, " 200 "));
	assert_non_null(strstr(answer.text, "Content-Length: 6\r\n"));
	assert_string_equal(strstr(answer.text, "\r\n\r\n"), "\r\n\r\n");
	answer_free(&answer);
}

static void other_paths_and_methods_are_refused(void **state)
{
	struct server *server = *state;

	expect(server, "GET /" CLOSE, 404, "/metrics");
	expect(server, "GET /page/" CLOSE, 404, "");
	expect(server, "GET /fail" CLOSE, 500, "internal error");
	server->pages = 0;
	expect(server, "POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 405,
	       "Allow: GET, HEAD\r\n");
	expect(server, "DELETE /page" CLOSE, 405, "GET and HEAD");
	expect(server, "OPTIONS *" CLOSE, 405, "");
	assert_int_equal(server->pages, 0);
}

static void a_large_page_arrives_whole(void **state)
{
	struct answer answer = ask_new(*state, "GET /big" CLOSE);
	const char *body = strstr(answer.text, "\r\n\r\n");

	assert_non_null(body);
	assert_int_equal(strlen(body + 4), 1100000);
	answer_free(&answer);
}

static void nonsense_gets_no_page(void **state)
{
	static const char *const requests[] = {
		"\r\n\r\n\r\n\r\n",
		"nonsense\r\n\r\n",
		"GET\r\n\r\n",
		"GET /page HTTP/9.9\r\n\r\n",
		"GET /page HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		"GET /page HTTP/1.1\r\nHost: a\r\nContent-Length: nonsense\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	};
	struct server *server = *state;

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct answer answer = ask_new(server, requests[i]);

		if (answer.text != NULL)
			assert_null(strstr(answer.text, " 200 "));
		answer_free(&answer);
	}
	assert_int_equal(server->pages, 0);
	expect(server, "GET /page" CLOSE, 200, "hello");
}

static void a_request_larger_than_its_memory_is_refused(void **state)
{
	size_t bytes = 200000;
	char *request = malloc(bytes + 1);
	struct answer answer;

	assert_non_null(request);
	memset(request, 'a', bytes);
	memcpy(request, "GET /", 5);
	request[bytes] = '\0';
	answer = ask_new(*state, request);
	if (answer.text != NULL)
		assert_null(strstr(answer.text, " 200 "));
	answer_free(&answer);
	free(request);
	expect(*state, "GET /page" CLOSE, 200, "hello");
}

static void connections_are_bounded_and_idle_ones_make_room(void **state)
{
	struct server *server = *state;
	int idle[CONNECTIONS];

	/* silent ones take every place; the next request waits until they are closed */
	for (int i = 0; i < CONNECTIONS; i++) {
		idle[i] = connect_to(dsr_http_port(server->http));
		assert_true(dsr_loop_step(server->loop, 5) >= 0);
	}
	expect(server, "GET /page" CLOSE, 200, "hello");
	for (int i = 0; i < CONNECTIONS; i++) {
		struct answer answer = ask(server, idle[i], "");

		assert_null(answer.text);
		close(idle[i]);
	}
}

static void one_connection_serves_many_requests(void **state)
{
	struct server *server = *state;
	int fd = connect_to(dsr_http_port(server->http));
	struct answer answer =
		ask(server, fd, "GET /page HTTP/1.1\r\nHost: a\r\n\r\nGET /page" CLOSE);
	const char *first = strstr(answer.text, "hello\n");

	assert_non_null(first);
	assert_non_null(strstr(first + 1, "hello\n"));
	assert_int_equal(server->pages, 2);
	answer_free(&answer);
	close(fd);
}

static void addresses_that_are_not_loopback_are_refused(void **state)
{
	static const char *const bad[] = {
		"0.0.0.0:0",
		"127.0.0.2:0",
		"localhost:0",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:65536",
		"127.0.0.1:-1",
		"127.0.0.1: 1",
		"127.0.0.1:1x",
		"[::]:0",
		"::1:0",
		"[::1]",
		"[::1]:99999999",
		"",
		"127.0.0.1:0x1f90",
	};
	struct server server = {.loop = ((struct server *)*state)->loop};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char why[256] = "";

		assert_int_equal(open_at(&server, bad[i], why, sizeof(why)), -EINVAL);
		assert_null(server.http);
		assert_non_null(strstr(why, bad[i]));
		assert_non_null(strstr(why, "expected 127.0.0.1:PORT or [::1]:PORT"));
	}
}

static void a_port_in_use_is_refused_with_advice(void **state)
{
	struct server *first = *state;
	struct server server = {.loop = first->loop};
	char listen[64], why[320] = "";

	snprintf(listen, sizeof(listen), "127.0.0.1:%u", dsr_http_port(first->http));
	assert_int_equal(open_at(&server, listen, why, sizeof(why)), -EADDRINUSE);
	assert_null(server.http);
	assert_non_null(strstr(why, listen));
	assert_non_null(strstr(why, "in use"));
}

static void ipv6_loopback_is_served(void **state)
{
	struct server *first = *state;
	struct server server = {.loop = first->loop};
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	struct answer answer;
	char why[256] = "";
	int fd, r = open_at(&server, "[::1]:0", why, sizeof(why));

	if (r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT)
		skip(); /* a machine without IPv6 */
	assert_int_equal(r, 0);
	address.sin6_port = htons(dsr_http_port(server.http));
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(fd != -1);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == -1)
		assert_int_equal(errno, EINPROGRESS);
	answer = ask(&server, fd, "GET /page" CLOSE);
	assert_non_null(strstr(answer.text, "hello"));
	answer_free(&answer);
	close(fd);
	dsr_http_close(&server.http);
}

static void close_ends_connections_and_leaves_no_descriptor(void **state)
{
	struct server *first = *state;
	struct server server = {.loop = first->loop};
	struct answer answer = {0};
	char why[256] = "";
	int before = dup(0), after, client;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(open_at(&server, "127.0.0.1:0", why, sizeof(why)), 0);
		client = connect_to(dsr_http_port(server.http));
		assert_true(dsr_loop_step(server.loop, 5) >= 0);
		dsr_http_close(&server.http);
		assert_null(server.http);
		receive(client, &answer);
		assert_true(answer.is_closed);
		answer_free(&answer);
		close(client);
	}
	close(before);
	after = dup(0);
	assert_int_equal(after, before);
	close(after);
	dsr_http_close(&server.http);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(get_and_head_are_served),
		TEST(other_paths_and_methods_are_refused),
		TEST(a_large_page_arrives_whole),
		TEST(nonsense_gets_no_page),
		TEST(a_request_larger_than_its_memory_is_refused),
		TEST(connections_are_bounded_and_idle_ones_make_room),
		TEST(one_connection_serves_many_requests),
		TEST(addresses_that_are_not_loopback_are_refused),
		TEST(a_port_in_use_is_refused_with_advice),
		TEST(ipv6_loopback_is_served),
		TEST(close_ends_connections_and_leaves_no_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "util.h"

#define HTTP_BACKLOG 16
#define HTTP_MEMORY (32u << 10) /* of one connection: request line, headers, response headers */
#define HTTP_TURNS 64           /* of MHD_run within one callback; the loop gets its turn then */

struct dsr_http {
	struct dsr_loop *loop;   /* borrowed */
	struct dsr_timer *timer; /* owned */
	struct MHD_Daemon *mhd;  /* owned; owns the listening socket */
	int epoll_fd;            /* borrowed from mhd */
	uint16_t port;           /* host order */
	bool is_in_loop;         /* epoll_fd was added */
	dsr_http_page_fn *page;
	void *self; /* borrowed */
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static int parse_port(const char *text, uint16_t *ret_port)
{
	char *end;
	unsigned long port;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	port = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0' || port > UINT16_MAX)
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

/* Nothing but the two loopback addresses: what is served has no access control. */
static int parse_listen(const char *text, union address *ret_address, socklen_t *ret_bytes)
{
	static const char v4[] = "127.0.0.1:", v6[] = "[::1]:";
	uint16_t port;

	memset(ret_address, 0, sizeof(*ret_address));
	if (strncmp(text, v4, sizeof(v4) - 1) == 0) {
		if (parse_port(text + sizeof(v4) - 1, &port) < 0)
			return -EINVAL;
		ret_address->v4.sin_family = AF_INET;
		ret_address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		ret_address->v4.sin_port = htons(port);
		*ret_bytes = sizeof(ret_address->v4);
		return 0;
	}
	if (strncmp(text, v6, sizeof(v6) - 1) == 0) {
		if (parse_port(text + sizeof(v6) - 1, &port) < 0)
			return -EINVAL;
		ret_address->v6.sin6_family = AF_INET6;
		ret_address->v6.sin6_addr = in6addr_loopback;
		ret_address->v6.sin6_port = htons(port);
		*ret_bytes = sizeof(ret_address->v6);
		return 0;
	}
	return -EINVAL;
}

static int bind_error(const char *text, int err, char *ret_why, size_t why_bytes)
{
	if (err == EADDRINUSE)
		snprintf(ret_why, why_bytes,
		         "metrics.listen `%s` is in use by another process: set another port, port "
		         "0 "
		         "(a free one), or an empty value (no /metrics)",
		         text);
	else
		snprintf(ret_why, why_bytes, "metrics.listen `%s` cannot be bound: %s", text,
		         strerror(err));
	return -err;
}

/* Returns the listening socket and sets *ret_port to what it is bound to. */
static int open_socket(const char *text, uint16_t *ret_port, char *ret_why, size_t why_bytes)
{
	union address address;
	socklen_t bytes;
	int fd, one = 1, r;

	if (parse_listen(text, &address, &bytes) < 0) {
		snprintf(ret_why, why_bytes,
		         "metrics.listen `%s` is not a loopback address and port: expected "
		         "127.0.0.1:PORT or [::1]:PORT",
		         text);
		return -EINVAL;
	}
	fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return bind_error(text, errno, ret_why, why_bytes);
	/* a restarted actor takes the port while old connections linger; a living one keeps it */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == -1 ||
	    bind(fd, &address.any, bytes) == -1 || listen(fd, HTTP_BACKLOG) == -1 ||
	    getsockname(fd, &address.any, &bytes) == -1) {
		r = bind_error(text, errno, ret_why, why_bytes);
		dsr_close(&fd);
		return r;
	}
	*ret_port = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port
	                                                   : address.v6.sin6_port);
	return fd;
}

static enum MHD_Result answer(struct MHD_Connection *connection, int status, const char *type,
                              char *body, size_t bytes)
{
	enum MHD_Result r;
	struct MHD_Response *response =
		MHD_create_response_from_buffer(bytes, body, MHD_RESPMEM_MUST_FREE);

	if (response == NULL) {
		free(body);
		return MHD_NO;
	}
	r = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (r == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		r = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (r == MHD_YES)
		r = MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (r == MHD_YES)
		r = MHD_queue_response(connection, (unsigned)status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result answer_error(struct MHD_Connection *connection, int status, const char *text)
{
	char *body = strdup(text);

	if (body == NULL)
		return MHD_NO;
	return answer(connection, status, "text/plain; charset=utf-8", body, strlen(body));
}

static enum MHD_Result answer_page(struct dsr_http *http, struct MHD_Connection *connection,
                                   const char *path)
{
	const char *type = "text/plain; charset=utf-8";
	char *body = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&body, &bytes);
	int status;

	if (out == NULL)
		return MHD_NO;
	status = http->page(http->self, path, out, &type);
	if (fclose(out) == EOF)
		status = -ENOMEM;
	if (status > 0 && status != MHD_HTTP_NOT_FOUND)
		return answer(connection, status, type, body, bytes);
	free(body);
	if (status > 0)
		return answer_error(connection, status,
		                    "not found: /metrics and /health are here\n");
	dsr_log(DSR_LOG_WARN, "page `%s` could not be made: %s", path, strerror(-status));
	return answer_error(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "internal error\n");
}

/* Called when the headers are there, again for each part of a body, and again at the end. */
static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request)
{
	(void)version;
	(void)upload;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return answer_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
		                    "method not allowed: GET and HEAD alone\n");
	if (*request == NULL) {
		*request = self; /* not NULL: the headers were seen */
		return MHD_YES;
	}
	if (*upload_bytes != 0)
		return MHD_NO; /* a GET with a body: the connection is closed */
	return answer_page(self, connection, path);
}

__attribute__((format(printf, 2, 0))) static void on_mhd_log(void *self, const char *format,
                                                             va_list arguments)
{
	char text[256];
	size_t n;

	(void)self;
	vsnprintf(text, sizeof(text), format, arguments);
	n = strcspn(text, "\r\n");
	text[n] = '\0';
	dsr_log(DSR_LOG_DEBUG, "http: %s", text);
}

static unsigned count_connections(const struct dsr_http *http)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info != NULL ? info->num_connections : 0;
}

/* Lets MHD do what it can now, then arms the timer for what it must do later. A connection that
 * ended asks for another turn: a server that was full listens again only at the start of one. */
static void on_http(void *self)
{
	struct dsr_http *http = self;
	unsigned long long wait_ms = 0;
	bool has_deadline = true, has_ended = true;

	for (int i = 0; i < HTTP_TURNS && (has_ended || (has_deadline && wait_ms == 0)); i++) {
		unsigned before = count_connections(http);

		if (MHD_run(http->mhd) == MHD_NO)
			dsr_log(DSR_LOG_WARN, "http server cannot run a turn; trying again");
		has_deadline = MHD_get_timeout(http->mhd, &wait_ms) == MHD_YES;
		has_ended = count_connections(http) < before;
	}
	dsr_timer_set(http->timer, has_deadline ? dsr_now_ns() + wait_ms * 1000000 : UINT64_MAX);
}

static int start_mhd(struct dsr_http *http, const struct dsr_http_options *options, int fd)
{
	const union MHD_DaemonInfo *info;

	http->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request,
	                             http, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL,
	                             MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
	                             options->connections, MHD_OPTION_CONNECTION_TIMEOUT,
	                             options->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	                             (size_t)HTTP_MEMORY, MHD_OPTION_END);
	if (http->mhd == NULL)
		return -EIO; /* MHD has logged the reason */
	info = MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	if (info == NULL || info->epoll_fd == -1)
		return -ENOTSUP;
	http->epoll_fd = info->epoll_fd;
	return 0;
}

int dsr_http_open(struct dsr_loop *loop, const struct dsr_http_options *options,
                  struct dsr_http **ret_http, char *ret_why, size_t why_bytes)
{
	struct dsr_http *http = calloc(1, sizeof(*http));
	int fd, r;

	if (http == NULL)
		return -ENOMEM;
	http->loop = loop;
	http->page = options->page;
	http->self = options->self;
	fd = open_socket(options->listen, &http->port, ret_why, why_bytes);
	if (fd < 0) {
		r = fd;
		goto err_close;
	}
	r = start_mhd(http, options, fd);
	if (r == 0)
		r = dsr_timer_new(loop, on_http, http, &http->timer);
	if (r == 0)
		r = dsr_loop_add_fd(loop, http->epoll_fd, on_http, http);
	if (r < 0) {
		snprintf(ret_why, why_bytes, "the http server cannot start: %s", strerror(-r));
		goto err_close;
	}
	http->is_in_loop = true;
	*ret_http = http;
	return 0;
err_close:
	dsr_http_close(&http);
	return r;
}

void dsr_http_close(struct dsr_http **http)
{
	struct dsr_http *h = *http;

	if (h == NULL)
		return;
	if (h->is_in_loop)
		dsr_loop_remove_fd(h->loop, h->epoll_fd);
	dsr_timer_free(&h->timer);
	if (h->mhd != NULL)
		MHD_stop_daemon(h->mhd);
	free(h);
	*http = NULL;
}

uint16_t dsr_http_port(const struct dsr_http *http)
{
	return http->port;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server inside an actor's loop: GET and HEAD of fixed pages on the loopback address,
 * no thread, bounded connections. */
#ifndef DSR_METRICS_HTTP_H
#define DSR_METRICS_HTTP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "loop.h"

struct dsr_http;

/* Writes the page of `path` to `body` and sets *ret_type (static text). Returns the HTTP status;
 * 404 where there is no such page; a negative errno becomes 500. */
typedef int dsr_http_page_fn(void *self, const char *path, FILE *body, const char **ret_type);

struct dsr_http_options {
	const char *listen;     /* borrowed for the call: "127.0.0.1:9400", "[::1]:0" */
	unsigned connections;   /* at most; further ones wait in the kernel's queue */
	unsigned idle_s;        /* a connection that is silent for so long is closed */
	dsr_http_page_fn *page; /* called from the loop */
	void *self;             /* borrowed until close */
};

/* Binds, listens and adds itself to the loop. -EINVAL: not a loopback address and port;
 * -EADDRINUSE, -EADDRNOTAVAIL, -EACCES from bind; -ENOMEM; each with one line in ret_why. */
int dsr_http_open(struct dsr_loop *loop, const struct dsr_http_options *options,
                  struct dsr_http **ret_http, char *ret_why, size_t why_bytes);
/* Closes all connections. */
void dsr_http_close(struct dsr_http **http);
/* The port it is bound to. */
uint16_t dsr_http_port(const struct dsr_http *http);

#endif

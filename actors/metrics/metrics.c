/* SPDX-License-Identifier: Apache-2.0 */
/* daser-metrics: shows the control segment to Prometheus and to people.
 * Owns: the HTTP server, run_dir/metrics.port. Writes to no shared memory but its row and page.
 * On death: nobody notices but the scraper; counters are in shared memory and go on. */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exposition.h"
#include "files.h"
#include "http.h"
#include "util.h"

#define METRICS_CONNECTIONS                                                                        \
	16 /* scrapers and people; an idle one is closed after METRICS_IDLE_S                      \
	    */
#define METRICS_IDLE_S 10
#define METRICS_POOL_RETRY_NS (UINT64_C(1) * 1000 * 1000 * 1000)

struct metrics {
	struct dsr_rt *rt;     /* borrowed, until close */
	struct dsr_http *http; /* owned */
	bool has_port_file;    /* ours, to be removed */
	struct dsr_pool_geometry geometry;
	uint64_t epoch;       /* of geometry; 0 = none yet */
	uint64_t asked_epoch; /* last one asked for at the broker */
	uint64_t next_ask_ns; /* the broker is asked at most once a second for one epoch */
};

static bool is_alive(int32_t pid, uint64_t start_ticks)
{
	int fd = dsr_pidfd_open(pid, start_ticks);

	if (fd < 0)
		return fd != -ESRCH; /* cannot tell: its progress decides */
	dsr_close(&fd);
	return true;
}

/* Follows the scheduler's pool epoch; the geometry of an epoch never changes. */
static void refresh_geometry(struct metrics *m, uint64_t now_ns)
{
	uint64_t epoch =
		atomic_load_explicit(&m->rt->control.scheduler->pool_epoch, memory_order_acquire);
	struct dsr_pool_geometry geometry;
	uint64_t found = 0;
	char name[64], why[256] = "";
	int fd, r;

	if (epoch == m->epoch)
		return;
	m->epoch = 0;
	if (epoch == 0 || (epoch == m->asked_epoch && now_ns < m->next_ask_ns))
		return;
	m->asked_epoch = epoch;
	m->next_ask_ns = now_ns + METRICS_POOL_RETRY_NS;
	snprintf(name, sizeof(name), DSR_OBJECT_POOL, (unsigned long long)epoch);
	fd = dsr_broker_get(m->rt->broker, name);
	if (fd < 0) {
		dsr_log(DSR_LOG_DEBUG, "no pool of epoch %llu yet: %s", (unsigned long long)epoch,
		        strerror(-fd));
		return;
	}
	r = dsr_report_geometry(fd, &geometry, &found, why, sizeof(why));
	dsr_close(&fd);
	if (r < 0 || found != epoch) {
		dsr_log(DSR_LOG_WARN, "pool of epoch %llu cannot be read, showing no L1: %s",
		        (unsigned long long)epoch, r < 0 ? why : "it is of another epoch");
		return;
	}
	m->geometry = geometry;
	m->epoch = epoch;
}

static int on_page(void *self, const char *path, FILE *body, const char **ret_type)
{
	struct metrics *m = self;
	struct dsr_exposition shown = {
		.control = &m->rt->control, .now_ns = dsr_now_ns(), .is_alive = is_alive};
	bool is_good = false;
	int r;

	if (strcmp(path, "/metrics") == 0) {
		refresh_geometry(m, shown.now_ns);
		shown.geometry = m->epoch != 0 ? &m->geometry : NULL;
		*ret_type = "text/plain; version=0.0.4; charset=utf-8";
		r = dsr_exposition_metrics(body, &shown);
		return r < 0 ? r : 200;
	}
	if (strcmp(path, "/health") == 0) {
		*ret_type = "application/json";
		r = dsr_exposition_health(body, &shown, &is_good);
		if (r < 0)
			return r;
		return is_good ? 200 : 503;
	}
	return 404;
}

/* Whoever reads the file finds a whole number: it is renamed into place. */
static int write_port_file(const char *run_dir, uint16_t port)
{
	char path[DSR_OPTION_TEXT_MAX + 32], temporary[DSR_OPTION_TEXT_MAX + 32];
	int fd, r = 0;

	snprintf(path, sizeof(path), "%s/%s", run_dir, DSR_FILE_METRICS_PORT);
	snprintf(temporary, sizeof(temporary), "%s/.%s", run_dir, DSR_FILE_METRICS_PORT);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1)
		return -errno;
	if (dprintf(fd, "%u\n", (unsigned)port) < 0)
		r = -errno;
	dsr_close(&fd);
	if (r == 0 && rename(temporary, path) == -1)
		r = -errno;
	if (r < 0)
		(void)unlink(temporary); /* the first error is the one to tell */
	return r;
}

static void remove_port_file(const char *run_dir)
{
	char path[DSR_OPTION_TEXT_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", run_dir, DSR_FILE_METRICS_PORT);
	if (unlink(path) == -1 && errno != ENOENT)
		dsr_log(DSR_LOG_WARN, "cannot remove `%s`, ignoring: %s", path, strerror(errno));
}

static int metrics_open(void *self, struct dsr_rt *rt)
{
	struct metrics *m = self;
	struct dsr_http_options options = {.listen = rt->options.metrics_listen,
	                                   .connections = METRICS_CONNECTIONS,
	                                   .idle_s = METRICS_IDLE_S,
	                                   .page = on_page,
	                                   .self = m};
	char why[320] = "";
	int r;

	m->rt = rt;
	if (rt->options.metrics_listen[0] == '\0') {
		dsr_log(DSR_LOG_INFO, "metrics.listen is empty: no /metrics and no /health");
		return 0;
	}
	r = dsr_http_open(rt->loop, &options, &m->http, why, sizeof(why));
	if (r < 0) {
		dsr_log(DSR_LOG_ERROR, "%s", why);
		return r;
	}
	r = write_port_file(rt->options.run_dir, dsr_http_port(m->http));
	if (r < 0) {
		dsr_log(DSR_LOG_ERROR, "cannot write `%s/%s`: %s", rt->options.run_dir,
		        DSR_FILE_METRICS_PORT, strerror(-r));
		return r;
	}
	m->has_port_file = true;
	dsr_log(DSR_LOG_INFO, "serving /metrics and /health at port %u of the loopback address",
	        (unsigned)dsr_http_port(m->http));
	return 0;
}

static void metrics_close(void *self)
{
	struct metrics *m = self;

	dsr_http_close(&m->http);
	if (m->has_port_file)
		remove_port_file(m->rt->options.run_dir);
	m->has_port_file = false;
}

/* Messages for every actor (PING, FAULT) are answered by the runtime; there are no others. */
static const struct dsr_link_ops metrics_link_ops = {0};

const struct dsr_actor_ops dsr_metrics_ops = {
	.role = DSR_ROLE_METRICS,
	.self_size = sizeof(struct metrics),
	.open = metrics_open,
	.close = metrics_close,
	.link = &metrics_link_ops,
};

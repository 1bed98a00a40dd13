/* SPDX-License-Identifier: Apache-2.0 */
/* daser-replay: an engine stand-in. Runs a workload through libdaser as vLLM would, with one
 * process for each rank, and checks every byte that is loaded. Owns: its KV caches, the processes
 * of its ranks. On death: they see their socket close and exit. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "trace.h"
#include "worker_proc.h"

#define EXIT_BAD 1
#define EXIT_USAGE 2

static int make_workload(const struct replay_settings *settings, struct replay_workload *workload,
                         char *why, size_t why_bytes)
{
	bool is_trace = strcmp(settings->workload, "trace") == 0;
	int r;

	replay_workload_init(workload,
	                     is_trace ? REPLAY_SPAN_TOKENS : (uint32_t)settings->block_tokens);
	if (is_trace)
		return replay_trace_load(settings->trace, settings->requests, workload, why,
		                         why_bytes);
	if (strcmp(settings->workload, "prefix") == 0)
		r = replay_workload_prefix(workload, settings);
	else
		r = replay_workload_multiturn(workload, settings);
	if (r == -EINVAL)
		(void)snprintf(why, why_bytes, "--workload %s: a prompt gets longer than %d tokens",
		               settings->workload, REPLAY_INPUT_MAX);
	else if (r < 0)
		(void)snprintf(why, why_bytes, "--workload %s: %s", settings->workload,
		               strerror(-r));
	return r;
}

static int write_trace(const struct replay_settings *settings,
                       const struct replay_workload *workload)
{
	FILE *file = fopen(settings->write_trace, "we");
	int r = file ? replay_workload_write(workload, file) : -errno;

	if (file && fclose(file) != 0 && r == 0)
		r = -EIO;
	if (r < 0)
		(void)fprintf(stderr, "daser-replay: --write-trace `%s`: %s\n",
		              settings->write_trace, strerror(-r));
	return r < 0 ? EXIT_BAD : 0;
}

/* All phases in order, until one fails. */
static int run_phases(struct replay_engine *engine, const struct replay_settings *settings,
                      struct replay_phase *phases, uint32_t *ret_count)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < settings->phase_count; i++) {
		struct replay_phase *phase = &phases[i];

		(void)snprintf(phase->name, sizeof(phase->name), "%s", settings->phase_names[i]);
		*ret_count = i + 1;
		r = strcmp(phase->name, "drain") == 0 ? replay_engine_drain(engine, phase)
		                                      : replay_engine_run(engine, phase);
	}
	return r;
}

static int run(const struct replay_settings *settings, const struct replay_workload *workload)
{
	static struct replay_phase phases[REPLAY_PHASES_MAX];
	struct replay_engine *engine = NULL;
	char why[512] = "", error[600] = "";
	uint32_t count = 0;
	bool is_bad = false;
	int r = replay_engine_open(settings, workload, &engine, why, sizeof(why));

	if (r < 0) {
		(void)fprintf(stderr, "daser-replay: %s\n", why[0] ? why : strerror(-r));
		return r == -EINVAL ? EXIT_USAGE : EXIT_BAD;
	}
	r = run_phases(engine, settings, phases, &count);
	if (r < 0)
		(void)snprintf(error, sizeof(error), "%s", engine->error);
	if (replay_engine_close(&engine, why, sizeof(why)) < 0 && error[0] == '\0')
		(void)snprintf(error, sizeof(error), "%s", why);
	if (error[0] != '\0')
		(void)fprintf(stderr, "daser-replay: %s\n", error);
	if (settings->json)
		r = replay_phases_json(stdout, settings, phases, count, error[0] ? error : NULL);
	else
		replay_phases_table(stdout, settings, phases, count);
	for (uint32_t i = 0; i < count; i++)
		is_bad |= phases[i].mismatched_bytes > 0 || phases[i].hung > 0 ||
		          phases[i].failed > 0;
	return is_bad || error[0] != '\0' || r < 0 ? EXIT_BAD : 0;
}

int main(int argc, char **argv)
{
	struct replay_settings settings;
	struct replay_workload workload;
	char why[512] = "";
	int status;

	(void)signal(SIGPIPE, SIG_IGN);
	if (replay_settings_parse(&settings, argc, argv, why, sizeof(why)) < 0) {
		(void)fprintf(stderr, "daser-replay: %s\n", why);
		return EXIT_USAGE;
	}
	if (settings.help) {
		replay_settings_help(stdout);
		return 0;
	}
	if (settings.version) {
		(void)printf("daser-replay %s\n", daser_version());
		return 0;
	}
	if (settings.worker_fd != -1)
		return replay_worker_main(settings.worker_fd);
	if (make_workload(&settings, &workload, why, sizeof(why)) < 0) {
		(void)fprintf(stderr, "daser-replay: %s\n", why);
		status = EXIT_USAGE;
	} else if (settings.write_trace[0] != '\0') {
		status = write_trace(&settings, &workload);
	} else {
		status = run(&settings, &workload);
	}
	replay_workload_done(&workload);
	return status;
}

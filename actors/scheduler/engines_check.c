/* SPDX-License-Identifier: Apache-2.0 */
/* Who may join. Every refusal names the field, the value and what was expected. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engines.h"
#include "files.h"

static int __attribute__((format(printf, 4, 5)))
refuse(char *why, size_t why_bytes, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, why_bytes, format, args);
	va_end(args);
	return err;
}

/* The first bytes of a fingerprint, enough to tell two apart. */
static void fingerprint_text(const uint8_t *fingerprint, char ret_text[17])
{
	for (int i = 0; i < 8; i++)
		(void)snprintf(ret_text + 2 * i, 3, "%02x", fingerprint[i]);
}

static int check_fingerprint(const uint8_t *have, const uint8_t *want, const char *whose, char *why,
                             size_t why_bytes)
{
	char have_text[17], want_text[17];

	if (memcmp(have, want, DSR_NAMESPACE_BYTES) == 0)
		return 0;
	fingerprint_text(have, have_text);
	fingerprint_text(want, want_text);
	return refuse(why, why_bytes, -EXDEV, "fingerprint %s..., %s has %s...", have_text, whose,
	              want_text);
}

static int check_values(const struct dsr_engine_request *request, char *why, size_t why_bytes)
{
	if (request->name_bytes == 0 || request->name_bytes >= DSR_ENGINE_NAME_MAX ||
	    memchr(request->name, '\0', request->name_bytes) != NULL)
		return refuse(why, why_bytes, -EINVAL,
		              "engine name of %" PRIu32 " bytes, expected 1 to %d and no NUL",
		              request->name_bytes, DSR_ENGINE_NAME_MAX - 1);
	if (request->fingerprint_bytes != DSR_NAMESPACE_BYTES)
		return refuse(why, why_bytes, -EINVAL,
		              "fingerprint of %" PRIu32 " bytes, expected %d",
		              request->fingerprint_bytes, DSR_NAMESPACE_BYTES);
	if (request->world == 0 || request->world > DSR_RANKS_MAX)
		return refuse(why, why_bytes, -EINVAL, "world %" PRIu32 ", expected 1 to %d",
		              request->world, DSR_RANKS_MAX);
	return 0;
}

/* Against what is known of this engine, and against the pool. *ret_engine is its number. */
static int check_common(const struct dsr_engines *engines, const struct dsr_engine_request *request,
                        const struct dsr_pool_geometry *pool, uint32_t *ret_engine, char *why,
                        size_t why_bytes)
{
	uint32_t at;
	int r = check_values(request, why, why_bytes);

	if (r < 0)
		return r;
	at = dsr_engines_find(engines, request->name, request->name_bytes);
	*ret_engine = at;
	if (pool != NULL) {
		r = check_fingerprint(request->fingerprint, pool->fingerprint, "this instance", why,
		                      why_bytes);
		if (r < 0)
			return r;
	}
	if (at == DSR_ENGINE_NONE) {
		if (dsr_engines_count(engines) == DSR_ENGINES_MAX)
			return refuse(why, why_bytes, -EAGAIN, "%d engines are served already",
			              DSR_ENGINES_MAX);
		return 0;
	}
	if (engines->engines[at].world != request->world)
		return refuse(why, why_bytes, -EXDEV, "world %" PRIu32 ", engine `%s` has %" PRIu32,
		              request->world, engines->engines[at].name,
		              engines->engines[at].world);
	return check_fingerprint(request->fingerprint, engines->engines[at].fingerprint,
	                         "this engine", why, why_bytes);
}

int dsr_engines_check_engine(const struct dsr_engines *engines,
                             const struct dsr_engine_request *request,
                             const struct dsr_pool_geometry *pool, char *ret_why, size_t why_bytes)
{
	uint32_t at;
	int r = check_common(engines, request, pool, &at, ret_why, why_bytes);

	if (r < 0)
		return r;
	if (at != DSR_ENGINE_NONE && engines->engines[at].incarnation != 0 &&
	    engines->engines[at].incarnation != request->incarnation)
		return refuse(ret_why, why_bytes, -EEXIST,
		              "engine `%s` has another scheduling process, which lives",
		              engines->engines[at].name);
	return 0;
}

static int check_rank_values(const struct dsr_rank_request *request, char *why, size_t why_bytes)
{
	if (request->rank >= request->engine.world)
		return refuse(why, why_bytes, -EINVAL, "rank %" PRIu32 ", expected below %" PRIu32,
		              request->rank, request->engine.world);
	if (request->lanes == 0 || request->lanes > DSR_LANES_MAX)
		return refuse(why, why_bytes, -EINVAL, "lanes %" PRIu32 ", expected 1 to %d",
		              request->lanes, DSR_LANES_MAX);
	if (request->lane >= request->lanes)
		return refuse(why, why_bytes, -EINVAL, "lane %" PRIu32 ", expected below %" PRIu32,
		              request->lane, request->lanes);
	if (request->writer > 1)
		return refuse(why, why_bytes, -EINVAL, "writer %" PRIu32 ", expected 0 or 1",
		              request->writer);
	if (request->slot_bytes == 0 || request->slot_bytes > UINT32_MAX)
		return refuse(why, why_bytes, -EINVAL,
		              "slot_bytes %" PRIu64 ", expected 1 to %" PRIu32, request->slot_bytes,
		              UINT32_MAX);
	if (request->block_tokens == 0)
		return refuse(why, why_bytes, -EINVAL, "block_tokens 0, expected 1 or more");
	if (!dsr_device_name_ok(request->device))
		return refuse(why, why_bytes, -EINVAL,
		              "device `%s`, expected a name such as host:0", request->device);
	return 0;
}

static int check_geometry(const struct dsr_rank_request *request,
                          const struct dsr_pool_geometry *pool, char *why, size_t why_bytes)
{
	if (request->slot_bytes != pool->slot_bytes)
		return refuse(why, why_bytes, -EXDEV,
		              "slot_bytes %" PRIu64 ", this instance serves %" PRIu64,
		              request->slot_bytes, pool->slot_bytes);
	if (request->block_tokens != pool->block_tokens)
		return refuse(why, why_bytes, -EXDEV,
		              "block_tokens %" PRIu32 ", this instance serves %" PRIu32,
		              request->block_tokens, pool->block_tokens);
	if (request->lanes != pool->lanes)
		return refuse(why, why_bytes, -EXDEV,
		              "lanes %" PRIu32 ", this instance serves %" PRIu32, request->lanes,
		              pool->lanes);
	return 0;
}

/* Within an engine: one process a rank, one writer a lane. */
static int check_place(const struct dsr_engines *engines, const struct dsr_rank_request *request,
                       uint32_t at, char *why, size_t why_bytes)
{
	const struct dsr_engine *engine = &engines->engines[at];
	const struct dsr_rank *rank = &engine->ranks[request->rank];

	if (rank->incarnation != 0 && rank->incarnation != request->engine.incarnation)
		return refuse(why, why_bytes, -EEXIST,
		              "rank %" PRIu32 " of engine `%s` has another process, which lives",
		              request->rank, engine->name);
	if (rank->incarnation != 0 &&
	    (rank->lane != request->lane || rank->is_writer != (request->writer != 0) ||
	     rank->device != dsr_engines_device(engines, request->device)))
		return refuse(why, why_bytes, -EINVAL,
		              "rank %" PRIu32 " of engine `%s` with another lane, writer or device "
		              "than before, expected the same",
		              request->rank, engine->name);
	for (uint32_t i = 0; request->writer != 0 && i < engine->world; i++)
		if (i != request->rank && engine->ranks[i].device != DSR_DEVICE_NONE &&
		    engine->ranks[i].is_writer && engine->ranks[i].lane == request->lane)
			return refuse(why, why_bytes, -EINVAL,
			              "writer of lane %" PRIu32 " is rank %" PRIu32
			              " already, expected one writer a lane",
			              request->lane, i);
	return 0;
}

static int check_device(const struct dsr_engines *engines, const char *device, char *why,
                        size_t why_bytes)
{
	if (dsr_engines_device(engines, device) != DSR_DEVICE_NONE)
		return 0;
	for (uint32_t i = 0; i < DSR_DEVICES_MAX; i++)
		if (engines->devices[i].name[0] == '\0')
			return 0;
	return refuse(why, why_bytes, -EAGAIN, "device `%s`: %d devices are served already", device,
	              DSR_DEVICES_MAX);
}

int dsr_engines_check_rank(const struct dsr_engines *engines,
                           const struct dsr_rank_request *request,
                           const struct dsr_pool_geometry *pool, char *ret_why, size_t why_bytes)
{
	uint32_t at;
	int r = check_common(engines, &request->engine, pool, &at, ret_why, why_bytes);

	if (r < 0)
		return r;
	r = check_rank_values(request, ret_why, why_bytes);
	if (r < 0)
		return r;
	if (pool != NULL) {
		r = check_geometry(request, pool, ret_why, why_bytes);
		if (r < 0)
			return r;
	}
	if (at != DSR_ENGINE_NONE) {
		r = check_place(engines, request, at, ret_why, why_bytes);
		if (r < 0)
			return r;
	}
	return check_device(engines, request->device, ret_why, why_bytes);
}

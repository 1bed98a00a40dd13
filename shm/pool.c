/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "version.h"
#include "why.h"

#define POOL_PAGE 4096
#define POOL_SLOT_MAX (UINT64_C(1) << 40)
#define POOL_SECTIONS 4
#define POOL_LINE_WORDS 8 /* digests of different lanes stand on different cache lines */

/* header, geometry and directory are in the first page */
_Static_assert(sizeof(struct dsr_pool_header) + POOL_SECTIONS * sizeof(struct dsr_section) <=
                       POOL_PAGE,
               "the slot sequences begin on the second page");

/* Sizes below saturate, so that "too large" stays too large. */
static uint64_t pool_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t pool_mul(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t pool_up(uint64_t bytes, uint64_t align)
{
	uint64_t up = pool_add(bytes, align - 1);

	return up == UINT64_MAX ? up : up - up % align;
}

static uint64_t pool_digest_row(uint32_t slots)
{
	return pool_up(slots, POOL_LINE_WORDS);
}

/* The geometry with `slots` slots; returns its bytes, UINT64_MAX when they are not expressible. */
static uint64_t pool_layout(const struct dsr_pool_request *request, uint32_t slots,
                            struct dsr_pool_geometry *ret_geometry)
{
	struct dsr_pool_geometry g = {
		.slot_bytes = request->slot_bytes,
		.slot_stride = pool_up(request->slot_bytes, DSR_SLOT_ALIGN),
		.slot_seqs_off = POOL_PAGE,
		.lanes = request->lanes,
		.slots = slots,
		.block_tokens = request->block_tokens,
		.payload = DSR_PAYLOAD_RAW,
	};

	memcpy(g.fingerprint, request->fingerprint, sizeof(g.fingerprint));
	g.digests_off = pool_up(g.slot_seqs_off + UINT64_C(8) * slots, POOL_PAGE);
	g.lanes_off = pool_up(g.digests_off + 8 * pool_digest_row(slots) * g.lanes, DSR_LANE_ALIGN);
	g.lane_stride = pool_up(pool_mul(g.slot_stride, slots), DSR_LANE_ALIGN);
	*ret_geometry = g;
	return pool_add(g.lanes_off, pool_mul(g.lane_stride, g.lanes));
}

static int pool_check_request(const struct dsr_pool_request *request, char *ret_why,
                              size_t why_bytes)
{
	if (request->lanes == 0 || request->lanes > DSR_LANES_MAX)
		dsr_why(ret_why, why_bytes, "lanes %" PRIu32 ", expected 1 to %d", request->lanes,
		        DSR_LANES_MAX);
	else if (request->slot_bytes == 0 || request->slot_bytes > POOL_SLOT_MAX)
		dsr_why(ret_why, why_bytes, "slot_bytes %" PRIu64 ", expected 1 to %" PRIu64,
		        request->slot_bytes, POOL_SLOT_MAX);
	else if (request->max_slots == 0 || request->max_slots >= DSR_SLOT_NONE)
		dsr_why(ret_why, why_bytes, "max_slots %" PRIu32 ", expected 1 to %" PRIu32,
		        request->max_slots, DSR_SLOT_NONE - 1);
	else if (dsr_segment_page_bytes(request->hugepages) == 0)
		dsr_why(ret_why, why_bytes, "hugepages %d, expected 0 to %d",
		        (int)request->hugepages, DSR_HUGEPAGES_1G);
	else
		return 0;
	return -EINVAL;
}

int dsr_pool_plan(const struct dsr_pool_request *request, struct dsr_pool_geometry *ret_geometry,
                  uint64_t *ret_bytes, char *ret_why, size_t why_bytes)
{
	struct dsr_pool_geometry geometry;
	uint64_t page, budget, bytes;
	uint32_t low = 0, high = request->max_slots;
	int r = pool_check_request(request, ret_why, why_bytes);

	if (r < 0)
		return r;
	/* The file ends on a page border, which must be in the budget too. */
	page = dsr_segment_page_bytes(request->hugepages);
	budget = request->budget_bytes - request->budget_bytes % page;
	if (budget > INT64_MAX)
		budget = INT64_MAX - INT64_MAX % page;
	/* The most slots that fit: `low` fits (0 always does), `high` + 1 does not. */
	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (pool_layout(request, middle, &geometry) <= budget)
			low = middle;
		else
			high = middle - 1;
	}
	if (low == 0) {
		bytes = pool_up(pool_layout(request, 1, &geometry), page);
		dsr_why(ret_why, why_bytes,
		        "L1 of %" PRIu64 " bytes, expected at least %" PRIu64
		        ": one slot of %" PRIu64 " bytes in %" PRIu32 " lanes, and its tables",
		        request->budget_bytes, bytes, request->slot_bytes, request->lanes);
		return -ENOSPC;
	}
	bytes = pool_layout(request, low, &geometry);
	*ret_geometry = geometry;
	*ret_bytes = pool_up(bytes, page);
	return 0;
}

static void pool_fill(struct dsr_segment *segment, const struct dsr_pool_geometry *g,
                      uint64_t epoch)
{
	struct dsr_pool_header *header = segment->base;
	const struct dsr_section sections[POOL_SECTIONS] = {
		{.kind = DSR_SECTION_GEOMETRY,
	         .off = offsetof(struct dsr_pool_header, geometry),
	         .count = 1,
	         .stride = sizeof(*g)},
		{.kind = DSR_SECTION_SLOT_SEQS,
	         .off = g->slot_seqs_off,
	         .count = g->slots,
	         .stride = sizeof(uint64_t)},
		{.kind = DSR_SECTION_DIGESTS,
	         .off = g->digests_off,
	         .count = g->lanes * pool_digest_row(g->slots),
	         .stride = sizeof(uint64_t)},
		{.kind = DSR_SECTION_LANES,
	         .off = g->lanes_off,
	         .count = g->lanes,
	         .stride = g->lane_stride},
	};

	header->base.magic = DSR_POOL_MAGIC;
	header->base.major = DSR_LAYOUT_MAJOR;
	header->base.minor = DSR_LAYOUT_MINOR;
	header->base.header_size = sizeof(header->base);
	header->base.total_size = segment->bytes;
	header->base.epoch = epoch;
	header->base.section_count = POOL_SECTIONS;
	header->base.sections_off = sizeof(*header);
	header->geometry = *g;
	memcpy(header + 1, sections, sizeof(sections));
	/* Partner: the acquire load in dsr_segment_check. */
	atomic_store_explicit(&header->base.state, DSR_SEGMENT_READY, memory_order_release);
}

int dsr_pool_create(const struct dsr_pool_request *request, char *ret_why, size_t why_bytes)
{
	struct dsr_pool_geometry geometry;
	struct dsr_segment segment;
	uint64_t bytes;
	int fd, r;

	r = dsr_pool_plan(request, &geometry, &bytes, ret_why, why_bytes);
	if (r < 0)
		return r;
	fd = dsr_segment_create("daser-l1", bytes, request->hugepages);
	if (fd < 0) {
		dsr_why(ret_why, why_bytes, "L1 of %" PRIu64 " bytes in pages of %" PRIu64 ": %s",
		        bytes, dsr_segment_page_bytes(request->hugepages), strerrordesc_np(-fd));
		return fd;
	}
	r = dsr_segment_map(fd, true, &segment);
	if (r < 0) {
		dsr_why(ret_why, why_bytes, "mapping %" PRIu64 " bytes: %s", bytes,
		        strerrordesc_np(-r));
		(void)close(fd);
		return r;
	}
	pool_fill(&segment, &geometry, request->epoch);
	dsr_segment_unmap(&segment);
	return fd;
}

/* Fields that follow from the others. */
static const struct {
	const char *name;
	size_t off;
} pool_implied[] = {
	{"slot_stride", offsetof(struct dsr_pool_geometry, slot_stride)},
	{"lane_stride", offsetof(struct dsr_pool_geometry, lane_stride)},
	{"lanes_off", offsetof(struct dsr_pool_geometry, lanes_off)},
	{"digests_off", offsetof(struct dsr_pool_geometry, digests_off)},
	{"slot_seqs_off", offsetof(struct dsr_pool_geometry, slot_seqs_off)},
};

/* The geometry must be the one that pool_layout makes from its own sizes: every offset is implied,
 * so nothing is left to trust. */
static int pool_check_geometry(const struct dsr_segment *segment, const struct dsr_pool_geometry *g,
                               char *ret_why, size_t why_bytes)
{
	struct dsr_pool_request request = {
		.fingerprint = g->fingerprint,
		.slot_bytes = g->slot_bytes,
		.lanes = g->lanes,
		.block_tokens = g->block_tokens,
		.max_slots = g->slots,
	};
	struct dsr_pool_geometry expected;
	uint64_t bytes;

	if (pool_check_request(&request, ret_why, why_bytes) < 0)
		return -EPROTONOSUPPORT;
	bytes = pool_layout(&request, g->slots, &expected);
	if (bytes > segment->bytes) {
		dsr_why(ret_why, why_bytes,
		        "%" PRIu32 " slots of %" PRIu64 " bytes in %" PRIu32 " lanes take %" PRIu64
		        " bytes, expected at most %zu",
		        g->slots, g->slot_bytes, g->lanes, bytes, segment->bytes);
		return -EPROTONOSUPPORT;
	}
	if (g->payload != DSR_PAYLOAD_RAW) {
		dsr_why(ret_why, why_bytes, "payload %" PRIu32 ", expected %d", g->payload,
		        DSR_PAYLOAD_RAW);
		return -EPROTONOSUPPORT;
	}
	for (size_t i = 0; i < sizeof(pool_implied) / sizeof(pool_implied[0]); i++) {
		uint64_t value, implied;

		memcpy(&value, (const uint8_t *)g + pool_implied[i].off, sizeof(value));
		memcpy(&implied, (const uint8_t *)&expected + pool_implied[i].off, sizeof(implied));
		if (value == implied)
			continue;
		dsr_why(ret_why, why_bytes, "%s %" PRIu64 ", expected %" PRIu64,
		        pool_implied[i].name, value, implied);
		return -EPROTONOSUPPORT;
	}
	return 0;
}

static int pool_resolve(struct dsr_pool *pool, char *ret_why, size_t why_bytes)
{
	const struct dsr_segment_header *header = pool->segment.base;
	struct dsr_pool_geometry *shared, g;
	int r;

	shared = dsr_segment_section(&pool->segment, DSR_SECTION_GEOMETRY, sizeof(g), 1);
	if (shared == NULL) {
		dsr_why(ret_why, why_bytes, "section kind %d, expected %zu bytes",
		        DSR_SECTION_GEOMETRY, sizeof(g));
		return -EPROTONOSUPPORT;
	}
	g = *shared;
	r = pool_check_geometry(&pool->segment, &g, ret_why, why_bytes);
	if (r < 0)
		return r;
	pool->geometry = shared;
	pool->slot_seqs = (void *)((uint8_t *)pool->segment.base + g.slot_seqs_off);
	pool->digests = (void *)((uint8_t *)pool->segment.base + g.digests_off);
	pool->epoch = header->epoch;
	return 0;
}

int dsr_pool_attach(int fd, struct dsr_pool *ret_pool, char *ret_why, size_t why_bytes)
{
	struct dsr_pool pool = {0};
	int r;

	r = dsr_segment_map(fd, true, &pool.segment);
	if (r < 0) {
		dsr_why(ret_why, why_bytes, "descriptor %d, expected a sealed memory file: %s", fd,
		        strerrordesc_np(-r));
		return r;
	}
	r = dsr_segment_check(&pool.segment, DSR_POOL_MAGIC, ret_why, why_bytes);
	if (r < 0)
		goto err_unmap;
	r = pool_resolve(&pool, ret_why, why_bytes);
	if (r < 0)
		goto err_unmap;
	*ret_pool = pool;
	return 0;

err_unmap:
	dsr_segment_unmap(&pool.segment);
	return r;
}

void dsr_pool_detach(struct dsr_pool *pool)
{
	if (pool == NULL)
		return;
	dsr_segment_unmap(&pool->segment);
	*pool = (struct dsr_pool){0};
}

/* The geometry is read anew from shared memory, so the result is checked against the mapping,
 * which the seals keep as it is. */
void *dsr_pool_slot(const struct dsr_pool *pool, uint32_t lane, uint32_t slot)
{
	struct dsr_pool_geometry g = *pool->geometry;
	uint64_t off;

	if (lane >= g.lanes || slot >= g.slots)
		return NULL;
	off = pool_add(g.lanes_off,
	               pool_add(pool_mul(g.lane_stride, lane), pool_mul(g.slot_stride, slot)));
	if (pool_add(off, g.slot_bytes) > pool->segment.bytes)
		return NULL;
	return (uint8_t *)pool->segment.base + off;
}

_Atomic uint64_t *dsr_pool_digest(const struct dsr_pool *pool, uint32_t lane, uint32_t slot)
{
	struct dsr_pool_geometry g = *pool->geometry;
	uint64_t off;

	if (lane >= g.lanes || slot >= g.slots)
		return NULL;
	off = pool_add(g.digests_off, pool_mul(8, pool_digest_row(g.slots) * lane + slot));
	if (pool_add(off, 8) > pool->segment.bytes || off % 8 != 0)
		return NULL;
	return (void *)((uint8_t *)pool->segment.base + off);
}

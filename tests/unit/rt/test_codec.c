/* SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"

#include "hand_frames.h"
#include "rt_test.h"
#include "version.h"

#define GOLDEN TEST_SOURCE_DIR "/tests/golden/wire/frames.txt"
#define LIST_MAX 600

/* Entries of the table. */
enum {
	MESSAGES = 0
#define DSR_MESSAGE(NAME, name, number, KIND, receiver, meaning, fields) +1
#include "messages.def"
#undef DSR_MESSAGE
};

static int set_up(void **state)
{
	struct dsr_codec *codec;

	assert_int_equal(dsr_codec_new(&codec), 0);
	*state = codec;
	return 0;
}

static int tear_down(void **state)
{
	struct dsr_codec *codec = *state;

	dsr_codec_free(&codec);
	assert_null(codec);
	dsr_codec_free(&codec);
	return 0;
}

/* ---- messages with content ---- */

/* Where made-up lists and texts live. */
struct stock {
	char text[LIST_MAX + 1];
	uint8_t bytes[LIST_MAX];
	struct dsr_key keys[LIST_MAX];
	struct dsr_ref refs[LIST_MAX];
	uint64_t u64s[LIST_MAX];
	int32_t i32s[LIST_MAX];
};

/* Numbers of every msgpack width. */
static uint64_t any_number(uint64_t *random)
{
	uint64_t bits = test_random(random) % 65;

	return bits == 0 ? 0 : test_random(random) >> (64 - bits);
}

static void fill_stock(struct stock *stock, uint64_t *random)
{
	unsigned i;

	for (i = 0; i < LIST_MAX; i++) {
		stock->text[i] = (char)('a' + test_random(random) % 26);
		stock->bytes[i] = (uint8_t)test_random(random);
		memset(&stock->keys[i], (int)(test_random(random) & 0xff), sizeof(stock->keys[i]));
		stock->refs[i] = (struct dsr_ref){.generation = any_number(random),
		                                  .slot_seq = any_number(random),
		                                  .entry = (uint32_t)any_number(random),
		                                  .slot = (uint32_t)any_number(random)};
		stock->u64s[i] = any_number(random);
		stock->i32s[i] = (int32_t)any_number(random);
	}
	stock->text[LIST_MAX] = '\0';
}

/* A message of that kind from the stock: list and text lengths up to `max`. */
static void make_message(const struct dsr_msg_info *info, const struct stock *stock, uint32_t max,
                         uint64_t *random, union dsr_msg *ret_msg)
{
	uint32_t i;

	memset(ret_msg, 0, sizeof(*ret_msg));
	for (i = 0; i < info->field_count; i++) {
		void *at = (char *)ret_msg + info->fields[i].offset;
		uint32_t n = (uint32_t)(test_random(random) % (max + 1));

		switch (info->fields[i].kind) {
		case DSR_FIELD_U32:
			*(uint32_t *)at = (uint32_t)any_number(random);
			break;
		case DSR_FIELD_U64:
			*(uint64_t *)at = any_number(random);
			break;
		case DSR_FIELD_I32:
			*(int32_t *)at = (int32_t)any_number(random);
			break;
		case DSR_FIELD_STR:
			*(struct dsr_str *)at = (struct dsr_str){stock->text, n};
			break;
		case DSR_FIELD_BIN:
			*(struct dsr_bin *)at = (struct dsr_bin){stock->bytes, n};
			break;
		case DSR_FIELD_KEYS:
			*(struct dsr_keys *)at = (struct dsr_keys){stock->keys, n};
			break;
		case DSR_FIELD_REFS:
			*(struct dsr_refs *)at = (struct dsr_refs){stock->refs, n};
			break;
		case DSR_FIELD_U64S:
			*(struct dsr_u64s *)at = (struct dsr_u64s){stock->u64s, n};
			break;
		case DSR_FIELD_I32S:
			*(struct dsr_i32s *)at = (struct dsr_i32s){stock->i32s, n};
			break;
		}
	}
}

static void assert_same_list(const void *a, uint32_t a_n, const void *b, uint32_t b_n, size_t size)
{
	assert_int_equal(a_n, b_n);
	if (a_n > 0)
		assert_memory_equal(a, b, a_n * size);
}

/* Field by field: a slice's pointer differs, and padding may. */
static void assert_same(const struct dsr_msg_info *info, const union dsr_msg *a,
                        const union dsr_msg *b)
{
	uint32_t i;

	for (i = 0; i < info->field_count; i++) {
		const void *x = (const char *)a + info->fields[i].offset;
		const void *y = (const char *)b + info->fields[i].offset;
		const struct dsr_bin *p = x; /* all slices are pointer and count */
		const struct dsr_bin *q = y;

		switch (info->fields[i].kind) {
		case DSR_FIELD_U32:
		case DSR_FIELD_I32:
			assert_memory_equal(x, y, 4);
			break;
		case DSR_FIELD_U64:
			assert_memory_equal(x, y, 8);
			break;
		case DSR_FIELD_STR:
		case DSR_FIELD_BIN:
			assert_same_list(p->p, p->n, q->p, q->n, 1);
			break;
		case DSR_FIELD_KEYS:
			assert_same_list(p->p, p->n, q->p, q->n, DSR_KEY_BYTES);
			break;
		case DSR_FIELD_REFS:
			assert_same_list(p->p, p->n, q->p, q->n, sizeof(struct dsr_ref));
			break;
		case DSR_FIELD_U64S:
			assert_same_list(p->p, p->n, q->p, q->n, 8);
			break;
		case DSR_FIELD_I32S:
			assert_same_list(p->p, p->n, q->p, q->n, 4);
			break;
		}
	}
}

static struct dsr_env make_env(uint32_t type)
{
	return (struct dsr_env){.major = DSR_PROTOCOL_MAJOR,
	                        .type = type,
	                        .from = 0x1122334455667788,
	                        .to = 99,
	                        .req = 70000};
}

/* ---- tests ---- */

static void every_message_has_a_description(void **state)
{
	const struct dsr_msg_info *info;
	unsigned count = 0;

	(void)state;
	for (; (info = dsr_msg_at(count)); count++) {
		assert_ptr_equal(dsr_msg_info(info->type), info);
		assert_ptr_equal(dsr_msg_by_name(info->name), info);
		assert_in_range(info->field_count, 1, DSR_MSG_FIELDS_MAX);
		assert_true(info->size <= sizeof(union dsr_msg));
		assert_true(info->type < DSR_MSG_LIMIT);
	}
	assert_int_equal(count, MESSAGES);
	assert_null(dsr_msg_info(DSR_MSG_LIMIT));
	assert_null(dsr_msg_info(3));
	assert_null(dsr_msg_by_name("nothing"));
}

static void every_request_has_a_reply_that_begins_with_err(void **state)
{
	const struct dsr_msg_info *info;
	const struct dsr_msg_info *reply;
	unsigned i;

	(void)state;
	for (i = 0; (info = dsr_msg_at(i)); i++) {
		if (info->kind != DSR_KIND_REQUEST)
			continue;
		reply = dsr_msg_info(info->type + 1);
		assert_non_null(reply);
		assert_int_equal(reply->kind, DSR_KIND_REPLY);
		assert_string_equal(reply->fields[0].name, "err");
		assert_int_equal(reply->fields[0].kind, DSR_FIELD_I32);
		assert_int_equal(reply->fields[0].offset, 0);
	}
}

static void what_is_packed_comes_back(void **state)
{
	struct dsr_codec *tx = *state;
	struct dsr_codec *rx;
	struct stock *stock = calloc(1, sizeof(*stock));
	uint64_t random = test_seed();
	const struct dsr_msg_info *info;
	const void *frame;
	size_t bytes;
	unsigned i;
	unsigned round;

	assert_non_null(stock);
	assert_int_equal(dsr_codec_new(&rx), 0);
	for (round = 0; round < 60; round++) {
		fill_stock(stock, &random);
		for (i = 0; (info = dsr_msg_at(i)); i++) {
			const struct dsr_env env = make_env(info->type);
			struct dsr_env got_env;
			union dsr_msg msg;
			union dsr_msg got;

			make_message(info, stock, round * 10, &random, &msg);
			assert_int_equal(dsr_codec_pack(tx, &env, &msg, &frame, &bytes), 0);
			assert_int_equal(dsr_codec_unpack(rx, frame, bytes, &got_env, &got), 0);
			assert_memory_equal(&env, &got_env, sizeof(env));
			assert_same(info, &msg, &got);
		}
	}
	dsr_codec_free(&rx);
	free(stock);
}

/* Reads every byte that a decoded message refers to, so that a sanitizer sees a bad one. */
static uint64_t touch(const struct dsr_msg_info *info, const union dsr_msg *msg)
{
	static const size_t sizes[] = {[DSR_FIELD_STR] = 1,
	                               [DSR_FIELD_BIN] = 1,
	                               [DSR_FIELD_KEYS] = DSR_KEY_BYTES,
	                               [DSR_FIELD_REFS] = sizeof(struct dsr_ref),
	                               [DSR_FIELD_U64S] = 8,
	                               [DSR_FIELD_I32S] = 4};
	uint64_t sum = 0;
	uint32_t i;
	size_t k;

	for (i = 0; i < info->field_count; i++) {
		const struct dsr_bin *slice =
			(const void *)((const char *)msg + info->fields[i].offset);

		if (info->fields[i].kind < DSR_FIELD_STR)
			continue;
		for (k = 0; k < slice->n * sizes[info->fields[i].kind]; k++)
			sum += slice->p[k];
	}
	return sum;
}

/* One call over any bytes: what a fuzzer would run. Only these outcomes are allowed. */
static int decode_anything(struct dsr_codec *codec, const void *bytes, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1); /* exactly as long: reading past it is seen */
	struct dsr_env env;
	union dsr_msg msg;
	int r;

	assert_non_null(copy);
	if (n > 0)
		memcpy(copy, bytes, n);
	r = dsr_codec_unpack(codec, copy, n, &env, &msg);
	if (r == 0)
		(void)touch(dsr_msg_info(env.type), &msg);
	else
		assert_true(r == -EBADMSG || r == -EPROTONOSUPPORT || r == -EPROTO);
	free(copy);
	return r;
}

static void mutate(uint8_t *bytes, size_t *n, uint64_t *random)
{
	size_t at = test_random(random) % *n;

	switch (test_random(random) % 5) {
	case 0:
		bytes[at] = (uint8_t)test_random(random);
		break;
	case 1:
		bytes[at] ^= (uint8_t)(1u << (test_random(random) % 8));
		break;
	case 2: /* a msgpack type byte */
		bytes[at] = (uint8_t)(0xc0 + test_random(random) % 0x20);
		break;
	case 3:
		*n = at;
		break;
	default:
		memmove(bytes + at, bytes + at + 1, *n - at - 1);
		--*n;
		break;
	}
	if (*n == 0)
		*n = 1;
}

static void mutated_frames_are_decoded_or_refused(void **state)
{
	struct dsr_codec *codec = *state;
	struct dsr_codec *tx;
	struct stock *stock = calloc(1, sizeof(*stock));
	uint64_t random = test_seed();
	unsigned refused = 0;
	unsigned round;

	assert_non_null(stock);
	assert_int_equal(dsr_codec_new(&tx), 0);
	fill_stock(stock, &random);
	for (round = 0; round < 20000; round++) {
		const struct dsr_msg_info *info =
			dsr_msg_at((unsigned)(test_random(&random) % MESSAGES));
		const struct dsr_env env = make_env(info->type);
		union dsr_msg msg;
		const void *frame;
		uint8_t *copy;
		size_t n;
		unsigned hits = 1 + (unsigned)(test_random(&random) % 4);

		make_message(info, stock, 12, &random, &msg);
		assert_int_equal(dsr_codec_pack(tx, &env, &msg, &frame, &n), 0);
		copy = malloc(n);
		assert_non_null(copy);
		memcpy(copy, frame, n);
		while (hits-- > 0)
			mutate(copy, &n, &random);
		refused += decode_anything(codec, copy, n) < 0;
		free(copy);
	}
	assert_true(refused > 1000 && refused < 20000);
	dsr_codec_free(&tx);
	free(stock);
}

static void a_frame_cut_anywhere_is_refused(void **state)
{
	struct dsr_codec *codec = *state;
	struct dsr_codec *tx;
	const struct dsr_env env = make_env(DSR_MSG_STORE);
	const struct dsr_ref refs[2] = {{1, 2, 3, 4}, {UINT64_MAX, 6, 7, 8}};
	const uint64_t digests[2] = {UINT64_MAX, 300};
	const struct dsr_msg_store m = {.refs = {refs, 2}, .digests = {digests, 2}};
	const void *frame;
	size_t bytes;
	size_t n;

	assert_int_equal(dsr_codec_new(&tx), 0);
	assert_int_equal(dsr_codec_pack(tx, &env, &m, &frame, &bytes), 0);
	for (n = 0; n < bytes; n++)
		assert_int_equal(decode_anything(codec, frame, n), -EBADMSG);
	assert_int_equal(decode_anything(codec, frame, bytes), 0);
	dsr_codec_free(&tx);
}

/* Frames written by hand: hex text, blanks ignored. */
static int decode_hex(struct dsr_codec *codec, const char *hex, struct dsr_env *env,
                      union dsr_msg *msg)
{
	static uint8_t bytes[4096];
	size_t n = 0;
	unsigned byte;

	for (; *hex; hex++) {
		if (*hex == ' ')
			continue;
		assert_int_equal(sscanf(hex, "%2x", &byte), 1);
		bytes[n++] = (uint8_t)byte;
		hex++;
	}
	return dsr_codec_unpack(codec, bytes, n, env, msg);
}

/* [1, 24 (RELEASE), 5, 6, 7, [leases]] and variations of it. */
static void frames_by_hand(void **state)
{
	struct dsr_codec *codec = *state;
	size_t i;

	for (i = 0; i < sizeof(hand_frames) / sizeof(hand_frames[0]); i++) {
		struct dsr_env env = {.req = 1234};
		union dsr_msg msg;
		int r = decode_hex(codec, hand_frames[i].hex, &env, &msg);

		if (r != hand_frames[i].want)
			print_error("%s: %d\n", hand_frames[i].what, r);
		assert_int_equal(r, hand_frames[i].want);
		/* The envelope is given wherever somebody can be told. */
		assert_int_equal(env.req, r == -EBADMSG ? 1234 : 7);
	}
}

static void key_lists_point_into_the_frame(void **state)
{
	struct dsr_codec *codec = *state;
	struct dsr_codec *tx;
	const struct dsr_env env = make_env(DSR_MSG_LOOKUP);
	struct dsr_key keys[3] = {{{1}}, {{2}}, {{3}}};
	const struct dsr_msg_lookup m = {.keys = {keys, 3}};
	struct dsr_env got_env;
	union dsr_msg got;
	const void *frame;
	size_t bytes;

	assert_int_equal(dsr_codec_new(&tx), 0);
	assert_int_equal(dsr_codec_pack(tx, &env, &m, &frame, &bytes), 0);
	assert_int_equal(dsr_codec_unpack(codec, frame, bytes, &got_env, &got), 0);
	assert_in_range((uintptr_t)got.lookup.keys.v, (uintptr_t)frame,
	                (uintptr_t)frame + bytes - sizeof(keys));
	dsr_codec_free(&tx);
}

static void a_frame_above_the_limit_is_refused_both_ways(void **state)
{
	struct dsr_codec *codec = *state;
	const struct dsr_env env = make_env(DSR_MSG_LOOKUP);
	struct dsr_key *keys = calloc(DSR_FRAME_MAX / DSR_KEY_BYTES, sizeof(*keys));
	struct dsr_msg_lookup m = {.keys = {keys, DSR_FRAME_MAX / DSR_KEY_BYTES - 1}};
	struct dsr_env got_env;
	union dsr_msg got;
	const void *frame;
	size_t bytes;

	assert_non_null(keys);
	assert_int_equal(dsr_codec_pack(codec, &env, &m, &frame, &bytes), 0);
	assert_int_equal(dsr_codec_unpack(codec, frame, bytes, &got_env, &got), 0);
	m.keys.n++;
	assert_int_equal(dsr_codec_pack(codec, &env, &m, &frame, &bytes), -E2BIG);
	assert_int_equal(dsr_codec_unpack(codec, keys, DSR_FRAME_MAX + 1, &got_env, &got), -E2BIG);
	free(keys);
}

static void an_unknown_type_is_not_packed(void **state)
{
	struct dsr_codec *codec = *state;
	const struct dsr_env env = make_env(3);
	const union dsr_msg msg = {.ping = {0}};
	const void *frame;
	size_t bytes;

	assert_int_equal(dsr_codec_pack(codec, &env, &msg, &frame, &bytes), -EINVAL);
}

/* ---- golden frames ---- */

static void write_golden(FILE *f, struct dsr_codec *codec)
{
	struct stock *stock = calloc(1, sizeof(*stock));
	const struct dsr_msg_info *info;
	uint64_t random = 1; /* the same in every run */
	const void *frame;
	size_t bytes;
	size_t k;
	unsigned i;

	assert_non_null(stock);
	fill_stock(stock, &random);
	for (i = 0; (info = dsr_msg_at(i)); i++) {
		const struct dsr_env env = make_env(info->type);
		union dsr_msg msg;

		random = info->type; /* a new message changes no other line */
		make_message(info, stock, 3, &random, &msg);
		assert_int_equal(dsr_codec_pack(codec, &env, &msg, &frame, &bytes), 0);
		(void)fprintf(f, "%u %s ", info->type, info->name);
		for (k = 0; k < bytes; k++)
			(void)fprintf(f, "%02x", ((const uint8_t *)frame)[k]);
		(void)fprintf(f, "\n");
	}
	free(stock);
}

static void frames_are_byte_for_byte_the_golden_ones(void **state)
{
	bool is_update = getenv("DSR_GOLDEN_UPDATE") != NULL;
	FILE *f = fopen(GOLDEN, is_update ? "we" : "re");
	char *want = NULL;
	size_t want_bytes = 0;
	FILE *out;
	char line[8192];

	assert_non_null(f);
	out = is_update ? f : open_memstream(&want, &want_bytes);
	assert_non_null(out);
	write_golden(out, *state);
	assert_int_equal(fclose(out), 0);
	if (is_update)
		return;
	for (out = fmemopen(want, want_bytes, "r"); fgets(line, sizeof(line), out);) {
		char golden[8192];

		assert_non_null(fgets(golden, sizeof(golden), f));
		assert_string_equal(line, golden);
	}
	assert_null(fgets(line, sizeof(line), f));
	(void)fclose(out);
	(void)fclose(f);
	free(want);
}

/* The other direction: what an older or newer release wrote is read. */
static void golden_frames_are_read(void **state)
{
	FILE *f = fopen(GOLDEN, "re");
	unsigned lines = 0;
	unsigned type;
	char name[64];
	char hex[8192];

	assert_non_null(f);
	for (; fscanf(f, "%u %63s %8191s", &type, name, hex) == 3; lines++) {
		struct dsr_env env;
		union dsr_msg msg;

		assert_int_equal(decode_hex(*state, hex, &env, &msg), 0);
		assert_int_equal(env.type, type);
		assert_string_equal(dsr_msg_info(type)->name, name);
	}
	assert_int_equal(lines, MESSAGES);
	(void)fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_has_a_description),
		cmocka_unit_test(every_request_has_a_reply_that_begins_with_err),
		cmocka_unit_test_setup_teardown(what_is_packed_comes_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(mutated_frames_are_decoded_or_refused, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(a_frame_cut_anywhere_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(frames_by_hand, set_up, tear_down),
		cmocka_unit_test_setup_teardown(key_lists_point_into_the_frame, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_frame_above_the_limit_is_refused_both_ways,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_unknown_type_is_not_packed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(frames_are_byte_for_byte_the_golden_ones, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(golden_frames_are_read, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}

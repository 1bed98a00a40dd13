/* SPDX-License-Identifier: Apache-2.0 */
/* One pack and one unpack for every message, driven by the tables made from messages.def.
 *
 * Unpacking walks the frame once with msgpack-c's parser template, which checks each length against
 * the bytes left and calls back for every value; nothing is built but the message itself. Arrays
 * are decoded into the codec's arena. An element takes at least one byte of the frame, so the
 * arena's size follows from the frame's, and a length that cannot be true is refused before any
 * memory is touched. */
#include "codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack/pack.h>
#include <msgpack/unpack.h>

#include "log.h"
#include "util.h"
#include "version.h"

#define ENVELOPE_ITEMS 6 /* major, type, from, to, req, body */

/* ---- memory ---- */

struct dsr_codec {
	uint8_t *out; /* owned: the frame packed last */
	size_t out_bytes, out_size;
	uint8_t *arena; /* owned: arrays of the message unpacked last */
	size_t arena_used, arena_size;
};

int dsr_codec_new(struct dsr_codec **ret_codec)
{
	struct dsr_codec *codec = calloc(1, sizeof(*codec));

	if (!codec)
		return -ENOMEM;
	*ret_codec = codec;
	return 0;
}

void dsr_codec_free(struct dsr_codec **codec)
{
	if (!*codec)
		return;
	free((*codec)->out);
	free((*codec)->arena);
	free(*codec);
	*codec = NULL;
}

/* ---- packing ---- */

/* msgpack_packer_write: appends, growing the buffer up to the longest frame. */
static int append(void *self, const char *bytes, size_t n)
{
	struct dsr_codec *codec = self;
	size_t size = codec->out_size ? codec->out_size : 1024;
	uint8_t *grown;

	if (n > DSR_FRAME_MAX - codec->out_bytes)
		return -E2BIG;
	while (size < codec->out_bytes + n)
		size *= 2;
	if (size > codec->out_size) {
		grown = realloc(codec->out, size);
		if (!grown)
			return -ENOMEM;
		codec->out = grown;
		codec->out_size = size;
	}
	if (n > 0)
		memcpy(codec->out + codec->out_bytes, bytes, n);
	codec->out_bytes += n;
	return 0;
}

static int pack_refs(msgpack_packer *pk, const struct dsr_refs *refs)
{
	uint32_t i;
	int r = msgpack_pack_array(pk, (size_t)refs->n * 4);

	for (i = 0; i < refs->n && r == 0; i++) {
		r = msgpack_pack_uint64(pk, refs->v[i].generation);
		r = r ? r : msgpack_pack_uint64(pk, refs->v[i].slot_seq);
		r = r ? r : msgpack_pack_uint32(pk, refs->v[i].entry);
		r = r ? r : msgpack_pack_uint32(pk, refs->v[i].slot);
	}
	return r;
}

static int pack_u64s(msgpack_packer *pk, const struct dsr_u64s *list)
{
	uint32_t i;
	int r = msgpack_pack_array(pk, list->n);

	for (i = 0; i < list->n && r == 0; i++)
		r = msgpack_pack_uint64(pk, list->v[i]);
	return r;
}

static int pack_i32s(msgpack_packer *pk, const struct dsr_i32s *list)
{
	uint32_t i;
	int r = msgpack_pack_array(pk, list->n);

	for (i = 0; i < list->n && r == 0; i++)
		r = msgpack_pack_int32(pk, list->v[i]);
	return r;
}

static int pack_field(msgpack_packer *pk, enum dsr_field_kind kind, const void *field)
{
	const struct dsr_str *str = field;
	const struct dsr_bin *bin = field;
	const struct dsr_keys *keys = field;

	switch (kind) {
	case DSR_FIELD_U32:
		return msgpack_pack_uint32(pk, *(const uint32_t *)field);
	case DSR_FIELD_U64:
		return msgpack_pack_uint64(pk, *(const uint64_t *)field);
	case DSR_FIELD_I32:
		return msgpack_pack_int32(pk, *(const int32_t *)field);
	case DSR_FIELD_STR:
		return msgpack_pack_str_with_body(pk, str->p, str->n);
	case DSR_FIELD_BIN:
		return msgpack_pack_bin_with_body(pk, bin->p, bin->n);
	case DSR_FIELD_KEYS:
		return msgpack_pack_bin_with_body(pk, keys->v, (size_t)keys->n * DSR_KEY_BYTES);
	case DSR_FIELD_REFS:
		return pack_refs(pk, field);
	case DSR_FIELD_U64S:
		return pack_u64s(pk, field);
	case DSR_FIELD_I32S:
		return pack_i32s(pk, field);
	}
	return -EINVAL;
}

int dsr_codec_pack(struct dsr_codec *codec, const struct dsr_env *env, const void *msg,
                   const void **ret_frame, size_t *ret_bytes)
{
	const struct dsr_msg_info *info = dsr_msg_info(env->type);
	msgpack_packer pk;
	uint32_t i;
	int r;

	if (!info)
		return -EINVAL;
	codec->out_bytes = 0;
	msgpack_packer_init(&pk, codec, append);
	r = msgpack_pack_array(&pk, ENVELOPE_ITEMS);
	r = r ? r : msgpack_pack_uint32(&pk, env->major);
	r = r ? r : msgpack_pack_uint32(&pk, env->type);
	r = r ? r : msgpack_pack_uint64(&pk, env->from);
	r = r ? r : msgpack_pack_uint64(&pk, env->to);
	r = r ? r : msgpack_pack_uint64(&pk, env->req);
	r = r ? r : msgpack_pack_array(&pk, info->field_count);
	for (i = 0; i < info->field_count && r == 0; i++)
		r = pack_field(&pk, info->fields[i].kind,
		               (const char *)msg + info->fields[i].offset);
	if (r < 0)
		return r;
	*ret_frame = codec->out;
	*ret_bytes = codec->out_bytes;
	return 0;
}

/* ---- unpacking ---- */

enum value_kind { V_UINT, V_NEGATIVE, V_STR, V_BIN, V_ARRAY, V_OTHER };

struct value {
	enum value_kind kind;
	uint32_t n; /* bytes of a str or bin */
	union {
		uint64_t u;
		int64_t i;
		const char *p;
	} as;
};

/* Arrays in arrays: the frame, its body, an array field. */
enum level { LEVEL_FRAME, LEVEL_BODY, LEVEL_FIELD, LEVELS };

struct parse {
	struct dsr_codec *codec;
	const struct dsr_msg_info *info;    /* once the envelope is read */
	const struct dsr_field_info *field; /* array field being read, NULL: one to ignore */
	void *elements;                     /* of that field, in the arena */
	size_t frame_bytes;
	size_t left;            /* elements that may still come: bytes not yet spoken for */
	uint32_t open;          /* arrays begun and not ended */
	uint32_t index[LEVELS]; /* of the item that comes next */
	uint32_t count[LEVELS];
	int err;
	struct dsr_env env;
	union dsr_msg msg;
};

static int fail(struct parse *p, int err)
{
	p->err = err;
	return -1;
}

static void *arena_take(struct dsr_codec *codec, size_t bytes)
{
	void *p = codec->arena + codec->arena_used;

	dsr_assert(codec->arena_size - codec->arena_used >= bytes);
	codec->arena_used += (bytes + 7) & ~(size_t)7;
	return p;
}

/* Before the first array of a message, for all of them: no element is longer than 8 bytes. */
static int arena_reserve(struct dsr_codec *codec, size_t frame_bytes)
{
	size_t need = 8 * frame_bytes + 8 * (size_t)DSR_MSG_FIELDS_MAX;
	size_t size = codec->arena_size ? codec->arena_size : 4096;
	uint8_t *grown;

	while (size < need)
		size *= 2;
	if (size == codec->arena_size)
		return 0;
	grown = malloc(size);
	if (!grown)
		return -ENOMEM;
	free(codec->arena);
	codec->arena = grown;
	codec->arena_size = size;
	return 0;
}

static void *field_at(struct parse *p, const struct dsr_field_info *field)
{
	return (char *)&p->msg + field->offset;
}

static int begin_array_field(struct parse *p, uint32_t n)
{
	const struct dsr_field_info *field = p->field;
	int r = p->codec->arena_used ? 0 : arena_reserve(p->codec, p->frame_bytes);

	if (r < 0)
		return fail(p, r);
	switch (field->kind) {
	case DSR_FIELD_REFS:
		if (n % 4 != 0)
			return fail(p, -EBADMSG);
		p->elements = arena_take(p->codec, n / 4 * sizeof(struct dsr_ref));
		*(struct dsr_refs *)field_at(p, field) = (struct dsr_refs){p->elements, n / 4};
		return 0;
	case DSR_FIELD_U64S:
		p->elements = arena_take(p->codec, n * sizeof(uint64_t));
		*(struct dsr_u64s *)field_at(p, field) = (struct dsr_u64s){p->elements, n};
		return 0;
	case DSR_FIELD_I32S:
		p->elements = arena_take(p->codec, n * sizeof(int32_t));
		*(struct dsr_i32s *)field_at(p, field) = (struct dsr_i32s){p->elements, n};
		return 0;
	case DSR_FIELD_U32:
	case DSR_FIELD_U64:
	case DSR_FIELD_I32:
	case DSR_FIELD_STR:
	case DSR_FIELD_BIN:
	case DSR_FIELD_KEYS:
		break;
	}
	return fail(p, -EBADMSG);
}

static int begin_array(struct parse *p, uint32_t n)
{
	uint32_t at;

	if (p->open == LEVELS || n > p->left)
		return fail(p, -EBADMSG);
	p->left -= n;
	if (p->open == LEVEL_FRAME && n < ENVELOPE_ITEMS - 1)
		return fail(p, -EBADMSG);
	if (p->open == LEVEL_BODY &&
	    (p->index[LEVEL_FRAME] != ENVELOPE_ITEMS - 1 || n < p->info->field_count))
		return fail(p, -EBADMSG);
	if (p->open == LEVEL_FIELD) {
		at = p->index[LEVEL_BODY];
		p->field = at < p->info->field_count ? &p->info->fields[at] : NULL;
		if (p->field && begin_array_field(p, n) < 0)
			return -1;
	}
	p->index[p->open] = 0;
	p->count[p->open] = n;
	p->open += n > 0;
	return 0;
}

static int as_u32(struct parse *p, const struct value *v, uint32_t *ret_u32)
{
	if (v->kind != V_UINT || v->as.u > UINT32_MAX)
		return fail(p, -EBADMSG);
	*ret_u32 = (uint32_t)v->as.u;
	return 0;
}

static int as_u64(struct parse *p, const struct value *v, uint64_t *ret_u64)
{
	if (v->kind != V_UINT)
		return fail(p, -EBADMSG);
	*ret_u64 = v->as.u;
	return 0;
}

static int as_i32(struct parse *p, const struct value *v, int32_t *ret_i32)
{
	if ((v->kind != V_UINT || v->as.u > INT32_MAX) &&
	    (v->kind != V_NEGATIVE || v->as.i < INT32_MIN))
		return fail(p, -EBADMSG);
	*ret_i32 = (int32_t)v->as.i;
	return 0;
}

static int as_str(struct parse *p, const struct value *v, struct dsr_str *ret_str)
{
	uint32_t at;
	uint32_t c;
	size_t n;

	if (v->kind != V_STR)
		return fail(p, -EBADMSG);
	for (at = 0; at < v->n; at += (uint32_t)n) {
		n = dsr_utf8_next(v->as.p + at, v->n - at, &c);
		if (n == 0 || c == 0) /* a text with a NUL would be another one to C */
			return fail(p, -EBADMSG);
	}
	*ret_str = (struct dsr_str){v->as.p, v->n};
	return 0;
}

static int as_bin(struct parse *p, const struct value *v, struct dsr_bin *ret_bin)
{
	if (v->kind != V_BIN)
		return fail(p, -EBADMSG);
	*ret_bin = (struct dsr_bin){(const uint8_t *)v->as.p, v->n};
	return 0;
}

static int as_keys(struct parse *p, const struct value *v, struct dsr_keys *ret_keys)
{
	if (v->kind != V_BIN || v->n % DSR_KEY_BYTES != 0)
		return fail(p, -EBADMSG);
	*ret_keys = (struct dsr_keys){(const struct dsr_key *)v->as.p, v->n / DSR_KEY_BYTES};
	return 0;
}

static int envelope_item(struct parse *p, uint32_t at, const struct value *v)
{
	switch (at) {
	case 0:
		return as_u32(p, v, &p->env.major);
	case 1:
		return as_u32(p, v, &p->env.type);
	case 2:
		return as_u64(p, v, &p->env.from);
	case 3:
		return as_u64(p, v, &p->env.to);
	case 4:
		if (as_u64(p, v, &p->env.req) < 0)
			return -1;
		if (p->env.major != DSR_PROTOCOL_MAJOR)
			return fail(p, -EPROTONOSUPPORT);
		if (p->count[LEVEL_FRAME] != ENVELOPE_ITEMS)
			return fail(p, -EBADMSG);
		p->info = dsr_msg_info(p->env.type);
		return p->info ? 0 : fail(p, -EPROTO);
	default:
		return v->kind == V_ARRAY ? 0 : fail(p, -EBADMSG);
	}
}

static int body_item(struct parse *p, uint32_t at, const struct value *v)
{
	const struct dsr_field_info *field;
	void *dst;

	if (at >= p->info->field_count)
		return 0; /* of a newer minor version */
	field = &p->info->fields[at];
	dst = field_at(p, field);
	switch (field->kind) {
	case DSR_FIELD_U32:
		return as_u32(p, v, dst);
	case DSR_FIELD_U64:
		return as_u64(p, v, dst);
	case DSR_FIELD_I32:
		return as_i32(p, v, dst);
	case DSR_FIELD_STR:
		return as_str(p, v, dst);
	case DSR_FIELD_BIN:
		return as_bin(p, v, dst);
	case DSR_FIELD_KEYS:
		return as_keys(p, v, dst);
	case DSR_FIELD_REFS:
	case DSR_FIELD_U64S:
	case DSR_FIELD_I32S:
		return v->kind == V_ARRAY ? 0 : fail(p, -EBADMSG);
	}
	return fail(p, -EBADMSG);
}

static int element(struct parse *p, uint32_t at, const struct value *v)
{
	struct dsr_ref *ref;

	if (!p->field)
		return 0;
	if (p->field->kind == DSR_FIELD_U64S)
		return as_u64(p, v, (uint64_t *)p->elements + at);
	if (p->field->kind == DSR_FIELD_I32S)
		return as_i32(p, v, (int32_t *)p->elements + at);
	ref = (struct dsr_ref *)p->elements + at / 4;
	switch (at % 4) {
	case 0:
		return as_u64(p, v, &ref->generation);
	case 1:
		return as_u64(p, v, &ref->slot_seq);
	case 2:
		return as_u32(p, v, &ref->entry);
	default:
		return as_u32(p, v, &ref->slot);
	}
}

/* An item of the innermost open array is complete. */
static int item(struct parse *p, const struct value *v)
{
	uint32_t level = p->open - 1;
	uint32_t at = p->index[level]++;

	if (p->index[level] == p->count[level])
		p->open--;
	if (level == LEVEL_FRAME)
		return envelope_item(p, at, v);
	return level == LEVEL_BODY ? body_item(p, at, v) : element(p, at, v);
}

/* ---- msgpack-c's parser template: see unpack_template.h ---- */

static int on_array(struct parse *p, unsigned n, struct value *ret_value)
{
	ret_value->kind = V_ARRAY;
	return begin_array(p, n);
}

static int on_array_item(struct parse *p, struct value *array, struct value v)
{
	(void)array;
	return item(p, &v);
}

static int on_unsigned(struct parse *p, uint64_t u, struct value *ret_value)
{
	(void)p;
	*ret_value = (struct value){.kind = V_UINT, .as.u = u};
	return 0;
}

static int on_signed(struct parse *p, int64_t i, struct value *ret_value)
{
	(void)p;
	*ret_value = (struct value){.kind = i < 0 ? V_NEGATIVE : V_UINT, .as.i = i};
	return 0;
}

static int on_bytes(enum value_kind kind, const char *bytes, unsigned n, struct value *ret_value)
{
	*ret_value = (struct value){.kind = kind, .n = n, .as.p = n ? bytes : ""};
	return 0;
}

/* What no field is made of: only fields of a newer minor version may be, and those are ignored. */
static int on_other(struct value *ret_value)
{
	ret_value->kind = V_OTHER;
	return 0;
}

/* clang-format off */
#define MSGPACK_EMBED_STACK_SIZE (LEVELS + 1)
#include <msgpack/unpack_define.h>
#define msgpack_unpack_struct(name) struct template##name
#define msgpack_unpack_func(ret, name) static ret template##name
#define msgpack_unpack_callback(name) callback##name
#define msgpack_unpack_object struct value
#define msgpack_unpack_user struct parse *
#define callback_root(user) ((struct value){.kind = V_OTHER})
#define callback_uint8(user, d, o) on_unsigned(*(user), (d), (o))
#define callback_uint16(user, d, o) on_unsigned(*(user), (d), (o))
#define callback_uint32(user, d, o) on_unsigned(*(user), (d), (o))
#define callback_uint64(user, d, o) on_unsigned(*(user), (d), (o))
#define callback_int8(user, d, o) on_signed(*(user), (d), (o))
#define callback_int16(user, d, o) on_signed(*(user), (d), (o))
#define callback_int32(user, d, o) on_signed(*(user), (d), (o))
#define callback_int64(user, d, o) on_signed(*(user), (d), (o))
#define callback_float(user, d, o) ((void)(d), on_other(o))
#define callback_double(user, d, o) ((void)(d), on_other(o))
#define callback_nil(user, o) on_other(o)
#define callback_true(user, o) on_other(o)
#define callback_false(user, o) on_other(o)
#define callback_str(user, base, p, l, o) on_bytes(V_STR, (p), (l), (o))
#define callback_bin(user, base, p, l, o) on_bytes(V_BIN, (p), (l), (o))
#define callback_ext(user, base, p, l, o) on_other(o)
#define callback_array(user, n, o) on_array(*(user), (n), (o))
#define callback_array_item(user, c, o) on_array_item(*(user), (c), (o))
/* Maps are in no version: they would need bounds of their own. */
#define callback_map(user, n, o) ((void)(o), fail(*(user), -EBADMSG))
#define callback_map_item(user, c, k, v) ((void)(c), (void)(k), (void)(v), fail(*(user), -EBADMSG))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#pragma GCC diagnostic ignored "-Wswitch-enum"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <msgpack/unpack_template.h>
#pragma GCC diagnostic pop
/* clang-format on */

int dsr_codec_unpack(struct dsr_codec *codec, const void *frame, size_t bytes,
                     struct dsr_env *ret_env, union dsr_msg *ret_msg)
{
	struct parse p = {.codec = codec, .frame_bytes = bytes, .left = bytes, .err = -EBADMSG};
	struct template_context context = {.user = &p};
	size_t off = 0;
	int r;

	if (bytes > DSR_FRAME_MAX)
		return -E2BIG;
	codec->arena_used = 0;
	template_init(&context);
	r = template_execute(&context, frame, bytes, &off);
	if (r < 0 && (p.err == -EPROTONOSUPPORT || p.err == -EPROTO))
		*ret_env = p.env;
	if (r < 0)
		return p.err;
	if (r == 0 || off != bytes || !p.info)
		return -EBADMSG;
	*ret_env = p.env;
	*ret_msg = p.msg;
	return 0;
}

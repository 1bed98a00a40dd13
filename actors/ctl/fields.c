/* SPDX-License-Identifier: Apache-2.0 */
#include "fields.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

#define FIELDS_SHOWN 4       /* values of a list, for people */
#define FIELDS_KEY_DIGITS 12 /* of a key, for people */

/* All slices begin alike; the pointers differ in type alone. */
struct slice {
	const void *p;
	uint32_t n;
};
static_assert(sizeof(struct slice) == sizeof(struct dsr_str) &&
                      sizeof(struct slice) == sizeof(struct dsr_bin) &&
                      sizeof(struct slice) == sizeof(struct dsr_keys) &&
                      sizeof(struct slice) == sizeof(struct dsr_refs) &&
                      sizeof(struct slice) == sizeof(struct dsr_u64s) &&
                      sizeof(struct slice) == sizeof(struct dsr_i32s),
              "slices have one layout");

/* ---- text to values ---- */

static bool parse_unsigned(const char *text, size_t length, uint64_t max, uint64_t *ret_value)
{
	char copy[24], *end;
	unsigned long long value;

	if (length == 0 || length >= sizeof(copy) || text[0] < '0' || text[0] > '9')
		return false;
	memcpy(copy, text, length);
	copy[length] = '\0';
	errno = 0;
	value = strtoull(copy, &end, strncmp(copy, "0x", 2) == 0 ? 16 : 10);
	if (errno != 0 || *end != '\0' || value > max)
		return false;
	*ret_value = value;
	return true;
}

static bool parse_signed(const char *text, size_t length, int32_t *ret_value)
{
	bool is_negative = length > 0 && text[0] == '-';
	uint64_t value;

	if (!parse_unsigned(text + is_negative, length - is_negative,
	                    (uint64_t)INT32_MAX + is_negative, &value))
		return false;
	*ret_value = (int32_t)(is_negative ? -(int64_t)value : (int64_t)value);
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Whole bytes, at most `room`. */
static bool parse_hex(const char *text, size_t length, uint8_t *ret_bytes, size_t room)
{
	if (length % 2 != 0 || length / 2 > room)
		return false;
	for (size_t i = 0; i < length; i += 2) {
		int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret_bytes[i / 2] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* One element of a list: text[0..length) into *ret. */
typedef bool item_fn(const char *text, size_t length, void *ret);

static bool parse_key(const char *text, size_t length, void *ret)
{
	struct dsr_key *key = ret; /* zeroed: a short one is padded */

	return length > 0 && parse_hex(text, length, key->b, sizeof(key->b));
}

static bool parse_ref(const char *text, size_t length, void *ret)
{
	static const uint64_t max[4] = {UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX};
	struct dsr_ref *ref = ret;
	uint64_t parts[4];

	for (int i = 0; i < 4; i++) {
		const char *colon = memchr(text, ':', length);
		size_t n = colon != NULL ? (size_t)(colon - text) : length;

		if ((colon == NULL) != (i == 3) || !parse_unsigned(text, n, max[i], &parts[i]))
			return false;
		text += n + 1;
		length -= i == 3 ? n : n + 1;
	}
	*ref = (struct dsr_ref){.generation = parts[0],
	                        .slot_seq = parts[1],
	                        .entry = (uint32_t)parts[2],
	                        .slot = (uint32_t)parts[3]};
	return true;
}

static bool parse_u64_item(const char *text, size_t length, void *ret)
{
	return parse_unsigned(text, length, UINT64_MAX, ret);
}

static bool parse_i32_item(const char *text, size_t length, void *ret)
{
	return parse_signed(text, length, ret);
}

/* Comma-separated items into a new array; empty text is an empty list. */
static int parse_list(const char *text, size_t item_bytes, item_fn *item, struct slice *slice,
                      void **ret_array)
{
	size_t count = text[0] != '\0';
	uint8_t *array;

	for (const char *c = text; *c != '\0'; c++)
		count += *c == ',';
	if (count == 0)
		return 0;
	if (count > DSR_FRAME_MAX / item_bytes)
		return -EINVAL;
	array = calloc(count, item_bytes);
	if (array == NULL)
		return -ENOMEM;
	*ret_array = array;
	for (size_t i = 0; i < count; i++) {
		size_t length = strcspn(text, ",");

		if (!item(text, length, array + i * item_bytes))
			return -EINVAL;
		text += length + 1;
	}
	*slice = (struct slice){.p = array, .n = (uint32_t)count};
	return 0;
}

static int parse_u32(const char *text, void *at, void **ret_array)
{
	uint64_t value;

	(void)ret_array;
	if (!parse_unsigned(text, strlen(text), UINT32_MAX, &value))
		return -EINVAL;
	*(uint32_t *)at = (uint32_t)value;
	return 0;
}

static int parse_u64(const char *text, void *at, void **ret_array)
{
	(void)ret_array;
	return parse_unsigned(text, strlen(text), UINT64_MAX, at) ? 0 : -EINVAL;
}

static int parse_i32(const char *text, void *at, void **ret_array)
{
	(void)ret_array;
	return parse_signed(text, strlen(text), at) ? 0 : -EINVAL;
}

static int parse_str(const char *text, void *at, void **ret_array)
{
	(void)ret_array;
	*(struct slice *)at = (struct slice){.p = text, .n = (uint32_t)strlen(text)};
	return 0;
}

static int parse_bin(const char *text, void *at, void **ret_array)
{
	size_t length = strlen(text);
	uint8_t *bytes;

	if (length == 0)
		return 0;
	bytes = malloc(length);
	if (bytes == NULL)
		return -ENOMEM;
	*ret_array = bytes;
	if (!parse_hex(text, length, bytes, length))
		return -EINVAL;
	*(struct slice *)at = (struct slice){.p = bytes, .n = (uint32_t)(length / 2)};
	return 0;
}

static int parse_keys(const char *text, void *at, void **ret_array)
{
	return parse_list(text, sizeof(struct dsr_key), parse_key, at, ret_array);
}

static int parse_refs(const char *text, void *at, void **ret_array)
{
	return parse_list(text, sizeof(struct dsr_ref), parse_ref, at, ret_array);
}

static int parse_u64s(const char *text, void *at, void **ret_array)
{
	return parse_list(text, sizeof(uint64_t), parse_u64_item, at, ret_array);
}

static int parse_i32s(const char *text, void *at, void **ret_array)
{
	return parse_list(text, sizeof(int32_t), parse_i32_item, at, ret_array);
}

/* ---- values to JSON ---- */

static json_t *u32_json(const void *at)
{
	return json_integer(*(const uint32_t *)at);
}

static json_t *u64_json(const void *at)
{
	return dsr_json_u64(*(const uint64_t *)at);
}

static json_t *i32_json(const void *at)
{
	return json_integer(*(const int32_t *)at);
}

static json_t *str_json(const void *at)
{
	const struct dsr_str *str = at;

	return dsr_json_text(str->p, str->n);
}

static json_t *bin_json(const void *at)
{
	const struct dsr_bin *bin = at;

	return dsr_json_hex(bin->p, bin->n);
}

static json_t *keys_json(const void *at)
{
	const struct dsr_keys *keys = at;
	json_t *array = json_array();

	for (uint32_t i = 0; i < keys->n; i++)
		dsr_json_append(&array, dsr_json_hex(keys->v[i].b, sizeof(keys->v[i].b)));
	return array;
}

static json_t *refs_json(const void *at)
{
	const struct dsr_refs *refs = at;
	json_t *array = json_array();

	for (uint32_t i = 0; i < refs->n; i++)
		dsr_json_append(&array, json_sprintf("%" PRIu64 ":%" PRIu64 ":%" PRIu32 ":%" PRIu32,
		                                     refs->v[i].generation, refs->v[i].slot_seq,
		                                     refs->v[i].entry, refs->v[i].slot));
	return array;
}

static json_t *u64s_json(const void *at)
{
	const struct dsr_u64s *list = at;
	json_t *array = json_array();

	for (uint32_t i = 0; i < list->n; i++)
		dsr_json_append(&array, dsr_json_u64(list->v[i]));
	return array;
}

static json_t *i32s_json(const void *at)
{
	const struct dsr_i32s *list = at;
	json_t *array = json_array();

	for (uint32_t i = 0; i < list->n; i++)
		dsr_json_append(&array, json_integer(list->v[i]));
	return array;
}

/* ---- the types of messages.def ---- */

struct field_type {
	const char *name;
	int (*parse)(const char *text, void *at, void **ret_array);
	json_t *(*json)(const void *at);
	const char *expected;
};

static const struct field_type types[] = {
	{"u32", parse_u32, u32_json, "an integer from 0 to 2^32 - 1"},
	{"u64", parse_u64, u64_json, "an integer from 0 to 2^64 - 1"},
	{"i32", parse_i32, i32_json, "an integer from -2^31 to 2^31 - 1"},
	{"str", parse_str, str_json, "text"},
	{"bin", parse_bin, bin_json, "hex digits, two a byte"},
	{"keys", parse_keys, keys_json, "hex keys of at most 64 digits, comma separated"},
	{"refs", parse_refs, refs_json, "GENERATION:SLOT_SEQ:ENTRY:SLOT, comma separated"},
	{"u64s", parse_u64s, u64s_json, "integers, comma separated"},
	{"i32s", parse_i32s, i32s_json, "integers, comma separated"},
};

static const struct field_type *find_type(const char *name)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	}
	return NULL;
}

static void list_fields(const struct dsr_msg_info *info, char *ret_text, size_t text_bytes)
{
	size_t used = 0;

	ret_text[0] = '\0';
	for (uint32_t i = 0; i < info->field_count && used < text_bytes; i++)
		used += (size_t)snprintf(ret_text + used, text_bytes - used, "%s%s",
		                         i > 0 ? ", " : "", info->fields[i].name);
}

static int parse_word(struct dsr_fields *fields, const char *word, uint64_t *seen, char *ret_why,
                      size_t why_bytes)
{
	const struct dsr_msg_info *info = fields->info;
	size_t length = strcspn(word, "=");
	char names[256];

	for (uint32_t i = 0; word[length] == '=' && i < info->field_count; i++) {
		const struct dsr_field_info *field = &info->fields[i];
		const struct field_type *type = find_type(field->type);
		int r;

		if (strlen(field->name) != length || strncmp(field->name, word, length) != 0)
			continue;
		if ((*seen >> i & 1) != 0) {
			snprintf(ret_why, why_bytes, "field `%s` is given twice", field->name);
			return -EINVAL;
		}
		*seen |= UINT64_C(1) << i;
		r = type != NULL
		            ? type->parse(word + length + 1, (char *)&fields->msg + field->offset,
		                          &fields->arrays[i])
		            : -EINVAL;
		if (r < 0)
			snprintf(ret_why, why_bytes, "field `%s` got `%.64s`: expected %s",
			         field->name, word + length + 1,
			         r == -ENOMEM || type == NULL ? "more memory" : type->expected);
		return r;
	}
	list_fields(info, names, sizeof(names));
	snprintf(ret_why, why_bytes, "`%.64s` is no FIELD=VALUE of %s: its fields are %s", word,
	         info->name, names);
	return -EINVAL;
}

int dsr_fields_parse(const char *message, char *const *words, int count,
                     struct dsr_fields *ret_fields, char *ret_why, size_t why_bytes)
{
	struct dsr_fields fields = {.info = dsr_msg_by_name(message)};
	uint64_t seen = 0;
	int r = 0;

	if (fields.info == NULL) {
		snprintf(ret_why, why_bytes, "no message is called `%.64s`", message);
		return -ENOENT;
	}
	for (int i = 0; i < count && r == 0; i++)
		r = parse_word(&fields, words[i], &seen, ret_why, why_bytes);
	if (r < 0) {
		dsr_fields_done(&fields);
		return r;
	}
	*ret_fields = fields;
	return 0;
}

void dsr_fields_done(struct dsr_fields *fields)
{
	for (size_t i = 0; i < DSR_MSG_FIELDS_MAX; i++) {
		free(fields->arrays[i]);
		fields->arrays[i] = NULL;
	}
}

json_t *dsr_fields_json(const struct dsr_msg_info *info, const void *msg)
{
	json_t *object = json_object();

	for (uint32_t i = 0; i < info->field_count; i++) {
		const struct dsr_field_info *field = &info->fields[i];
		const struct field_type *type = find_type(field->type);

		dsr_json_set(&object, field->name,
		             type != NULL ? type->json((const char *)msg + field->offset)
		                          : json_null());
	}
	return object;
}

/* ---- for people ---- */

static void print_string(const char *text, FILE *out)
{
	static const char hex[] = "0123456789abcdef";
	size_t length = strlen(text);

	if (length == 2 * sizeof(struct dsr_key) && strspn(text, hex) == length) {
		fprintf(out, "%.*s...", FIELDS_KEY_DIGITS, text);
		return;
	}
	fputc('`', out);
	for (; *text != '\0'; text++)
		fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
	fputc('`', out);
}

static void print_value(const json_t *value, FILE *out)
{
	if (json_is_integer(value))
		fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_string(value))
		print_string(json_string_value(value), out);
	else
		fputs("?", out);
}

static void print_array(const json_t *array, FILE *out)
{
	size_t count = json_array_size(array);

	fputc('[', out);
	for (size_t i = 0; i < count && i < FIELDS_SHOWN; i++) {
		if (i > 0)
			fputs(", ", out);
		print_value(json_array_get(array, i), out);
	}
	if (count > FIELDS_SHOWN)
		fprintf(out, ", ... %zu in all", count);
	fputc(']', out);
}

void dsr_fields_print(const json_t *fields, FILE *out)
{
	void *at = json_object_iter((json_t *)(uintptr_t)fields); /* reads only */
	const char *separator = "";

	for (; at != NULL; at = json_object_iter_next((json_t *)(uintptr_t)fields, at)) {
		const char *name = json_object_iter_key(at);
		const json_t *value = json_object_iter_value(at);
		json_int_t number = json_integer_value(value);

		fprintf(out, "%s%s ", separator, name);
		if (json_is_array(value))
			print_array(value, out);
		else
			print_value(value, out);
		if (strcmp(name, "err") == 0 && number < 0 && number > -4096 &&
		    strerrorname_np((int)-number) != NULL)
			fprintf(out, " (%s)", strerrorname_np((int)-number));
		separator = ", ";
	}
}

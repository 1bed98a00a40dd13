/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

json_t *dsr_json_new(void)
{
	json_t *object = json_object();

	dsr_json_set(&object, "schema", json_integer(1));
	return object;
}

static void poison(json_t **container)
{
	json_decref(*container);
	*container = NULL;
}

void dsr_json_set(json_t **object, const char *key, json_t *value)
{
	if (json_object_set_new(*object, key, value) == -1)
		poison(object);
}

void dsr_json_append(json_t **array, json_t *value)
{
	if (json_array_append_new(*array, value) == -1)
		poison(array);
}

int dsr_json_write(json_t *object, FILE *out)
{
	int r;

	if (object == NULL)
		return -ENOMEM;
	r = json_dumpf(object, out, JSON_PRESERVE_ORDER | JSON_COMPACT);
	json_decref(object);
	return r == -1 || fputc('\n', out) == EOF ? -EIO : 0;
}

json_t *dsr_json_u64(uint64_t value)
{
	if (value <= INT64_MAX)
		return json_integer((json_int_t)value);
	return json_sprintf("%" PRIu64, value);
}

json_t *dsr_json_hex(const void *bytes, size_t count)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *b = bytes;
	char *text = malloc(2 * count + 1);
	json_t *json;

	if (text == NULL)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		text[2 * i] = digits[b[i] >> 4];
		text[2 * i + 1] = digits[b[i] & 15];
	}
	json = json_stringn_nocheck(text, 2 * count);
	free(text);
	return json;
}

json_t *dsr_json_text(const char *text, size_t length)
{
	size_t n = text != NULL ? strnlen(text, length) : 0;
	json_t *json = json_stringn(n != 0 ? text : "", n);
	char *ascii;

	if (json != NULL)
		return json;
	ascii = malloc(n + 1);
	if (ascii == NULL)
		return NULL;
	for (size_t i = 0; i < n; i++)
		ascii[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
	json = json_stringn(ascii, n);
	free(ascii);
	return json;
}

uint64_t dsr_json_get_u64(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (json_is_string(value))
		return strtoull(json_string_value(value), NULL, 10);
	return (uint64_t)json_integer_value(value);
}

const char *dsr_json_get_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

int dsr_json_get_bool(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define LINE_MAX_BYTES (16 << 20)
#define TIMESTAMP_MAX 1e15

struct reader {
	const char *name; /* borrowed: of the file, for messages */
	uint64_t line;
	char *why; /* borrowed */
	size_t why_bytes;
	char *text; /* owned: the present line */
	size_t text_capacity;
	uint64_t *ids; /* owned: of the present line */
	size_t id_capacity;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct reader *reader,
                                                        const char *format, ...)
{
	va_list args;
	int n = snprintf(reader->why, reader->why_bytes, "%s:%llu: ", reader->name,
	                 (unsigned long long)reader->line);

	if (n > 0 && (size_t)n < reader->why_bytes) {
		va_start(args, format);
		(void)vsnprintf(reader->why + n, reader->why_bytes - (size_t)n, format, args);
		va_end(args);
	}
	return -EINVAL;
}

static int take_length(const struct reader *reader, const json_t *object, const char *field,
                       uint32_t low, uint32_t *ret_length)
{
	const json_t *value = json_object_get(object, field);

	if (!value)
		return refuse(reader, "%s is missing", field);
	if (!json_is_integer(value))
		return refuse(reader, "%s is not an integer", field);
	json_int_t number = json_integer_value(value);
	if (number < low || number > REPLAY_INPUT_MAX)
		return refuse(reader, "%s %lld: expected %u..%d", field, (long long)number, low,
		              REPLAY_INPUT_MAX);
	*ret_length = (uint32_t)number;
	return 0;
}

static int take_timestamp(const struct reader *reader, const json_t *object, uint64_t *ret_ms)
{
	const json_t *value = json_object_get(object, "timestamp");

	if (!value)
		return refuse(reader, "timestamp is missing");
	if (!json_is_number(value))
		return refuse(reader, "timestamp is not a number");
	double number = json_number_value(value);
	if (!(number >= 0 && number <= TIMESTAMP_MAX))
		return refuse(reader, "timestamp %g: expected ms, 0 or more", number);
	*ret_ms = (uint64_t)number;
	return 0;
}

static int take_ids(struct reader *reader, const json_t *object, uint32_t input_length,
                    uint32_t *ret_count)
{
	const json_t *value = json_object_get(object, "hash_ids");
	size_t full = input_length / REPLAY_SPAN_TOKENS;
	size_t all = (input_length + REPLAY_SPAN_TOKENS - 1) / REPLAY_SPAN_TOKENS;

	if (!value)
		return refuse(reader, "hash_ids is missing");
	if (!json_is_array(value))
		return refuse(reader, "hash_ids is not an array");
	size_t count = json_array_size(value);
	if (count < full || count > all)
		return refuse(reader, "hash_ids has %zu ids: input_length %u takes %zu", count,
		              input_length, all);
	if (count > reader->id_capacity) {
		uint64_t *ids = reallocarray(reader->ids, count, sizeof(*ids));

		if (!ids)
			return -ENOMEM;
		reader->ids = ids;
		reader->id_capacity = count;
	}
	for (size_t i = 0; i < count; i++) {
		const json_t *id = json_array_get(value, i);

		if (!json_is_integer(id) || json_integer_value(id) < 0)
			return refuse(reader, "hash_ids[%zu] is not an integer of 0 or more", i);
		reader->ids[i] = (uint64_t)json_integer_value(id);
	}
	*ret_count = (uint32_t)count;
	return 0;
}

static int take_object(struct reader *reader, const json_t *object,
                       struct replay_workload *workload)
{
	struct replay_item item = {.after = REPLAY_NONE};
	uint32_t id_count = 0;
	int r;

	if (!json_is_object(object))
		return refuse(reader, "expected a JSON object");
	r = take_timestamp(reader, object, &item.timestamp_ms);
	if (r == 0)
		r = take_length(reader, object, "input_length", 1, &item.input_length);
	if (r == 0)
		r = take_length(reader, object, "output_length", 0, &item.output_length);
	if (r == 0)
		r = take_ids(reader, object, item.input_length, &id_count);
	if (r < 0)
		return r;
	return replay_workload_append(workload, &item, reader->ids, id_count);
}

static int take_line(struct reader *reader, const char *line, size_t length,
                     struct replay_workload *workload)
{
	json_error_t error;

	if (reader->line == 1 && length >= 5 &&
	    memcmp(line,
	           "\xfd"
	           "7zXZ",
	           5) == 0)
		return refuse(reader,
		              "this is xz: unpack it first (xz -d), or pipe it in: xz -dc FILE | "
		              "daser-replay --trace -");
	if (length > LINE_MAX_BYTES)
		return refuse(reader, "the line is longer than %d bytes", LINE_MAX_BYTES);
	json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
	if (!object)
		return refuse(reader, "not JSON: %s", error.text);
	int r = take_object(reader, object, workload);

	json_decref(object);
	return r;
}

/* One line without its end into reader->text. 1, 0 at the end of the file, negative errno; stops
 * reading at the limit, so an endless line costs no more memory than that. */
static int read_line(struct reader *reader, FILE *file, size_t *ret_length)
{
	size_t length = 0;

	for (;;) {
		int c = getc_unlocked(file);

		if (c == EOF && ferror(file))
			return -EIO;
		if (c == EOF && length == 0)
			return 0;
		if (c == EOF || c == '\n')
			break;
		if (length == reader->text_capacity) {
			size_t capacity = length ? length * 2 : 4096;
			char *text = realloc(reader->text, capacity);

			if (!text)
				return -ENOMEM;
			reader->text = text;
			reader->text_capacity = capacity;
		}
		reader->text[length++] = (char)c;
		if (length > LINE_MAX_BYTES)
			break;
	}
	reader->line++;
	*ret_length = length;
	return 1;
}

static bool is_blank(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return false;
	return true;
}

int replay_trace_read(FILE *file, const char *name, uint64_t most, struct replay_workload *workload,
                      char *ret_why, size_t why_bytes)
{
	struct reader reader = {.name = name, .why = ret_why, .why_bytes = why_bytes};
	uint32_t before = workload->count;
	int r = 0;

	while (r == 0 && (most == 0 || workload->count - before < most)) {
		size_t length = 0;

		r = read_line(&reader, file, &length);
		if (r <= 0)
			break;
		r = is_blank(reader.text, length)
		            ? 0
		            : take_line(&reader, reader.text, length, workload);
	}
	if (r == -EIO || r == -ENOMEM)
		(void)snprintf(ret_why, why_bytes, "%s: line %llu cannot be read: %s", name,
		               (unsigned long long)reader.line + 1, strerror(-r));
	if (r == 0 && workload->count == before)
		r = refuse(&reader, "no requests");
	free(reader.text);
	free(reader.ids);
	return r;
}

int replay_trace_load(const char *path, uint64_t most, struct replay_workload *workload,
                      char *ret_why, size_t why_bytes)
{
	if (strcmp(path, "-") == 0)
		return replay_trace_read(stdin, "standard input", most, workload, ret_why,
		                         why_bytes);
	FILE *file = fopen(path, "re");
	if (!file) {
		(void)snprintf(ret_why, why_bytes, "--trace `%s`: %s", path, strerror(errno));
		return -EINVAL;
	}
	int r = replay_trace_read(file, path, most, workload, ret_why, why_bytes);

	(void)fclose(file);
	return r;
}

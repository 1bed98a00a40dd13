/* SPDX-License-Identifier: Apache-2.0 */
#include "fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_test.h"

#define COUNT(x) ((int)(sizeof(x) / sizeof((x)[0])))

static struct dsr_fields parse(const char *message, char **words, int count)
{
	struct dsr_fields fields;
	char why[512] = "";

	if (dsr_fields_parse(message, words, count, &fields, why, sizeof(why)) < 0)
		fail_msg("%s", why);
	return fields;
}

static void every_field_type_is_read(void **state)
{
	char *words[] = {"reservation=0xfff", "refs=1:2:3:4,5:6:7:8", "lane=63", "reason=4",
	                 "engine=18446744073709551615"};
	char *register_words[] = {"engine=a name=with = signs", "fingerprint=00ffAb"};
	char *lease_words[] = {"keys=01,0203", "parent="};
	char *store_words[] = {"digests=1,18446744073709551615", "buffer=2"};
	char *segment_words[] = {"errs=0,-116,2147483647,-2147483648"};
	struct dsr_fields f = parse("abort", words, COUNT(words));

	(void)state;
	assert_int_equal(f.msg.abort.reservation, 0xfff);
	assert_true(f.msg.abort.engine == UINT64_MAX);
	assert_int_equal(f.msg.abort.lane, 63);
	assert_int_equal(f.msg.abort.refs.n, 2);
	assert_int_equal(f.msg.abort.refs.v[1].generation, 5);
	assert_int_equal(f.msg.abort.refs.v[1].slot_seq, 6);
	assert_int_equal(f.msg.abort.refs.v[1].entry, 7);
	assert_int_equal(f.msg.abort.refs.v[1].slot, 8);
	dsr_fields_done(&f);
	f = parse("register_worker", register_words, COUNT(register_words));
	assert_int_equal(f.msg.register_worker.engine.n, strlen("a name=with = signs"));
	assert_int_equal(f.msg.register_worker.fingerprint.n, 3);
	assert_memory_equal(f.msg.register_worker.fingerprint.p, "\x00\xff\xab", 3);
	dsr_fields_done(&f);
	f = parse("lease", lease_words, COUNT(lease_words));
	assert_int_equal(f.msg.lease.keys.n, 2);
	assert_int_equal(f.msg.lease.keys.v[1].b[0], 2);
	assert_int_equal(f.msg.lease.keys.v[1].b[1], 3);
	assert_int_equal(f.msg.lease.keys.v[1].b[2], 0);
	assert_int_equal(f.msg.lease.parent.n, 0);
	dsr_fields_done(&f);
	f = parse("store", store_words, COUNT(store_words));
	assert_int_equal(f.msg.store.digests.n, 2);
	assert_true(f.msg.store.digests.v[1] == UINT64_MAX);
	dsr_fields_done(&f);
	f = parse("segment", segment_words, COUNT(segment_words));
	assert_int_equal(f.msg.segment.errs.n, 4);
	assert_int_equal(f.msg.segment.errs.v[1], -116);
	assert_int_equal(f.msg.segment.errs.v[3], INT32_MIN);
	dsr_fields_done(&f);
}

static void bad_values_are_refused_with_their_name(void **state)
{
	static const struct {
		const char *message, *word;
	} bad[] = {
		{"ping", "token=-1"},
		{"ping", "token=18446744073709551616"},
		{"ping", "token="},
		{"ping", "token= 1"},
		{"ping", "token=1x"},
		{"ping", "token"},
		{"ping", "tokens=1"},
		{"abort", "lane=4294967296"},
		{"abort", "refs=1:2:3"},
		{"abort", "refs=1:2:3:4:5"},
		{"abort", "refs=1:2:4294967296:4"},
		{"abort", "refs=1:2:3:4,"},
		{"abort", "refs=,"},
		{"lookup", "keys=0"},
		{"lookup", "keys=0g"},
		{"lookup", "keys=00,,00"},
		{"lookup",
	         "keys=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"},
		{"lease", "parent=abc"},
		{"segment", "errs=-2147483649"},
		{"segment", "errs=2147483648"},
		{"segment", "errs=--1"},
	};

	(void)state;
	for (int i = 0; i < COUNT(bad); i++) {
		struct dsr_fields fields;
		char why[512] = "", word[128], name[128];
		char *words[] = {word};

		snprintf(word, sizeof(word), "%s", bad[i].word);
		snprintf(name, sizeof(name), "`%.*s", (int)strcspn(word, "="), word);
		assert_int_equal(
			dsr_fields_parse(bad[i].message, words, 1, &fields, why, sizeof(why)),
			-EINVAL);
		if (strstr(why, name) == NULL)
			fail_msg("`%s` does not name %s", why, name);
	}
}

static void an_unknown_message_and_a_double_field_are_refused(void **state)
{
	char *twice[] = {"token=1", "token=2"};
	struct dsr_fields fields;
	char why[512] = "";

	(void)state;
	assert_int_equal(dsr_fields_parse("nonsense", NULL, 0, &fields, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "nonsense"));
	assert_int_equal(dsr_fields_parse("ping", twice, 2, &fields, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "twice"));
}

/* JSON values as the words that parse takes. */
static char *word_of(const char *name, const json_t *value)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	size_t count = json_is_array(value) ? json_array_size(value) : 1;

	assert_non_null(out);
	fprintf(out, "%s=", name);
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;

		fputs(i > 0 ? "," : "", out);
		if (json_is_string(item))
			fputs(json_string_value(item), out);
		else
			fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(item));
	}
	assert_int_equal(fclose(out), 0);
	return text;
}

static const char *sample_of(const char *type)
{
	static const char *const samples[][2] = {
		{"u32", "4294967295"},
		{"u64", "18446744073709551615"},
		{"i32", "-2147483648"},
		{"str", "text"},
		{"bin", "00017f80ff"},
		{"keys", "0000000000000000000000000000000000000000000000000000000000000001,"
	                 "ff00000000000000000000000000000000000000000000000000000000000000"},
		{"refs", "18446744073709551615:2:4294967295:4,5:6:7:8"},
		{"u64s", "0,9223372036854775807,9223372036854775808"},
		{"i32s", "-1,0,2147483647"},
	};

	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		if (strcmp(samples[i][0], type) == 0)
			return samples[i][1];
	}
	fail_msg("no sample of type `%s`", type);
	return NULL;
}

static void every_message_comes_back_through_json(void **state)
{
	const struct dsr_msg_info *info;

	(void)state;
	for (unsigned m = 0; (info = dsr_msg_at(m)) != NULL; m++) {
		char *words[DSR_MSG_FIELDS_MAX];
		struct dsr_fields fields;
		json_t *json;
		const char *name;
		json_t *value;
		int count = 0;

		for (uint32_t i = 0; i < info->field_count; i++) {
			words[i] = NULL;
			assert_true(asprintf(&words[i], "%s=%s", info->fields[i].name,
			                     sample_of(info->fields[i].type)) > 0);
		}
		fields = parse(info->name, words, (int)info->field_count);
		json = dsr_fields_json(info, &fields.msg);
		assert_non_null(json);
		json_object_foreach(json, name, value)
		{
			char *word = word_of(name, value);

			assert_string_equal(word, words[count]);
			free(word);
			count++;
		}
		assert_int_equal(count, info->field_count);
		json_decref(json);
		dsr_fields_done(&fields);
		for (uint32_t i = 0; i < info->field_count; i++)
			free(words[i]);
	}
}

static void every_message_without_fields_packs(void **state)
{
	const struct dsr_msg_info *info;
	struct dsr_codec *codec;

	(void)state;
	assert_int_equal(dsr_codec_new(&codec), 0);
	for (unsigned m = 0; (info = dsr_msg_at(m)) != NULL; m++) {
		struct dsr_fields fields = parse(info->name, NULL, 0);
		struct dsr_env env = {.major = 1, .type = info->type};
		const void *frame;
		size_t bytes;

		assert_int_equal(dsr_codec_pack(codec, &env, &fields.msg, &frame, &bytes), 0);
		dsr_fields_done(&fields);
	}
	dsr_codec_free(&codec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_type_is_read),
		cmocka_unit_test(bad_values_are_refused_with_their_name),
		cmocka_unit_test(an_unknown_message_and_a_double_field_are_refused),
		cmocka_unit_test(every_message_comes_back_through_json),
		cmocka_unit_test(every_message_without_fields_packs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

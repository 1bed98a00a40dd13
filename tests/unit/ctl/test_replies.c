/* SPDX-License-Identifier: Apache-2.0 */
/* send, drain, reset, fault and tap: the JSON, and what people see. */
#include "replies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "ctl_test.h"
#include "tapline.h"

static struct dsr_call call_to(uint32_t type, enum dsr_role role, const char *name, int err,
                               const char *reply)
{
	struct dsr_call call = {.type = type,
	                        .is_done = true,
	                        .err = err,
	                        .incarnation = 900001,
	                        .elapsed_ns = 123456,
	                        .reply = reply != NULL ? json_loads(reply, 0, NULL) : NULL};

	call.target.role = role;
	snprintf(call.target.name, sizeof(call.target.name), "%s", name);
	call.reply_err = (int32_t)json_integer_value(json_object_get(call.reply, "err"));
	return call;
}

/* Text of one print function that takes calls. */
static void golden_calls(const char *name, void (*print)(const struct dsr_call *, uint32_t, FILE *),
                         const struct dsr_call *calls, uint32_t count)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	print(calls, count, out);
	assert_int_equal(fclose(out), 0);
	test_golden_text(name, text);
	free(text);
}

static void print_send(const struct dsr_call *calls, uint32_t count, FILE *out)
{
	for (uint32_t i = 0; i < count; i++)
		dsr_replies_send_print(&calls[i], out);
}

static void print_reset(const struct dsr_call *calls, uint32_t count, FILE *out)
{
	for (uint32_t i = 0; i < count; i++)
		dsr_replies_reset_print(&calls[i], out);
}

static void print_fault(const struct dsr_call *calls, uint32_t count, FILE *out)
{
	dsr_replies_fault_print("load_before_copy:kill", calls, count, out);
	dsr_replies_fault_print("", calls, count, out);
}

static void send_shows_the_reply(void **state)
{
	struct dsr_call call = call_to(DSR_MSG_LOOKUP, DSR_ROLE_SCHEDULER, "scheduler", 0,
	                               "{\"err\":-2,\"hits\":0,\"l1\":0}");

	(void)state;
	assert_int_equal(call.reply_err, -ENOENT);
	test_golden_json("send.json", dsr_replies_send_json(&call));
	golden_calls("send.txt", print_send, &call, 1);
	dsr_call_done(&call);
}

static void drain_shows_each_actor(void **state)
{
	struct dsr_call calls[3] = {
		call_to(DSR_MSG_DRAIN, DSR_ROLE_SCHEDULER, "scheduler", 0,
	                "{\"err\":-110,\"left\":12}"),
		call_to(DSR_MSG_DRAIN, DSR_ROLE_STORE, "store-host:0", 0, "{\"err\":0,\"left\":0}"),
		call_to(DSR_MSG_DRAIN, DSR_ROLE_STORE, "store-host:1", -EOWNERDEAD, NULL),
	};

	(void)state;
	test_golden_json("drain_failed.json", dsr_replies_drain_json(calls, 3));
	test_golden_json("drain.json", dsr_replies_drain_json(&calls[1], 1));
	golden_calls("drain.txt", dsr_replies_drain_print, calls, 3);
	for (int i = 0; i < 3; i++)
		dsr_call_done(&calls[i]);
}

static void reset_shows_what_was_forgotten_or_why_not(void **state)
{
	struct dsr_call calls[2] = {
		call_to(DSR_MSG_RESET, DSR_ROLE_SCHEDULER, "scheduler", 0,
	                "{\"err\":0,\"reason\":\"\",\"entries\":321}"),
		call_to(DSR_MSG_RESET, DSR_ROLE_SCHEDULER, "scheduler", 0,
	                "{\"err\":-16,\"reason\":\"2 engines are attached\",\"entries\":0}"),
	};

	(void)state;
	test_golden_json("reset.json", dsr_replies_reset_json(&calls[0]));
	test_golden_json("reset_refused.json", dsr_replies_reset_json(&calls[1]));
	golden_calls("reset.txt", print_reset, calls, 2);
	for (int i = 0; i < 2; i++)
		dsr_call_done(&calls[i]);
}

static void fault_shows_each_actor(void **state)
{
	struct dsr_call calls[2] = {
		call_to(DSR_MSG_FAULT, DSR_ROLE_LOAD, "load-host:0", 0,
	                "{\"err\":0,\"reason\":\"\"}"),
		call_to(DSR_MSG_FAULT, DSR_ROLE_STORE, "store-host:0", 0,
	                "{\"err\":-22,\"reason\":\"no such point\"}"),
	};

	(void)state;
	test_golden_json("fault.json", dsr_replies_fault_json("load_before_copy:kill", calls, 2));
	golden_calls("fault.txt", print_fault, calls, 2);
	for (int i = 0; i < 2; i++)
		dsr_call_done(&calls[i]);
}

static void fault_points_are_listed(void **state)
{
	json_t *faults = dsr_replies_faults_json();
	char *text;

	(void)state;
	test_golden_json("faults.json", json_incref(faults));
	text = test_print(dsr_replies_faults_print, faults);
	test_golden_text("faults.txt", text);
	free(text);
	json_decref(faults);
}

/* ---- tap ---- */

static json_t *tapped(struct dsr_codec *reader, const char *line, uint32_t type, const void *msg)
{
	struct dsr_env env = {.major = 1, .type = type, .from = 11, .to = 22, .req = 33};
	struct dsr_codec *writer;
	const void *frame;
	size_t bytes;
	json_t *json;

	assert_int_equal(dsr_codec_new(&writer), 0);
	assert_int_equal(dsr_codec_pack(writer, &env, msg, &frame, &bytes), 0);
	json = dsr_tapline_json(reader, "scheduler", UINT64_C(1700000000123456000), line, frame,
	                        bytes);
	dsr_codec_free(&writer);
	assert_non_null(json);
	return json;
}

static void tap_shows_both_directions(void **state)
{
	struct dsr_key keys[6] = {{{1}}, {{2}}, {{3}}, {{4}}, {{5}}, {{6}}};
	struct dsr_ref ref = {.generation = 7, .slot_seq = UINT64_MAX, .entry = 8, .slot = 9};
	struct dsr_msg_lookup lookup = {.keys = {.v = keys, .n = 6}};
	struct dsr_msg_cancel cancel = {.scheduler = 22, .refs = {.v = &ref, .n = 1}};
	struct dsr_codec *codec;
	json_t *in, *out;
	char *text;

	(void)state;
	assert_int_equal(dsr_codec_new(&codec), 0);
	in = tapped(codec, "in engine - 900005", DSR_MSG_LOOKUP, &lookup);
	out = tapped(codec, "out store host:0 900006", DSR_MSG_CANCEL, &cancel);
	dsr_codec_free(&codec);
	text = test_print(dsr_tapline_print, in);
	test_golden_text("tap_in.txt", text);
	free(text);
	text = test_print(dsr_tapline_print, out);
	test_golden_text("tap_out.txt", text);
	free(text);
	test_golden_json("tap_in.json", in);
	test_golden_json("tap_out.json", out);
}

static void tap_shows_what_it_cannot_decode(void **state)
{
	struct dsr_codec *codec;
	json_t *json;
	char *text;

	(void)state;
	assert_int_equal(dsr_codec_new(&codec), 0);
	json = dsr_tapline_json(codec, "scheduler", 0, "in ? - 0", "\xc1\xff\n", 3);
	text = test_print(dsr_tapline_print, json);
	test_golden_text("tap_bad.txt", text);
	free(text);
	test_golden_json("tap_bad.json", json);
	json = dsr_tapline_json(codec, "scheduler", 0, "nonsense", "", 0);
	assert_non_null(json);
	json_decref(json);
	dsr_codec_free(&codec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_shows_the_reply),
		cmocka_unit_test(drain_shows_each_actor),
		cmocka_unit_test(reset_shows_what_was_forgotten_or_why_not),
		cmocka_unit_test(fault_shows_each_actor),
		cmocka_unit_test(fault_points_are_listed),
		cmocka_unit_test(tap_shows_both_directions),
		cmocka_unit_test(tap_shows_what_it_cannot_decode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

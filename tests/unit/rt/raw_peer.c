/* SPDX-License-Identifier: Apache-2.0 */
#include "raw_peer.h"

#include <zmq.h>

#include "link.h"
#include "rt_test.h"
#include "version.h"

struct raw_peer {
	void *zmq;               /* owned */
	void *socket;            /* owned */
	struct dsr_codec *codec; /* owned */
	bool is_router;
	uint8_t id[256]; /* of whom a ROUTER heard last */
	size_t id_bytes;
	uint8_t *frame; /* owned */
};

static struct raw_peer *make(int type)
{
	struct raw_peer *raw = calloc(1, sizeof(*raw));
	int zero = 0;

	assert_non_null(raw);
	raw->is_router = type == ZMQ_ROUTER;
	raw->zmq = zmq_ctx_new();
	raw->socket = zmq_socket(raw->zmq, type);
	raw->frame = malloc(DSR_FRAME_MAX);
	assert_non_null(raw->frame);
	assert_int_equal(zmq_setsockopt(raw->socket, ZMQ_LINGER, &zero, sizeof(zero)), 0);
	assert_int_equal(dsr_codec_new(&raw->codec), 0);
	return raw;
}

struct raw_peer *raw_connect(const char *run_dir, enum dsr_role role, const char *device,
                             const char *own_id)
{
	struct raw_peer *raw = make(ZMQ_DEALER);
	char url[160];
	int hwm = 10;

	assert_int_equal(zmq_setsockopt(raw->socket, ZMQ_RCVHWM, &hwm, sizeof(hwm)), 0);
	if (own_id)
		assert_int_equal(
			zmq_setsockopt(raw->socket, ZMQ_ROUTING_ID, own_id, strlen(own_id)), 0);
	assert_int_equal(dsr_link_endpoint(run_dir, role, device, url, sizeof(url)), 0);
	assert_int_equal(zmq_connect(raw->socket, url), 0);
	return raw;
}

struct raw_peer *raw_bind(const char *run_dir, enum dsr_role role, const char *device)
{
	struct raw_peer *raw = make(ZMQ_ROUTER);
	char url[160];

	assert_int_equal(dsr_link_endpoint(run_dir, role, device, url, sizeof(url)), 0);
	assert_int_equal(zmq_bind(raw->socket, url), 0);
	return raw;
}

void raw_close(struct raw_peer **raw)
{
	assert_int_equal(zmq_close((*raw)->socket), 0);
	assert_int_equal(zmq_ctx_term((*raw)->zmq), 0);
	dsr_codec_free(&(*raw)->codec);
	free((*raw)->frame);
	free(*raw);
	*raw = NULL;
}

static void send_id(struct raw_peer *raw)
{
	if (raw->is_router)
		assert_int_equal(zmq_send(raw->socket, raw->id, raw->id_bytes, ZMQ_SNDMORE),
		                 raw->id_bytes);
}

void raw_send(struct raw_peer *raw, const void *bytes, size_t n)
{
	send_id(raw);
	assert_int_equal(zmq_send(raw->socket, bytes, n, 0), n);
}

void raw_send_two(struct raw_peer *raw, const void *bytes, size_t n)
{
	send_id(raw);
	assert_int_equal(zmq_send(raw->socket, bytes, n, ZMQ_SNDMORE), n);
	assert_int_equal(zmq_send(raw->socket, bytes, n, 0), n);
}

void raw_send_msg(struct raw_peer *raw, const struct dsr_env *env, const void *msg)
{
	const void *frame;
	size_t bytes;

	assert_int_equal(dsr_codec_pack(raw->codec, env, msg, &frame, &bytes), 0);
	raw_send(raw, frame, bytes);
}

void raw_send_hello(struct raw_peer *raw, enum dsr_role role, const char *device,
                    uint64_t incarnation, uint64_t req)
{
	const struct dsr_env env = {.major = DSR_PROTOCOL_MAJOR,
	                            .type = DSR_MSG_HELLO,
	                            .from = incarnation,
	                            .req = req};
	struct dsr_msg_hello m = {.major = DSR_PROTOCOL_MAJOR,
	                          .role = (uint32_t)role,
	                          .device = {device, (uint32_t)strlen(device)},
	                          .pid = getpid(),
	                          .version = {"test", 4}};

	assert_int_equal(dsr_start_ticks(getpid(), &m.start_ticks), 0);
	raw_send_msg(raw, &env, &m);
}

static int recv_part(struct raw_peer *raw, struct dsr_loop *loop, void *buffer, size_t bytes)
{
	uint64_t end_ns = dsr_now_ns() + TEST_WAIT_NS;
	zmq_pollitem_t item = {.socket = raw->socket, .events = ZMQ_POLLIN};
	int n;

	while ((n = zmq_recv(raw->socket, buffer, bytes, ZMQ_DONTWAIT)) == -1) {
		assert_int_equal(errno, EAGAIN);
		assert_true(dsr_now_ns() < end_ns);
		assert_true(dsr_loop_step(loop, 0) >= 0);
		(void)zmq_poll(&item, 1, 1);
	}
	assert_true((size_t)n <= bytes);
	return n;
}

void raw_recv_any(struct raw_peer *raw, struct dsr_loop *loop, struct dsr_env *ret_env,
                  union dsr_msg *ret_msg)
{
	int n;

	if (raw->is_router)
		raw->id_bytes = (size_t)recv_part(raw, loop, raw->id, sizeof(raw->id));
	n = recv_part(raw, loop, raw->frame, DSR_FRAME_MAX);
	assert_int_equal(dsr_codec_unpack(raw->codec, raw->frame, (size_t)n, ret_env, ret_msg), 0);
}

void raw_recv(struct raw_peer *raw, struct dsr_loop *loop, struct dsr_env *ret_env,
              union dsr_msg *ret_msg)
{
	do
		raw_recv_any(raw, loop, ret_env, ret_msg);
	while (ret_env->type == DSR_MSG_PING);
}

void raw_expect(struct raw_peer *raw, struct dsr_loop *loop, uint32_t type, struct dsr_env *ret_env,
                union dsr_msg *ret_msg)
{
	raw_recv(raw, loop, ret_env, ret_msg);
	assert_int_equal(ret_env->type, type);
}

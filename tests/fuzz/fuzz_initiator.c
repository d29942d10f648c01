/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a hostile target can do to a program that uses librdinit, in simulated time: see
 * initiator/scene.h, puppet.h and client.h. Each input gets a target and a program of its own.
 *
 * Input: two bytes of seed, which chooses whose turn it is, a byte with enum scene_mode, then
 * actions. An action is a byte (bits 3:0: enum action; 7:4: a number), and its parameters. What is
 * missing at the end is 0. The program connects with the first action that is not about the
 * target's answers.
 */
#include <string.h>

#include "fuzz.h"
#include "initiator/client.h"
#include "initiator/puppet.h"

#define ACTIONS_MAX 96u

enum action {
	RULE,     /* class, how, skip, times, parameters; number: of the parameters */
	PAGE,     /* number: which; offset (2), bytes, their values */
	FILL,     /* number: which; offset (2), bytes / 8, value */
	CONNECT,  /* number: what happens to a connection request; bytes, their values */
	STEPS,    /* how many */
	TIME,     /* ms, or (80h) half seconds */
	IO,       /* number: which; command, blocks and flags */
	ADMIN,    /* number: which; enum client_admin, value, length (2) */
	LIFE,     /* number: which; enum client_life */
	SEND,     /* number: connection; bytes, their values */
	COMPLETE, /* number: connection; identifier (2), status (2), result */
	EVENT,    /* type, information; number: always, or no longer */
	BREAK,    /* number: connection, and 8: politely */
	RDMA,     /* number: connection, and 8: READ; key, offset (2), length (2) */
	HOLD,     /* number: connection, and 8: both directions; tenths of a second */
	HEAL,     /* what is held arrives */
};

struct input {
	const uint8_t *at, *end;
};

static uint8_t input_byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint16_t input_short(struct input *in)
{
	uint16_t high = input_byte(in);

	return (uint16_t)(high << 8 | input_byte(in));
}

static uint8_t input_bytes(struct input *in, uint8_t *to, size_t room)
{
	size_t len = input_byte(in) % (room + 1), left = (size_t)(in->end - in->at);

	len = len < left ? len : left;
	if (len)
		memcpy(to, in->at, len);
	in->at += len;
	return (uint8_t)len;
}

static void act_rule(struct scene *s, struct input *in, unsigned int n)
{
	struct puppet_rule rule = {0};

	rule.cls = (enum puppet_class)(input_byte(in) % PUPPET_CLASSES);
	rule.how = (enum puppet_how)(input_byte(in) % PUPPET_HOWS);
	rule.skip = input_byte(in);
	rule.times = 1 + input_byte(in);
	for (unsigned int i = 0; i < n && i < sizeof(rule.param); i++)
		rule.param[i] = input_byte(in);
	puppet_add_rule(s->puppet, &rule);
}

static void act_page(struct scene *s, struct input *in, unsigned int n)
{
	uint16_t off = input_short(in);
	uint8_t data[PUPPET_BYTES];
	uint8_t len = input_bytes(in, data, sizeof(data));

	puppet_write_page(s->puppet, (enum puppet_page)(n % PUPPET_PAGES), off, data, len);
}

static void act_fill(struct scene *s, struct input *in, unsigned int n)
{
	uint16_t off = input_short(in);
	size_t len = input_byte(in) * 8u;

	puppet_fill_page(s->puppet, (enum puppet_page)(n % PUPPET_PAGES), off, input_byte(in), len);
}

static void act_plan(struct scene *s, struct input *in, unsigned int n)
{
	struct puppet_plan plan = {.what = n & 3};

	plan.len = input_bytes(in, plan.data, sizeof(plan.data));
	puppet_add_plan(s->puppet, &plan);
}

static void act_time(struct scene *s, struct input *in)
{
	unsigned int n = input_byte(in);

	scene_pass(s, n & 0x80 ? (n & 0x7f) * (RD_NSEC_PER_SEC / 2) : n * RD_NSEC_PER_MSEC, 4000);
}

static void act_io(struct scene *s, struct input *in, unsigned int n)
{
	unsigned int what = input_byte(in), how = input_byte(in);

	client_io(s->client, n, what, 1 + how % 8, how >> 3);
}

static void act_admin(struct scene *s, struct input *in, unsigned int n)
{
	enum client_admin what = (enum client_admin)(input_byte(in) % CLIENT_ADMINS);
	uint8_t value = input_byte(in);

	client_admin(s->client, n, what, value, input_short(in));
}

static void act_send(struct scene *s, struct input *in, unsigned int n)
{
	uint8_t data[PUPPET_BYTES];
	uint8_t len = input_bytes(in, data, sizeof(data));

	puppet_send(s->puppet, n, data, len);
}

static void act_complete(struct scene *s, struct input *in, unsigned int n)
{
	uint16_t cid = input_short(in), status = input_short(in);

	puppet_complete(s->puppet, n, cid, status, input_byte(in));
}

static void act_event(struct scene *s, struct input *in, unsigned int n)
{
	uint32_t type = input_byte(in), event = type | (uint32_t)input_byte(in) << 8;

	if (n == 0)
		puppet_event(s->puppet, event);
	else
		puppet_events(s->puppet, n & 1, event);
}

static void act_rdma(struct scene *s, struct input *in, unsigned int n)
{
	uint32_t key = input_byte(in);
	uint16_t off = input_short(in);

	puppet_rdma(s->puppet, n & 7, n & 8, key, off, input_short(in));
}

static void act(struct scene *s, struct input *in)
{
	uint8_t action = input_byte(in);
	unsigned int n = action >> 4;

	if ((action & 0xf) >= STEPS)
		client_start(s->client);
	switch ((enum action)(action & 0xf)) {
	case RULE:
		act_rule(s, in, n);
		break;
	case PAGE:
		act_page(s, in, n);
		break;
	case FILL:
		act_fill(s, in, n);
		break;
	case CONNECT:
		act_plan(s, in, n);
		break;
	case STEPS:
		scene_pass(s, RD_NSEC_PER_SEC, input_byte(in));
		break;
	case TIME:
		act_time(s, in);
		break;
	case IO:
		act_io(s, in, n);
		break;
	case ADMIN:
		act_admin(s, in, n);
		break;
	case LIFE:
		client_life(s->client, (enum client_life)(input_byte(in) % CLIENT_LIVES), n);
		break;
	case SEND:
		act_send(s, in, n);
		break;
	case COMPLETE:
		act_complete(s, in, n);
		break;
	case EVENT:
		act_event(s, in, n);
		break;
	case BREAK:
		puppet_break(s->puppet, n & 7, n & 8);
		break;
	case RDMA:
		act_rdma(s, in, n);
		break;
	case HOLD:
		puppet_hold(s->puppet, n & 7, n & 8, input_byte(in) * (RD_NSEC_PER_SEC / 10));
		break;
	case HEAL:
		rd_sim_heal(s->sim);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct scene s;
	struct input in = {.at = data, .end = data + size};
	uint64_t seed = 1 + input_short(&in);

	s.trace = getenv("FUZZ_TRACE");
	scene_open(&s, seed, (enum scene_mode)(input_byte(&in) % SCENE_MODES));
	for (unsigned int i = 0; i < ACTIONS_MAX && in.at < in.end; i++)
		act(&s, &in);
	scene_close(&s);
	return 0;
}

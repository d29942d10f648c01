/* SPDX-License-Identifier: BSD-3-Clause */
/* Layers: from the configuration to the I/O that they delay and fail. */
#include "base_suites.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/bdev/engine.h"

#define HEAD                                                                             \
	"listeners: [{address: 127.0.0.1}]\nsubsystems:\n  - nqn: nqn.2026-01.org.e:a\n" \
	"    namespaces:\n      - {nsid: 1, backend: memory, size: 1MiB, layers: ["
#define TAIL "]}\n"

/* Channels of two reactors on one stack, and a clock that the test sets. */
struct stack {
	uint64_t now;
	struct rd_clock clock;
	struct rd_loop *loop;
	struct rdt_engines *engines;
	struct rdt_config *config;
	struct rdt_bdev *bdev;
	struct rdt_chan *chan[2];
};

static uint64_t layers_fake_now(void *arg)
{
	return ((struct stack *)arg)->now;
}

static char said[1024];

static void layers_take_line(void *arg, enum rd_log_level level, const char *line)
{
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", line);
}

static int layers_load(const char *layers, struct rdt_config **config)
{
	char path[] = "/tmp/rdt-layers-XXXXXX";
	int fd = mkstemp(path), rc;
	struct rd_log *log;

	said[0] = 0;
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_TRUE_FATAL(dprintf(fd, HEAD "%s" TAIL, layers) > 0);
	close(fd);
	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_INFO, layers_take_line, NULL, &log), 0);
	rc = rdt_config_load(path, log, config);
	rd_log_destroy(&log);
	unlink(path);
	return rc;
}

static struct stack *stack_new(const char *layers)
{
	struct stack *s = calloc(1, sizeof(*s));
	struct rd_loop_opts loop_opts = {.seed = 7};
	struct rdt_engines_opts opts = {.depth = 4};
	char err[256] = "";

	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	s->now = RD_NSEC_PER_SEC;
	s->clock = (struct rd_clock){layers_fake_now, s};
	loop_opts.clock = &s->clock;
	CU_ASSERT_EQUAL_FATAL(layers_load(layers, &s->config), 0);
	CU_ASSERT_STRING_EQUAL(said, "");
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&loop_opts, &s->loop), 0);
	opts.loop = s->loop;
	CU_ASSERT_EQUAL_FATAL(rdt_engines_create(&opts, &s->engines, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &s->config->subsystems[0].namespaces[0], NULL,
					    &s->bdev, err, sizeof(err)),
			      0);
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL_FATAL(rdt_chan_open(s->bdev, s->engines, &s->chan[i]), 0);
	return s;
}

static void stack_free(struct stack *s)
{
	for (int i = 0; i < 2; i++)
		rdt_chan_close(&s->chan[i]);
	rdt_bdev_close(&s->bdev);
	rdt_engines_destroy(&s->engines);
	CU_ASSERT_EQUAL(rd_loop_turn(s->loop, 0), 0);
	rd_loop_destroy(&s->loop);
	rdt_config_put(&s->config);
	free(s);
}

static void advance(struct stack *s, uint64_t ns)
{
	s->now += ns;
	while (rd_loop_turn(s->loop, 0) > 0)
		;
}

struct t_bio {
	struct rdt_bio bio;
	int done;
};

static void layers_bio_done(struct rdt_bio *bio)
{
	rd_container_of(bio, struct t_bio, bio)->done++;
}

static uint8_t data[4096];

static void layers_start(struct stack *s, struct t_bio *t, enum rdt_bio_op op, uint64_t block,
			 uint64_t blocks)
{
	memset(t, 0, sizeof(*t));
	t->bio.op = (uint8_t)op;
	t->bio.offset = block * 512;
	t->bio.length = blocks * 512;
	t->bio.buf = data;
	t->bio.result = 12345;
	t->bio.done = layers_bio_done;
	memset(t->bio.priv, 0xa5, sizeof(t->bio.priv));
	if (rdt_chan_submit(s->chan[block % 2], &t->bio) == RDT_BIO_DONE)
		t->done = 1;
}

static int layers_run(struct stack *s, enum rdt_bio_op op, uint64_t block, uint64_t blocks)
{
	struct t_bio t;

	layers_start(s, &t, op, block, blocks);
	CU_ASSERT_EQUAL(t.done, 1);
	return t.bio.result;
}

/* ---- delay ---- */

static void delays_by_operation(void)
{
	struct stack *s = stack_new("{type: delay, read: 5ms, write: 200us}");
	struct t_bio r, w, f;

	layers_start(s, &r, RDT_BIO_READ, 0, 1);
	layers_start(s, &w, RDT_BIO_WRITE, 1, 1);
	layers_start(s, &f, RDT_BIO_FLUSH, 0, 0);
	CU_ASSERT_EQUAL(f.done, 1);
	advance(s, 199999);
	CU_ASSERT_EQUAL(w.done, 0);
	advance(s, 1);
	CU_ASSERT_EQUAL(w.done, 1);
	CU_ASSERT_EQUAL(w.bio.result, 0);
	CU_ASSERT_EQUAL(r.done, 0);
	advance(s, 4799999);
	CU_ASSERT_EQUAL(r.done, 0);
	advance(s, 1);
	CU_ASSERT_EQUAL(r.done, 1);
	CU_ASSERT_EQUAL(r.bio.result, 0);
	stack_free(s);
}

/* The backend is memory, without a cache: without one, hosts send no Flush. */
static void a_layer_for_flush_has_a_cache(void)
{
	static const struct {
		const char *layers;
		bool cache;
	} cases[] = {
		{"{type: delay, read: 1ms}", false},
		{"{type: delay, flush: 1ms}", true},
		{"{type: delay, read: 1ms}, {type: delay, flush: 1ms}", true},
		{"{type: error}", false},
		{"{type: error, ops: [write]}", false},
		{"{type: error, ops: [write, flush]}", true},
	};
	char err[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stack *s = stack_new(cases[i].layers);

		CU_ASSERT_EQUAL(rdt_bdev_has_cache(s->bdev), cases[i].cache);
		CU_ASSERT_EQUAL(rdt_bdev_opened(s->bdev, err, sizeof(err)), 0);
		CU_ASSERT_EQUAL(rdt_bdev_has_cache(s->bdev), cases[i].cache);
		stack_free(s);
	}
}

/* Data is transferred when the delay is over, not before. */
static void a_delayed_read_sees_what_was_written_meanwhile(void)
{
	struct stack *s = stack_new("{type: delay, read: 1s}");
	static uint8_t out[512];
	struct t_bio r;

	memset(data, 0x5a, sizeof(data));
	layers_start(s, &r, RDT_BIO_READ, 3, 1);
	r.bio.buf = out;
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_WRITE, 3, 1), 0);
	advance(s, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(r.done, 1);
	CU_ASSERT_EQUAL(memcmp(out, data, 512), 0);
	stack_free(s);
}

static void cancel_reaches_what_a_layer_holds(void)
{
	struct stack *s = stack_new("{type: error, rate: 0.0001%}, {type: delay, flush: 1s, "
				    "write: 2s}, {type: delay, write: 3s, read: 1s}");
	struct t_bio upper, lower, other;
	const struct rdt_bdev_ops *ops = s->bdev->ops;

	layers_start(s, &upper, RDT_BIO_WRITE, 0, 1);
	layers_start(s, &lower, RDT_BIO_WRITE, 0, 1);
	layers_start(s, &other, RDT_BIO_WRITE, 0, 1);
	CU_ASSERT_EQUAL(upper.done + lower.done + other.done, 0);
	ops->cancel(s->chan[0], &upper.bio);
	CU_ASSERT_EQUAL(upper.done, 0); /* from the loop */
	advance(s, 0);
	CU_ASSERT_EQUAL(upper.done, 1);
	CU_ASSERT_EQUAL(upper.bio.result, -ECANCELED);
	advance(s, 2 * RD_NSEC_PER_SEC); /* the others are in the next layer now */
	CU_ASSERT_EQUAL(lower.done, 0);
	ops->cancel(s->chan[0], &lower.bio);
	ops->cancel(s->chan[0], &lower.bio); /* a second cancellation has no effect */
	advance(s, 0);
	CU_ASSERT_EQUAL(lower.done, 1);
	CU_ASSERT_EQUAL(lower.bio.result, -ECANCELED);
	advance(s, 3 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(other.done, 1);
	CU_ASSERT_EQUAL(other.bio.result, 0);
	stack_free(s);
}

/* ---- error ---- */

static void fails_operations_blocks_and_times(void)
{
	struct stack *s =
		stack_new("{type: error, ops: [write], error: ENOSPC, first_block: 10, blocks: 4}");

	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_WRITE, 10, 1), -ENOSPC);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_WRITE, 13, 1), -ENOSPC);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_WRITE, 9, 1), 0);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_WRITE, 14, 1), 0);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_WRITE, 4, 8), -ENOSPC);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_WRITE, 4, 6), 0);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_READ, 10, 4), 0);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_FLUSH, 0, 0), 0);
	stack_free(s);

	s = stack_new("{type: error, skip: 2, count: 3}");
	for (unsigned int i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_READ, i, 1), i >= 2 && i < 5 ? -EIO : 0);
	stack_free(s);
}

static void a_failed_write_writes_nothing(void)
{
	struct stack *s = stack_new("{type: error, ops: [write, write_zeroes], skip: 1, count: 1}");

	memset(data, 0x11, sizeof(data));
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_WRITE, 0, 1), 0);
	memset(data, 0x22, sizeof(data));
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_WRITE, 0, 1), -EIO);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_READ, 0, 1), 0);
	CU_ASSERT_EQUAL(data[0], 0x11);
	stack_free(s);
}

static void a_rate_is_met(void)
{
	struct stack *s = stack_new("{type: error, rate: 10%}");
	unsigned int failed = 0;

	for (unsigned int i = 0; i < 20000; i++)
		failed += layers_run(s, RDT_BIO_READ, 0, 1) == -EIO;
	CU_ASSERT_TRUE(failed > 1800 && failed < 2200);
	stack_free(s);
}

static void a_status_of_its_own(void)
{
	struct stack *s = stack_new("{type: error, status: 0x281}");
	struct t_bio t;

	layers_start(s, &t, RDT_BIO_WRITE, 0, 1);
	CU_ASSERT_EQUAL(t.bio.result, -EIO);
	CU_ASSERT_EQUAL(t.bio.status, 0x281);
	stack_free(s);
}

static void a_file_triggers(void)
{
	char dir[64], layers[160], path[96];
	struct stack *s;

	t_dir_make(dir);
	snprintf(path, sizeof(path), "%s/fail", dir);
	snprintf(layers, sizeof(layers), "{type: error, trigger: %s}", path);
	s = stack_new(layers);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_READ, 0, 1), 0);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_READ, 0, 1), -EIO);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_FLUSH, 0, 0), -ENOTRECOVERABLE);
	unlink(path);
	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_READ, 0, 1), 0);
	stack_free(s);
	t_dir_remove(dir);
}

/* The first in the list is the first to get the I/O. */
static void order_of_layers(void)
{
	struct stack *s = stack_new("{type: error, count: 1}, {type: delay, read: 1s}");
	struct t_bio t;

	CU_ASSERT_EQUAL(layers_run(s, RDT_BIO_READ, 0, 1), -EIO); /* at once */
	layers_start(s, &t, RDT_BIO_READ, 0, 1);
	CU_ASSERT_EQUAL(t.done, 0);
	advance(s, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t.done, 1);
	stack_free(s);

	s = stack_new("{type: delay, read: 1s}, {type: error, count: 1}");
	layers_start(s, &t, RDT_BIO_READ, 0, 1);
	CU_ASSERT_EQUAL(t.done, 0);
	advance(s, RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(t.done, 1);
	CU_ASSERT_EQUAL(t.bio.result, -EIO);
	stack_free(s);
}

static void a_size_is_passed_on(void)
{
	struct stack *s = stack_new("{type: error, count: 1}, {type: delay, write: 1s}");
	char err[256];

	CU_ASSERT_EQUAL(s->bdev->size, 1u << 20);
	CU_ASSERT_EQUAL(t_bdev_resize(s->bdev, 2u << 20, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(s->bdev->size, 2u << 20);
	stack_free(s);
}

/* ---- configuration ---- */

static void bad_layers_are_refused(void)
{
	static const struct {
		const char *layers;
		const char *want;
	} rows[] = {
		{"{type: delay}", "layers[0]: delays nothing"},
		{"{type: delay, read: 5}", "layers[0].read: found \"5\", expected a duration"},
		{"{type: delay, read: 2h}", "read: found \"2h\", expected 0 to 1h"},
		{"{type: delay, read: 1s, rate: 5%}", "rate: is valid only with type error"},
		{"{type: error, read: 1s}", "read: is valid only with type delay"},
		{"{type: error, rate: 5}", "rate: found \"5\", expected a percentage"},
		{"{type: error, rate: 0%}", "rate: found"},
		{"{type: error, rate: 101%}", "rate: found"},
		{"{type: error, rate: -1%}", "rate: found"},
		{"{type: error, error: EFOO}", "error: found \"EFOO\", expected EIO, ENOSPC"},
		{"{type: error, status: 0x800}", "status: found 0x800"},
		{"{type: error, status: 0}", "status: found 0"},
		{"{type: error, status: 0x281, error: EIO}", "together with error"},
		{"{type: error, first_block: 3}", "first_block: needs \"blocks\""},
		{"{type: error, blocks: 0}", "blocks: found 0"},
		{"{type: error, ops: [erase]}", "ops[0]: found \"erase\", expected read, write"},
		{"{type: error, ops: []}", "ops: is empty"},
		{"{type: slow}", "type: found \"slow\", expected delay or error"},
		{"{}", "type: missing"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdt_config *config;

		CU_ASSERT_EQUAL(layers_load(rows[i].layers, &config), -EINVAL);
		if (!strstr(said, rows[i].want)) {
			printf("# %s said:\n# %s", rows[i].layers, said);
			CU_FAIL("another reason");
		}
	}
}

const struct t_case t_layer_cases[] = {
	{"delays, by operation", delays_by_operation},
	{"a layer for Flush makes a cache", a_layer_for_flush_has_a_cache},
	{"a delayed read sees what was written meanwhile",
	 a_delayed_read_sees_what_was_written_meanwhile},
	{"cancel reaches what a layer holds", cancel_reaches_what_a_layer_holds},
	{"fails operations, blocks and times", fails_operations_blocks_and_times},
	{"a failed write writes nothing", a_failed_write_writes_nothing},
	{"a rate is met", a_rate_is_met},
	{"a status of its own", a_status_of_its_own},
	{"a file triggers", a_file_triggers},
	{"the order of layers", order_of_layers},
	{"a size is passed on", a_size_is_passed_on},
	{"bad layers are refused", bad_layers_are_refused},
	{NULL, NULL},
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulated.h"

#include "fuzz.h"

#define START_TIME (1000 * RD_NSEC_PER_SEC)
#define LOOPS_MAX  8u

static void fuzz_log_line(void *arg, enum rd_log_level level, const char *line)
{
	const bool *trace = arg;

	(void)level;
	if (*trace)
		fprintf(stderr, "%s\n", line);
}

void fuzz_create_log(bool *trace, struct rd_log **out)
{
	FUZZ_CHECK(!rd_log_create("fuzz", -1, RD_LOG_INFO, fuzz_log_line, trace, out));
}

static void fuzz_trace_message(void *arg, const char *line)
{
	struct rd_sim *const *sim = arg;
	uint64_t now = rd_sim_now(*sim);

	fprintf(stderr, "%llu.%09llu %s\n", (unsigned long long)(now / RD_NSEC_PER_SEC),
		(unsigned long long)(now % RD_NSEC_PER_SEC), line);
}

void fuzz_create_sim(uint64_t seed, bool trace, struct rd_sim **out)
{
	struct rd_sim_opts opts = {
		.seed = seed,
		.start_ns = START_TIME,
		.latency_ns = 20 * RD_NSEC_PER_USEC,
		.jitter_ns = 50 * RD_NSEC_PER_USEC,
		.trace = trace ? fuzz_trace_message : NULL,
		.trace_arg = out,
	};

	FUZZ_CHECK(!rd_sim_create(&opts, out));
}

bool fuzz_step(struct rd_sim *sim, struct rd_loop *const *loops, unsigned int count, uint64_t until,
	       void (*turn)(void *arg, unsigned int loop), void *arg)
{
	unsigned int ready[LOOPS_MAX], ready_count = 0;
	uint64_t at = rd_sim_next(sim), now = rd_sim_now(sim);

	FUZZ_CHECK(count <= LOOPS_MAX);
	if (now >= until)
		return false;
	rd_sim_run(sim);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t next = loops[i] ? rd_loop_next(loops[i]) : UINT64_MAX;

		if (next <= now)
			ready[ready_count++] = i;
		at = next < at ? next : at;
	}
	if (ready_count) {
		unsigned int loop = ready[rd_sim_below(sim, ready_count)];

		rd_sim_advance(sim, now + RD_NSEC_PER_USEC);
		turn(arg, loop);
	} else {
		rd_sim_advance(sim, at < until ? at : until);
	}
	return true;
}

void fuzz_post_recv(struct rd_fab_conn *conn, const struct rd_fab_mr *mr, void *data, uint32_t len,
		    uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = len, .lkey = mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	FUZZ_CHECK(!rd_fab_post_recv(conn, &wr, &bad));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What is counted of I/O commands, by a clock of the test's own. */
#include <stdlib.h>
#include <string.h>

#include "t_target.h"

#define US RD_NSEC_PER_USEC

static uint8_t buf[T_MDTS];

static struct rdt_reactor *io_reactor(const struct t_pair *p)
{
	return p->io->qp.reactor;
}

/* What is counted of namespace @nsid on the reactor of the I/O queue; NULL: nothing. */
static const struct rdt_ns_stats *of_ns(const struct t_pair *p, uint32_t nsid)
{
	const struct rdt_ns *ns = rdt_ns_with(p->env->t->subsys[0], nsid);

	rdt_io_count_run(io_reactor(p));
	return ns->posts[io_reactor(p)->index].stats;
}

static uint64_t commands(const struct rdt_op_stats *op)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < RDT_LAT_BUCKETS; i++)
		n += op->bucket[i];
	return n;
}

static void start_read(struct t_pair *p, uint32_t blocks)
{

	t_send_rw(p->io, false, 0, blocks, buf);
	t_turn(p->env);
}

static void latencies_of_all_values_have_a_bucket(void)
{
	uint64_t begin = 0;

	for (unsigned int i = 0; i < RDT_LAT_BUCKETS; i++) {
		uint64_t end = rdt_lat_end(i);

		CU_ASSERT_FATAL(end > begin);
		CU_ASSERT_EQUAL(rdt_lat_index(begin), i);
		CU_ASSERT_EQUAL(rdt_lat_index(end - 1), i);
		/* At most a quarter wide */
		CU_ASSERT_TRUE(end - begin <= 1024 || end - begin <= begin / 4);
		begin = end;
	}
	CU_ASSERT_EQUAL(rdt_lat_index(begin), RDT_LAT_BUCKETS - 1);
	CU_ASSERT_EQUAL(rdt_lat_index(UINT64_MAX), RDT_LAT_BUCKETS - 1);
	CU_ASSERT_TRUE(begin > 15 * RD_NSEC_PER_SEC);
}

static void a_read_is_counted_with_its_latency(void)
{
	T_PAIR(p);
	const struct rdt_op_stats *op;

	CU_ASSERT_PTR_NULL(of_ns(&p, 1));
	p.env->disk[0].hold = true;
	p.io->hold_respond = true;
	start_read(&p, 8);
	t_advance(p.env, 100 * US);
	t_disk_finish(&p.env->disk[0], 0, 0);
	t_turn(p.env);
	CU_ASSERT_PTR_NULL(of_ns(&p, 1)); /* it is not answered yet */
	t_advance(p.env, 20 * US);
	p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_PTR_NOT_NULL_FATAL(of_ns(&p, 1));
	op = &of_ns(&p, 1)->op[RDT_IO_READ];
	CU_ASSERT_EQUAL(op->bytes, 4096);
	CU_ASSERT_EQUAL(op->ns, 120 * US);
	CU_ASSERT_EQUAL(op->bucket[rdt_lat_index(120 * US)], 1);
	CU_ASSERT_EQUAL(commands(op), 1);
	CU_ASSERT_STRING_EQUAL_FATAL(p.io->qp.counters->hostnqn, T_HOST);
	op = &p.io->qp.counters->op[RDT_IO_READ];
	CU_ASSERT_EQUAL(op->bytes, 4096);
	CU_ASSERT_EQUAL(commands(op), 1);
	CU_ASSERT_EQUAL(commands(&p.io->qp.counters->op[RDT_IO_WRITE]), 0);
}

/* Reads in one batch of completions: three that are alike, then one of another length. */
static void alike_commands_of_a_batch_are_counted_together(void)
{
	static const unsigned int blocks[] = {8, 8, 8, 16};
	T_PAIR(p);
	struct rdt_reactor *r = io_reactor(&p);
	const struct rdt_op_stats *op;

	p.io->hold_respond = true;
	for (unsigned int i = 0; i < 4; i++) {

		t_send_rw(p.io, false, 0, blocks[i], buf);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(p.io->responds_count, 4);
	for (unsigned int i = 0; i < 4; i++)
		rdt_req_responded(p.io->responds[i]);
	p.io->responds_count = 0;
	CU_ASSERT_EQUAL(r->run.count, 1); /* the last one */
	op = &p.io->qp.counters->op[RDT_IO_READ];
	CU_ASSERT_EQUAL(commands(op), 3);
	CU_ASSERT_EQUAL(op->bytes, 3 * 4096);
	/* The totals have them all before the reactor sleeps. */
	CU_ASSERT_EQUAL(commands(&r->totals.op[RDT_IO_READ]), 3);
	rd_loop_turn(r->loop, 1);
	CU_ASSERT_EQUAL(commands(&r->totals.op[RDT_IO_READ]), 4);
	op = &of_ns(&p, 1)->op[RDT_IO_READ];
	CU_ASSERT_EQUAL(commands(op), 4);
	CU_ASSERT_EQUAL(op->bytes, 3 * 4096 + 8192);
}

static void failures_are_counted_by_status(void)
{
	T_PAIR(p);
	const struct rdt_io_errors *errors = &p.io->qp.counters->errors;
	struct nvme_sqe sqe;

	t_rw(p.io, false, T_BLOCKS, 8, buf);
	t_rw(p.io, false, T_BLOCKS, 8, buf);
	t_rw_sqe(p.io, &sqe, false, 0, 8, buf);
	sqe.nsid = htole32(99);
	t_exec(p.io, &sqe);
	CU_ASSERT_PTR_NOT_NULL_FATAL(of_ns(&p, 1));
	CU_ASSERT_EQUAL(of_ns(&p, 1)->errors.status[0], NVME_SC_LBA_RANGE);
	CU_ASSERT_EQUAL(of_ns(&p, 1)->errors.count[0], 2);
	CU_ASSERT_EQUAL(of_ns(&p, 1)->errors.status[1], 0);
	CU_ASSERT_EQUAL(of_ns(&p, 1)->op[RDT_IO_READ].bytes, 0);
	CU_ASSERT_EQUAL(commands(&of_ns(&p, 1)->op[RDT_IO_READ]), 2);
	CU_ASSERT_EQUAL(errors->count[0], 2);
	CU_ASSERT_EQUAL(errors->status[1], NVME_SC_INVALID_NS);
	CU_ASSERT_EQUAL(errors->count[1], 1);
	CU_ASSERT_EQUAL(commands(&p.io->qp.counters->op[RDT_IO_READ]), 3);
	CU_ASSERT_EQUAL(rdt_counted(&io_reactor(&p)->totals.failed), 3);
}

static void host_leaves(struct t_pair *p)
{
	struct rdt_reactor *r = io_reactor(p);

	t_conn_cut(p->io);
	t_conn_cut(p->admin);
	t_turn(p->env);
	CU_ASSERT_EQUAL(r->qpairs_count, 0);
}

static void what_a_host_did_stays_in_the_sums_when_it_leaves(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_reactor *r = io_reactor(&p);
	uint64_t count = 0, connects = 0, disconnects = 0;

	start_read(&p, 8);
	host_leaves(&p);
	for (const struct rdt_host_counters *counters =
		     rdt_host_counters_next(&r->counters_list.nobody);
	     counters; counters = rdt_host_counters_next(counters)) {
		CU_ASSERT_PTR_NULL(counters->hostnqn);
		CU_ASSERT_EQUAL(counters->qpairs, 0);
		count += commands(&counters->op[RDT_IO_READ]);
		connects += counters->events[RDT_COUNT_CONNECTS];
		disconnects += counters->events[RDT_COUNT_ENDS + RDT_END_HOST];
	}
	CU_ASSERT_EQUAL(r->counters_list.nobody.qpairs, 0);
	CU_ASSERT_EQUAL(count, 1);
	CU_ASSERT_EQUAL(connects, 1);
	CU_ASSERT_EQUAL(disconnects, 1);
	t_env_free(p.env);
}

/* What a reader finds: the sum of reads, and the number of counters of hosts. */
static uint64_t sum_of_reads(struct rdt_reactor *r, unsigned int *hosts)
{
	uint64_t sum = 0;

	*hosts = 0;
	for (const struct rdt_host_counters *counters = &r->counters_list.nobody; counters;
	     counters = rdt_host_counters_next(counters)) {
		*hosts += counters->hostnqn != NULL;
		sum += commands(&counters->op[RDT_IO_READ]);
	}
	return sum;
}

/* A reader holds the lists between two slices, while a host leaves and another one comes. */
static void a_reader_finds_each_counter_once_while_hosts_come_and_go(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_reactor *r = io_reactor(&p);
	struct t_answer answer;
	struct t_conn *more;
	unsigned int hosts;

	start_read(&p, 8);
	rdt_counters_list_hold(&r->counters_list);
	host_leaves(&p);
	CU_ASSERT_EQUAL(sum_of_reads(r, &hosts), 1);
	CU_ASSERT_EQUAL(hosts, 1); /* its counters stay where the reader may be */
	more = t_conn_new(p.env, r->index, 0, 8);
	answer = t_connect_as(more, NVMF_CNTLID_DYNAMIC, T_HOST2, 2);
	CU_ASSERT_EQUAL(t_status(&answer), 0);
	CU_ASSERT_EQUAL(sum_of_reads(r, &hosts), 1);
	CU_ASSERT_EQUAL(hosts, 2);
	rdt_counters_list_release(&r->counters_list);
	t_conn_cut(more);
	t_turn(p.env);
	CU_ASSERT_EQUAL(sum_of_reads(r, &hosts), 1);
	CU_ASSERT_EQUAL(hosts, 0);
	CU_ASSERT_PTR_NULL(TAILQ_FIRST(&r->counters_list.left));
	t_env_free(p.env);
}

static void a_host_that_comes_back_has_its_counters(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_reactor *r = io_reactor(&p);
	struct t_conn *more;
	unsigned int hosts;

	start_read(&p, 8);
	rdt_counters_list_hold(&r->counters_list);
	host_leaves(&p);
	more = t_conn_new(p.env, r->index, 0, 8);
	t_connect(more, NVMF_CNTLID_DYNAMIC);
	rdt_counters_list_release(&r->counters_list);
	CU_ASSERT_PTR_NULL(TAILQ_FIRST(&r->counters_list.left));
	CU_ASSERT_EQUAL(commands(&more->qp.counters->op[RDT_IO_READ]), 1);
	CU_ASSERT_EQUAL(sum_of_reads(r, &hosts), 1);
	CU_ASSERT_EQUAL(hosts, 1);
	t_conn_cut(more);
	t_turn(p.env);
	CU_ASSERT_EQUAL(sum_of_reads(r, &hosts), 1);
	CU_ASSERT_EQUAL(hosts, 0);
	t_env_free(p.env);
}

static unsigned int walks_done;

static void walk_ended(struct rdt_reactor *r)
{
	walks_done++;
}

static void walk(struct t_pair *p)
{
	struct rdt_reactor *r = io_reactor(p);

	r->walk.done = walk_ended;
	r->walk.msg.fn = rdt_walk_begin;
	rd_loop_post(r->loop, &r->walk.msg);
	walks_done = 0;
	t_turn(p->env);
	CU_ASSERT_EQUAL(walks_done, 1);
}

static void a_walk_finds_what_is_in_flight_and_the_oldest(void)
{
	T_PAIR(p);
	struct rdt_reactor *r = io_reactor(&p);
	const struct rdt_in_flight *f =
		&rdt_ns_with(p.env->t->subsys[0], 1)->posts[r->index].in_flight;
	uint64_t first;

	p.env->disk[0].hold = true;
	start_read(&p, 8);
	first = p.env->now;
	t_advance(p.env, 7 * US);
	start_read(&p, 8);
	walk(&p);
	CU_ASSERT_EQUAL(r->walk.found.io_queues, 1);
	CU_ASSERT_EQUAL(r->walk.found.in_flight, 2);
	CU_ASSERT_EQUAL(f->walk, r->walk.number);
	CU_ASSERT_EQUAL(f->count, 2);
	CU_ASSERT_EQUAL(f->oldest, first);
	CU_ASSERT_EQUAL(p.io->qp.counters->in_flight.count, 2);
	CU_ASSERT_EQUAL(p.io->qp.counters->in_flight.oldest, first);
	t_disk_finish(&p.env->disk[0], 0, 0);
	walk(&p);
	CU_ASSERT_EQUAL(f->count, 1);
	CU_ASSERT_EQUAL(f->oldest, first + 7 * US);
	t_disk_finish(&p.env->disk[0], 0, 0);
	walk(&p);
	CU_ASSERT_NOT_EQUAL(f->walk, r->walk.number); /* nothing is in flight */
	CU_ASSERT_EQUAL(r->walk.found.in_flight, 0);
}

/* Between two slices, the queue pair to look at next is freed. */
static void a_walk_skips_a_queue_that_leaves(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *more = t_conn_new(p.env, 1, 2, 8);
	struct rdt_reactor *r = io_reactor(&p);

	t_connect(more, p.cntlid);
	CU_ASSERT_PTR_EQUAL_FATAL(TAILQ_NEXT(&p.io->qp, link), &more->qp);
	r->walk.qpairs.next = &p.io->qp;
	TAILQ_INSERT_TAIL(&r->walks, &r->walk.qpairs, link);
	t_conn_cut(p.io);
	t_turn(p.env);
	CU_ASSERT_PTR_EQUAL(r->walk.qpairs.next, &more->qp);
	t_conn_cut(more);
	t_turn(p.env);
	CU_ASSERT_PTR_NULL(r->walk.qpairs.next);
	TAILQ_REMOVE(&r->walks, &r->walk.qpairs, link);
	t_conn_cut(p.admin);
	t_turn(p.env);
	t_env_free(p.env);
}

#define QUEUES 24u
#define ASKED  8u

struct visits {
	struct rdt_qpair_walk walk;
	unsigned int *visited; /* of all walks, in this turn */
	unsigned int seen;     /* queue pairs that this one has visited */
	unsigned int ended;
};

static void visit_counted(struct rdt_qpair_walk *walk, struct rdt_qpair *qp)
{
	struct visits *v = rd_container_of(walk, struct visits, walk);

	CU_ASSERT_PTR_EQUAL(walk->reactor, qp->reactor);
	++*v->visited;
	v->seen++;
}

static void visits_ended(struct rdt_qpair_walk *walk)
{
	rd_container_of(walk, struct visits, walk)->ended++;
}

/* Eight clients ask at once, and each look at the clock takes a tenth of a slice. */
static void walks_share_one_slice_of_a_turn(void)
{
	T_PAIR(p);
	struct rdt_reactor *r = io_reactor(&p);
	struct visits walks[ASKED] = {0};
	unsigned int visited = 0, most = 0, turns = 0;

	while (r->qpairs_count < QUEUES)
		t_conn_new(p.env, r->index, 1, 8);
	for (unsigned int i = 0; i < ASKED; i++) {
		walks[i].walk.visit = visit_counted;
		walks[i].walk.end = visits_ended;
		walks[i].visited = &visited;
		rdt_qpair_walk_begin(r, &walks[i].walk);
	}
	p.env->tick = RDT_WALK_SLICE / 10;
	while (!TAILQ_EMPTY(&r->walks)) {
		visited = 0;
		rd_loop_turn(r->loop, 0);
		most = visited > most ? visited : most;
		turns++;
	}
	p.env->tick = 0;
	CU_ASSERT_EQUAL(most, 10);
	CU_ASSERT_EQUAL(turns, (ASKED * QUEUES + 9) / 10);
	for (unsigned int i = 0; i < ASKED; i++) {
		CU_ASSERT_EQUAL(walks[i].seen, QUEUES);
		CU_ASSERT_EQUAL(walks[i].ended, 1);
	}
}

const struct t_case t_io_stats_cases[] = {
	{"latencies of all values have a bucket", latencies_of_all_values_have_a_bucket},
	{"a read is counted with its latency", a_read_is_counted_with_its_latency},
	{"alike commands of a batch are counted together",
	 alike_commands_of_a_batch_are_counted_together},
	{"failures are counted by status", failures_are_counted_by_status},
	{"what a host did stays in the sums when it leaves",
	 what_a_host_did_stays_in_the_sums_when_it_leaves},
	{"a reader finds each counter once while hosts come and go",
	 a_reader_finds_each_counter_once_while_hosts_come_and_go},
	{"a host that comes back has its counters", a_host_that_comes_back_has_its_counters},
	{"a walk finds what is in flight, and the oldest",
	 a_walk_finds_what_is_in_flight_and_the_oldest},
	{"a walk skips a queue that leaves", a_walk_skips_a_queue_that_leaves},
	{"walks share one slice of a turn", walks_share_one_slice_of_a_turn},
	{NULL, NULL},
};

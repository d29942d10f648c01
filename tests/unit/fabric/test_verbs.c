/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs provider: connections and their ends on a real device, and its behaviour without a
 * device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/cm_event.h"
#include "fabric/verbs/err.h"
#include "fabric/verbs/quirk.h"
#include "fabric/verbs/testing.h"
#include "suites.h"
#include "t_fab.h"
#include "util/sockaddr.h"

static uint8_t mem[65536];

/* ---- anywhere ---- */

static void errors(void)
{
	CU_ASSERT_EQUAL(rd_vb_err(0), 0);
	CU_ASSERT_EQUAL(rd_vb_err(EINVAL), -EINVAL); /* ibv_post_send() and similar calls */
	errno = ENOMEM;
	CU_ASSERT_EQUAL(rd_vb_err(-1), -ENOMEM); /* rdma_cm */
	CU_ASSERT_EQUAL(rd_vb_err(-EAGAIN), -EAGAIN);
	errno = 0;
	CU_ASSERT_EQUAL(rd_vb_err(-1), -EIO); /* never success */
}

static void reject_texts(void)
{
	struct rd_vb_cm_event ev = {.type = RDMA_CM_EVENT_REJECTED, .status = 28, .pd_len = 148};
	bool by_peer;
	int status;

	rd_vb_reject_text(false, &ev, &status, &by_peer);
	CU_ASSERT(by_peer && status == -ECONNREFUSED);
	ev.status = 8; /* from the CM of the peer's host; its padding is not private data */
	CU_ASSERT_PTR_NOT_NULL(
		strstr(rd_vb_reject_text(false, &ev, &status, &by_peer), "nobody listens"));
	CU_ASSERT(!by_peer && status == -ECONNREFUSED);
	ev.status = 10;
	rd_vb_reject_text(false, &ev, &status, &by_peer);
	CU_ASSERT(!by_peer && status == -ECONNRESET);
	ev.status = 9999;
	CU_ASSERT_PTR_NOT_NULL(rd_vb_reject_text(false, &ev, &status, &by_peer));
	CU_ASSERT(!by_peer && status == -ECONNREFUSED);
	/* iWARP: an errno, and the private data with it */
	ev = (struct rd_vb_cm_event){.status = -ECONNRESET, .pd_len = 4};
	rd_vb_reject_text(true, &ev, &status, &by_peer);
	CU_ASSERT(by_peer && status == -ECONNREFUSED);
	ev.pd_len = 0;
	rd_vb_reject_text(true, &ev, &status, &by_peer);
	CU_ASSERT(!by_peer && status == -ECONNRESET);
}

/* By transport and vendor, independent of the device's name. */
static void quirks(void)
{
	struct ibv_device device = {.transport_type = IBV_TRANSPORT_IWARP, .name = "x0"};
	struct ibv_device_attr attr = {.vendor_id = 0x626d74};
	const struct rd_vb_quirk *none = rd_vb_quirk_of(NULL);

	CU_ASSERT_PTR_EQUAL(rd_vb_quirk_match(&device, &attr), &rd_vb_quirk_siw);
	attr.vendor_id = 0x8086;
	CU_ASSERT_PTR_EQUAL(rd_vb_quirk_match(&device, &attr), none);
	attr.vendor_id = 0x626d74;
	device.transport_type = IBV_TRANSPORT_IB;
	CU_ASSERT_PTR_EQUAL(rd_vb_quirk_match(&device, &attr), none);
	CU_ASSERT(!none->hidden_wrs && !none->sigpipe && !none->open && !none->established);
}

/* On a machine with a device the device suite checks more. */
static void no_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool none = !list || !list[0];
	struct rd_loop_opts lo = {0};
	struct sockaddr_storage ss;
	struct rd_fab *fab = NULL;
	struct rd_loop *loop;
	int fds = t_count_fds();

	if (list)
		ibv_free_device_list(list);
	if (!none)
		return;
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&lo, &loop), 0);
	CU_ASSERT_EQUAL(rd_fab_verbs_open(loop, NULL, &fab), -ENODEV);
	CU_ASSERT_PTR_NULL(fab);
	rd_loop_destroy(&loop);
	rd_addr_parse("127.0.0.1", 4420, &ss);
	CU_ASSERT(!rd_fab_verbs_has_addr((struct sockaddr *)&ss));
	rd_addr_parse("::", 0, &ss);
	CU_ASSERT(!rd_fab_verbs_has_addr((struct sockaddr *)&ss));
	CU_ASSERT_EQUAL(t_count_fds(), fds);
}

/* ---- on a device ---- */

static void whose_address(void)
{
	struct sockaddr_storage ss;
	int fds = t_count_fds();

	rd_addr_parse(getenv("RD_TEST_ADDR"), 4420, &ss);
	CU_ASSERT(rd_fab_verbs_has_addr((struct sockaddr *)&ss));
	rd_addr_parse(getenv("RD_TEST_ADDR6"), 0, &ss);
	CU_ASSERT(rd_fab_verbs_has_addr((struct sockaddr *)&ss));
	rd_addr_parse("0.0.0.0", 4420, &ss);
	CU_ASSERT(rd_fab_verbs_has_addr((struct sockaddr *)&ss));
	rd_addr_parse("127.0.0.1", 4420, &ss);
	CU_ASSERT(!rd_fab_verbs_has_addr((struct sockaddr *)&ss));
	/* The question opens no device: nobody would notice its removal. */
	CU_ASSERT_EQUAL(t_count_fds(), fds);
}

static void verbs_private_data(void)
{
	static const size_t lens[] = {0, 1, 32, 56};
	uint8_t pd[56];

	t_fill(pd, sizeof(pd), 1);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct t_opts o = {.cparam = {.private_data = pd, .private_len = lens[i]},
				   .sparam = {.private_data = pd, .private_len = lens[i]}};
		struct t_pair p;

		t_pair_connect(&p, &o);
		CU_ASSERT(p.req_pd_len >= lens[i]);
		CU_ASSERT(t_filled(p.req_pd, lens[i], 1));
		CU_ASSERT(p.cl.pd_len >= lens[i]);
		CU_ASSERT(t_filled(p.cl.pd, lens[i], 1));
		CU_ASSERT_EQUAL(p.cl.conn->ord, 16);
		CU_ASSERT_EQUAL(p.sv.conn->ord, 16);
		CU_ASSERT_EQUAL(p.seen_ird, 16);
		CU_ASSERT(rd_addr_port((struct sockaddr *)&p.sv.conn->local) ==
			  rd_addr_port((struct sockaddr *)&p.lis->addr));
		t_pair_close(&p);
	}
}

/* The limit of one side is that of the other, in the opposite direction. */
static void different_depths(void)
{
	struct t_opts o = {.cparam = {.ird = 5, .ord = 9}, .sparam = {.ird = 2, .ord = 8}};
	struct t_pair p;

	t_pair_connect(&p, &o);
	CU_ASSERT_EQUAL(p.sv.conn->ord, 5);
	CU_ASSERT_EQUAL(p.cl.conn->ird, 5);
	/* siw accepts as many as requested (relaxed_ird_negotiation of Linux 6.1). */
	CU_ASSERT(p.cl.conn->ord == 2 || (p.cl.conn->ord == 9 && rd_vb_test_is_iwarp(p.cl.dev)));
	t_pair_close(&p);
	/* A peer that issues no READs does not limit what it holds. */
	o.cparam = (struct rd_fab_conn_param){.ird = 4, .ord = 1};
	o.sparam = (struct rd_fab_conn_param){.ird = 0xffff, .ord = 16};
	t_pair_connect(&p, &o);
	CU_ASSERT_EQUAL(p.cl.conn->ird, 4);
	CU_ASSERT_EQUAL(p.sv.conn->ord, 4);
	t_pair_close(&p);
}

static void wrong_states(void)
{
	struct t_opts o = {.no_accept = true};
	struct rd_fab_conn_param big = {.private_data = mem};
	T_PAIR(p);

	t_pair_open(&p, &o);
	t_pair_start(&p);
	T_UNTIL(&p, p.sv.conn);
	CU_ASSERT_FATAL(p.sv.conn != NULL);
	big.private_len = p.sv.dev->caps.max_private_data + 1u;
	CU_ASSERT_EQUAL(rd_fab_accept(p.sv.conn, &big), -EINVAL); /* no queue pair yet */
	CU_ASSERT_EQUAL(rd_fab_reject(p.sv.conn, mem, big.private_len), -EMSGSIZE);
	CU_ASSERT_EQUAL(rd_fab_connect(p.sv.conn, &big), -EINVAL);
	CU_ASSERT_EQUAL(rd_fab_reject(p.sv.conn, "\0\0\6\0", 4), 0);
	T_UNTIL(&p, p.cl.rejected);
	CU_ASSERT_EQUAL(p.cl.status, -ECONNREFUSED);
	CU_ASSERT(p.cl.pd_len >= 4);
	CU_ASSERT_EQUAL(p.cl.pd[2], 6);
	CU_ASSERT_EQUAL(p.sv.disconnected, 0);
}

/* The peer disconnects while its request is on its way to another loop. */
static void void_request(void)
{
	struct t_opts o = {.manual = true};
	T_PAIR(p);
	uint64_t end;

	t_pair_open(&p, &o);
	t_pair_start(&p);
	T_UNTIL(&p, p.req);
	CU_ASSERT_FATAL(p.req != NULL);
	rd_fab_disconnect(p.cl.conn);
	T_UNTIL(&p, p.cl.disconnected);
	/* The connection ends, whether the event has arrived already or not. */
	end = t_now() + 20 * RD_NSEC_PER_MSEC;
	while (t_now() < end)
		t_turn(&p, RD_NSEC_PER_MSEC);
	t_adopt(&p, p.req);
	rd_fab_conn_destroy(&p.cl.conn);
	T_UNTIL(&p, !p.sv.conn || p.sv.disconnected);
}

static void bad_addresses(void)
{
	struct rd_fab_listener *second = NULL;
	struct sockaddr_storage ss;
	T_PAIR(p);

	t_pair_open(&p, NULL);
	CU_ASSERT_EQUAL(
		rd_fab_listen(p.sv.fab, (struct sockaddr *)&p.lis->addr, 1, p.lis->fn, &p, &second),
		-EADDRINUSE);
	rd_addr_parse("127.0.0.1", 0, &ss);
	CU_ASSERT(rd_fab_listen(p.sv.fab, (struct sockaddr *)&ss, 1, p.lis->fn, &p, &second) < 0);
	CU_ASSERT_PTR_NULL(second);
	rd_addr_parse("0.0.0.0", 0, &ss);
	CU_ASSERT_EQUAL(rd_fab_listen(p.sv.fab, (struct sockaddr *)&ss, 1, p.lis->fn, &p, &second),
			0);
	CU_ASSERT_NOT_EQUAL(rd_addr_port((struct sockaddr *)&second->addr), 0);
	rd_fab_unlisten(&second);
}

/* ---- ends ---- */

static void flush(int who)
{
	struct ibv_recv_wr rwr = {.wr_id = 90}, *rbad;
	struct ibv_send_wr *bad, wr = {.wr_id = 91, .opcode = IBV_WR_SEND};
	struct rd_fab_mr *ma;
	T_PAIR(p);
	int n;

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	for (uint64_t i = 0; i < 5; i++)
		t_recv(&p.cl, 100 + i, ma, 0, 16);
	if (who == 0)
		rd_fab_disconnect(p.cl.conn);
	else if (who == 1)
		rd_fab_disconnect(p.sv.conn);
	else if (who == 2)
		rd_fab_conn_destroy(&p.sv.conn);
	else /* the peer has no such key */
		t_rdma(&p.cl, IBV_WR_RDMA_READ, 7, ma, 0, 8, 8, 9);
	T_UNTIL(&p, p.cl.disconnected && (!p.sv.conn || p.sv.disconnected));
	n = who == 3 ? 6 : 5;
	T_UNTIL(&p, p.cl.nwc == n);
	for (int i = 0, next = 100; i < n; i++) {
		CU_ASSERT_NOT_EQUAL(p.cl.wc[i].status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(p.cl.wc[i].qp_num, p.cl.conn->qp_num);
		if (p.cl.wc[i].wr_id == 7) {
			CU_ASSERT_EQUAL(p.cl.wc[i].opcode, IBV_WC_RDMA_READ);
		} else {
			CU_ASSERT_EQUAL(p.cl.wc[i].wr_id, (uint64_t)next);
			next++;
		}
	}
	/* Work requests that are posted now are flushed too. */
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
	CU_ASSERT_EQUAL(rd_fab_post_recv(p.cl.conn, &rwr, &rbad), 0);
	T_UNTIL(&p, p.cl.nwc == n + 2);
	CU_ASSERT_EQUAL(p.cl.wc[n].wr_id, 91);
	CU_ASSERT_EQUAL(p.cl.wc[n].status, IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(p.cl.wc[n + 1].wr_id, 90);
	rd_fab_disconnect(p.cl.conn);
	t_turn(&p, 0);
	CU_ASSERT_EQUAL(p.cl.disconnected, 1);
	CU_ASSERT(who > 1 || p.cl.status == 0);
}

static void flushes(void)
{
	for (int who = 0; who < 4; who++)
		flush(who);
}

/* Every accepted work request completes, also those posted while the queue pair fails. */
static void end_under_load(void)
{
	for (int round = 0; round < 10; round++) {
		struct rd_fab_mr *ma, *mb;
		struct t_pair p;
		int posted = 0;
		uint64_t end;

		t_pair_connect(&p, NULL);
		ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
		mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
		end = t_now() + (uint64_t)(5 + round) * RD_NSEC_PER_MSEC;
		while (!p.cl.disconnected && t_now() < end + T_WAIT) {
			while (posted < T_MAX_WC / 2 &&
			       t_rdma(&p.cl, posted & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
				      (uint64_t)posted, ma, 0, 4096, rd_fab_remote_addr(mb, mem),
				      mb->rkey) == 0)
				if (++posted % 8 == 0)
					break;
			if (t_now() > end && p.sv.conn)
				rd_fab_conn_destroy(&p.sv.conn);
			t_turn(&p, 0);
		}
		T_UNTIL(&p, p.cl.nwc == posted);
		for (int i = 0; i < p.cl.nwc; i++)
			CU_ASSERT_EQUAL(p.cl.wc[i].wr_id, (uint64_t)i);
		CU_ASSERT_EQUAL(p.cl.disconnected, 1);
		t_pair_close(&p);
	}
}

/* ---- completions ---- */

static void count_notify(struct rd_fab_cq *cq, void *arg)
{
	(*(int *)arg)++;
}

static void verbs_notification(void)
{
	struct rd_fab_mr *ma, *mb;
	int notified = 0;
	T_PAIR(p);
	uint64_t end;

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, 64, T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, 64, T_ACCESS_ALL);
	p.sv.no_poll = true;
	p.sv.cq->fn = count_notify;
	p.sv.cq->arg = &notified;
	for (int i = 0; i < 4; i++)
		t_recv(&p.sv, 1, mb, 0, 64);
	for (int i = 1; i <= 2; i++) {
		CU_ASSERT_EQUAL(rd_fab_cq_arm(p.sv.cq), 0);
		t_turn(&p, 0);
		t_send(&p.cl, 1, ma, 0, 8);
		T_UNTIL(&p, notified == i);
		t_send(&p.cl, 1, ma, 0, 8); /* not armed: no event */
		T_UNTIL(&p, p.cl.nwc == 2 * i);
		end = t_now() + 5 * RD_NSEC_PER_MSEC;
		while (t_now() < end)
			t_turn(&p, RD_NSEC_PER_MSEC);
		CU_ASSERT_EQUAL(notified, i);
		p.sv.no_poll = false;
		T_UNTIL(&p, p.sv.nwc == 2 * i);
		p.sv.no_poll = true;
	}
	p.sv.cq->fn = NULL;
}

struct served {
	struct ibv_wc wc[4];
	int n;
};

static void serve(struct rd_fab_cq *cq, void *arg)
{
	struct served *s = arg;
	int n;

	while ((n = rd_fab_cq_poll(cq, 4, s->wc)) > 0)
		s->n += n;
	CU_ASSERT_EQUAL(rd_fab_cq_arm(cq), 0);
}

/* A loop that spins requests no notification; a loop that sleeps is woken by one. */
static void armed_before_sleep(void)
{
	struct served served = {.n = 0};
	const uint64_t *arms;
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);
	uint64_t before, end;

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, 64, T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, 64, T_ACCESS_ALL);
	arms = &rd_vb_test_stats(p.sv.fab)->arms;
	p.sv.no_poll = true;
	p.sv.cq->fn = serve;
	p.sv.cq->arg = &served;
	CU_ASSERT_EQUAL(rd_fab_cq_arm(p.sv.cq), 0);
	before = *arms;
	end = t_now() + T_WAIT;
	for (int i = 1; i <= 50; i++) {
		t_recv(&p.sv, 1, mb, 0, 64);
		t_send(&p.cl, 1, ma, 0, 8);
		while (served.n < i && t_now() < end)
			t_turn(&p, 0);
	}
	CU_ASSERT_EQUAL(served.n, 50);
	CU_ASSERT_EQUAL(*arms, before);
	for (int i = 51; i <= 53; i++) {
		t_recv(&p.sv, 1, mb, 0, 64);
		/* The event of a completion that was found before may come late and end a sleep. */
		T_UNTIL(&p, *arms > before);
		before = *arms;
		t_send(&p.cl, 1, ma, 0, 8);
		/* Without the notification it would sleep for all of that time. */
		end = t_now() + T_WAIT / 2;
		while (served.n < i && t_now() < end)
			t_turn(&p, T_WAIT);
		CU_ASSERT_EQUAL(served.n, i);
		CU_ASSERT(t_now() < end);
	}
	p.sv.cq->fn = NULL;
}

static void verbs_purged(void)
{
	struct rd_fab_mr *ma, *mb;
	struct ibv_wc wc[4];
	T_PAIR(p);

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	p.cl.no_poll = true;
	for (uint64_t i = 0; i < 10; i++) {
		t_recv(&p.sv, i, mb, 0, 8);
		t_send(&p.cl, i, ma, 0, 8);
	}
	T_UNTIL(&p, p.sv.nwc == 10);
	CU_ASSERT_EQUAL(rd_fab_cq_poll(p.cl.cq, 4, wc), 4);
	rd_fab_conn_destroy(&p.cl.conn);
	CU_ASSERT_EQUAL(rd_fab_cq_poll(p.cl.cq, 4, wc), 0);
}

/* More READs than the device may have outstanding: they wait in order. More than the queue holds:
 * refused. */
static void verbs_read_depth(void)
{
	struct t_opts o = {.cparam = {.ord = 2}, .sparam = {.ird = 2}};
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	t_pair_connect(&p, &o);
	CU_ASSERT_EQUAL(p.cl.conn->ord, 2);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	for (uint64_t i = 0; i < 64; i++)
		CU_ASSERT_EQUAL(t_rdma(&p.cl, IBV_WR_RDMA_READ, i, ma, 0, 512,
				       rd_fab_remote_addr(mb, mem + 4096), mb->rkey),
				0);
	CU_ASSERT_EQUAL(t_send(&p.cl, 64, ma, 0, 4), -ENOMEM);
	T_UNTIL(&p, p.cl.nwc == 64);
	for (int i = 0; i < p.cl.nwc; i++) {
		CU_ASSERT_EQUAL(p.cl.wc[i].wr_id, (uint64_t)i);
		CU_ASSERT_EQUAL(p.cl.wc[i].status, IBV_WC_SUCCESS);
	}
}

static void gather_and_inline(void)
{
	struct rd_fab_mr *ma, *mb;
	struct ibv_sge sge[2];
	struct ibv_send_wr *bad, wr = {.wr_id = 5,
				       .sg_list = sge,
				       .num_sge = 2,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};
	T_PAIR(p);

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, 32768, T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem + 32768, 32768, T_ACCESS_ALL);
	t_fill(mem, 32, 9);
	sge[0] = (struct ibv_sge){(uintptr_t)mem, 10, ma->lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)mem + 10, 22, ma->lkey};
	for (int i = 0; i < 2; i++) {
		if (i && p.cl.dev->caps.max_inline < 32)
			break;
		memset(mem + 32768, 0, 64);
		t_recv(&p.sv, 1, mb, 0, 64);
		wr.send_flags |= i ? IBV_SEND_INLINE : 0;
		CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
		T_UNTIL(&p, p.sv.nwc == i + 1 && p.cl.nwc == i + 1);
		CU_ASSERT_EQUAL(p.sv.wc[i].byte_len, 32);
		CU_ASSERT(t_filled(mem + 32768, 32, 9));
	}
	/* Work requests that would be lost are refused. */
	if (p.cl.dev->caps.max_inline && !p.cl.dev->caps.inline_with_inv) {
		wr.opcode = IBV_WR_SEND_WITH_INV;
		CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), -EINVAL);
		wr.opcode = IBV_WR_SEND;
	}
	wr.num_sge = 99;
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), -EINVAL);
	CU_ASSERT_PTR_EQUAL(bad, &wr);
}

/* Work requests of one turn are posted together; the caller's lists are not used after the call. */
static void one_batch_for_a_turn(void)
{
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);
	uint64_t before;

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, 4096, IBV_ACCESS_LOCAL_WRITE);
	mb = t_reg(&p.sv, mem + 4096, 4096, IBV_ACCESS_LOCAL_WRITE);
	for (unsigned int i = 0; i < 20; i++)
		t_recv(&p.sv, i, mb, (size_t)16 * i, 16);
	before = rd_vb_test_stats(p.cl.fab)->batches;
	for (unsigned int i = 0; i < 20; i++) {
		uint8_t word[8] = {(uint8_t)i, 1, 2, 3, 4, 5, 6, 7};
		struct ibv_sge sge = {(uintptr_t)word, sizeof(word), 0};
		struct ibv_send_wr *bad, wr = {.wr_id = i,
					       .sg_list = &sge,
					       .num_sge = 1,
					       .opcode = IBV_WR_SEND,
					       .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};

		if (i % 2 || rd_vb_test_conn(p.cl.conn).max_inline < sizeof(word)) {
			memcpy(mem + (size_t)16 * i, word, sizeof(word));
			sge = (struct ibv_sge){(uintptr_t)mem + (size_t)16 * i, sizeof(word),
					       ma->lkey};
			wr.send_flags = IBV_SEND_SIGNALED;
		}
		CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
		memset(word, 0xee, sizeof(word));
		sge = (struct ibv_sge){0};
	}
	CU_ASSERT_EQUAL(rd_vb_test_stats(p.cl.fab)->batches, before);
	T_UNTIL(&p, p.cl.nwc == 20 && p.sv.nwc == 20);
	CU_ASSERT_EQUAL(rd_vb_test_stats(p.cl.fab)->batches, before + 1);
	for (unsigned int i = 0; i < 20; i++) {
		CU_ASSERT(p.cl.wc[i].wr_id == i && p.cl.wc[i].status == IBV_WC_SUCCESS);
		CU_ASSERT(p.sv.wc[i].wr_id == i && p.sv.wc[i].byte_len == 8);
		CU_ASSERT(mem[4096 + 16 * i] == i && mem[4096 + 16 * i + 7] == 7);
	}
}

static void verbs_shared_receive_queue(void)
{
	struct t_opts o = {.srq = true};
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	t_pair_connect(&p, &o);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	for (int round = 0; round < 3; round++) {
		p.cl.nwc = p.sv.nwc = 0;
		for (uint64_t i = 0; i < 64; i++)
			CU_ASSERT_EQUAL(t_recv(&p.sv, 1000 + i, mb, 0, 16), 0);
		CU_ASSERT_EQUAL(t_recv(&p.sv, 1, mb, 0, 16), -ENOMEM);
		for (uint64_t i = 0; i < 64; i++)
			CU_ASSERT_EQUAL(t_send(&p.cl, i, ma, 0, 8), 0);
		T_UNTIL(&p, p.cl.nwc == 64 && p.sv.nwc == 64);
		for (int i = 0; i < p.sv.nwc; i++) {
			CU_ASSERT_EQUAL(p.sv.wc[i].wr_id, 1000u + (uint64_t)i);
			CU_ASSERT_EQUAL(p.sv.wc[i].qp_num, p.sv.conn->qp_num);
		}
	}
}

/* No CQ of a device is large enough for all queue pairs that use it. */
static void many_on_one_cq(void)
{
	enum { N = 24 };
	struct rd_fab_conn *first[N] = {NULL};
	struct t_opts o = {.depth = 256};
	T_PAIR(p);

	t_pair_connect(&p, &o);
	for (int i = 0; i < N; i++) {
		first[i] = p.cl.conn;
		p.cl.conn = NULL;
		p.cl.established = p.sv.established = 0;
		rd_fab_conn_destroy(&p.sv.conn);
		p.cl.disconnected = 0;
		t_pair_start(&p);
		T_UNTIL(&p, p.cl.established && p.sv.established);
	}
	CU_ASSERT(rd_vb_test_cq_segments(p.cl.cq) > 1);
	for (int i = 0; i < N; i++)
		rd_fab_conn_destroy(&first[i]);
}

const struct t_case t_no_device_cases[] = {
	{"errors of all conventions become -errno", errors},
	{"reasons of a reject", reject_texts},
	{"the quirks of a device go by its transport and vendor", quirks},
	{"opening verbs fails cleanly", no_device},
	{NULL},
};

/* ---- nobody answers ---- */

/* Behind an interface that resolves no neighbour and drops everything, siw's rdma_connect() blocks.
 */
static void start_in_vain(struct t_pair *p, struct rd_fab_listener *silent)
{
	struct sockaddr_storage ss;

	t_pair_open(p, NULL);
	CU_ASSERT_EQUAL_FATAL(rd_addr_parse(getenv("RD_TEST_SILENT"), 4420, &ss), 0);
	silent->addr = ss;
	rd_fab_unlisten(&p->lis);
	p->opts.timeout_ns = RD_NSEC_PER_SEC;
	p->lis = silent;
	t_pair_start(p);
	p->lis = NULL;
}

static void silence_times_out(void)
{
	struct rd_fab_listener silent = {0};
	uint64_t longest = 0, start = t_now();
	struct t_pair p T_ENDS(t_pair_close);

	start_in_vain(&p, &silent);
	while (!p.cl.failed && t_now() - start < T_WAIT) {
		uint64_t before = t_now();

		t_turn(&p, RD_NSEC_PER_MSEC);
		if (t_now() - before > longest)
			longest = t_now() - before;
	}
	CU_ASSERT_EQUAL(p.cl.resolved, 1);
	CU_ASSERT_EQUAL(p.cl.failed, 1);
	CU_ASSERT_EQUAL(p.cl.status, -ETIMEDOUT);
	/* No turn of the loop was blocked by it. */
	CU_ASSERT(longest < 500 * RD_NSEC_PER_MSEC);
}

static void silence_destroyed(void)
{
	struct rd_fab_listener silent = {0};
	struct t_pair p;
	uint64_t start;

	for (int i = 0; i < 2; i++) {
		start_in_vain(&p, &silent);
		T_UNTIL(&p, p.cl.resolved);
		for (start = t_now(); i && t_now() - start < 100 * RD_NSEC_PER_MSEC;)
			t_turn(&p, RD_NSEC_PER_MSEC);
		start = t_now();
		rd_fab_conn_destroy(&p.cl.conn);
		CU_ASSERT(t_now() - start < T_WAIT / 5);
		t_pair_close(&p);
	}
}

const struct t_case t_silent_cases[] = {
	{"a peer that does not answer: a timeout, and the loop goes on", silence_times_out},
	{"a connection to one is destroyed at once", silence_destroyed},
	{NULL},
};

/* Before librdmacm has found a device. */
const struct t_case t_verbs_first_cases[] = {
	{"whose address it is", whose_address},
	{NULL},
};

const struct t_case t_verbs_cases[] = {
	{"errors of all conventions become -errno", errors},
	{"reasons of a reject", reject_texts},
	{"private data and depths", verbs_private_data},
	{"depths that differ", different_depths},
	{"reject with private data, and calls in the wrong state", wrong_states},
	{"a request whose sender left", void_request},
	{"nobody listens", t_nobody_listens},
	{"addresses in use, of no device, and of all", bad_addresses},
	{"everything posted is flushed in order, whoever ends it", flushes},
	{"an end under load loses no work request", end_under_load},
	{"arm, one notification", verbs_notification},
	{"armed before a sleep, and only then", armed_before_sleep},
	{"completions of a destroyed connection vanish", verbs_purged},
	{"READs beyond the depth wait, sends beyond the queue are refused", verbs_read_depth},
	{"several scatter/gather entries, and inline", gather_and_inline},
	{"what a turn posts is given to the device together", one_batch_for_a_turn},
	{"a shared receive queue", verbs_shared_receive_queue},
	{"more queue pairs than one CQ holds", many_on_one_cq},
	{NULL},
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of keyed descriptors in the capsule. */
#include <stdlib.h>
#include <string.h>

#include "t_target.h"

#define KEYS 64

struct list {
	struct nvme_sqe sqe;
	union nvme_sgl desc[KEYS];
	unsigned int n;
	uint8_t *data; /* offset of the next part */
};

static void start(struct t_pair *p, struct list *l, bool write, uint32_t blocks, uint8_t *data)
{
	memset(l, 0, sizeof(*l));
	t_rw_sqe(p->io, &l->sqe, write, 0, blocks, data);
	l->data = data;
}

static void sgl_list_add(struct list *l, uint32_t len, uint32_t key, uint8_t type)
{
	nvme_sgl_set_keyed(&l->desc[l->n++], (uintptr_t)l->data, len, key, type);
	l->data += len;
}

static void point(struct list *l, uint64_t offset, uint32_t len)
{
	memset(&l->sqe.sgl, 0, sizeof(l->sqe.sgl));
	l->sqe.sgl.data.offset = htole64(offset);
	l->sqe.sgl.data.length = htole32(len);
	l->sqe.sgl.data.type = NVME_SGL_LAST_IN_CAPSULE;
}

static struct t_answer sgl_list_send_list(struct t_pair *p, struct list *l)
{
	if (l->sqe.sgl.data.type != NVME_SGL_LAST_IN_CAPSULE)
		point(l, 0, l->n * 16);
	t_send(p->io, &l->sqe, l->desc, l->n * 16);
	t_turn(p->env);
	return t_answer(p->io);
}

/* Parts of odd lengths, some of them empty, each with its key. */
static void gathers(void)
{
	static const uint32_t cuts[] = {1, 510, 0, 3, 4096, 0, 1510};
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	uint8_t *data T_FREE = malloc(12 * 512);
	struct t_answer a;
	struct list l;

	for (size_t i = 0; i < 12 * 512; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8));
	for (int write = 1; write >= 0; write--) {
		start(&p, &l, write, 12, data);
		for (unsigned int i = 0; i < 7; i++)
			sgl_list_add(&l, cuts[i], T_KEY + i, NVME_SGL_KEYED_ADDRESS);
		sgl_list_add(&l, 12 * 512 - 6120, T_KEY, NVME_SGL_KEYED_ADDRESS);
		a = sgl_list_send_list(&p, &l);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		CU_ASSERT_FALSE(a.invalidate);
		CU_ASSERT_EQUAL(memcmp(d->data, data, 12 * 512), 0);
		memset(data, 0, 12 * 512);
		if (write)
			memcpy(d->data + 12 * 512, d->data, 12 * 512);
	}
	t_pair_free(&p);
}

/* Read: each part of the answer is in its place. */
static void scatters(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	uint8_t *data T_FREE = calloc(1, 4096);
	struct t_answer a;
	struct list l;

	for (size_t i = 0; i < 4096; i++)
		d->data[i] = (uint8_t)(i * 5 + (i >> 9));
	start(&p, &l, false, 8, data);
	for (unsigned int i = 0; i < 16; i++)
		sgl_list_add(&l, 256, T_KEY + i, NVME_SGL_KEYED_ADDRESS);
	a = sgl_list_send_list(&p, &l);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_TRUE(a.with_data);
	CU_ASSERT_EQUAL(memcmp(data, d->data, 4096), 0);
	t_pair_free(&p);
}

static void malformed(void)
{
	static const struct {
		uint64_t offset;
		uint32_t len;
		uint16_t want;
	} cases[] = {
		{0, 32, 0},
		{16, 16, 0},
		{0, 0, NVME_SC_SGL_INVALID_LAST},
		{0, 31, NVME_SC_SGL_INVALID_LAST},
		{0, 48, NVME_SC_SGL_INVALID_LAST}, /* more than arrived */
		{24, 16, NVME_SC_SGL_INVALID_LAST},
		{0, 17 * 16, NVME_SC_SGL_INVALID_COUNT},
		{0, 0xfffffff0, NVME_SC_SGL_INVALID_COUNT},
		{T_INCAPSULE + 1, 16, NVME_SC_SGL_INVALID_OFFSET},
		{UINT64_MAX - 15, 16, NVME_SC_SGL_INVALID_OFFSET},
		{0, 16, NVME_SC_SGL_INVALID_DATA}, /* half of the data only */
	};
	T_PAIR(p);
	static uint8_t data[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct t_answer a;
		struct list l;

		start(&p, &l, true, 1, data);
		sgl_list_add(&l, i == 1 ? 512 : 256, T_KEY, NVME_SGL_KEYED_ADDRESS);
		sgl_list_add(&l, i == 1 ? 512 : 256, T_KEY, NVME_SGL_KEYED_ADDRESS);
		point(&l, cases[i].offset, cases[i].len);
		a = sgl_list_send_list(&p, &l);
		CU_ASSERT_EQUAL(t_status(&a), cases[i].want);
		CU_ASSERT_EQUAL(t_dnr(&a), cases[i].want != 0);
	}
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 2);
}

static void wrong_types(void)
{
	static const struct {
		uint8_t type;
		uint16_t want;
	} cases[] = {
		{NVME_SGL_IN_CAPSULE, NVME_SC_INVALID_FIELD},
		{0x00, NVME_SC_INVALID_FIELD},
		{0x42, NVME_SC_INVALID_FIELD},
		{NVME_SGL_LAST_IN_CAPSULE, NVME_SC_SGL_INVALID_TYPE},
		{0x20, NVME_SC_SGL_INVALID_TYPE},
		{0x10, NVME_SC_SGL_INVALID_TYPE},
	};
	T_PAIR(p);
	static uint8_t data[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct t_answer a;
		struct list l;

		start(&p, &l, true, 1, data);
		sgl_list_add(&l, 256, T_KEY, NVME_SGL_KEYED_INVALIDATE);
		sgl_list_add(&l, 256, T_KEY, cases[i].type);
		a = sgl_list_send_list(&p, &l);
		CU_ASSERT_EQUAL(t_status(&a), cases[i].want);
		CU_ASSERT_FALSE(a.invalidate);
	}
}

/* A key is invalidated only if exactly one is requested; of several none is. */
static void invalidation(void)
{
	T_PAIR(p);
	static uint8_t data[1024];
	struct t_answer a;
	struct list l;

	for (uint32_t ask = 0; ask < 16; ask++) {
		start(&p, &l, true, 2, data);
		for (uint32_t i = 0; i < 4; i++)
			sgl_list_add(&l, 256, T_KEY + i,
				     ask >> i & 1 ? NVME_SGL_KEYED_INVALIDATE
						  : NVME_SGL_KEYED_ADDRESS);
		a = sgl_list_send_list(&p, &l);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		CU_ASSERT_EQUAL(a.invalidate, __builtin_popcount(ask) == 1);
		if (a.invalidate)
			CU_ASSERT_EQUAL(a.key, T_KEY + (uint32_t)__builtin_ctz(ask));
	}
	/* The same key four times is one key. */
	start(&p, &l, true, 2, data);
	for (uint32_t i = 0; i < 4; i++)
		sgl_list_add(&l, 256, T_KEY, NVME_SGL_KEYED_INVALIDATE);
	a = sgl_list_send_list(&p, &l);
	CU_ASSERT_TRUE(a.invalidate);
	/* An empty descriptor causes no transfer. */
	start(&p, &l, true, 1, data);
	sgl_list_add(&l, 0, T_KEY + 1, NVME_SGL_KEYED_INVALIDATE);
	sgl_list_add(&l, 512, T_KEY, NVME_SGL_KEYED_INVALIDATE);
	a = sgl_list_send_list(&p, &l);
	CU_ASSERT_TRUE(a.invalidate);
	CU_ASSERT_EQUAL(a.key, T_KEY);
}

/* Commands without data may have an empty list, and so may admin commands. */
static void elsewhere(void)
{
	T_PAIR(p);
	static uint8_t id[4096];
	struct t_answer a;
	struct list l;

	start(&p, &l, true, 1, NULL);
	t_sqe(p.io, &l.sqe, nvme_cmd_flush, NULL, 0);
	l.sqe.nsid = htole32(1);
	sgl_list_add(&l, 0, 0, NVME_SGL_KEYED_ADDRESS);
	sgl_list_add(&l, 0, 0, NVME_SGL_KEYED_ADDRESS);
	a = sgl_list_send_list(&p, &l);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	start(&p, &l, true, 1, id);
	t_sqe(p.admin, &l.sqe, nvme_admin_identify, id, sizeof(id));
	l.sqe.cdw10 = htole32(NVME_IDENTIFY_CNS_CTRL);
	for (unsigned int i = 0; i < 4; i++)
		sgl_list_add(&l, 1024, T_KEY, NVME_SGL_KEYED_ADDRESS);
	point(&l, 0, 64);
	t_send(p.admin, &l.sqe, l.desc, 64);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.admin), 0);
	CU_ASSERT_EQUAL(((struct nvme_id_ctrl *)id)->msdbd, 16);
	CU_ASSERT_EQUAL(memcmp(((struct nvme_id_ctrl *)id)->subnqn, T_NQN, sizeof(T_NQN)), 0);
}

const struct t_case t_sgl_list_cases[] = {
	{"parts of any length, each with its key", gathers},
	{"data of a read is spread over the parts", scatters},
	{"malformed lists get the right status", malformed},
	{"other descriptors in a list", wrong_types},
	{"which key is invalidated", invalidation},
	{"empty lists, and lists of admin commands", elsewhere},
	{NULL, NULL},
};

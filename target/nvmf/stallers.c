/* SPDX-License-Identifier: BSD-3-Clause */
#include "stallers.h"

#include <stdlib.h>
#include <string.h>

#include "nvmf/text.h"
#include "peers.h"
#include "qpair.h"
#include "reactor.h"

#define ADDRESS_MAX 32u

static uint64_t staller_key(const struct rdt_qpair *qp, const char *hostnqn)
{
	uint8_t text[ADDRESS_MAX + NVMF_NQN_MAX];
	size_t len = rdt_peer_address(qp, text, ADDRESS_MAX), nqn = strlen(hostnqn);
	uint64_t high;

	memcpy(text + len, hostnqn, nqn);
	high = rdt_peer_hash(text, len + nqn);
	text[0] ^= 0x55; /* another hash of the same */
	return high << 32 | rdt_peer_hash(text, len + nqn) | 1;
}

void rdt_staller_note(const struct rdt_qpair *qp, const char *hostnqn)
{
	struct rdt_stallers *s = &qp->reactor->stallers;
	uint64_t key = staller_key(qp, hostnqn);
	struct rdt_staller *e, *set;

	if (!s->table)
		s->table = calloc(RDT_STALLER_SETS, sizeof(*s->table));
	if (!s->table)
		return;
	set = e = s->table[(key >> 32) % RDT_STALLER_SETS];
	for (unsigned int i = 0; i < RDT_STALLER_WAYS; i++) {
		if (set[i].key == key) {
			e = &set[i];
			break;
		}
		if (set[i].until < e->until)
			e = &set[i];
	}
	*e = (struct rdt_staller){key, rd_loop_now(qp->reactor->loop) + RDT_STALLER_NS};
}

bool rdt_staller_known(const struct rdt_qpair *qp, const char *hostnqn)
{
	const struct rdt_stallers *s = &qp->reactor->stallers;
	uint64_t key, now = rd_loop_now(qp->reactor->loop);

	if (!s->table)
		return false;
	key = staller_key(qp, hostnqn);
	for (unsigned int i = 0; i < RDT_STALLER_WAYS; i++) {
		const struct rdt_staller *e = &s->table[(key >> 32) % RDT_STALLER_SETS][i];

		if (e->key == key && e->until > now)
			return true;
	}
	return false;
}

void rdt_stallers_fini(struct rdt_stallers *s)
{
	free(s->table);
	s->table = NULL;
}

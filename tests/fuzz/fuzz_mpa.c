/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA requests and replies: length, parse, answer, check, build. */
#include <string.h>

#include "fabric/iwarp/mpa.h"
#include "fuzz.h"

static void same(const struct rd_iw_mpa *a, const struct rd_iw_mpa *b)
{
	FUZZ_CHECK(a->reply == b->reply && a->markers == b->markers && a->crc == b->crc);
	FUZZ_CHECK(a->reject == b->reject && a->enhanced == b->enhanced);
	FUZZ_CHECK(a->p2p == b->p2p && a->rtr_send == b->rtr_send);
	FUZZ_CHECK(a->rtr_write == b->rtr_write && a->rtr_read == b->rtr_read);
	FUZZ_CHECK(a->revision == b->revision && a->ird == b->ird && a->ord == b->ord);
	FUZZ_CHECK(a->pd_len == b->pd_len && !memcmp(a->pd, b->pd, a->pd_len));
}

/* A parsed message can be built again, with the same meaning. */
static void fuzz_mpa_round_trip(const struct rd_iw_mpa *m)
{
	uint8_t buf[RD_MPA_MAX_LEN];
	struct rd_iw_mpa again;
	const char *why = NULL;
	int n = rd_iw_mpa_build(m, buf);

	FUZZ_CHECK(n > 0 && (size_t)n <= sizeof(buf));
	FUZZ_CHECK(rd_iw_mpa_length(buf, (size_t)n, m->reply, &why) == n);
	FUZZ_CHECK(rd_iw_mpa_parse(buf, (size_t)n, m->reply, &again, &why) == 0);
	same(m, &again);
}

static void as_responder(const struct rd_iw_mpa *req)
{
	static const struct rd_iw_depths wants[] = {{0, 0}, {1, 1}, {128, 16}};

	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		struct rd_iw_mpa reply = {.pd = "xyz", .pd_len = 3};
		struct rd_iw_depths eff, theirs;
		enum rd_iw_rtr rtr;
		const char *why;
		uint32_t term;

		rd_iw_mpa_answer(req, &wants[i], false, &reply, &eff);
		fuzz_mpa_round_trip(&reply);
		FUZZ_CHECK(reply.enhanced == req->enhanced && (reply.crc || !req->crc));
		FUZZ_CHECK(eff.ord <= wants[i].ord && eff.ird <= wants[i].ird + 1);
		if (!req->enhanced || req->markers)
			continue;
		if (req->ird != RD_MPA_ENH_NO_NEGO)
			FUZZ_CHECK(eff.ord <= req->ird);
		/* Both sides understand our messages, and never issue more READs than the other
		 * side holds. */
		FUZZ_CHECK(!rd_iw_mpa_check(req, &reply, &theirs, &rtr, &term, &why));
		if (req->ird != RD_MPA_ENH_NO_NEGO)
			FUZZ_CHECK(eff.ord <= theirs.ird);
		if (req->ord != RD_MPA_ENH_NO_NEGO)
			FUZZ_CHECK(theirs.ord <= eff.ird);
		FUZZ_CHECK(!req->p2p || rtr != RD_IW_RTR_NONE);
	}
}

static void as_initiator(const struct rd_iw_mpa *reply)
{
	for (int p2p = 0; p2p < 2; p2p++) {
		struct rd_iw_mpa req = {.enhanced = true,
					.revision = 2,
					.p2p = p2p,
					.rtr_write = p2p,
					.rtr_read = p2p,
					.ird = 16,
					.ord = 1};
		struct rd_iw_depths eff;
		const char *why = NULL;
		enum rd_iw_rtr rtr;
		uint32_t term = 0;

		if (rd_iw_mpa_check(&req, reply, &eff, &rtr, &term, &why)) {
			FUZZ_CHECK(why && term);
			continue;
		}
		FUZZ_CHECK(eff.ird <= req.ird && eff.ord <= req.ord);
		FUZZ_CHECK(p2p || rtr == RD_IW_RTR_NONE);
		FUZZ_CHECK(rtr != RD_IW_RTR_READ || reply->ird > 0);
	}
}

static void one_kind(const uint8_t *data, size_t size, bool reply)
{
	uint8_t frame[RD_MPA_MAX_LEN];
	const char *why = NULL;
	struct rd_iw_mpa m;
	size_t have = 0;

	/* As from a socket: never more bytes than are known to be needed. */
	for (;;) {
		int need = rd_iw_mpa_length(frame, have, reply, &why);

		if (need < 0) {
			FUZZ_CHECK(why);
			return;
		}
		FUZZ_CHECK((size_t)need >= have && (size_t)need <= sizeof(frame));
		if ((size_t)need == have)
			break;
		if (have == size)
			return;
		frame[have] = data[have];
		have++;
	}
	if (rd_iw_mpa_parse(frame, have, reply, &m, &why)) {
		FUZZ_CHECK(why);
		return;
	}
	FUZZ_CHECK((const uint8_t *)m.pd + m.pd_len == frame + have);
	fuzz_mpa_round_trip(&m);
	if (reply)
		as_initiator(&m);
	else
		as_responder(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	one_kind(data, size, false);
	one_kind(data, size, true);
	return 0;
}

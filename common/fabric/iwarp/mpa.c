/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpa.h"

#include <errno.h>

int rd_iw_mpa_build(const struct rd_iw_mpa *m, uint8_t *buf)
{
	struct rd_mpa_hdr hdr = {.revision = m->revision};
	size_t enh_len = m->enhanced ? sizeof(struct rd_mpa_enh) : 0;

	if (m->pd_len + enh_len > RD_MPA_MAX_PD)
		return -EMSGSIZE;
	memcpy(hdr.key, m->reply ? RD_MPA_KEY_REP : RD_MPA_KEY_REQ, RD_MPA_KEY_LEN);
	hdr.flags = (uint8_t)((m->markers ? RD_MPA_F_MARKERS : 0) | (m->crc ? RD_MPA_F_CRC : 0) |
			      (m->reject ? RD_MPA_F_REJECT : 0) |
			      (m->enhanced ? RD_MPA_F_ENHANCED : 0));
	hdr.pd_len = rd_put_be16((uint16_t)(m->pd_len + enh_len));
	memcpy(buf, &hdr, sizeof(hdr));
	if (m->enhanced) {
		uint16_t ird = m->ird & RD_MPA_ENH_DEPTH, ord = m->ord & RD_MPA_ENH_DEPTH;
		struct rd_mpa_enh enh;

		if (m->p2p) {
			ird |= RD_MPA_ENH_A | (m->rtr_send ? RD_MPA_ENH_B : 0);
			ord |= (m->rtr_write ? RD_MPA_ENH_C : 0) | (m->rtr_read ? RD_MPA_ENH_D : 0);
		}
		enh.ird = rd_put_be16(ird);
		enh.ord = rd_put_be16(ord);
		memcpy(buf + sizeof(hdr), &enh, sizeof(enh));
	}
	if (m->pd_len)
		memcpy(buf + sizeof(hdr) + enh_len, m->pd, m->pd_len);
	return (int)(sizeof(hdr) + enh_len + m->pd_len);
}

int rd_iw_mpa_length(const uint8_t *buf, size_t len, bool reply, const char **why)
{
	const char *key = reply ? RD_MPA_KEY_REP : RD_MPA_KEY_REQ;
	struct rd_mpa_hdr hdr;
	uint16_t pd_len;

	/* Checked from the first byte on: a peer of another protocol may send nothing more. */
	if (memcmp(buf, key, len < RD_MPA_KEY_LEN ? len : RD_MPA_KEY_LEN) != 0) {
		*why = reply ? "no MPA reply key" : "no MPA request key";
		return -EPROTO;
	}
	if (len < sizeof(hdr))
		return sizeof(hdr);
	memcpy(&hdr, buf, sizeof(hdr));
	if (hdr.revision > RD_MPA_REVISION) {
		*why = "unknown MPA revision";
		return -EPROTO;
	}
	pd_len = rd_get_be16(hdr.pd_len);
	if (pd_len > RD_MPA_MAX_PD) {
		*why = "MPA private data too long";
		return -EPROTO;
	}
	return (int)(sizeof(hdr) + pd_len);
}

int rd_iw_mpa_parse(const uint8_t *buf, size_t len, bool reply, struct rd_iw_mpa *m,
		    const char **why)
{
	struct rd_mpa_hdr hdr;
	struct rd_mpa_enh enh;
	uint16_t ird, ord;

	memset(m, 0, sizeof(*m));
	memcpy(&hdr, buf, sizeof(hdr));
	m->reply = reply;
	m->revision = hdr.revision;
	m->markers = hdr.flags & RD_MPA_F_MARKERS;
	m->crc = hdr.flags & RD_MPA_F_CRC;
	m->reject = reply && (hdr.flags & RD_MPA_F_REJECT);
	/* Before revision 2 the bit is reserved: sent as zero and ignored. */
	m->enhanced = hdr.revision >= 2 && (hdr.flags & RD_MPA_F_ENHANCED);
	m->pd = buf + sizeof(hdr);
	m->pd_len = len - sizeof(hdr);
	if (!m->enhanced)
		return 0;
	if (m->pd_len < sizeof(enh)) {
		*why = "enhanced MPA frame without its depths";
		return -EPROTO;
	}
	memcpy(&enh, m->pd, sizeof(enh));
	m->pd = buf + sizeof(hdr) + sizeof(enh);
	m->pd_len -= sizeof(enh);
	ird = rd_get_be16(enh.ird);
	ord = rd_get_be16(enh.ord);
	m->ird = ird & RD_MPA_ENH_DEPTH;
	m->ord = ord & RD_MPA_ENH_DEPTH;
	m->p2p = ird & RD_MPA_ENH_A;
	m->rtr_send = m->p2p && (ird & RD_MPA_ENH_B);
	m->rtr_write = m->p2p && (ord & RD_MPA_ENH_C);
	m->rtr_read = m->p2p && (ord & RD_MPA_ENH_D);
	return 0;
}

static uint16_t min16(uint16_t a, uint16_t b)
{
	return a < b ? a : b;
}

void rd_iw_mpa_answer(const struct rd_iw_mpa *req, const struct rd_iw_depths *want, bool crc,
		      struct rd_iw_mpa *reply, struct rd_iw_depths *eff)
{
	reply->reply = true;
	reply->markers = false;
	reply->crc = crc || req->crc;
	reply->enhanced = req->enhanced;
	reply->revision = req->revision;
	*eff = *want;
	if (!req->enhanced)
		return; /* no depths in the request: the defaults of the ULP apply */

	if (req->ord != RD_MPA_ENH_NO_NEGO)
		eff->ird = min16(eff->ird, req->ord);
	if (req->ird != RD_MPA_ENH_NO_NEGO)
		eff->ord = min16(eff->ord, req->ird);
	reply->p2p = req->p2p;
	if (req->p2p) {
		/* A WRITE needs no resources; a READ needs a place in the inbound queue. */
		reply->rtr_write = req->rtr_write || !req->rtr_read;
		reply->rtr_read = !reply->rtr_write;
		if (req->rtr_read && eff->ird == 0)
			eff->ird = 1;
	}
	/*
	 * RFC 6581 section 4.3: "do not negotiate" is answered with the same value, and sent only
	 * then: siw fails the connection of a peer that answers with it unasked.
	 */
	reply->ird = req->ord == RD_MPA_ENH_NO_NEGO ? RD_MPA_ENH_NO_NEGO : eff->ird;
	reply->ord = req->ird == RD_MPA_ENH_NO_NEGO ? RD_MPA_ENH_NO_NEGO : eff->ord;
}

static int pick_rtr(const struct rd_iw_mpa *reply, enum rd_iw_rtr *rtr)
{
	if (reply->rtr_write)
		*rtr = RD_IW_RTR_WRITE;
	else if (reply->rtr_read && reply->ird > 0)
		*rtr = RD_IW_RTR_READ;
	else
		return -EPROTO;
	return 0;
}

int rd_iw_mpa_check(const struct rd_iw_mpa *req, const struct rd_iw_mpa *reply,
		    struct rd_iw_depths *eff, enum rd_iw_rtr *rtr, uint32_t *term, const char **why)
{
	*rtr = RD_IW_RTR_NONE;
	*term = RD_TERM_MPA_STARTUP;
	eff->ird = req->ird;
	eff->ord = req->ord;
	if (reply->markers) {
		*why = "peer requires MPA markers";
		return -EPROTO;
	}
	if (!req->enhanced)
		return 0;
	if (!reply->enhanced) {
		*why = "peer answered an enhanced MPA request without depths";
		return -EPROTO;
	}
	if (reply->ord != RD_MPA_ENH_NO_NEGO) {
		if (reply->ord > req->ird) {
			*term = RD_TERM_MPA_IRD;
			*why = "peer means to issue more READs than offered";
			return -EPROTO;
		}
		eff->ird = reply->ord;
	}
	if (reply->ird != RD_MPA_ENH_NO_NEGO)
		eff->ord = min16(eff->ord, reply->ird);
	if (req->p2p && reply->p2p && pick_rtr(reply, rtr)) {
		*term = RD_TERM_MPA_RTR;
		*why = "no ready-to-receive message in common";
		return -EPROTO;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a connection was refused: the codes of the connection managers as an errno and a text. */
#include <errno.h>

#include "cm_event.h"

/* InfiniBand specification, table "REJ reasons": the codes that a host or its operator can meet. */
static const struct {
	int code;
	int status;
	const char *text;
} ib_reasons[] = {
	{1, -ENOBUFS, "the peer has no queue pair left"},
	{3, -ENOBUFS, "the peer is out of resources"},
	{4, -ETIMEDOUT, "the peer gave up waiting for our answer"},
	{5, -EOPNOTSUPP, "the peer does not support the request"},
	{8, -ECONNREFUSED, "nobody listens at this address and port (invalid service ID)"},
	{9, -EOPNOTSUPP, "the peer does not support reliable connections"},
	{10, -ECONNRESET, "the peer still holds an earlier connection of ours (stale connection)"},
	{12, -EHOSTUNREACH, "the peer rejects its own GID"},
	{13, -EHOSTUNREACH, "the peer rejects its own LID"},
	{14, -EPROTO, "the peer rejects the service level"},
	{15, -EPROTO, "the peer rejects the traffic class"},
	{16, -EPROTO, "the peer rejects the hop limit"},
	{17, -EPROTO, "the peer rejects the packet rate"},
	{24, -EHOSTUNREACH, "the peer wants the connection at another port"},
	{26, -EPROTO, "the peer rejects the path MTU"},
	{27, -ENOBUFS, "the peer has too few resources for the READ depth"},
	{33, -EPROTO, "the peer rejects the RNR retry count"},
};

const char *rd_vb_reject_text(bool iwarp, const struct rd_vb_cm_event *ev, int *status,
			      bool *by_peer)
{
	*status = -ECONNREFUSED;
	*by_peer = false;
	if (iwarp) {
		/* A reject by the peer can be reported as a reset; it comes with private data. */
		*by_peer = ev->pd_len > 0;
		if (*by_peer)
			return "rejected by the peer";
		*status = ev->status < 0 ? ev->status : -ECONNREFUSED;
		return *status == -ECONNRESET
			       ? "rejected or closed by the peer during the handshake"
			       : "connection refused";
	}
	if (ev->status == 28) {
		*by_peer = true;
		return "rejected by the peer";
	}
	for (size_t i = 0; i < sizeof(ib_reasons) / sizeof(ib_reasons[0]); i++) {
		if (ib_reasons[i].code != ev->status)
			continue;
		*status = ib_reasons[i].status;
		return ib_reasons[i].text;
	}
	return "refused by the peer's connection manager";
}

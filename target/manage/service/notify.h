/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notifies the service manager by the protocol of sd_notify(3): a datagram of lines such as READY=1
 * to the socket in the environment variable NOTIFY_SOCKET. Without that variable nothing is sent.
 *
 * Main thread only. Nothing blocks: a datagram that the socket does not accept is dropped with a
 * warning.
 */
#ifndef RDT_NOTIFY_H
#define RDT_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct rd_log;

struct rdt_notify {
	struct rd_log *log;
	int fd; /* -1: no service manager */
	/* Timeout within which the service manager expects WATCHDOG=1; 0: none */
	uint64_t watchdog_ns;
};

/* Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the environment. An invalid value is
 * logged as a warning and treated as missing. */
void rdt_notify_open(struct rdt_notify *notify, struct rd_log *log);
void rdt_notify_close(struct rdt_notify *notify);

/* Send assignments, one per line, such as "READY=1\nSTATUS=serving". Truncated to 1,023 bytes. */
__attribute__((format(printf, 2, 3))) void rdt_notify(struct rdt_notify *notify, const char *fmt,
						      ...);
/* Send RELOADING=1 with the timestamp that systemd requires; READY=1 must follow. */
void rdt_notify_reloading(struct rdt_notify *notify, const char *status);

/* Ask when all that was sent before has been handled: the descriptor that is returned, which is the
 * caller's, hangs up then. Or -errno; -EAGAIN: the socket takes no more now. */
int rdt_notify_barrier(struct rdt_notify *notify);

/* Whether standard error is connected to the systemd journal, according to JOURNAL_STREAM. */
bool rdt_notify_to_journal(void);

#endif /* RDT_NOTIFY_H */

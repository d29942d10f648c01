/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the service manager is told, by the protocol of sd_notify(3): a datagram of lines such as
 * READY=1 to the socket that the environment variable NOTIFY_SOCKET names. Nothing is sent where
 * that is not set.
 *
 * Main thread only. Nothing here blocks: a datagram that the socket does not take is dropped, and
 * a warning says so.
 */
#ifndef RDT_NOTIFY_H
#define RDT_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct rd_log;

struct rdt_notify {
	struct rd_log *log;
	int fd;               /* -1: nobody is to be told */
	uint64_t watchdog_ns; /* the service manager waits so long for WATCHDOG=1; 0: it does not */
};

/*
 * Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the environment. A value that is of no
 * use is named in a warning; then, as without any, nothing will be sent.
 */
void rdt_notify_open(struct rdt_notify *notify, struct rd_log *log);
void rdt_notify_close(struct rdt_notify *notify);

/* Send assignments, one a line, such as "READY=1\nSTATUS=serving". Longer ones are cut at 1,023
 * bytes. */
__attribute__((format(printf, 2, 3))) void rdt_notify(struct rdt_notify *notify, const char *fmt,
						      ...);
/* RELOADING=1 with the time that systemd asks for; READY=1 has to follow. */
void rdt_notify_reloading(struct rdt_notify *notify, const char *status);

/* Is standard error a stream of the systemd journal, as JOURNAL_STREAM says? */
bool rdt_notify_to_journal(void);

#endif /* RDT_NOTIFY_H */

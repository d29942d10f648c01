/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NBD server of rdinit attach without the kernel: `rdnbd URI [read-only]` serves a namespace on
 * the socket that is its standard input, in the transmission phase, until the peer ends it. SIGUSR1
 * ends all I/O with errors.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "nbd.h"

static int rdnbd_fail(const char *what)
{
	fprintf(stderr, "rdnbd: %s\n", what);
	return 1;
}

static int rdnbd_open(const char *text, struct rdinit_dev **dev, struct rdinit_dev_info *info)
{
	struct rdinit_uri uri;

	rdinit_uri_init(&uri);
	rdinit_dev_info_init(info);
	return rdinit_uri_parse(text, &uri) || rdinit_dev_create(NULL, dev) ||
	       rdinit_dev_add_path(*dev, &uri, NULL) < 0 || rdinit_dev_open(*dev) ||
	       rdinit_dev_get_info(*dev, info);
}

static void rdnbd_serve(struct rdi_nbd_server *s, int signals, int wake)
{
	struct pollfd fds[] = {{.fd = wake, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
	struct signalfd_siginfo si;

	while (poll(fds, 2, -1) > 0 && !fds[0].revents) {
		if (read(signals, &si, sizeof(si)) == sizeof(si))
			rdi_nbd_server_abort(s);
	}
}

int main(int argc, char **argv)
{
	struct rdi_attach a = {.opts.depth = 4, .wake = eventfd(0, EFD_CLOEXEC)};
	struct rdi_nbd_server *s;
	sigset_t set;
	int signals;

	if (argc < 2 || a.wake < 0)
		return rdnbd_fail("usage: rdnbd URI [read-only]");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0 || rdnbd_open(argv[1], &a.dev, &a.ns))
		return rdnbd_fail(rdinit_get_error());
	rdi_attach_limits_of(&a.ns, &a.limits);
	a.info.read_only = argc > 2;
	if (rdi_nbd_server_create(&a, dup(STDIN_FILENO), &s) || rdi_nbd_server_start(s))
		return rdnbd_fail(a.why);
	rdnbd_serve(s, signals, a.wake);
	rdi_nbd_server_free(s);
	rdinit_dev_close(a.dev);
	rdinit_dev_free(&a.dev);
	close(a.wake);
	close(signals);
	return 0;
}

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

static void rdnbd_ended(void *user)
{
	const uint64_t one = 1;

	if (write(*(int *)user, &one, sizeof(one)) < 0)
		abort();
}

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

static void rdnbd_serve(struct rdi_nbd_server *s, int signals, int ended)
{
	struct pollfd fds[] = {{.fd = ended, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
	struct signalfd_siginfo si;

	while (poll(fds, 2, -1) > 0 && !fds[0].revents) {
		if (read(signals, &si, sizeof(si)) == sizeof(si))
			rdi_nbd_server_abort(s);
	}
}

int main(int argc, char **argv)
{
	struct rdinit_dev *dev = NULL;
	struct rdinit_dev_info info;
	struct rdi_attach_limits limits;
	struct rdi_nbd_server_opts o = {.limits = &limits, .depth = 4, .ended = rdnbd_ended};
	struct rdi_nbd_server *s;
	char why[RDI_ATTACH_TEXT];
	int ended = eventfd(0, EFD_CLOEXEC), signals;
	sigset_t set;

	if (argc < 2 || ended < 0)
		return rdnbd_fail("usage: rdnbd URI [read-only]");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0 || rdnbd_open(argv[1], &dev, &info))
		return rdnbd_fail(rdinit_get_error());
	rdi_attach_limits_of(&info, &limits);
	o.dev = dev;
	o.fd = dup(STDIN_FILENO);
	o.read_only = argc > 2;
	o.user = &ended;
	if (rdi_nbd_server_create(&o, &s, why) || rdi_nbd_server_start(s, why))
		return rdnbd_fail(why);
	rdnbd_serve(s, signals, ended);
	rdi_nbd_server_free(s);
	rdinit_dev_close(dev);
	rdinit_dev_free(&dev);
	close(ended);
	close(signals);
	return 0;
}

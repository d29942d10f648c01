/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Termination signals during a transfer: the first one ends the transfer in order (commands in
 * flight complete, the controller is shut down), a second one ends the program at once.
 */
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

void cli_signals_start(struct cli_signals *in)
{
	struct sigaction sa;
	sigset_t set;

	*in = (struct cli_signals){.fd = -1};
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		/* Signals that nohup(1) or a shell has ignored stay ignored. */
		if (sigaction(signals[i], NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
			sigaddset(&set, signals[i]);
	}
	in->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (in->fd >= 0 && sigprocmask(SIG_BLOCK, &set, &in->old) == 0)
		return;
	/* Without a signalfd the first signal ends the program at once. */
	if (in->fd >= 0)
		close(in->fd);
	in->fd = -1;
}

void cli_signals_end(struct cli_signals *in)
{
	if (in->fd < 0)
		return;
	close(in->fd);
	in->fd = -1;
	sigprocmask(SIG_SETMASK, &in->old, NULL);
}

bool cli_signals_check(struct cli_signals *in)
{
	struct signalfd_siginfo si;

	if (in->fd < 0 || read(in->fd, &si, sizeof(si)) != sizeof(si))
		return false;
	in->signo = (int)si.ssi_signo;
	cli_signals_end(in); /* the next signal has its default effect */
	return true;
}

void cli_signals_die(const struct cli_signals *in)
{
	if (in->signo) {
		signal(in->signo, SIG_DFL);
		raise(in->signo);
	}
}

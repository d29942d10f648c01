/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals that end the program, while a transfer runs: the first one lets it end in order (commands
 * in flight are answered, the controller is shut down), a second one ends it at once.
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
		/* nohup(1) and shells have some ignored: that stays so. */
		if (sigaction(signals[i], NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
			sigaddset(&set, signals[i]);
	}
	in->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (in->fd >= 0 && sigprocmask(SIG_BLOCK, &set, &in->old) == 0)
		return;
	/* Without it the first signal ends us at once. */
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
	cli_signals_end(in); /* the next one does what it always does */
	return true;
}

void cli_signals_die(const struct cli_signals *in)
{
	if (in->signo) {
		signal(in->signo, SIG_DFL);
		raise(in->signo);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siw (Linux 6.1: siw_qp_sq_process(), siw_send_terminate(), siw_send_mpareqrep()) writes to its
 * TCP socket from within the system call that posts work requests, ends a connection or answers a
 * request, and without MSG_NOSIGNAL. Where the peer leaves while a message of several frames is on
 * its way, the caller gets a SIGPIPE, of which most programs end. It is taken back here: the signal
 * goes to the calling thread, so it is blocked there for the time of the call, and fetched if it
 * came.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "internal.h"

static void only_sigpipe(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGPIPE);
}

void rd_vb_sigpipe_hold(struct rd_vb_sigpipe *s)
{
	struct sigaction action;
	sigset_t set, pending;

	/* One that is ignored is not even made, which saves the rest. */
	s->held = sigaction(SIGPIPE, NULL, &action) || action.sa_handler != SIG_IGN;
	if (!s->held)
		return;
	only_sigpipe(&set);
	pthread_sigmask(SIG_BLOCK, &set, &s->old);
	/* One that waits already is the program's, and swallows ours. */
	if (sigismember(&s->old, SIGPIPE) && sigpending(&pending) == 0)
		s->held = !sigismember(&pending, SIGPIPE);
}

void rd_vb_sigpipe_release(struct rd_vb_sigpipe *s)
{
	const struct timespec now = {0};
	sigset_t set;

	if (!s->held)
		return;
	only_sigpipe(&set);
	while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &s->old, NULL);
}

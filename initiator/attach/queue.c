/* SPDX-License-Identifier: BSD-3-Clause */
/* What the queues of both drivers have: a thread with a channel, memory, and a way to wake it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#define STACK_SIZE (256u << 10) /* all of it is locked in memory */

static int queue_memory(struct rdi_attach_queue *q)
{
	void *p;

	q->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->wake < 0)
		return -errno;
	p = mmap(NULL, q->mem_len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	q->mem = p;
	return 0;
}

int rdi_attach_queue_open(struct rdi_attach_queue *q, struct rdi_attach *a, size_t mem_len,
			  const char *what)
{
	int rc;

	*q = (struct rdi_attach_queue){.a = a, .mem_len = mem_len};
	rc = queue_memory(q);
	if (rc)
		return rdi_attach_why(a->why, rc, "cannot make %s: %s", what, strerror(-rc));
	rc = rdinit_dev_chan_create(a->dev, &q->chan);
	if (!rc)
		rc = rdinit_dev_mem_register(q->chan, q->mem, q->mem_len);
	return rc ? rdi_attach_why(a->why, rc, "%s", rdinit_get_error()) : 0;
}

int rdi_attach_queue_start(struct rdi_attach_queue *q, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	atomic_fetch_add(&q->a->threads, 1);
	rc = pthread_create(&q->thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	q->started = rc == 0;
	if (!rc)
		return 0;
	atomic_fetch_sub(&q->a->threads, 1);
	return rdi_attach_why(q->a->why, -rc, "cannot start a thread: %s", strerror(rc));
}

void rdi_attach_queue_ended(struct rdi_attach_queue *q)
{
	atomic_fetch_sub(&q->a->threads, 1);
	rdi_attach_wake(q->a);
}

void rdi_attach_queue_wake(struct rdi_attach_queue *q, atomic_bool *why)
{
	const uint64_t one = 1;

	atomic_store(why, true);
	if (write(q->wake, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

void rdi_attach_queue_woken(struct rdi_attach_queue *q)
{
	uint64_t n;

	if (read(q->wake, &n, sizeof(n)) < 0)
		n = 0;
	if (atomic_load(&q->abort))
		rdinit_dev_chan_free(&q->chan); /* ends what is in flight */
}

void rdi_attach_queue_join(struct rdi_attach_queue *q)
{
	if (q->started)
		pthread_join(q->thread, NULL);
	rdinit_dev_chan_free(&q->chan);
}

void rdi_attach_queue_close(struct rdi_attach_queue *q)
{
	if (q->mem)
		munmap(q->mem, q->mem_len);
	if (q->wake >= 0)
		close(q->wake);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdapart CPU CPU: how far the two processors are from each other, as the nanoseconds that a cache
 * line takes from one to the other and back, printed as JSON. In a virtual machine this changes
 * while it runs, and with it what all that goes from one to the other costs. A measurement, not a
 * test.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The middle one of several batches: one of them may be interrupted. */
#define BATCHES 15
#define TRIPS   400u

struct line {
	_Alignas(128) atomic_uint turn; /* even: the first one's */
	int cpu;                        /* of the second one */
};

static void die(const char *what, int err)
{
	fprintf(stderr, "rdapart: %s: %s\n", what, strerror(err));
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		fprintf(stderr, "rdapart: processor %d: %s\n", cpu, strerror(errno));
		exit(1);
	}
}

static void wait_for(const struct line *l, unsigned int turn)
{
	while (atomic_load_explicit(&l->turn, memory_order_acquire) != turn)
		;
}

static void *answer(void *arg)
{
	struct line *l = arg;

	pin(l->cpu);
	for (unsigned int turn = 0; turn < 2 * TRIPS * (BATCHES + 1); turn += 2) {
		wait_for(l, turn + 1);
		atomic_store_explicit(&l->turn, turn + 2, memory_order_release);
	}
	return NULL;
}

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double batch(struct line *l, unsigned int turn)
{
	double start = now_ns();

	for (unsigned int i = 0; i < TRIPS; i++, turn += 2) {
		atomic_store_explicit(&l->turn, turn + 1, memory_order_release);
		wait_for(l, turn + 2);
	}
	return (now_ns() - start) / TRIPS;
}

static int less(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int processor(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < 0 || value >= CPU_SETSIZE) {
		fprintf(stderr, "rdapart: %s: expected a processor's number\n", text);
		exit(2);
	}
	return (int)value;
}

int main(int argc, char **argv)
{
	double ns[BATCHES];
	struct line line = {0};
	pthread_t thread;
	int first, rc;

	if (argc != 3) {
		fputs("Usage: rdapart CPU CPU\n", stderr);
		return 2;
	}
	first = processor(argv[1]);
	line.cpu = processor(argv[2]);
	if (first == line.cpu) {
		fprintf(stderr, "rdapart: %s %s: expected two processors\n", argv[1], argv[2]);
		return 2;
	}
	pin(first);
	rc = pthread_create(&thread, NULL, answer, &line);
	if (rc)
		die("thread", rc);
	batch(&line, 0); /* until both run */
	for (unsigned int i = 0; i < BATCHES; i++)
		ns[i] = batch(&line, 2 * TRIPS * (i + 1));
	pthread_join(thread, NULL);
	qsort(ns, BATCHES, sizeof(ns[0]), less);
	printf("{\"ns\": %.1f}\n", ns[BATCHES / 2]);
	return 0;
}

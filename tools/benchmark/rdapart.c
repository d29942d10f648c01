/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdapart CPU CPU: measures the distance of two processors, as the time in ns that a cache line
 * takes from one to the other and back, and prints it as JSON. In a virtual machine the distance
 * changes over time, and with it the cost of every exchange between them. A measurement, not a
 * test.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "cpu.h"

/* Number of batches; the median is used, because interrupts disturb some. */
#define BATCHES 15
#define TRIPS   400u

struct line {
	_Alignas(128) atomic_uint turn; /* even: the first thread's turn */
	int cpu;                        /* of the second thread */
};

static void wait_for(const struct line *l, unsigned int turn)
{
	while (atomic_load_explicit(&l->turn, memory_order_acquire) != turn)
		;
}

static void *answer(void *arg)
{
	struct line *l = arg;

	pin_to_cpu("rdapart", l->cpu);
	for (unsigned int turn = 0; turn < 2 * TRIPS * (BATCHES + 1); turn += 2) {
		wait_for(l, turn + 1);
		atomic_store_explicit(&l->turn, turn + 2, memory_order_release);
	}
	return NULL;
}

static double batch(struct line *l, unsigned int turn)
{
	uint64_t start = clock_ns();

	for (unsigned int i = 0; i < TRIPS; i++, turn += 2) {
		atomic_store_explicit(&l->turn, turn + 1, memory_order_release);
		wait_for(l, turn + 2);
	}
	return (double)(clock_ns() - start) / TRIPS;
}

static int less(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
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
	first = parse_cpu("rdapart", argv[1]);
	line.cpu = parse_cpu("rdapart", argv[2]);
	if (first == line.cpu) {
		fprintf(stderr, "rdapart: %s %s: expected two processors\n", argv[1], argv[2]);
		return 2;
	}
	pin_to_cpu("rdapart", first);
	rc = pthread_create(&thread, NULL, answer, &line);
	if (rc) {
		fprintf(stderr, "rdapart: thread: %s\n", strerror(rc));
		return 1;
	}
	batch(&line, 0); /* warm-up until both threads run */
	for (unsigned int i = 0; i < BATCHES; i++)
		ns[i] = batch(&line, 2 * TRIPS * (i + 1));
	pthread_join(thread, NULL);
	qsort(ns, BATCHES, sizeof(ns[0]), less);
	printf("{\"ns\": %.1f}\n", ns[BATCHES / 2]);
	return 0;
}

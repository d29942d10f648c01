/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common parts of all fuzz programs. Each fuzz_*.c is one fuzz target. It is always linked with
 * corpus_main.c, as an ordinary test over its corpus, and with libFuzzer if the meson option fuzz
 * is set.
 */
#ifndef T_FUZZ_H
#define T_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Must hold for every input. */
#define FUZZ_CHECK(cond)                                                                     \
	do {                                                                                 \
		if (!(cond)) {                                                               \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                             \
		}                                                                            \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* T_FUZZ_H */

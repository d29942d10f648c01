/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of every fuzz program. Each fuzz_*.c is one target: with the meson option fuzz it is
 * linked with libFuzzer, and always with corpus_main.c, as an ordinary test over its corpus.
 */
#ifndef T_FUZZ_H
#define T_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* What must hold whatever the input is. */
#define FUZZ_CHECK(cond)                                                                     \
	do {                                                                                 \
		if (!(cond)) {                                                               \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                             \
		}                                                                            \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* T_FUZZ_H */

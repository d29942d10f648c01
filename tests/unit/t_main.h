/* SPDX-License-Identifier: BSD-3-Clause */
/* The main program of every unit test: runs a table of suites by CUnit and prints TAP on standard
 * output. */
#ifndef T_MAIN_H
#define T_MAIN_H

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>

/* A variable whose end, at that of its block, calls @fn with its address; or one whose memory is
 * freed. */
#define T_ENDS(fn) __attribute__((cleanup(fn)))
#define T_FREE     T_ENDS(t_free)
static inline void t_free(void *p)
{
	free(*(void **)p);
}

struct t_case {
	const char *name; /* the behaviour, as a sentence fragment */
	void (*fn)(void);
};

struct t_suite {
	const char *name;
	int (*setup)(void); /* suite init, or NULL */
	int (*teardown)(void);
	const struct t_case *cases; /* ends with a NULL name */
};

/*
 * Run @suites, which ends with a NULL name. With an argument, only suites whose name starts with
 * it. Prints TAP (for meson's protocol: 'tap'), so that each case is counted. Returns the status
 * for main().
 */
int t_run(int argc, char **argv, const struct t_suite *suites);

#endif /* T_MAIN_H */

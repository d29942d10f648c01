/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations as texts, and what is said of them. */
#ifndef T_CONFIG_H
#define T_CONFIG_H

#include "base_suites.h"

#include <stddef.h>

#include "target/config/config.h"

/* All lines logged during one load, with the path replaced by FILE. */
struct said {
	char text[4096];
	unsigned int lines;
	const char *path;
};

#define LISTEN "listeners: [{address: 127.0.0.1}]\n" /* line 1 of most samples */
#define SUBSYS "subsystems:\n  - nqn: nqn.2026-01.org.example:a\n"
#define NS     "    namespaces:\n      - "

struct bad {
	const char *text;
	const char *said;
};

/* Load a file, or a file with @text. Returns what rdt_config_load() does. */
int t_config_load(const char *path, struct said *said, struct rdt_config **config);
int t_config_load_text(const char *text, size_t len, struct said *said, struct rdt_config **config);
/* Each of the texts is refused with exactly what is said of it. */
void t_config_check_bad(const struct bad *bad, size_t count);
#define CHECK_BAD(table) t_config_check_bad(table, sizeof(table) / sizeof((table)[0]))

#endif /* T_CONFIG_H */

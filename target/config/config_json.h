/* SPDX-License-Identifier: BSD-3-Clause */
/* A configuration as JSON, and the difference between two of them. Any thread. */
#ifndef RDT_CONFIG_JSON_H
#define RDT_CONFIG_JSON_H

#include <jansson.h>

#include "config.h"

/*
 * An object with the keys as in the file, by the rows of the keys. Absent strings and lists are
 * omitted; numbers, choices and booleans have their defaults. Values of secret keys are replaced. A
 * new reference, or NULL without memory.
 */
json_t *rdt_config_json(const struct rdt_config *config);

/* Likewise, an entry of host_auth. */
json_t *rdt_config_host_auth_json(const struct rdt_host_auth_config *host);

/*
 * Differences, at most @max, as a list of {"path", "from", "to"}; null: absent on that side.
 * Elements of lists are matched by their identifying keys: nqn, nsid, address and port, host,
 * group. A path is as in the messages of the checks, with these identifiers:
 * subsystems[nqn.a].namespaces[1].size. A new reference, or NULL without memory.
 */
json_t *rdt_config_json_diff(const json_t *from, const json_t *to, unsigned int max);

/* The JSON schema of a configuration, as text; NULL without memory. The caller frees it. */
char *rdt_config_schema(void);

#endif /* RDT_CONFIG_JSON_H */

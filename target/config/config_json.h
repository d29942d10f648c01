/* SPDX-License-Identifier: BSD-3-Clause */
/* A configuration as JSON, and the difference between two of them. Any thread. */
#ifndef RDT_CONFIG_JSON_H
#define RDT_CONFIG_JSON_H

#include <jansson.h>

#include "config.h"

/*
 * An object with the keys of the file, by the rows of the keys. Strings and lists that are not
 * there are left out; numbers, choices and booleans have their defaults. The values of keys that
 * are secrets are replaced. A new reference, or NULL without memory.
 */
json_t *rdt_config_json(const struct rdt_config *config);

/* Likewise how one host authenticates itself. */
json_t *rdt_config_host_auth_json(const struct rdt_host_auth_config *host);

/*
 * What differs, as a list of {"path", "from", "to"}; a side that has nothing there is null.
 * Elements of lists are matched by what names them: nqn, nsid, address and port, host, group. A
 * path is as in the messages of the checks, with these names: subsystems[nqn.a].namespaces[1].size.
 * At most @max differences. A new reference, or NULL without memory.
 */
json_t *rdt_config_json_diff(const json_t *from, const json_t *to, unsigned int max);

/* The JSON schema of a configuration, as text; NULL without memory. The caller frees it. */
char *rdt_config_schema(void);

#endif /* RDT_CONFIG_JSON_H */

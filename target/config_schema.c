/* SPDX-License-Identifier: BSD-3-Clause */
/* The one description of the file: keys, types and choices. Ranges and relations are in
 * config_check.c. */
#include "config_priv.h"

#define OPT          CYAML_FLAG_OPTIONAL
#define STRICT       (CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const cyaml_strval_t providers[] = {
	{"auto", RDT_PROVIDER_AUTO},
	{"iwarp", RDT_PROVIDER_IWARP},
	{"verbs", RDT_PROVIDER_VERBS},
};

static const cyaml_strval_t backends[] = {
	{"file", RDT_BACKEND_FILE},
	{"block", RDT_BACKEND_BLOCK},
	{"memory", RDT_BACKEND_MEMORY},
	{"null", RDT_BACKEND_NULL},
};

static const cyaml_strval_t engines[] = {
	{"io_uring", RDT_ENGINE_IO_URING},
	{"aio", RDT_ENGINE_AIO},
};

static const cyaml_strval_t direct[] = {
	{"auto", RDT_DIRECT_AUTO},
	{"on", RDT_DIRECT_ON},
	{"off", RDT_DIRECT_OFF},
};

static const cyaml_schema_field_t target_fields[] = {
	CYAML_FIELD_UINT("reactors", OPT, struct rdt_target_config, reactors),
	CYAML_FIELD_UINT("queue_depth", OPT, struct rdt_target_config, queue_depth),
	CYAML_FIELD_UINT("io_queues", OPT, struct rdt_target_config, io_queues),
	CYAML_FIELD_STRING_PTR("max_data_size", OPT, struct rdt_target_config, max_data_size, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("in_capsule_size", OPT, struct rdt_target_config, in_capsule_size, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("buffer_memory", OPT, struct rdt_target_config, buffer_memory, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("spin", OPT, struct rdt_target_config, spin, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("congestion", OPT, struct rdt_target_config, congestion, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("drain_timeout", OPT, struct rdt_target_config, drain_timeout, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_UINT("engine_depth", OPT, struct rdt_target_config, engine_depth),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t listener_fields[] = {
	CYAML_FIELD_STRING_PTR("address", CYAML_FLAG_DEFAULT, struct rdt_listener_config, address,
			       0, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("port", OPT, struct rdt_listener_config, port),
	CYAML_FIELD_ENUM("provider", STRICT, struct rdt_listener_config, provider, providers,
			 COUNT(providers)),
	CYAML_FIELD_BOOL("crc", OPT, struct rdt_listener_config, crc),
	CYAML_FIELD_BOOL("send_with_inv", OPT, struct rdt_listener_config, send_with_inv),
	CYAML_FIELD_BOOL("inline_sends", OPT, struct rdt_listener_config, inline_sends),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t namespace_fields[] = {
	CYAML_FIELD_UINT("nsid", CYAML_FLAG_DEFAULT, struct rdt_ns_config, nsid),
	CYAML_FIELD_ENUM("backend", CYAML_FLAG_STRICT, struct rdt_ns_config, backend, backends,
			 COUNT(backends)),
	CYAML_FIELD_STRING_PTR("path", OPT, struct rdt_ns_config, path, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("size", OPT, struct rdt_ns_config, size, 0, CYAML_UNLIMITED),
	CYAML_FIELD_BOOL("create", OPT, struct rdt_ns_config, create),
	CYAML_FIELD_UINT("block_size", OPT, struct rdt_ns_config, block_size),
	CYAML_FIELD_ENUM("engine", STRICT, struct rdt_ns_config, engine, engines, COUNT(engines)),
	CYAML_FIELD_ENUM("direct", STRICT, struct rdt_ns_config, direct, direct, COUNT(direct)),
	CYAML_FIELD_BOOL("read_only", OPT, struct rdt_ns_config, read_only),
	CYAML_FIELD_STRING_PTR("uuid", OPT, struct rdt_ns_config, uuid, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("nguid", OPT, struct rdt_ns_config, nguid, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("eui64", OPT, struct rdt_ns_config, eui64, 0, CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t listener_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_listener_config, listener_fields),
};

static const cyaml_schema_value_t namespace_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_ns_config, namespace_fields),
};

static const cyaml_schema_value_t host_schema = {
	CYAML_VALUE_STRING(CYAML_FLAG_POINTER, const char *, 0, CYAML_UNLIMITED),
};

static const cyaml_schema_field_t subsystem_fields[] = {
	CYAML_FIELD_STRING_PTR("nqn", CYAML_FLAG_DEFAULT, struct rdt_subsys_config, nqn, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("serial", OPT, struct rdt_subsys_config, serial, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("model", OPT, struct rdt_subsys_config, model, 0, CYAML_UNLIMITED),
	CYAML_FIELD_BOOL("allow_any_host", OPT, struct rdt_subsys_config, allow_any_host),
	CYAML_FIELD_SEQUENCE("hosts", OPT | CYAML_FLAG_POINTER, struct rdt_subsys_config, hosts,
			     &host_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("namespaces", OPT | CYAML_FLAG_POINTER, struct rdt_subsys_config,
			     namespaces, &namespace_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t subsystem_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_subsys_config, subsystem_fields),
};

static const cyaml_schema_field_t config_fields[] = {
	CYAML_FIELD_MAPPING("target", OPT, struct rdt_config, target, target_fields),
	CYAML_FIELD_SEQUENCE("listeners", CYAML_FLAG_POINTER, struct rdt_config, listeners,
			     &listener_schema, 1, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("subsystems", CYAML_FLAG_POINTER, struct rdt_config, subsystems,
			     &subsystem_schema, 1, CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

const cyaml_schema_value_t rdt_config_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct rdt_config, config_fields),
};

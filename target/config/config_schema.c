/* SPDX-License-Identifier: BSD-3-Clause */
/* The schema of the configuration: keys, types and choices. Ranges and relations are in
 * config_check.c. */
#include "config_priv.h"

#include <string.h>

#include "bio_op.h"
#include "nvmf/auth_ids.h"

#define OPT          CYAML_FLAG_OPTIONAL
#define STRICT       (CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const cyaml_strval_t providers[] = {
	{"auto", RDT_PROVIDER_AUTO},
	{"iwarp", RDT_PROVIDER_IWARP},
	{"verbs", RDT_PROVIDER_VERBS},
};

static const cyaml_strval_t backends[] = {
	{"file", RDT_BACKEND_FILE}, {"block", RDT_BACKEND_BLOCK}, {"memory", RDT_BACKEND_MEMORY},
	{"null", RDT_BACKEND_NULL}, {"rbd", RDT_BACKEND_RBD},     {"nbd", RDT_BACKEND_NBD},
};

static const cyaml_strval_t rbd_locks[] = {
	{"auto", RDT_RBD_LOCK_AUTO},
	{"exclusive", RDT_RBD_LOCK_EXCLUSIVE},
};

static const cyaml_strval_t engines[] = {
	{"auto", RDT_ENGINE_AUTO},
	{"io_uring", RDT_ENGINE_IO_URING},
	{"aio", RDT_ENGINE_AIO},
};

static const cyaml_strval_t direct[] = {
	{"auto", RDT_DIRECT_AUTO},
	{"on", RDT_DIRECT_ON},
	{"off", RDT_DIRECT_OFF},
};

static const cyaml_strval_t deallocate[] = {
	{"auto", RDT_DEALLOCATE_AUTO},
	{"zero", RDT_DEALLOCATE_ZERO},
	{"discard", RDT_DEALLOCATE_DISCARD},
	{"off", RDT_DEALLOCATE_OFF},
};

static const cyaml_schema_value_t cpu_schema = {
	CYAML_VALUE_UINT(CYAML_FLAG_DEFAULT, uint32_t),
};

static const cyaml_schema_field_t limits_fields[] = {
	CYAML_FIELD_UINT("connections", OPT, struct rdt_limits_config, connections),
	CYAML_FIELD_UINT("connections_per_host", OPT, struct rdt_limits_config,
			 connections_per_host),
	CYAML_FIELD_UINT("connections_per_address", OPT, struct rdt_limits_config,
			 connections_per_address),
	CYAML_FIELD_UINT("controllers", OPT, struct rdt_limits_config, controllers),
	CYAML_FIELD_UINT("controllers_per_host", OPT, struct rdt_limits_config,
			 controllers_per_host),
	CYAML_FIELD_UINT("controllers_per_address", OPT, struct rdt_limits_config,
			 controllers_per_address),
	CYAML_FIELD_UINT("unconnected", OPT, struct rdt_limits_config, unconnected),
	CYAML_FIELD_UINT("unconnected_per_address", OPT, struct rdt_limits_config,
			 unconnected_per_address),
	CYAML_FIELD_UINT("half_open", OPT, struct rdt_limits_config, half_open),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t target_fields[] = {
	CYAML_FIELD_UINT("reactors", OPT, struct rdt_target_config, reactors),
	CYAML_FIELD_SEQUENCE("cpus", OPT | CYAML_FLAG_POINTER, struct rdt_target_config, cpus,
			     &cpu_schema, 1, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("queue_depth", OPT, struct rdt_target_config, queue_depth),
	CYAML_FIELD_UINT("io_queues", OPT, struct rdt_target_config, io_queues),
	CYAML_FIELD_STRING_PTR("max_data_size", OPT, struct rdt_target_config, max_data_size, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("in_capsule_size", OPT, struct rdt_target_config, in_capsule_size, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("buffer_memory", OPT, struct rdt_target_config, buffer_memory, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("capsule_memory", OPT, struct rdt_target_config, capsule_memory, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("spin", OPT, struct rdt_target_config, spin, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("congestion", OPT, struct rdt_target_config, congestion, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("peer_timeout", OPT, struct rdt_target_config, peer_timeout, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("drain_timeout", OPT, struct rdt_target_config, drain_timeout, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_UINT("sgl_descriptors", OPT, struct rdt_target_config, sgl_descriptors),
	CYAML_FIELD_UINT("engine_depth", OPT, struct rdt_target_config, engine_depth),
	CYAML_FIELD_STRING_PTR("sqpoll", OPT, struct rdt_target_config, sqpoll, 0, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("sqpoll_cpus", OPT | CYAML_FLAG_POINTER, struct rdt_target_config,
			     sqpoll_cpus, &cpu_schema, 1, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("state_dir", OPT, struct rdt_target_config, state_dir, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_UINT("state_times", OPT, struct rdt_target_config, state_times),
	CYAML_FIELD_BOOL("state_times_at_exit", OPT, struct rdt_target_config, state_times_at_exit),
	CYAML_FIELD_MAPPING("limits", OPT, struct rdt_target_config, limits, limits_fields),
	CYAML_FIELD_END,
};

static const cyaml_strval_t ana_states[] = {
	{"optimized", RDT_ANA_OPTIMIZED},
	{"non-optimized", RDT_ANA_NON_OPTIMIZED},
	{"inaccessible", RDT_ANA_INACCESSIBLE},
	{"persistent-loss", RDT_ANA_PERSISTENT_LOSS},
	{"change", RDT_ANA_CHANGE},
};

static const cyaml_strval_t duplicates[] = {
	{"allow", RDT_DUPLICATE_ALLOW},
	{"replace", RDT_DUPLICATE_REPLACE},
	{"refuse", RDT_DUPLICATE_REFUSE},
};

static const cyaml_strval_t reservations[] = {
	{"on", RDT_RESERVATIONS_ON},
	{"off", RDT_RESERVATIONS_OFF},
};

static const cyaml_strval_t write_protects[] = {
	{"off", RDT_WP_OFF},
	{"until-reset", RDT_WP_UNTIL_RESET},
	{"all", RDT_WP_ALL},
};

static const cyaml_schema_field_t ana_fields[] = {
	CYAML_FIELD_UINT("group", CYAML_FLAG_DEFAULT, struct rdt_ana_config, group),
	CYAML_FIELD_ENUM("state", CYAML_FLAG_STRICT, struct rdt_ana_config, state, ana_states,
			 COUNT(ana_states)),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t ana_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_ana_config, ana_fields),
};

/* An element of a list of strings. */
static const cyaml_schema_value_t string_schema = {
	CYAML_VALUE_STRING(CYAML_FLAG_POINTER, const char *, 0, CYAML_UNLIMITED),
};

static const cyaml_schema_field_t listener_fields[] = {
	CYAML_FIELD_STRING_PTR("address", CYAML_FLAG_DEFAULT, struct rdt_listener_config, address,
			       0, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("port", OPT, struct rdt_listener_config, port),
	CYAML_FIELD_ENUM("provider", STRICT, struct rdt_listener_config, provider, providers,
			 COUNT(providers)),
	CYAML_FIELD_BOOL("crc", OPT, struct rdt_listener_config, crc),
	CYAML_FIELD_STRING_PTR("congestion", OPT, struct rdt_listener_config, congestion, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("send_buffer", OPT, struct rdt_listener_config, send_buffer, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("receive_buffer", OPT, struct rdt_listener_config, receive_buffer, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_BOOL("send_with_inv", OPT, struct rdt_listener_config, send_with_inv),
	CYAML_FIELD_BOOL("inline_sends", OPT, struct rdt_listener_config, inline_sends),
	CYAML_FIELD_SEQUENCE("ana", OPT | CYAML_FLAG_POINTER, struct rdt_listener_config, ana,
			     &ana_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

#define QOS_FIELDS(type, at)                                                                      \
	CYAML_FIELD_UINT("iops", OPT, type, at iops),                                             \
		CYAML_FIELD_UINT("read_iops", OPT, type, at read_iops),                           \
		CYAML_FIELD_UINT("write_iops", OPT, type, at write_iops),                         \
		CYAML_FIELD_STRING_PTR("bandwidth", OPT, type, at bandwidth, 0, CYAML_UNLIMITED), \
		CYAML_FIELD_STRING_PTR("read_bandwidth", OPT, type, at read_bandwidth, 0,         \
				       CYAML_UNLIMITED),                                          \
		CYAML_FIELD_STRING_PTR("write_bandwidth", OPT, type, at write_bandwidth, 0,       \
				       CYAML_UNLIMITED)

static const cyaml_schema_field_t qos_fields[] = {
	QOS_FIELDS(struct rdt_qos_config, ),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t host_qos_fields[] = {
	CYAML_FIELD_STRING_PTR("host", CYAML_FLAG_DEFAULT, struct rdt_host_qos_config, host, 0,
			       CYAML_UNLIMITED),
	QOS_FIELDS(struct rdt_host_qos_config, limits.),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t host_qos_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_host_qos_config, host_qos_fields),
};

static const cyaml_strval_t auth_settings[] = {
	{"optional", RDT_AUTH_OPTIONAL},
	{"required", RDT_AUTH_REQUIRED},
};

static const cyaml_strval_t auth_hashes[] = {
	{"sha256", NVMF_AUTH_SHA256},
	{"sha384", NVMF_AUTH_SHA384},
	{"sha512", NVMF_AUTH_SHA512},
};

static const cyaml_strval_t auth_groups[] = {
	{"null", NVMF_AUTH_GROUP_NULL},     {"ffdhe2048", NVMF_AUTH_FFDHE2048},
	{"ffdhe3072", NVMF_AUTH_FFDHE3072}, {"ffdhe4096", NVMF_AUTH_FFDHE4096},
	{"ffdhe6144", NVMF_AUTH_FFDHE6144}, {"ffdhe8192", NVMF_AUTH_FFDHE8192},
};

static const cyaml_schema_value_t auth_hash_schema = {
	CYAML_VALUE_ENUM(CYAML_FLAG_STRICT, int, auth_hashes, COUNT(auth_hashes)),
};

static const cyaml_schema_value_t auth_group_schema = {
	CYAML_VALUE_ENUM(CYAML_FLAG_STRICT, int, auth_groups, COUNT(auth_groups)),
};

static const cyaml_schema_field_t host_auth_fields[] = {
	CYAML_FIELD_STRING_PTR("host", CYAML_FLAG_DEFAULT, struct rdt_host_auth_config, host, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("dhchap_key_file", CYAML_FLAG_DEFAULT, struct rdt_host_auth_config,
			       dhchap_key_file, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("dhchap_ctrl_key_file", OPT, struct rdt_host_auth_config,
			       dhchap_ctrl_key_file, 0, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("dhchap_hashes", OPT | CYAML_FLAG_POINTER, struct rdt_host_auth_config,
			     dhchap_hashes, &auth_hash_schema, 1, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("dhchap_dhgroups", OPT | CYAML_FLAG_POINTER,
			     struct rdt_host_auth_config, dhchap_dhgroups, &auth_group_schema, 1,
			     CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t host_auth_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_host_auth_config, host_auth_fields),
};

static const cyaml_strval_t layer_types[] = {
	{"delay", RDT_LAYER_DELAY},
	{"error", RDT_LAYER_ERROR},
};

static const cyaml_strval_t bio_ops[] = {
	{"read", RDT_BIO_READ},
	{"write", RDT_BIO_WRITE},
	{"flush", RDT_BIO_FLUSH},
	{"write_zeroes", RDT_BIO_WRITE_ZEROES},
	{"deallocate", RDT_BIO_DEALLOCATE},
};

static const cyaml_schema_value_t bio_op_schema = {
	CYAML_VALUE_ENUM(CYAML_FLAG_STRICT, int, bio_ops, COUNT(bio_ops)),
};

static const cyaml_schema_field_t layer_fields[] = {
	CYAML_FIELD_ENUM("type", CYAML_FLAG_STRICT, struct rdt_layer_config, type, layer_types,
			 COUNT(layer_types)),
	CYAML_FIELD_STRING_PTR("read", OPT, struct rdt_layer_config, read, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("write", OPT, struct rdt_layer_config, write, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("flush", OPT, struct rdt_layer_config, flush, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("write_zeroes", OPT, struct rdt_layer_config, write_zeroes, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("deallocate", OPT, struct rdt_layer_config, deallocate, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("ops", OPT | CYAML_FLAG_POINTER, struct rdt_layer_config, ops,
			     &bio_op_schema, 1, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("rate", OPT, struct rdt_layer_config, rate, 0, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("skip", OPT, struct rdt_layer_config, skip),
	CYAML_FIELD_UINT("count", OPT, struct rdt_layer_config, count),
	CYAML_FIELD_STRING_PTR("error", OPT, struct rdt_layer_config, error, 0, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("status", OPT, struct rdt_layer_config, status),
	CYAML_FIELD_STRING_PTR("trigger", OPT, struct rdt_layer_config, trigger, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_UINT("first_block", OPT, struct rdt_layer_config, first_block),
	CYAML_FIELD_UINT("blocks", OPT, struct rdt_layer_config, blocks),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t layer_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_layer_config, layer_fields),
};

static const cyaml_schema_field_t rbd_fields[] = {
	CYAML_FIELD_STRING_PTR("cluster", OPT, struct rdt_rbd_config, cluster, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("pool", CYAML_FLAG_DEFAULT, struct rdt_rbd_config, pool, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("namespace", OPT, struct rdt_rbd_config, rados_namespace, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("image", CYAML_FLAG_DEFAULT, struct rdt_rbd_config, image, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("snapshot", OPT, struct rdt_rbd_config, snapshot, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_ENUM("lock", STRICT, struct rdt_rbd_config, lock, rbd_locks, COUNT(rbd_locks)),
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
	CYAML_FIELD_BOOL("iopoll", OPT, struct rdt_ns_config, iopoll),
	CYAML_FIELD_ENUM("deallocate", STRICT, struct rdt_ns_config, deallocate, deallocate,
			 COUNT(deallocate)),
	CYAML_FIELD_BOOL("read_only", OPT, struct rdt_ns_config, read_only),
	CYAML_FIELD_STRING_PTR("uri", OPT, struct rdt_ns_config, uri, 0, CYAML_UNLIMITED),
	CYAML_FIELD_MAPPING_PTR("rbd", OPT, struct rdt_ns_config, rbd, rbd_fields),
	CYAML_FIELD_STRING_PTR("uuid", OPT, struct rdt_ns_config, uuid, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("nguid", OPT, struct rdt_ns_config, nguid, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("eui64", OPT, struct rdt_ns_config, eui64, 0, CYAML_UNLIMITED),
	CYAML_FIELD_MAPPING_PTR("qos", OPT, struct rdt_ns_config, qos, qos_fields),
	CYAML_FIELD_SEQUENCE("layers", OPT | CYAML_FLAG_POINTER, struct rdt_ns_config, layers,
			     &layer_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("ana_group", OPT, struct rdt_ns_config, ana_group),
	CYAML_FIELD_SEQUENCE("hosts", OPT | CYAML_FLAG_POINTER, struct rdt_ns_config, hosts,
			     &string_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t listener_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_listener_config, listener_fields),
};

static const cyaml_schema_value_t namespace_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_ns_config, namespace_fields),
};

static const cyaml_schema_field_t subsystem_fields[] = {
	CYAML_FIELD_STRING_PTR("nqn", CYAML_FLAG_DEFAULT, struct rdt_subsys_config, nqn, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("serial", OPT, struct rdt_subsys_config, serial, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("model", OPT, struct rdt_subsys_config, model, 0, CYAML_UNLIMITED),
	CYAML_FIELD_BOOL("allow_any_host", OPT, struct rdt_subsys_config, allow_any_host),
	CYAML_FIELD_SEQUENCE("hosts", OPT | CYAML_FLAG_POINTER, struct rdt_subsys_config, hosts,
			     &string_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("cntlid_min", OPT, struct rdt_subsys_config, cntlid_min),
	CYAML_FIELD_UINT("cntlid_max", OPT, struct rdt_subsys_config, cntlid_max),
	CYAML_FIELD_ENUM("duplicate_host", STRICT, struct rdt_subsys_config, duplicate_host,
			 duplicates, COUNT(duplicates)),
	CYAML_FIELD_ENUM("reservations", STRICT, struct rdt_subsys_config, reservations,
			 reservations, COUNT(reservations)),
	CYAML_FIELD_ENUM("write_protect", STRICT, struct rdt_subsys_config, write_protect,
			 write_protects, COUNT(write_protects)),
	CYAML_FIELD_SEQUENCE("host_qos", OPT | CYAML_FLAG_POINTER, struct rdt_subsys_config,
			     host_qos, &host_qos_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_ENUM("authentication", STRICT, struct rdt_subsys_config, authentication,
			 auth_settings, COUNT(auth_settings)),
	CYAML_FIELD_SEQUENCE("host_auth", OPT | CYAML_FLAG_POINTER, struct rdt_subsys_config,
			     host_auth, &host_auth_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("namespaces", OPT | CYAML_FLAG_POINTER, struct rdt_subsys_config,
			     namespaces, &namespace_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t subsystem_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_subsys_config, subsystem_fields),
};

static const cyaml_schema_field_t referral_fields[] = {
	CYAML_FIELD_STRING_PTR("address", CYAML_FLAG_DEFAULT, struct rdt_referral_config, address,
			       0, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("port", OPT, struct rdt_referral_config, port),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t referral_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_referral_config, referral_fields),
};

static const cyaml_schema_field_t discovery_fields[] = {
	CYAML_FIELD_ENUM("authentication", STRICT, struct rdt_subsys_config, authentication,
			 auth_settings, COUNT(auth_settings)),
	CYAML_FIELD_SEQUENCE("host_auth", OPT | CYAML_FLAG_POINTER, struct rdt_subsys_config,
			     host_auth, &host_auth_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t control_fields[] = {
	CYAML_FIELD_STRING_PTR("socket", OPT, struct rdt_control_config, socket, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("group", OPT, struct rdt_control_config, group, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("admin_group", OPT, struct rdt_control_config, admin_group, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t ceph_fields[] = {
	CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_DEFAULT, struct rdt_ceph_config, name, 0,
			       CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("conf", OPT, struct rdt_ceph_config, conf, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("user", OPT, struct rdt_ceph_config, user, 0, CYAML_UNLIMITED),
	CYAML_FIELD_STRING_PTR("keyring", OPT, struct rdt_ceph_config, keyring, 0, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("options", OPT | CYAML_FLAG_POINTER, struct rdt_ceph_config, options,
			     &string_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("takeover", OPT, struct rdt_ceph_config, takeover),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t ceph_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rdt_ceph_config, ceph_fields),
};

static const cyaml_schema_field_t http_fields[] = {
	CYAML_FIELD_STRING_PTR("address", OPT, struct rdt_http_config, address, 0, CYAML_UNLIMITED),
	CYAML_FIELD_UINT("port", OPT, struct rdt_http_config, port),
	CYAML_FIELD_SEQUENCE("host_names", OPT | CYAML_FLAG_POINTER, struct rdt_http_config,
			     host_names, &string_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t config_fields[] = {
	CYAML_FIELD_MAPPING("target", OPT, struct rdt_config, target, target_fields),
	CYAML_FIELD_MAPPING("control", OPT, struct rdt_config, control, control_fields),
	CYAML_FIELD_SEQUENCE("ceph", OPT | CYAML_FLAG_POINTER, struct rdt_config, ceph,
			     &ceph_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_MAPPING("http", OPT, struct rdt_config, http, http_fields),
	CYAML_FIELD_MAPPING("discovery", OPT, struct rdt_config, discovery, discovery_fields),
	CYAML_FIELD_SEQUENCE("include", OPT | CYAML_FLAG_POINTER, struct rdt_config, include,
			     &string_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("listeners", OPT | CYAML_FLAG_POINTER, struct rdt_config, listeners,
			     &listener_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("subsystems", OPT | CYAML_FLAG_POINTER, struct rdt_config, subsystems,
			     &subsystem_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_SEQUENCE("referrals", OPT | CYAML_FLAG_POINTER, struct rdt_config, referrals,
			     &referral_schema, 0, CYAML_UNLIMITED),
	CYAML_FIELD_END,
};

const cyaml_schema_value_t rdt_config_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct rdt_config, config_fields),
};

/* ---- names of choices ---- */

static const char *choice_name(const cyaml_strval_t *choices, size_t count, int64_t value)
{
	for (size_t i = 0; i < count; i++)
		if (choices[i].val == value)
			return choices[i].str;
	return "unknown";
}

const char *rdt_config_backend_name(enum rdt_backend_type backend)
{
	return choice_name(backends, COUNT(backends), backend);
}

const char *rdt_config_ana_name(unsigned int state)
{
	return choice_name(ana_states, COUNT(ana_states), state);
}

unsigned int rdt_config_ana_state(const char *name)
{
	for (size_t i = 0; i < COUNT(ana_states); i++)
		if (strcmp(ana_states[i].str, name) == 0)
			return (unsigned int)ana_states[i].val;
	return 0;
}

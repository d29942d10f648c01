/* SPDX-License-Identifier: BSD-3-Clause */
/* Value ranges, relations between keys, and defaults. */
#include "config_priv.h"
#include "tgt_limits.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "nvmf/text.h"
#include "util/cleanup.h"
#include "util/parse.h"
#include "util/sockaddr.h"

#define CONTROL_PATH_MAX 107u /* sun_path, with its NUL */
#define HTTP_ADDRESS     "127.0.0.1"
#define HTTP_PORT        10420
#define HOST_NAME_CHARS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
#define IO_QUEUES_MAX    1024
#define STATE_TIMES_MAX  1000000
#define LIMIT_MAX        1000000u
#define UNCONNECTED_MAX  65536u
#define ENGINE_DEPTH_MAX 4096
#define MDTS_MIN         (UINT64_C(4) << 10)
/* Just below 16 MiB fit into a keyed SGL descriptor. */
#define MDTS_MAX          (UINT64_C(8) << 20)
#define IN_CAPSULE_MAX    (UINT64_C(64) << 10)
#define BUFFER_MAX        (UINT64_C(256) << 30)
#define CAPSULES_MIN      (UINT64_C(1) << 20)
#define NSID_MAX          65535
#define NS_SIZE_MAX       (UINT64_C(1) << 62)
#define SERIAL_MAX        20
#define MODEL_MAX         40
#define CONGESTION_MAX    15
#define SOCKET_BUFFER_MIN (UINT64_C(16) << 10)
#define SOCKET_BUFFER_MAX (UINT64_C(1) << 30)
#define SPIN_MAX_NS       UINT64_C(1000000000)
#define SQPOLL_MAX_NS     UINT64_C(10000000000)
#define PEER_MIN_NS       UINT64_C(1000000000)
#define PEER_MAX_NS       (UINT64_C(3600) * 1000000000)
#define DRAIN_MAX_NS      (UINT64_C(3600) * 1000000000)
#define DEFAULT_PORT      NVMF_RDMA_PORT
#define DEFAULT_MODEL     "rdtarget"
#define DEFAULT_BLOCK     512

/* Namespace UUID for generated UUIDs. Changing it would change the identity of NVMe namespaces. */
static const uuid_t uuid_space = {0x5b, 0x1f, 0x43, 0x9e, 0x0c, 0x6a, 0x4d, 0x27,
				  0x9d, 0x3e, 0x62, 0x8f, 0xb7, 0x11, 0xa0, 0x54};

static bool is_power_of_2(uint64_t v)
{
	return v && (v & (v - 1)) == 0;
}

static bool key_given(struct rdt_config_load *load, const struct rdt_key *parent, const char *name)
{
	return rdt_config_child(load, parent, name).node != NULL;
}

static void only_with(struct rdt_config_load *load, const struct rdt_key *parent, const char *name,
		      const char *what)
{
	struct rdt_key key = rdt_config_child(load, parent, name);

	if (key.node)
		rdt_config_problem(load, &key, "is valid only with %s; remove it", what);
}

/* ---- single values ---- */

static void check_u32(struct rdt_config_load *load, const struct rdt_key *parent, const char *name,
		      uint32_t *value, uint32_t min, uint32_t max, uint32_t def)
{
	struct rdt_key key = rdt_config_child(load, parent, name);

	if (!key.node)
		*value = def;
	else if (*value < min || *value > max)
		rdt_config_problem(load, &key, "found %u, expected %u to %u", *value, min, max);
}

/* Use @def if @text was not given, so that it can always be printed. */
static int default_text(const char **text, const char *def)
{
	if (*text)
		return 0;
	*text = strdup(def);
	return *text ? 0 : -ENOMEM;
}

static bool parse_size(struct rdt_config_load *load, const struct rdt_key *key, const char *text,
		       uint64_t *bytes)
{
	if (rd_parse_size(text, bytes) == 0)
		return true;
	rdt_config_problem(load, key, "found \"%s\", expected a size such as 4096, 64KiB or 10GiB",
			   text);
	return false;
}

static int size_key(struct rdt_config_load *load, const struct rdt_key *parent, const char *name,
		    const char **text, const char *def, uint64_t min, uint64_t max, uint64_t *bytes)
{
	struct rdt_key key = rdt_config_child(load, parent, name);
	char lo[RD_SIZE_TEXT], hi[RD_SIZE_TEXT];

	*bytes = 0;
	if (default_text(text, def))
		return -ENOMEM;
	if (!parse_size(load, &key, *text, bytes))
		return 0;
	if (*bytes < min || *bytes > max) {
		rdt_config_problem(load, &key, "found \"%s\", expected %s to %s", *text,
				   rd_format_size(min, lo), rd_format_size(max, hi));
		*bytes = 0;
	}
	return 0;
}

static int duration_key(struct rdt_config_load *load, const struct rdt_key *parent,
			const char *name, const char **text, const char *def, uint64_t max,
			const char *max_text, uint64_t *ns)
{
	struct rdt_key key = rdt_config_child(load, parent, name);

	if (default_text(text, def))
		return -ENOMEM;
	if (rd_parse_duration(*text, ns) || *ns > max)
		rdt_config_problem(
			load, &key,
			"found \"%s\", expected a duration such as 20us, 200ms or 5s, at "
			"most %s",
			*text, max_text);
	return 0;
}

/* ---- target ---- */

static void check_congestion_name(struct rdt_config_load *load, const struct rdt_key *parent,
				  const char *name)
{
	struct rdt_key key = rdt_config_child(load, parent, "congestion");
	size_t len;

	if (!name)
		return;
	len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
	if (name[len] || len > CONGESTION_MAX)
		rdt_config_problem(
			load, &key,
			"found \"%s\", expected the name of a TCP congestion control; see "
			"/proc/sys/net/ipv4/tcp_available_congestion_control",
			name);
}

static int check_peer_timeout(struct rdt_config_load *load, const struct rdt_key *parent,
			      struct rdt_target_config *t)
{
	struct rdt_key key = rdt_config_child(load, parent, "peer_timeout");

	if (default_text(&t->peer_timeout, "60s"))
		return -ENOMEM;
	if (rd_parse_duration(t->peer_timeout, &t->peer_timeout_ns) ||
	    t->peer_timeout_ns > PEER_MAX_NS ||
	    (t->peer_timeout_ns && t->peer_timeout_ns < PEER_MIN_NS))
		rdt_config_problem(load, &key,
				   "found \"%s\", expected 0 (never) or a duration from 1s to 1h",
				   t->peer_timeout);
	return 0;
}

static int check_buffers(struct rdt_config_load *load, const struct rdt_key *key,
			 struct rdt_target_config *t)
{
	struct rdt_key mdts = rdt_config_child(load, key, "max_data_size");
	struct rdt_key capsule = rdt_config_child(load, key, "in_capsule_size");
	struct rdt_key memory = rdt_config_child(load, key, "buffer_memory");
	uint64_t mdts_bytes, capsule_bytes;

	if (size_key(load, key, "max_data_size", &t->max_data_size, "1MiB", MDTS_MIN, MDTS_MAX,
		     &mdts_bytes) ||
	    size_key(load, key, "in_capsule_size", &t->in_capsule_size, "8KiB", 0, IN_CAPSULE_MAX,
		     &capsule_bytes) ||
	    size_key(load, key, "buffer_memory", &t->buffer_memory, "32MiB", MDTS_MIN, BUFFER_MAX,
		     &t->buffer_bytes) ||
	    size_key(load, key, "capsule_memory", &t->capsule_memory, "32MiB", CAPSULES_MIN,
		     BUFFER_MAX, &t->capsule_bytes))
		return -ENOMEM;
	t->max_data_bytes = (uint32_t)mdts_bytes;
	t->in_capsule_bytes = (uint32_t)capsule_bytes;
	if (mdts_bytes && !is_power_of_2(mdts_bytes)) {
		rdt_config_problem(load, &mdts, "found \"%s\", expected a power of two",
				   t->max_data_size);
		return 0;
	}
	if (capsule_bytes % 16)
		rdt_config_problem(load, &capsule, "found \"%s\", expected a multiple of 16 bytes",
				   t->in_capsule_size);
	if (!mdts_bytes || !t->buffer_bytes)
		return 0;
	if (t->buffer_bytes < 4 * mdts_bytes)
		rdt_config_problem(load, &memory,
				   "found \"%s\", expected at least four times max_data_size (%s)",
				   t->buffer_memory, t->max_data_size);
	else if (t->buffer_bytes % mdts_bytes)
		rdt_config_problem(load, &memory,
				   "found \"%s\", expected a multiple of max_data_size (%s)",
				   t->buffer_memory, t->max_data_size);
	return 0;
}

static void check_state_dir(struct rdt_config_load *load, const struct rdt_key *parent,
			    const char *dir)
{
	struct rdt_key key = rdt_config_child(load, parent, "state_dir");

	/* The state must be found wherever the daemon is started. */
	if (dir && dir[0] != '/')
		rdt_config_problem(load, &key,
				   "found \"%s\", expected an absolute path such as "
				   "/var/lib/rdtarget",
				   dir);
}

/* A list with one CPU for each reactor. */
static void check_cpus(struct rdt_config_load *load, const struct rdt_key *cpus,
		       const uint32_t *list, uint32_t count, uint32_t reactors)
{
	if (count != reactors || count > RDT_REACTORS_MAX)
		rdt_config_problem(load, cpus,
				   "found %u CPUs for %u reactors, expected one for each, up to %u",
				   count, reactors, RDT_REACTORS_MAX);
	for (unsigned int i = 0; i < count; i++) {
		struct rdt_key cpu = rdt_config_item(load, cpus, i);

		if (list[i] >= CPU_SETSIZE)
			rdt_config_problem(load, &cpu, "found %u, expected 0 to %u", list[i],
					   CPU_SETSIZE - 1);
	}
}

static void check_reactors(struct rdt_config_load *load, const struct rdt_key *parent,
			   struct rdt_target_config *t)
{
	struct rdt_key cpus = rdt_config_child(load, parent, "cpus");

	check_u32(load, parent, "reactors", &t->reactors, 1, RDT_REACTORS_MAX,
		  cpus.node ? t->cpus_count : 2);
	if (cpus.node)
		check_cpus(load, &cpus, t->cpus, t->cpus_count, t->reactors);
}

static bool has_cpu(const uint32_t *list, uint32_t count, uint32_t cpu)
{
	for (unsigned int i = 0; i < count; i++)
		if (list[i] == cpu)
			return true;
	return false;
}

/* Both an SQPOLL thread and its reactor poll: on the same CPU each would wait for the other most of
 * the time. */
static void check_sqpoll_cpus(struct rdt_config_load *load, const struct rdt_key *parent,
			      const struct rdt_target_config *t)
{
	struct rdt_key cpus = rdt_config_child(load, parent, "sqpoll_cpus");

	if (!cpus.node) {
		if (t->sqpoll_ns && t->cpus_count)
			rdt_config_problem(load, &cpus,
					   "missing, expected a CPU for the sqpoll thread of each "
					   "reactor, because cpus is set");
		return;
	}
	if (!t->sqpoll_ns)
		rdt_config_problem(load, &cpus,
				   "is valid only with sqpoll; add it, for example \"sqpoll: "
				   "10ms\", or remove this key");
	check_cpus(load, &cpus, t->sqpoll_cpus, t->sqpoll_cpus_count, t->reactors);
	for (unsigned int i = 0; i < t->sqpoll_cpus_count; i++) {
		struct rdt_key cpu = rdt_config_item(load, &cpus, i);

		if (has_cpu(t->cpus, t->cpus_count, t->sqpoll_cpus[i]))
			rdt_config_problem(
				load, &cpu,
				"found %u, which cpus assigns to a reactor; expected another CPU",
				t->sqpoll_cpus[i]);
	}
}

static int check_sqpoll(struct rdt_config_load *load, const struct rdt_key *parent,
			struct rdt_target_config *t)
{
	struct rdt_key key = rdt_config_child(load, parent, "sqpoll");

	if (duration_key(load, parent, "sqpoll", &t->sqpoll, "0", SQPOLL_MAX_NS, "10s",
			 &t->sqpoll_ns))
		return -ENOMEM;
	if (t->sqpoll_ns % 1000000)
		rdt_config_problem(load, &key,
				   "found \"%s\", expected whole milliseconds, such as 10ms",
				   t->sqpoll);
	check_sqpoll_cpus(load, parent, t);
	return 0;
}

static void check_limits_section(struct rdt_config_load *load, const struct rdt_key *parent,
				 struct rdt_limits_config *l)
{
	struct rdt_key key = rdt_config_child(load, parent, "limits");
	const struct rdt_limits_config def = RDT_LIMITS_DEFAULT;
	const struct {
		const char *name;
		uint32_t *value;
		uint32_t max;
		uint32_t def;
	} keys[] = {
		{"connections", &l->connections, LIMIT_MAX, def.connections},
		{"connections_per_host", &l->connections_per_host, LIMIT_MAX,
		 def.connections_per_host},
		{"connections_per_address", &l->connections_per_address, LIMIT_MAX,
		 def.connections_per_address},
		{"controllers", &l->controllers, LIMIT_MAX, def.controllers},
		{"controllers_per_host", &l->controllers_per_host, LIMIT_MAX,
		 def.controllers_per_host},
		{"controllers_per_address", &l->controllers_per_address, LIMIT_MAX,
		 def.controllers_per_address},
		{"unconnected", &l->unconnected, UNCONNECTED_MAX, def.unconnected},
		{"unconnected_per_address", &l->unconnected_per_address, UNCONNECTED_MAX,
		 def.unconnected_per_address},
		{"half_open", &l->half_open, UNCONNECTED_MAX, def.half_open},
	};

	if (!key.node)
		*l = def;
	for (unsigned int i = 0; key.node && i < sizeof(keys) / sizeof(keys[0]); i++)
		check_u32(load, &key, keys[i].name, keys[i].value, 1, keys[i].max, keys[i].def);
}

static int check_target_section(struct rdt_config_load *load, const struct rdt_key *root,
				struct rdt_target_config *t)
{
	struct rdt_key key = rdt_config_child(load, root, "target");

	check_reactors(load, &key, t);
	check_u32(load, &key, "queue_depth", &t->queue_depth, 16, 1024, 128);
	check_u32(load, &key, "io_queues", &t->io_queues, 1, IO_QUEUES_MAX, 128);
	check_u32(load, &key, "sgl_descriptors", &t->sgl_descriptors, 1, RDT_MSDBD_MAX,
		  RDT_MSDBD_DEFAULT);
	check_u32(load, &key, "engine_depth", &t->engine_depth, 1, ENGINE_DEPTH_MAX, 256);
	check_u32(load, &key, "state_times", &t->state_times, 0, STATE_TIMES_MAX, 64);
	check_limits_section(load, &key, &t->limits);
	check_congestion_name(load, &key, t->congestion);
	check_state_dir(load, &key, t->state_dir);
	if (duration_key(load, &key, "spin", &t->spin, "50us", SPIN_MAX_NS, "1s", &t->spin_ns) ||
	    duration_key(load, &key, "drain_timeout", &t->drain_timeout, "10s", DRAIN_MAX_NS, "1h",
			 &t->drain_timeout_ns) ||
	    check_peer_timeout(load, &key, t) || check_sqpoll(load, &key, t))
		return -ENOMEM;
	return check_buffers(load, &key, t);
}

/* ---- listeners ---- */

/* Would both fail to bind? Port 0 is a different port each time. */
static bool listeners_clash(const struct rdt_listener_config *a,
			    const struct rdt_listener_config *b)
{
	struct sockaddr_storage sa, sb;
	struct sockaddr *pa = (struct sockaddr *)&sa, *pb = (struct sockaddr *)&sb;

	if (a->port == 0 || rd_addr_parse(a->address, a->port, &sa) ||
	    rd_addr_parse(b->address, b->port, &sb))
		return false;
	if (rd_addr_equal(pa, pb))
		return true;
	return a->port == b->port && pa->sa_family == pb->sa_family &&
	       (rd_addr_is_any(pa) || rd_addr_is_any(pb));
}

static void check_socket_buffer(struct rdt_config_load *load, const struct rdt_key *parent,
				const char *name, const char *text, uint32_t *bytes)
{
	struct rdt_key key = rdt_config_child(load, parent, name);
	char lo[RD_SIZE_TEXT], hi[RD_SIZE_TEXT];
	uint64_t v;

	if (!text || !parse_size(load, &key, text, &v))
		return;
	if (v < SOCKET_BUFFER_MIN || v > SOCKET_BUFFER_MAX)
		rdt_config_problem(load, &key, "found \"%s\", expected %s to %s", text,
				   rd_format_size(SOCKET_BUFFER_MIN, lo),
				   rd_format_size(SOCKET_BUFFER_MAX, hi));
	else
		*bytes = (uint32_t)v;
}

static void check_sockets(struct rdt_config_load *load, const struct rdt_key *key,
			  struct rdt_listener_config *l)
{
	check_congestion_name(load, key, l->congestion);
	check_socket_buffer(load, key, "send_buffer", l->send_buffer, &l->send_buffer_bytes);
	check_socket_buffer(load, key, "receive_buffer", l->receive_buffer,
			    &l->receive_buffer_bytes);
	if (l->provider != RDT_PROVIDER_VERBS)
		return;
	only_with(load, key, "congestion", "provider iwarp or auto");
	only_with(load, key, "send_buffer", "provider iwarp or auto");
	only_with(load, key, "receive_buffer", "provider iwarp or auto");
}

static void check_listener(struct rdt_config_load *load, const struct rdt_key *list,
			   struct rdt_config *config, unsigned int index)
{
	struct rdt_listener_config *l = &config->listeners[index];
	struct rdt_key key = rdt_config_item(load, list, index);
	struct rdt_key address = rdt_config_child(load, &key, "address");
	struct sockaddr_storage ss;
	char where[512];

	if (!key_given(load, &key, "port"))
		l->port = DEFAULT_PORT;
	if (!key_given(load, &key, "send_with_inv"))
		l->send_with_inv = true;
	if (!key_given(load, &key, "inline_sends"))
		l->inline_sends = true;
	if (l->provider == RDT_PROVIDER_IWARP) {
		only_with(load, &key, "send_with_inv", "provider verbs or auto");
		only_with(load, &key, "inline_sends", "provider verbs or auto");
	}
	check_sockets(load, &key, l);
	if (rd_addr_parse(l->address, l->port, &ss)) {
		rdt_config_problem(load, &address,
				   "found \"%s\", expected a numeric IPv4 or IPv6 address; 0.0.0.0 "
				   "or \"::\" for all",
				   l->address);
		return;
	}
	rdt_config_check_listener_ana(load, &key, l);
	for (unsigned int i = 0; i < index; i++) {
		struct rdt_key other = rdt_config_item(load, list, i);

		if (!listeners_clash(&config->listeners[i], l))
			continue;
		rdt_config_problem(load, &address, "%s port %u is already used by the listener %s",
				   l->address, l->port,
				   rdt_config_where(&key, &other, where, sizeof(where)));
		break;
	}
}

/* ---- namespaces ---- */

static void check_ns_uri(struct rdt_config_load *load, const struct rdt_key *key,
			 const struct rdt_ns_config *ns)
{
	struct rdt_key uri = rdt_config_child(load, key, "uri");

	if (!ns->uri)
		rdt_config_problem(load, &uri,
				   "missing, expected the URI of an export such as "
				   "nbd://192.0.2.1/disk");
	else if (strncmp(ns->uri, "nbd", 3) != 0 || !strstr(ns->uri, "://"))
		rdt_config_problem(load, &uri,
				   "found \"%.80s\", expected a URI that begins with nbd://, "
				   "nbds:// or nbd+unix://",
				   ns->uri);
}

static void check_ns_path(struct rdt_config_load *load, const struct rdt_key *key,
			  const struct rdt_ns_config *ns)
{
	bool disk = ns->backend == RDT_BACKEND_FILE || ns->backend == RDT_BACKEND_BLOCK;
	struct rdt_key path = rdt_config_child(load, key, "path");
	struct rdt_key create = rdt_config_child(load, key, "create");

	if (disk && !ns->path)
		rdt_config_problem(load, &path, "missing, expected the path of a %s",
				   ns->backend == RDT_BACKEND_FILE ? "file" : "block device");
	if (!disk) {
		only_with(load, key, "path", "backend file or block");
		only_with(load, key, "engine", "backend file or block");
		only_with(load, key, "direct", "backend file or block");
		only_with(load, key, "iopoll", "backend file or block");
	} else if (ns->engine == RDT_ENGINE_AIO) {
		only_with(load, key, "iopoll", "engine io_uring or auto");
	}
	if (ns->backend != RDT_BACKEND_BLOCK)
		only_with(load, key, "deallocate", "backend block");
	if (ns->backend != RDT_BACKEND_RBD)
		only_with(load, key, "rbd", "backend rbd");
	if (ns->backend != RDT_BACKEND_NBD)
		only_with(load, key, "uri", "backend nbd");
	else
		check_ns_uri(load, key, ns);
	if (ns->backend != RDT_BACKEND_FILE)
		only_with(load, key, "create", "backend file");
	else if (ns->create && ns->read_only)
		rdt_config_problem(
			load, &create,
			"a file that is created cannot be read_only; remove one of them");
}

static void check_ns_size(struct rdt_config_load *load, const struct rdt_key *key,
			  struct rdt_ns_config *ns)
{
	struct rdt_key size = rdt_config_child(load, key, "size");
	bool needed = ns->backend == RDT_BACKEND_MEMORY || ns->backend == RDT_BACKEND_NULL ||
		      (ns->backend == RDT_BACKEND_FILE && ns->create);

	if (ns->backend == RDT_BACKEND_BLOCK || ns->backend == RDT_BACKEND_RBD ||
	    ns->backend == RDT_BACKEND_NBD) {
		only_with(load, key, "size", "backend file, memory or null");
		return;
	}
	if (!ns->size) {
		if (needed)
			rdt_config_problem(
				load, &size, "missing, expected a size such as 10GiB%s",
				ns->backend == RDT_BACKEND_FILE ? " with \"create: true\"" : "");
		return;
	}
	if (!parse_size(load, &size, ns->size, &ns->size_bytes))
		return;
	if (ns->size_bytes == 0 || ns->size_bytes > NS_SIZE_MAX)
		rdt_config_problem(load, &size,
				   "found \"%s\", expected more than 0 and at most 4 EiB",
				   ns->size);
	else if (ns->block_size && ns->size_bytes % ns->block_size)
		rdt_config_problem(load, &size,
				   "found \"%s\" (%" PRIu64 " bytes), expected a multiple of "
				   "block_size (%u)",
				   ns->size, ns->size_bytes, ns->block_size);
}

static bool parse_hex(const char *text, uint8_t *bytes, size_t count)
{
	if (strlen(text) != 2 * count)
		return false;
	for (size_t i = 0; i < count; i++) {
		unsigned int v;

		if (!isxdigit((unsigned char)text[2 * i]) ||
		    !isxdigit((unsigned char)text[2 * i + 1]) ||
		    sscanf(text + 2 * i, "%2x", &v) != 1)
			return false;
		bytes[i] = (uint8_t)v;
	}
	return true;
}

bool rdt_config_all_zero(const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

static void check_hex_id(struct rdt_config_load *load, const struct rdt_key *parent,
			 const char *name, const char *text, uint8_t *bytes, size_t count)
{
	struct rdt_key key = rdt_config_child(load, parent, name);

	if (text && (!parse_hex(text, bytes, count) || rdt_config_all_zero(bytes, count)))
		rdt_config_problem(load, &key,
				   "found \"%s\", expected %zu hexadecimal digits, not all zero",
				   text, 2 * count);
}

static int check_ns_ids(struct rdt_config_load *load, const struct rdt_key *key, const char *nqn,
			struct rdt_ns_config *ns)
{
	struct rdt_key uuid = rdt_config_child(load, key, "uuid");
	char name[NVMF_NQN_MAX + 32], text[UUID_STR_LEN];

	check_hex_id(load, key, "nguid", ns->nguid, ns->nguid_bytes, sizeof(ns->nguid_bytes));
	check_hex_id(load, key, "eui64", ns->eui64, ns->eui64_bytes, sizeof(ns->eui64_bytes));
	if (ns->uuid) {
		if (uuid_parse(ns->uuid, ns->uuid_bytes) || uuid_is_null(ns->uuid_bytes))
			rdt_config_problem(
				load, &uuid,
				"found \"%s\", expected a UUID such as "
				"f81d4fae-7dec-11d0-a765-00a0c91e6bf6; uuidgen generates one",
				ns->uuid);
		return 0;
	}
	snprintf(name, sizeof(name), "%.223s/%u", nqn, ns->nsid);
	uuid_generate_sha1(ns->uuid_bytes, uuid_space, name, strlen(name));
	uuid_unparse_lower(ns->uuid_bytes, text);
	return default_text(&ns->uuid, text);
}

static int check_ns(struct rdt_config_load *load, const struct rdt_key *list,
		    struct rdt_subsys_config *ss, const char *const *sorted, unsigned int index)
{
	struct rdt_ns_config *ns = &ss->namespaces[index];
	struct rdt_key key = rdt_config_item(load, list, index);
	struct rdt_key nsid = rdt_config_child(load, &key, "nsid");
	struct rdt_key block = rdt_config_child(load, &key, "block_size");
	struct rdt_key backend;

	if (ns->nsid < 1 || ns->nsid > NSID_MAX)
		rdt_config_problem(load, &nsid, "found %u, expected 1 to %u", ns->nsid, NSID_MAX);
	if (!block.node) {
		ns->block_size = DEFAULT_BLOCK;
	} else if (ns->block_size != 512 && ns->block_size != 4096) {
		rdt_config_problem(load, &block, "found %u, expected 512 or 4096", ns->block_size);
		ns->block_size = 0;
	}
	backend = rdt_config_child(load, &key, "backend");
	/* With an unknown backend, its keys cannot be checked. */
	if (!rdt_config_is_bad(load, &backend)) {
		check_ns_path(load, &key, ns);
		check_ns_size(load, &key, ns);
	}
	if (rdt_config_check_ns_hosts(load, &key, ss, sorted, ns))
		return -ENOMEM;
	rdt_config_check_layers(load, &key, ns);
	rdt_config_check_ns_qos(load, &key, ns);
	return check_ns_ids(load, &key, ss->nqn, ns);
}

/* ---- subsystems ---- */

static void check_ascii_text(struct rdt_config_load *load, const struct rdt_key *parent,
			     const char *name, const char *text, size_t max)
{
	struct rdt_key key = rdt_config_child(load, parent, name);
	size_t len = text ? strlen(text) : 0;
	bool printable = true;

	for (size_t i = 0; i < len; i++)
		printable &= text[i] >= 0x20 && text[i] <= 0x7e;
	if (text && (!printable || len > max))
		rdt_config_problem(load, &key,
				   "found \"%.60s\", expected 1 to %zu printable ASCII characters",
				   text, max);
}

static int check_hosts(struct rdt_config_load *load, const struct rdt_key *key,
		       struct rdt_subsys_config *ss)
{
	struct rdt_key hosts = rdt_config_child(load, key, "hosts");
	struct rdt_key any = rdt_config_child(load, key, "allow_any_host");

	if (!any.node)
		ss->allow_any_host = ss->hosts_count == 0;
	else if (ss->allow_any_host && ss->hosts_count)
		rdt_config_problem(load, &any,
				   "found true together with a list of hosts; remove one of them");
	else if (!ss->allow_any_host && !ss->hosts_count)
		rdt_config_problem(load, &any,
				   "found false without hosts, so that nobody could connect; list "
				   "host NQNs under \"hosts:\"");
	return rdt_config_check_nqns(load, &hosts, ss->hosts, ss->hosts_count);
}

static void check_nqn(struct rdt_config_load *load, const struct rdt_key *subsystem,
		      const char *nqn)
{
	struct rdt_key at = rdt_config_child(load, subsystem, "nqn");

	if (strcmp(nqn, NVMF_DISC_NQN) == 0)
		rdt_config_problem(
			load, &at,
			"found the discovery NQN, which always exists; choose another name");
	else
		rdt_config_check_nqn(load, &at, nqn);
}

/* Derived from the NQN: stable across restarts, and different for each subsystem. */
static int default_serial(struct rdt_subsys_config *ss)
{
	char text[SERIAL_MAX + 1];
	uuid_t hash;

	uuid_generate_sha1(hash, uuid_space, ss->nqn, strlen(ss->nqn));
	for (size_t i = 0; i < SERIAL_MAX / 2; i++)
		snprintf(text + 2 * i, 3, "%02X", hash[i]);
	return default_text(&ss->serial, text);
}

/* NSIDs are unique within a subsystem. */
static int check_nsids(struct rdt_config_load *load, const struct rdt_key *list,
		       const struct rdt_subsys_config *ss)
{
	rd_autofree struct rdt_config_id *ids = calloc(ss->namespaces_count + 1, sizeof(*ids));
	rd_autofree unsigned int *first = calloc(ss->namespaces_count + 1, sizeof(*first));

	if (!ids || !first)
		return -ENOMEM;
	for (unsigned int i = 0; i < ss->namespaces_count; i++)
		ids[i] = (struct rdt_config_id){&ss->namespaces[i].nsid, sizeof(uint32_t), i};
	rdt_config_firsts(ids, ss->namespaces_count, first);
	for (unsigned int i = 0; i < ss->namespaces_count; i++) {
		struct rdt_key mine, other;

		if (first[i] == i)
			continue;
		mine = rdt_config_item(load, list, i);
		other = rdt_config_item(load, list, first[i]);
		mine = rdt_config_child(load, &mine, "nsid");
		rdt_config_problem(load, &mine,
				   "%u is already used by the namespace in line %lu; each needs "
				   "its own",
				   ss->namespaces[i].nsid, other.line);
	}
	return 0;
}

static int compare_nqns(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_namespaces(struct rdt_config_load *load, const struct rdt_key *subsystem,
			    struct rdt_subsys_config *ss)
{
	struct rdt_key list = rdt_config_child(load, subsystem, "namespaces");
	rd_autofree const char **sorted = calloc(ss->hosts_count + 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (unsigned int i = 0; i < ss->hosts_count; i++)
		sorted[i] = ss->hosts[i];
	qsort(sorted, ss->hosts_count, sizeof(*sorted), compare_nqns);
	for (unsigned int i = 0; i < ss->namespaces_count; i++)
		if (check_ns(load, &list, ss, sorted, i))
			return -ENOMEM;
	return check_nsids(load, &list, ss);
}

static int check_subsystem(struct rdt_config_load *load, const struct rdt_key *list,
			   struct rdt_config *config, unsigned int index)
{
	struct rdt_subsys_config *ss = &config->subsystems[index];
	struct rdt_key key = rdt_config_item(load, list, index);

	check_nqn(load, &key, ss->nqn);
	check_ascii_text(load, &key, "serial", ss->serial, SERIAL_MAX);
	check_ascii_text(load, &key, "model", ss->model, MODEL_MAX);
	if (check_hosts(load, &key, ss))
		return -ENOMEM;
	rdt_config_check_cntlids(load, &key, ss);
	if (rdt_config_check_host_qos(load, &key, ss))
		return -ENOMEM;
	if (default_serial(ss) || default_text(&ss->model, DEFAULT_MODEL))
		return -ENOMEM;
	return check_namespaces(load, &key, ss);
}

static void check_control(struct rdt_config_load *load, const struct rdt_key *root,
			  const struct rdt_control_config *control)
{
	struct rdt_key key = rdt_config_child(load, root, "control");
	struct rdt_key path = rdt_config_child(load, &key, "socket");

	if (key.node && !control->socket)
		rdt_config_problem(load, &path, "missing, expected the path of a socket");
	else if (control->socket && control->socket[0] != '/')
		rdt_config_problem(load, &path, "found \"%.60s\", expected an absolute path",
				   control->socket);
	else if (control->socket && strlen(control->socket) > CONTROL_PATH_MAX)
		rdt_config_problem(load, &path,
				   "has %zu bytes, expected at most %u, which is what a socket's "
				   "address holds",
				   strlen(control->socket), CONTROL_PATH_MAX);
}

static void check_host_name(struct rdt_config_load *load, const struct rdt_key *list,
			    const struct rdt_http_config *http, unsigned int i)
{
	struct rdt_key key = rdt_config_item(load, list, i);
	const char *name = http->host_names[i];

	if (!name[0] || strspn(name, HOST_NAME_CHARS) != strlen(name))
		rdt_config_problem(load, &key,
				   "found \"%.60s\", expected the name of this machine as clients "
				   "write it in URLs, without a port",
				   name);
}

static int check_http(struct rdt_config_load *load, const struct rdt_key *root,
		      struct rdt_http_config *http)
{
	struct rdt_key key = rdt_config_child(load, root, "http");
	struct rdt_key address = rdt_config_child(load, &key, "address");
	struct rdt_key names = rdt_config_child(load, &key, "host_names");
	struct sockaddr_storage ss;

	if (!key.node)
		return 0;
	if (!RDT_HAVE_HTTP)
		rdt_config_problem(load, &key,
				   "this rdtarget was built without libmicrohttpd and has no HTTP "
				   "listener; remove the key, or build with -Dhttp=enabled");
	if (default_text(&http->address, HTTP_ADDRESS))
		return -ENOMEM;
	if (!key_given(load, &key, "port"))
		http->port = HTTP_PORT;
	if (rd_addr_parse(http->address, http->port, &ss))
		rdt_config_problem(load, &address,
				   "found \"%.60s\", expected a numeric IPv4 or IPv6 address; "
				   "127.0.0.1 for this machine only",
				   http->address);
	for (unsigned int i = 0; i < http->host_names_count; i++)
		check_host_name(load, &names, http, i);
	return 0;
}

int rdt_config_check(struct rdt_config_load *load, struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root(load);
	struct rdt_key listeners = rdt_config_child(load, &root, "listeners");
	struct rdt_key subsystems = rdt_config_child(load, &root, "subsystems");

	if (check_target_section(load, &root, &config->target))
		return -ENOMEM;
	check_control(load, &root, &config->control);
	if (check_http(load, &root, &config->http))
		return -ENOMEM;
	for (unsigned int i = 0; i < config->listeners_count; i++)
		check_listener(load, &listeners, config, i);
	for (unsigned int i = 0; i < config->subsystems_count; i++) {
		if (check_subsystem(load, &subsystems, config, i))
			return -ENOMEM;
	}
	rdt_config_check_rbd(load, config);
	rdt_config_check_referrals(load, config);
	if (rdt_config_check_auth(load, config))
		return -ENOMEM;
	return rdt_config_check_unique(load, config);
}

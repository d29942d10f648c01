/* SPDX-License-Identifier: BSD-3-Clause */
/* The top-level keys, and those of the sections target, control and http. */
#include "keys.h"

#include <sched.h>
#include <string.h>

#include "tgt_limits.h"

#define KIB       UINT64_C(1024)
#define MIB       (1024 * KIB)
#define GIB       (1024 * MIB)
#define MS        UINT64_C(1000000)
#define S         (1000 * MS)
#define H         (3600 * S)
#define LIMIT_MAX 1000000u

static const struct rdt_choice starts[] = {
	{"serve-what-it-can", RDT_START_SERVE},
	{"all-or-nothing", RDT_START_ALL_OR_NOTHING},
	{NULL, 0},
};

#define T struct rdt_limits_config
#define LIMIT(field, most, default, text)                                       \
	{                                                                       \
#field, RDT_KEY_NUMBER, RDT_WHEN_RESTART, RDT_AT(T, field),     \
			.min = 1, .max = (most), .def = (default), .says = text \
	}

static const struct rdt_row limits_rows[] = {
	LIMIT(connections, LIMIT_MAX, "65536",
	      "Connections of the target; further ones are rejected."),
	LIMIT(connections_per_host, LIMIT_MAX, "16384",
	      "Connections of one host; further Connects are refused."),
	LIMIT(connections_per_address, LIMIT_MAX, "32768",
	      "Connections from one address (IPv6: /64 prefix); further ones are rejected."),
	LIMIT(controllers, LIMIT_MAX, "16384",
	      "Controllers of the target; further Connects are refused."),
	LIMIT(controllers_per_host, LIMIT_MAX, "1024",
	      "Controllers of one host; further Connects are refused."),
	LIMIT(controllers_per_address, LIMIT_MAX, "8192",
	      "Controllers of hosts at one address; further Connects are refused."),
	LIMIT(unconnected, 65536, "1024",
	      "Connections that have not completed a Connect and its authentication; one more ends "
	      "the oldest."),
	LIMIT(unconnected_per_address, 65536, "512",
	      "The same for one address; one more ends the oldest of that address."),
	LIMIT(half_open, 65536, "1024",
	      "iwarp: TCP connections of each listener without a complete MPA request."),
	{0},
};
#undef T

static const struct rdt_section limits_section = {{limits_rows}, sizeof(struct rdt_limits_config)};

const char *rdt_wrong_congestion(const char *text)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	return text[len] ? "" : NULL;
}

static const char *wrong_path(const char *text)
{
	return text[0] == '/' ? NULL : "";
}

static const struct rdt_row cpu_element = {
	.type = RDT_KEY_NUMBER, .width = sizeof(uint32_t), .max = CPU_SETSIZE - 1};

#define T       struct rdt_target_config
#define RESTART RDT_WHEN_RESTART

static const struct rdt_row target_rows[] = {
	{"reactors", RDT_KEY_NUMBER, RESTART, RDT_AT(T, reactors), .min = 1,
	 .max = RDT_REACTORS_MAX, .def = "2",
	 .says = "Threads that serve queue pairs; with cpus, one for each of them."},
	{"cpus", RDT_KEY_LIST, RESTART, RDT_LIST_AT(T, cpus), .min = 1, .max = RDT_REACTORS_MAX,
	 .element = &cpu_element, .unset = "the kernel's choice", .example = "[0, 1]",
	 .says = "The CPU of each reactor."},
	{"queue_depth", RDT_KEY_NUMBER, RESTART, RDT_AT(T, queue_depth), .min = 16, .max = 1024,
	 .def = "128", .says = "Largest number of entries of an I/O queue."},
	{"io_queues", RDT_KEY_NUMBER, RESTART, RDT_AT(T, io_queues), .min = 1,
	 .max = RDT_IO_QUEUES_MAX, .def = "128", .says = "I/O queues of each controller."},
	{"max_data_size", RDT_KEY_SIZE, RESTART, RDT_AT(T, max_data_size),
	 RDT_NUMBER_AT(T, max_data_bytes), .min = 4 * KIB,
	 .max = 8 * MIB, /* just below 16 MiB fit into a keyed SGL descriptor */
	 .power_of_2 = true, .def = "1MiB", .says = "Largest transfer of one command (MDTS)."},
	{"in_capsule_size", RDT_KEY_SIZE, RESTART, RDT_AT(T, in_capsule_size),
	 RDT_NUMBER_AT(T, in_capsule_bytes), .max = 64 * KIB, .step = 16, .def = "8KiB",
	 .says = "Largest write data inside the command capsule."},
	{"buffer_memory", RDT_KEY_SIZE, RESTART, RDT_AT(T, buffer_memory),
	 RDT_NUMBER_AT(T, buffer_bytes), .min = 4 * KIB, .max = 256 * GIB, .def = "32MiB",
	 .says = "Data buffers of each reactor: a multiple of max_data_size, at least four times "
		 "as large."},
	{"capsule_memory", RDT_KEY_SIZE, RESTART, RDT_AT(T, capsule_memory),
	 RDT_NUMBER_AT(T, capsule_bytes), .min = MIB, .max = 256 * GIB, .def = "32MiB",
	 .says = "iwarp and tcp: memory of each reactor for command capsules with data."},
	{"spin", RDT_KEY_DURATION, RESTART, RDT_AT(T, spin), RDT_NUMBER_AT(T, spin_ns), .max = S,
	 .def = "50us", .says = "Time for which a reactor polls after work before it sleeps."},
	{"congestion", RDT_KEY_TEXT, RESTART, RDT_AT(T, congestion), .max = 15,
	 .wrong = rdt_wrong_congestion, .unset = "the system's", .example = "bbr",
	 .expected = "the name of a TCP congestion control; see "
		     "/proc/sys/net/ipv4/tcp_available_congestion_control",
	 .says = "iwarp and tcp: TCP congestion control of listeners without one of their own."},
	{"peer_timeout", RDT_KEY_DURATION, RESTART, RDT_AT(T, peer_timeout),
	 RDT_NUMBER_AT(T, peer_timeout_ns), .min = S, .max = H, .or_zero = "never", .def = "60s",
	 .says = "iwarp and tcp: a connection ends when the host's machine has been silent for "
		 "this time."},
	{"drain_timeout", RDT_KEY_DURATION, RESTART, RDT_AT(T, drain_timeout),
	 RDT_NUMBER_AT(T, drain_timeout_ns), .max = H, .def = "10s",
	 .says = "Longest time that SIGTERM waits for I/O in flight."},
	{"sgl_descriptors", RDT_KEY_NUMBER, RESTART, RDT_AT(T, sgl_descriptors), .min = 1,
	 .max = RDT_MSDBD_MAX, .def = "16",
	 .says = "Largest number of keyed SGL data descriptors of one command (MSDBD)."},
	{"engine_depth", RDT_KEY_NUMBER, RESTART, RDT_AT(T, engine_depth), .min = 1, .max = 4096,
	 .def = "256",
	 .says = "Largest number of I/Os of each reactor and device in the kernel; a "
		 "device is a block device, or a file system with its files."},
	{"sqpoll", RDT_KEY_DURATION, RESTART, RDT_AT(T, sqpoll), RDT_NUMBER_AT(T, sqpoll_ns),
	 .min = MS, .max = 10 * S, .step = MS, .or_zero = "no such thread", .def = "0",
	 .says = "io_uring: time for which a kernel thread of each reactor, which submits its I/O, "
		 "polls before it sleeps."},
	{"sqpoll_cpus", RDT_KEY_LIST, RESTART, RDT_LIST_AT(T, sqpoll_cpus), .min = 1,
	 .max = RDT_REACTORS_MAX, .element = &cpu_element, .unset = "the kernel's choice",
	 .example = "[2, 3]",
	 .says = "The CPU of each reactor's sqpoll thread; required with sqpoll and cpus."},
	{"state_dir", RDT_KEY_TEXT, RESTART, RDT_AT(T, state_dir), .wrong = wrong_path,
	 .expected = "an absolute path such as /var/lib/rdtarget", .unset = "nothing persists",
	 .example = "/var/lib/rdtarget",
	 .says = "Absolute path of the directory for UUIDs, reservations and write protection "
		 "that survive a restart."},
	{"state_times", RDT_KEY_NUMBER, RESTART, RDT_AT(T, state_times), .max = 1000000,
	 .def = "64",
	 .says = "One I/O command out of this number is timed in each state; 0: none."},
	{"state_times_at_exit", RDT_KEY_BOOL, RESTART, RDT_AT(T, state_times_at_exit),
	 .def = "false", .says = "Whether these times are also logged at exit."},
	{"start", RDT_KEY_CHOICE, RESTART, RDT_AT(T, start), .choices = starts,
	 .def = "serve-what-it-can",
	 .says = "What to do at the start when a namespace cannot be opened, or a listener cannot "
		 "listen."},
	{"limits", RDT_KEY_MAPPING, RESTART, RDT_AT(T, limits), .section = &limits_section,
	 .says = "Limits on connections and controllers."},
	{0},
};
#undef T

static const struct rdt_section target_section = {{target_rows}, sizeof(struct rdt_target_config)};

/* ---- control ---- */

#define T struct rdt_control_config

static const struct rdt_row control_rows[] = {
	{"socket", RDT_KEY_TEXT, RESTART, RDT_AT(T, socket), .needed = RDT_ALWAYS,
	 .max = 107, /* sun_path, without its NUL */
	 .wrong = wrong_path, .expected = "the absolute path of a socket, at most 107 bytes",
	 .example = "/run/rdtarget/control.sock",
	 .says = "Absolute path of the socket; its directory must exist."},
	{"group", RDT_KEY_TEXT, RESTART, RDT_AT(T, group), .example = "rdtarget",
	 .unset = "that of admin_group, else the group that rdtarget runs as",
	 .says = "Group whose members may connect and call methods that only read."},
	{"admin_group", RDT_KEY_TEXT, RESTART, RDT_AT(T, admin_group), .example = "storage",
	 .unset = "root and the user that rdtarget runs as",
	 .says = "Group whose members may also call methods that change something."},
	{0},
};
#undef T

static const struct rdt_section control_section = {{control_rows},
						   sizeof(struct rdt_control_config)};

/* ---- http ---- */

static const char *wrong_host_name(const char *text)
{
	return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "-._")]
		       ? ""
		       : NULL;
}

static const struct rdt_row host_name_element = {
	.type = RDT_KEY_TEXT,
	.wrong = wrong_host_name,
	.expected = "the name of this machine as clients write it in URLs, without a port"};

#define T       struct rdt_http_config
#define AT_ONCE RDT_WHEN_AT_ONCE

static const struct rdt_row http_rows[] = {
	{"address", RDT_KEY_TEXT, AT_ONCE, RDT_AT(T, address), .def = "127.0.0.1",
	 .wrong = rdt_wrong_address,
	 .expected = "a numeric IPv4 or IPv6 address; 127.0.0.1 for this machine only",
	 .says = "Numeric address of the listener."},
	{"port", RDT_KEY_NUMBER, AT_ONCE, RDT_AT(T, port), .max = 65535, .def = "10420",
	 .says = "Its port; 0: any free port, which is logged."},
	{"host_names", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, host_names), .max = 256,
	 .element = &host_name_element, .example = "[storage1.example.org]",
	 .unset = "localhost and numeric addresses only",
	 .says = "Additional names that clients may use for it."},
	{0},
};
#undef T

static const struct rdt_section http_section = {{http_rows}, sizeof(struct rdt_http_config)};

/* ---- the file ---- */

static const struct rdt_row include_element = {.type = RDT_KEY_TEXT};
static const struct rdt_row listener_element = {.type = RDT_KEY_MAPPING,
						.section = &rdt_listener_section};
static const struct rdt_row subsys_element = {.type = RDT_KEY_MAPPING,
					      .section = &rdt_subsys_section};
static const struct rdt_row referral_element = {.type = RDT_KEY_MAPPING,
						.section = &rdt_referral_section};
static const struct rdt_row ceph_element = {.type = RDT_KEY_MAPPING, .section = &rdt_ceph_section};

#define T struct rdt_config

static const struct rdt_row config_rows[] = {
	{"target", RDT_KEY_MAPPING, RESTART, RDT_AT(T, target), .section = &target_section,
	 .says = "Settings of the whole target."},
	{"control", RDT_KEY_MAPPING, RESTART, RDT_AT(T, control), .section = &control_section,
	 .only_given = true, .unset = "there is none",
	 .says = "The control socket, rdtarget-control(7)."},
	{"ceph", RDT_KEY_LIST, RDT_WHEN_ANEW, RDT_LIST_AT(T, ceph), .max = 256,
	 .element = &ceph_element, .unset = "Ceph's own configuration, as user admin",
	 .says = "Ceph clusters, for namespaces with backend rbd."},
	{"http", RDT_KEY_MAPPING, AT_ONCE, RDT_AT(T, http), .section = &http_section,
	 .only_given = true, .unset = "there is none",
	 .says = "The status page and its figures; {} takes the defaults."},
	{"discovery", RDT_KEY_MAPPING, RDT_WHEN_CONNECTIONS, RDT_AT(T, discovery),
	 .section = &rdt_discovery_section,
	 .says = "The discovery log: who must authenticate, which transport hosts see."},
	{"include", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, include), .max = 16384,
	 .element = &include_element, .example = "[/etc/rdtarget/conf.d/*.yaml]", .unset = "none",
	 .says = "Other files with listeners, subsystems and referrals: paths or patterns."},
	{"listeners", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, listeners), .max = 4096,
	 .element = &listener_element, .unset = "no host can connect",
	 .says = "Addresses at which hosts connect."},
	{"subsystems", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, subsystems), .max = RDT_SUBSYSTEMS,
	 .element = &subsys_element, .unset = "there is nothing to connect to",
	 .says = "The subsystems with their namespaces."},
	{"referrals", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, referrals), .max = 1024,
	 .element = &referral_element, .unset = "none",
	 .says = "Other discovery services, which the discovery log contains."},
	{0},
};

const struct rdt_section rdt_config_section = {{config_rows}, sizeof(struct rdt_config)};

/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Version 5 UUIDs of "nqn.2026-01.org.example:a/3" and, for the serial, of the NQN alone. */
#define PINNED_UUID   "\x4d\xea\xf4\x2e\x35\x13\x52\xdc\x94\xfa\x53\xff\x50\x92\xda\xb9"
#define PINNED_SERIAL "7F06C9584FA55CB181EB"

static const struct bad structure_mistakes[] = {
	{"", "FILE:1: is empty, expected \"listeners:\" and \"subsystems:\"; \"{}\" is a "
	     "target "
	     "without any\n"},
	{"# only a comment\n", "FILE:1: is empty, expected \"listeners:\" and "
			       "\"subsystems:\"; \"{}\" is a target "
			       "without any\n"},
	{"just text\n",
	 "FILE:1: found \"just text\", expected a mapping (lines of \"key: value\")\n"},
	{"a: [1, 2\nb: 3\n", "FILE:2: not YAML: did not find expected ',' or ']' while "
			     "parsing a flow sequence\n"},
	{"\tlisteners: []\n", "FILE:1: not YAML: found character that cannot start any "
			      "token while scanning for the next token\n"},
	{"target:\n  reactor: 2\n" LISTEN SUBSYS,
	 "FILE:2: target.reactor: unknown key; did you mean \"reactors\"?\n"},
	{LISTEN SUBSYS "    frobnicate: 1\n",
	 "FILE:4: subsystems[0].frobnicate: unknown key; expected one of nqn, serial, "
	 "model, allow_any_host, hosts, shared_host_ids, cntlid_min, cntlid_max, duplicate_host, "
	 "discovery_transport, reservations, write_protect, host_qos, authentication, host_auth, "
	 "namespaces\n"},
	{"target:\n  reactors: many\n" LISTEN SUBSYS,
	 "FILE:2: target.reactors: found \"many\", expected a whole number, 1 to 64\n"},
	{"target:\n  reactors: -1\n" LISTEN SUBSYS,
	 "FILE:2: target.reactors: found \"-1\", expected a whole number, 1 to 64\n"},
	{"target:\n  reactors: 010\n" LISTEN SUBSYS,
	 "FILE:2: target.reactors: found \"010\", expected a whole number, 1 to 64\n"},
	{"target:\n  reactors: [2]\n" LISTEN SUBSYS,
	 "FILE:2: target.reactors: found a sequence, expected a whole number, 1 to 64\n"},
	{"target: 5\n" LISTEN SUBSYS,
	 "FILE:1: target: found \"5\", expected a mapping (lines of \"key: value\")\n"},
	{"target:\n" LISTEN SUBSYS,
	 "FILE:1: target: found nothing, expected a mapping (lines of \"key: value\")\n"},
	{"target:\n  spin:\n" LISTEN SUBSYS, "FILE:2: target.spin: found nothing, expected a "
					     "duration such as 20us, 200ms or 5s, 0 to 1s\n"},
	{"target:\n  spin: \"a\\0b\"\n" LISTEN SUBSYS,
	 "FILE:2: target.spin: contains a NUL character\n"},
	{"target:\n  reactors: 1\n  reactors: 2\n" LISTEN SUBSYS,
	 "FILE:3: target.reactors: given twice (first in line 2); remove one\n"},
	{"listeners:\n  - address: ::1\n    port: 70000\n    crc: off\n" SUBSYS,
	 "FILE:3: listeners[0].port: found 70000, expected 0 to 65535\n"
	 "FILE:4: listeners[0].crc: found \"off\", expected true or false\n"},
	{"listeners:\n  - port: 1\n" SUBSYS,
	 "FILE:2: listeners[0].address: missing, expected a numeric IPv4 or IPv6 address; 0.0.0.0 "
	 "or \"::\" for all\n"},
	{"listeners:\n  - address: fe80::1\n" SUBSYS,
	 "FILE:2: listeners[0].address: found \"fe80::1\", which is a link-local address without "
	 "its interface; write it as fe80::1%eth0; expected a numeric IPv4 or IPv6 address; "
	 "0.0.0.0 "
	 "or \"::\" for all\n"},
	{"listeners:\n  - address: ::ffff:127.0.0.1\nhttp: {address: \"::ffff:7f00:1\"}\n" SUBSYS,
	 "FILE:2: listeners[0].address: found \"::ffff:127.0.0.1\", which is an IPv4 address in "
	 "the "
	 "form of IPv6; write the IPv4 address; expected a numeric IPv4 or IPv6 address; 0.0.0.0 "
	 "or \"::\" for all\n"
	 "FILE:3: http.address: found \"::ffff:7f00:1\", which is an IPv4 address in the form of "
	 "IPv6; write the IPv4 address; expected a numeric IPv4 or IPv6 address; 127.0.0.1 for "
	 "this "
	 "machine only\n"},
	{"listeners:\n  - address: ::1\n    provider: tcp\n" SUBSYS,
	 "FILE:3: listeners[0].provider: found \"tcp\", expected auto, iwarp or verbs\n"},
	{"listeners:\n  - address: ::1\n    provider: iwarp\n    send_with_inv: false\n"
	 "    inline_sends: true\n" SUBSYS,
	 "FILE:4: listeners[0].send_with_inv: is valid only with provider auto or verbs; remove "
	 "it\n"
	 "FILE:5: listeners[0].inline_sends: is valid only with provider auto or verbs; remove "
	 "it\n"},
	{"listeners:\n  - address: ::1\n    transport: roce\n" SUBSYS,
	 "FILE:3: listeners[0].transport: found \"roce\", expected rdma or tcp\n"},
	{LISTEN SUBSYS NS "nsid: 1\n        backend: zfs\n",
	 "FILE:6: subsystems[0].namespaces[0].backend: found \"zfs\", expected file, "
	 "block, memory, null, rbd or nbd\n"},
	{LISTEN SUBSYS NS "backend: 1\n        [a, b]: 2\n",
	 "FILE:5: subsystems[0].namespaces[0].backend: found \"1\", expected file, block, memory, "
	 "null, rbd or nbd\n"
	 "FILE:5: subsystems[0].namespaces[0].nsid: missing, expected a whole number, 1 to 65535\n"
	 "FILE:6: subsystems[0].namespaces[0].?: a key must be a single word\n"},
};

static void structure_errors(void)
{
	CHECK_BAD(structure_mistakes);
}

static const struct bad target_mistakes[] = {
	{"target: {reactors: 0}\n" LISTEN SUBSYS,
	 "FILE:1: target.reactors: found 0, expected 1 to 64\n"},
	{"target: {reactors: 65}\n" LISTEN SUBSYS,
	 "FILE:1: target.reactors: found 65, expected 1 to 64\n"},
	{"target:\n  queue_depth: 15\n  io_queues: 0\n  engine_depth: 5000\n" LISTEN SUBSYS,
	 "FILE:2: target.queue_depth: found 15, expected 16 to 1024\n"
	 "FILE:3: target.io_queues: found 0, expected 1 to 1024\n"
	 "FILE:4: target.engine_depth: found 5000, expected 1 to 4096\n"},
	{"target:\n  limits: {connections: 0, unconnected: 65537}\n" LISTEN SUBSYS,
	 "FILE:2: target.limits.connections: found 0, expected 1 to 1000000\n"
	 "FILE:2: target.limits.unconnected: found 65537, expected 1 to 65536\n"},
	{"target:\n  limits: {connection: 1}\n" LISTEN SUBSYS,
	 "FILE:2: target.limits.connection: unknown key; did you mean \"connections\"?\n"},
	{"target:\n  sgl_descriptors: 0\n" LISTEN SUBSYS,
	 "FILE:2: target.sgl_descriptors: found 0, expected 1 to 64\n"},
	{"target: {sgl_descriptors: 65}\n" LISTEN SUBSYS,
	 "FILE:1: target.sgl_descriptors: found 65, expected 1 to 64\n"},
	{"target: {max_data_size: 1x}\n" LISTEN SUBSYS,
	 "FILE:1: target.max_data_size: found \"1x\", expected a size such as 64KiB, a power of "
	 "two, 4KiB to 8MiB\n"},
	{"target: {max_data_size: 2k}\n" LISTEN SUBSYS,
	 "FILE:1: target.max_data_size: found \"2k\", expected a power of two, 4KiB to 8MiB\n"},
	{"target: {max_data_size: 96KiB}\n" LISTEN SUBSYS,
	 "FILE:1: target.max_data_size: found \"96KiB\", expected a power of two, 4KiB to 8MiB\n"},
	{"target: {in_capsule_size: 100}\n" LISTEN SUBSYS,
	 "FILE:1: target.in_capsule_size: found \"100\", expected a multiple of 16, 0 to 64KiB\n"},
	{"target: {in_capsule_size: 128KiB}\n" LISTEN SUBSYS,
	 "FILE:1: target.in_capsule_size: found \"128KiB\", expected a multiple of 16, 0 to "
	 "64KiB\n"},
	{"target: {buffer_memory: 2MiB}\n" LISTEN SUBSYS,
	 "FILE:1: target.buffer_memory: found \"2MiB\", expected at least four times "
	 "max_data_size (1MiB)\n"},
	{"listeners: [{address: 127.0.0.1, send_buffer: 1k}]\n" SUBSYS,
	 "FILE:1: listeners[0].send_buffer: found \"1k\", expected 16KiB to 1GiB\n"},
	{"listeners: [{address: 127.0.0.1, receive_buffer: 2GiB}]\n" SUBSYS,
	 "FILE:1: listeners[0].receive_buffer: found \"2GiB\", expected 16KiB to 1GiB\n"},
	{"listeners: [{address: 127.0.0.1, provider: verbs, congestion: reno}]\n" SUBSYS,
	 "FILE:1: listeners[0].congestion: is valid only with provider auto or iwarp; remove it\n"},
	{"target: {reactors: 3, cpus: [0, 1]}\n" LISTEN SUBSYS,
	 "FILE:1: target.cpus: found 2 CPUs for 3 reactors, expected one for each\n"},
	{"target: {cpus: [0, 1024]}\n" LISTEN SUBSYS,
	 "FILE:1: target.cpus[1]: found 1024, expected 0 to 1023\n"},
	{"target: {sqpoll: 1500us}\n" LISTEN SUBSYS,
	 "FILE:1: target.sqpoll: found \"1500us\", expected 0 (no such thread) or a multiple of "
	 "1ms, 1ms to 10s\n"},
	{"target: {sqpoll: 11s}\n" LISTEN SUBSYS,
	 "FILE:1: target.sqpoll: found \"11s\", expected 0 (no such thread) or a multiple of 1ms, "
	 "1ms to 10s\n"},
	{"target: {sqpoll_cpus: [1, 1]}\n" LISTEN SUBSYS,
	 "FILE:1: target.sqpoll_cpus: is valid only with sqpoll; add it, for example "
	 "\"sqpoll: 10ms\", or remove this key\n"},
	{"target: {sqpoll: 1ms, cpus: [0, 1]}\n" LISTEN SUBSYS,
	 "FILE:1: target.sqpoll_cpus: missing, expected a CPU for the sqpoll thread of "
	 "each reactor, because cpus is set\n"},
	{"target: {sqpoll: 1ms, cpus: [0, 1], sqpoll_cpus: [2, 1]}\n" LISTEN SUBSYS,
	 "FILE:1: target.sqpoll_cpus[1]: found 1, which cpus assigns to a reactor; "
	 "expected another CPU\n"},
	{"target: {sqpoll: 1ms, sqpoll_cpus: [2]}\n" LISTEN SUBSYS,
	 "FILE:1: target.sqpoll_cpus: found 1 CPUs for 2 reactors, expected one for each\n"},
	{"target: {capsule_memory: 64k}\n" LISTEN SUBSYS,
	 "FILE:1: target.capsule_memory: found \"64k\", expected 1MiB to 256GiB\n"},
	{"target: {buffer_memory: 4097KiB}\n" LISTEN SUBSYS,
	 "FILE:1: target.buffer_memory: found \"4097KiB\", expected a multiple of "
	 "max_data_size (1MiB)\n"},
	{"target: {spin: 5}\n" LISTEN SUBSYS, "FILE:1: target.spin: found \"5\", expected a "
					      "duration such as 20us, 200ms or 5s, 0 to 1s\n"},
	{"target: {peer_timeout: 500ms}\n" LISTEN SUBSYS,
	 "FILE:1: target.peer_timeout: found \"500ms\", expected 0 (never) or 1s to 1h\n"},
	{"target: {peer_timeout: 2h}\n" LISTEN SUBSYS,
	 "FILE:1: target.peer_timeout: found \"2h\", expected 0 (never) or 1s to 1h\n"},
	{"target: {drain_timeout: 2h}\n" LISTEN SUBSYS,
	 "FILE:1: target.drain_timeout: found \"2h\", expected 0 to 1h\n"},
	{"target: {congestion: \"../x\"}\n" LISTEN SUBSYS,
	 "FILE:1: target.congestion: found \"../x\", expected the name of a TCP congestion "
	 "control; see /proc/sys/net/ipv4/tcp_available_congestion_control\n"},
};

static void target_errors(void)
{
	CHECK_BAD(target_mistakes);
}

static void listener_errors(void)
{
	static const struct bad bad[] = {
		{"listeners:\n- address: localhost\n" SUBSYS,
		 "FILE:2: listeners[0].address: found \"localhost\", expected a numeric IPv4 or "
		 "IPv6 address; 0.0.0.0 or \"::\" for all\n"},
		{"listeners:\n- address: ::1\n  transport: tcp\n  crc: true\n  provider: iwarp\n"
		 "  congestion: reno\n" SUBSYS,
		 "FILE:4: listeners[0].crc: not a key of transport tcp; remove it, or use "
		 "transport rdma\n"
		 "FILE:5: listeners[0].provider: not a key of transport tcp; remove it, or use "
		 "transport rdma\n"},
		{"listeners:\n- address: ::1\n- address: ::1\n  transport: tcp\n" SUBSYS,
		 "FILE:3: listeners[1].address: ::1 port 4420 is already used by the listener in "
		 "line 2\n"},
		{"listeners:\n- address: ::1\n- address: \"[0:0::1]\"\n  port: 4420\n" SUBSYS,
		 "FILE:3: listeners[1].address: [0:0::1] port 4420 is already used by the "
		 "listener in line 2\n"},
		{"listeners:\n- {address: 0.0.0.0, port: 9}\n- {address: 10.0.0.1, port: "
		 "9}\n" SUBSYS,
		 "FILE:3: listeners[1].address: 10.0.0.1 port 9 is already used by the listener "
		 "in line 2\n"},
	};

	CHECK_BAD(bad);
}

static void subsystem_errors(void)
{
	static const struct bad bad[] = {
		{LISTEN "subsystems:\n- nqn: a disk\n",
		 "FILE:3: subsystems[0].nqn: found \"a disk\", which contains a space or a "
		 "control character; expected a name such as nqn.2026-01.org.example:disk1\n"},
		{LISTEN "subsystems:\n- nqn: nqn.2014-08.org.nvmexpress.discovery\n",
		 "FILE:3: subsystems[0].nqn: found the discovery NQN, which always exists; choose "
		 "another name\n"},
		{LISTEN SUBSYS "  - nqn: nqn.2026-01.org.example:a\n",
		 "FILE:4: subsystems[1].nqn: \"nqn.2026-01.org.example:a\" is already used by the "
		 "subsystem in line 3; each needs its own\n"},
		{LISTEN SUBSYS
		 "    serial: S1\n  - nqn: nqn.2026-01.org.example:b\n    serial: S1\n",
		 "FILE:6: subsystems[1].serial: \"S1\" is already used by the subsystem in line 3; "
		 "each needs its own\n"},
		{LISTEN SUBSYS "    serial: 123456789012345678901\n    model: caf\xc3\xa9\n",
		 "FILE:4: subsystems[0].serial: found \"123456789012345678901\", expected 1 to 20 "
		 "printable ASCII characters\n"
		 "FILE:5: subsystems[0].model: found \"caf\xc3\xa9\", expected 1 to 40 printable "
		 "ASCII characters\n"},
		{LISTEN SUBSYS "    allow_any_host: true\n    hosts: [nqn.2026-01.org.example:h]\n",
		 "FILE:4: subsystems[0].allow_any_host: found true together with a list of hosts; "
		 "remove one of them\n"},
		{LISTEN SUBSYS "    hosts:\n",
		 "FILE:4: subsystems[0].hosts: found nothing, expected a sequence (lines starting "
		 "with \"- \")\n"},
		{LISTEN SUBSYS "    allow_any_host: true\n    shared_host_ids: [6f0c2b4e]\n",
		 "FILE:5: subsystems[0].shared_host_ids[0]: found \"6f0c2b4e\", expected a "
		 "UUID\n"},
		{LISTEN SUBSYS "    hosts:\n    - nqn.2026-01.org.example:h\n    - b b\n"
			       "    - nqn.2026-01.org.example:h\n",
		 "FILE:6: subsystems[0].hosts[1]: found \"b b\", which contains a space or a "
		 "control character; expected a name such as nqn.2026-01.org.example:disk1\n"
		 "FILE:7: subsystems[0].hosts[2]: \"nqn.2026-01.org.example:h\" is listed twice, "
		 "first in line 5\n"},
	};

	CHECK_BAD(bad);
}

/* An empty list is a setting: nobody. Without a setting nobody may connect, too, and the place is
 * known, so that it can be named. */
static void who_may_connect(void)
{
	static const struct {
		const char *text;
		bool any, unset, no_hosts;
	} cases[] = {
		{LISTEN SUBSYS "    allow_any_host: true\n" NS
			       "{nsid: 1, backend: memory, size: 1M}\n",
		 true, false, false},
		{LISTEN SUBSYS "    allow_any_host: false\n" NS
			       "{nsid: 1, backend: memory, size: 1M}\n",
		 false, false, false},
		{LISTEN SUBSYS "    hosts: []\n" NS
			       "{nsid: 1, backend: memory, size: 1M, hosts: []}\n",
		 false, false, true},
		{LISTEN SUBSYS "    allow_any_host: false\n    hosts: []\n" NS
			       "{nsid: 1, backend: memory, size: 1M}\n",
		 false, false, false},
		{LISTEN SUBSYS NS "{nsid: 1, backend: memory, size: 1M}\n", false, true, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdt_config *config T_ENDS(rdt_config_put) = NULL;
		const struct rdt_subsys_config *ss;
		struct said said;

		CU_ASSERT_EQUAL_FATAL(
			t_config_load_text(cases[i].text, strlen(cases[i].text), &said, &config),
			0);
		CU_ASSERT_STRING_EQUAL(said.text, "");
		ss = &config->subsystems[0];
		CU_ASSERT_EQUAL(ss->allow_any_host, cases[i].any);
		CU_ASSERT_EQUAL(ss->hosts_count, 0);
		CU_ASSERT_EQUAL(ss->hosts_unset != NULL, cases[i].unset);
		if (ss->hosts_unset)
			CU_ASSERT_PTR_NOT_NULL(strstr(ss->hosts_unset, ":3: subsystems[0]"));
		CU_ASSERT_EQUAL(ss->namespaces[0].no_hosts, cases[i].no_hosts);
	}
}

static void path_errors(void)
{
	static const struct bad bad[] = {
		{"listeners:\n- address: ::1\n  ana:\n  - {group: 0, state: change}\n"
		 "  - {group: 65, state: optimized}\n  - {group: 2, state: optimized}\n"
		 "  - {group: 2, state: inaccessible}\n" SUBSYS,
		 "FILE:4: listeners[0].ana[0].group: found 0, expected 1 to 64\n"
		 "FILE:5: listeners[0].ana[1].group: found 65, expected 1 to 64\n"
		 "FILE:7: listeners[0].ana[3].group: \"2\" is listed twice, first in line 6\n"},
		{"listeners:\n- address: ::1\n  ana: [{group: 1, state: up}]\n" SUBSYS,
		 "FILE:3: listeners[0].ana[0].state: found \"up\", expected optimized, "
		 "non-optimized, "
		 "inaccessible, persistent-loss or change\n"},
		{LISTEN SUBSYS "    cntlid_min: 0\n", "FILE:4: subsystems[0].cntlid_min: found 0, "
						      "expected 1 to 65519\n"},
		{LISTEN SUBSYS "    cntlid_min: 9\n    cntlid_max: 8\n",
		 "FILE:5: subsystems[0].cntlid_max: found 8, expected 9 (cntlid_min) to 65519\n"},
		{LISTEN SUBSYS "    reservations: no\n    write_protect: on\n",
		 "FILE:4: subsystems[0].reservations: found \"no\", expected on or off\n"
		 "FILE:5: subsystems[0].write_protect: found \"on\", expected off, until-reset or "
		 "all\n"},
		{LISTEN SUBSYS "    duplicate_host: kick\n",
		 "FILE:4: subsystems[0].duplicate_host: found \"kick\", expected allow, replace or "
		 "refuse\n"},
		{LISTEN SUBSYS "    hosts: [nqn.2026-01.org.example:h]\n" NS
			       "{nsid: 1, backend: memory, size: 1M, ana_group: 99,\n"
			       "hosts: [nqn.2026-01.org.example:i]}\n",
		 "FILE:6: subsystems[0].namespaces[0].ana_group: found 99, expected 1 to 64\n"
		 "FILE:7: subsystems[0].namespaces[0].hosts[0]: \"nqn.2026-01.org.example:i\" is "
		 "not among the subsystem's hosts, so it could never see the namespace; add it "
		 "there or remove it here\n"},
		{LISTEN SUBSYS "    discovery_transport: iwarp\n",
		 "FILE:4: subsystems[0].discovery_transport: found \"iwarp\", expected all, rdma "
		 "or tcp\n"},
		{LISTEN SUBSYS "discovery:\n  rdma_only: [nqn.2026-01.org.example:h]\n"
			       "  tcp_only:\n  - nqn.2026-01.org.example:i\n"
			       "  - nqn.2026-01.org.example:h\n",
		 "FILE:8: discovery.tcp_only[1]: found \"nqn.2026-01.org.example:h\", which is "
		 "also in "
		 "rdma_only; expected each host in one list, or in none to show it both\n"},
		{LISTEN SUBSYS "referrals:\n- {address: 0.0.0.0}\n- {address: 10.0.0.1, port: 0}\n",
		 "FILE:5: referrals[0].address: found \"0.0.0.0\", expected the numeric IPv4 or "
		 "IPv6 "
		 "address of a discovery service\n"
		 "FILE:6: referrals[1].port: found 0, expected 1 to 65535\n"},
	};

	t_config_check_bad(bad, sizeof(bad) / sizeof(bad[0]));
}

static void paths_are_loaded(void)
{
	static const char text[] = "listeners:\n- address: ::1\n"
				   "  ana: [{group: 3, state: inaccessible}]\n" SUBSYS
				   "    cntlid_min: 5\n    duplicate_host: replace\n"
				   "    reservations: off\n    write_protect: all\n" NS
				   "{nsid: 1, backend: memory, size: 1M}\n      - "
				   "{nsid: 2, backend: memory, size: 1M, ana_group: 3,\n"
				   "hosts: [nqn.2026-01.org.example:i]}\n"
				   "referrals:\n- {address: 10.0.0.1}\n";
	struct rdt_config *config T_ENDS(rdt_config_put) = NULL;
	struct said said;

	CU_ASSERT_EQUAL_FATAL(t_config_load_text(text, strlen(text), &said, &config), 0);
	CU_ASSERT_EQUAL(config->listeners[0].ana_count, 1);
	CU_ASSERT_EQUAL(config->listeners[0].ana[0].group, 3);
	CU_ASSERT_EQUAL(config->listeners[0].ana[0].state, RDT_ANA_INACCESSIBLE);
	CU_ASSERT_EQUAL(config->subsystems[0].cntlid_min, 5);
	CU_ASSERT_EQUAL(config->subsystems[0].cntlid_max, 65519);
	CU_ASSERT_EQUAL(config->subsystems[0].duplicate_host, RDT_DUPLICATE_REPLACE);
	CU_ASSERT_EQUAL(config->subsystems[0].reservations, RDT_RESERVATIONS_OFF);
	CU_ASSERT_EQUAL(config->subsystems[0].write_protect, RDT_WP_ALL);
	CU_ASSERT_EQUAL(config->subsystems[0].namespaces[0].ana_group, 1);
	CU_ASSERT_EQUAL(config->subsystems[0].namespaces[0].hosts_count, 0);
	CU_ASSERT_EQUAL(config->subsystems[0].namespaces[1].ana_group, 3);
	CU_ASSERT_STRING_EQUAL(config->subsystems[0].namespaces[1].hosts[0],
			       "nqn.2026-01.org.example:i");
	CU_ASSERT_EQUAL(config->referrals_count, 1);
	CU_ASSERT_EQUAL(config->referrals[0].port, 4420);
}

/* Names that other projects' tests use. */
static void names_of_other_forms(void)
{
	static const char text[] = LISTEN "subsystems:\n- nqn: blktests-subsystem-1\n  hosts: "
					  "[nqn.2026-01.org.example:h, bob]\n";
	struct rdt_config *config T_ENDS(rdt_config_put) = NULL;
	struct said said;

	CU_ASSERT_EQUAL_FATAL(t_config_load_text(text, strlen(text), &said, &config), 0);
	CU_ASSERT_STRING_EQUAL(config->subsystems[0].nqn, "blktests-subsystem-1");
	CU_ASSERT_PTR_NOT_NULL(strstr(said.text, "warning: config: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(said.text, ":3: subsystems[0].nqn: found "
						 "\"blktests-subsystem-1\", which does not start "
						 "with \"nqn.\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(said.text, ":4: subsystems[0].hosts[1]: found \"bob\""));
	CU_ASSERT_PTR_NULL(strstr(said.text, "hosts[0]"));
}

/* Earlier versions took it without a word. */
static void any_host_and_an_empty_list(void)
{
	static const char text[] = LISTEN SUBSYS "    allow_any_host: true\n    hosts: []\n";
	struct rdt_config *config T_ENDS(rdt_config_put) = NULL;
	struct said said;

	CU_ASSERT_EQUAL_FATAL(t_config_load_text(text, strlen(text), &said, &config), 0);
	CU_ASSERT_TRUE(config->subsystems[0].allow_any_host);
	CU_ASSERT_PTR_NOT_NULL(strstr(said.text, "warning: config: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(said.text,
				      "subsystems[0].allow_any_host: found true together "
				      "with an empty list of hosts: every host may "
				      "connect; remove one of them"));
}

/* A key that is wrong in itself does not prevent the check of other keys. */
static void all_mistakes_at_once(void)
{
	static const struct bad bad[] = {
		{"target: {reactors: 99, spin: fast, frobs: 1}\n"
		 "listeners: [{address: nowhere, port: 70000}]\n" SUBSYS NS
		 "{nsid: 0, backend: zfs, size: 5}\n      - {nsid: two, backend: memory}\n"
		 "      - {nsid: 3, backend: memory, size: 100, uuid: x}\n",
		 "FILE:1: target.reactors: found 99, expected 1 to 64\n"},
	};
	static const char *const also[] = {
		"FILE:1: target.frobs: unknown key; expected one of reactors, cpus, queue_depth",
		"FILE:2: listeners[0].port: found 70000, expected 0 to 65535\n",
		"namespaces[0].backend: found \"zfs\"",
		"namespaces[1].nsid: found \"two\"",
		"FILE:1: target.spin: found \"fast\", expected a duration",
		"FILE:2: listeners[0].address: found \"nowhere\"",
		"namespaces[0].nsid: found 0, expected 1",
		"namespaces[1].size: missing",
		"namespaces[2].size: found \"100\"",
		"namespaces[2].uuid: found \"x\"",
	};
	struct rdt_config *config;
	struct said said;

	CU_ASSERT_EQUAL(t_config_load_text(bad[0].text, strlen(bad[0].text), &said, &config),
			-EINVAL);
	CU_ASSERT_EQUAL(strncmp(said.text, bad[0].said, strlen(bad[0].said)), 0);
	for (size_t i = 0; i < sizeof(also) / sizeof(also[0]); i++) {
		if (!strstr(said.text, also[i])) {
			fputs("# missing: ", stdout);
			puts(also[i]);
		}
		CU_ASSERT_PTR_NOT_NULL(strstr(said.text, also[i]));
	}
	/* A value that could not be read is not reported a second time as out of range. */
	CU_ASSERT_PTR_NULL(strstr(said.text, "namespaces[1].nsid: found 0"));
	CU_ASSERT_PTR_NULL(strstr(said.text, "namespaces[0].path"));
}

static void nothing_to_serve(void)
{
	static const char *const texts[] = {"{}\n", "listeners: []\nsubsystems: []\n", LISTEN,
					    SUBSYS};
	struct rdt_config *config;
	struct said said;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(
			t_config_load_text(texts[i], strlen(texts[i]), &said, &config), 0);
		CU_ASSERT_STRING_EQUAL(said.text, "");
		CU_ASSERT_EQUAL(config->target.reactors, 2);
		rdt_config_put(&config);
	}
}

static void long_nqn(void)
{
	char text[600], want[400], nqn[225];
	struct rdt_config *config T_ENDS(rdt_config_put) = NULL;
	struct said said;

	memset(nqn, 'x', sizeof(nqn));
	memcpy(nqn, "nqn.2026-01.org.example:", 24);
	nqn[224] = '\0';
	snprintf(text, sizeof(text), LISTEN "subsystems:\n- nqn: %s\n", nqn);
	snprintf(want, sizeof(want),
		 "FILE:3: subsystems[0].nqn: found \"%.80s\", which is longer than 223 bytes; "
		 "expected a name such as nqn.2026-01.org.example:disk1\n",
		 nqn);
	CU_ASSERT_EQUAL(t_config_load_text(text, strlen(text), &said, &config), -EINVAL);
	CU_ASSERT_STRING_EQUAL(said.text, want);
	text[strlen(text) - 2] = '\n';
	CU_ASSERT_EQUAL(t_config_load_text(text, strlen(text), &said, &config), 0);
	CU_ASSERT_STRING_EQUAL(said.text, "");
}

#define NS0 "subsystems[0].namespaces[0]."

static const struct bad namespace_mistakes[] = {
	{LISTEN SUBSYS NS "{nsid: 0, backend: null, size: 1M}\n",
	 "FILE:5: " NS0 "nsid: found 0, expected 1 to 65535\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: null, size: 1M}\n"
			  "      - {nsid: 1, backend: null, size: 1M}\n",
	 "FILE:6: subsystems[0].namespaces[1].nsid: \"1\" is already used by the namespace in line "
	 "5; each needs its own\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: file, path: /x, read_only: true}\n"
			  "      - {nsid: 2, backend: file, path: /x}\n",
	 "FILE:6: subsystems[0].namespaces[1].path: /x is already served by the namespace "
	 "in line 5; use another file, or set \"read_only: true\" for both\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: null, size: 1M, block_size: 1024}\n",
	 "FILE:5: " NS0 "block_size: found 1024, expected 512 or 4096\n"},
	{LISTEN SUBSYS NS "nsid: 1\n        backend: file\n",
	 "FILE:5: subsystems[0].namespaces[0].path: missing, expected the path of a file or block "
	 "device\n"},
	{LISTEN SUBSYS NS "nsid: 1\n        backend: block\n        size: 1M\n",
	 "FILE:5: subsystems[0].namespaces[0].path: missing, expected the path of a file or block "
	 "device\n"
	 "FILE:7: subsystems[0].namespaces[0].size: is valid only with backend file, memory or "
	 "null; remove it\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: rbd, size: 1M, path: /x}\n",
	 "FILE:5: subsystems[0].namespaces[0].size: is valid only with backend file, memory or "
	 "null; remove it\n"
	 "FILE:5: subsystems[0].namespaces[0].path: is valid only with backend file or block; "
	 "remove it\n"
	 "FILE:5: subsystems[0].namespaces[0].rbd: missing, expected \"pool:\" and \"image:\" "
	 "under it\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: memory, size: 1M, rbd: {pool: a, image: b}}\n",
	 "FILE:5: " NS0 "rbd: is valid only with backend rbd; remove it\n"},
	{"ceph: [{name: a, user: client.x, options: [y], takeover: 2}, {name: a}]\n" LISTEN SUBSYS
		 NS "{nsid: 1, backend: rbd, rbd: {pool: a, image: '', snapshot: s}}\n"
	 "      - {nsid: 2, backend: rbd, read_only: true, rbd: {cluster: b, pool: a, image: c, "
	 "lock: exclusive}}\n",
	 "FILE:1: ceph[0].user: found \"client.x\", expected the name without \"client.\"\n"
	 "FILE:1: ceph[0].options[0]: found \"y\", expected NAME=VALUE with an option of Ceph, "
	 "such as rados_mon_op_timeout=30\n"
	 "FILE:1: ceph[0].takeover: found 2, expected 3 to 60 seconds\n"
	 "FILE:1: ceph[1].name: \"a\" is already used by the cluster in line 1; each needs its "
	 "own\n"
	 "FILE:6: subsystems[0].namespaces[0].rbd.image: found nothing, expected the name of an "
	 "image\n"
	 "FILE:6: subsystems[0].namespaces[0].rbd.cluster: missing, expected the name of one of "
	 "the 2 clusters under \"ceph:\"\n"
	 "FILE:6: subsystems[0].namespaces[0].rbd.snapshot: a snapshot cannot be written; add "
	 "\"read_only: true\" to the namespace\n"
	 "FILE:7: subsystems[0].namespaces[1].rbd.lock: a namespace with \"read_only: true\" takes "
	 "no lock; remove one of them\n"},
	{LISTEN SUBSYS NS
	 "{nsid: 1, backend: rbd, rbd: {pool: a, image: b}}\n"
	 "      - {nsid: 2, backend: rbd, rbd: {pool: a, image: c}}\n"
	 "      - {nsid: 3, backend: rbd, rbd: {pool: a, image: b, lock: exclusive}}\n",
	 "FILE:7: subsystems[0].namespaces[2].rbd.image: b is already served by the namespace in "
	 "line 5; use another image, or set \"read_only: true\" for both\n"},
	{LISTEN SUBSYS NS
	 "{nsid: 1, backend: rbd, rbd: {pool: a, image: b, encryption: luks2}}\n"
	 "      - {nsid: 2, backend: rbd, rbd: {pool: a, image: c, encryption_key_file: /k}}\n"
	 "      - {nsid: 3, backend: rbd, rbd: {pool: a, image: d, encryption: luks}}\n",
	 "FILE:5: " NS0 "rbd.encryption_key_file: missing, expected the path of the file with the "
	 "passphrase\n"
	 "FILE:6: subsystems[0].namespaces[1].rbd.encryption: missing, expected luks1 or luks2; "
	 "without it the key is not used\n"
	 "FILE:7: subsystems[0].namespaces[2].rbd.encryption: found \"luks\", expected none, luks1 "
	 "or luks2\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: rbd, rbd: {pool: a, image: b, cache: true}}\n"
			  "      - {nsid: 2, backend: rbd, rbd: {pool: a, image: c, cache: true, "
			  "lock: exclusive}}\n",
	 "FILE:6: subsystems[0].namespaces[1].rbd.cache: a gateway that takes over the image would "
	 "not have the data in this one's cache; remove it, or \"lock: exclusive\"\n"},
	{LISTEN SUBSYS "    cntlid_min: 1\n    reservations: \"off\"\n    cntlid_max: 9\n" NS
		       "{nsid: 1, backend: rbd, rbd: {pool: a, image: b, cache: true}}\n",
	 "FILE:8: " NS0 "rbd.cache: the subsystem has other gateways (it has a range of controller "
	 "IDs), which do not see the data in the cache; remove it, or cntlid_min and cntlid_max\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: nbd}\n"
			  "      - {nsid: 2, backend: nbd, uri: \"http://a\"}\n"
			  "      - {nsid: 3, backend: nbd, uri: \"nbd://a/b\"}\n"
			  "      - {nsid: 4, backend: nbd, uri: \"nbd://a/b\"}\n"
			  "      - {nsid: 5, backend: memory, size: 1M, uri: \"nbd://a\"}\n",
	 "FILE:5: subsystems[0].namespaces[0].uri: missing, expected the URI of an export, which "
	 "begins with nbd://, nbds:// or nbd+unix://, such as nbd://192.0.2.1/disk or "
	 "nbd+unix:///?socket=/run/nbd\n"
	 "FILE:6: subsystems[0].namespaces[1].uri: found \"http://a\", expected the URI of an "
	 "export, which begins with nbd://, nbds:// or nbd+unix://, such as nbd://192.0.2.1/disk "
	 "or "
	 "nbd+unix:///?socket=/run/nbd\n"
	 "FILE:8: subsystems[0].namespaces[3].uri: nbd://a/b is already served by the namespace in "
	 "line 7; use another export, or set \"read_only: true\" for both\n"
	 "FILE:9: subsystems[0].namespaces[4].uri: is valid only with backend nbd; remove it\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: nbd, uri: \"nbds+unix://a@/?socket=/s\"}\n"
			  "      - {nsid: 2, backend: nbd, uri: \"nbdx://a\"}\n"
			  "      - {nsid: 3, backend: nbd, uri: \"nbd+unix:///s\"}\n",
	 "FILE:6: subsystems[0].namespaces[1].uri: found \"nbdx://a\", expected the URI of an "
	 "export, which begins with nbd://, nbds:// or nbd+unix://, such as nbd://192.0.2.1/disk "
	 "or "
	 "nbd+unix:///?socket=/run/nbd\n"
	 "FILE:7: subsystems[0].namespaces[2].uri: found \"nbd+unix:///s\", expected the URI of an "
	 "export, which begins with nbd://, nbds:// or nbd+unix://, such as nbd://192.0.2.1/disk "
	 "or "
	 "nbd+unix:///?socket=/run/nbd\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: memory}\n",
	 "FILE:5: subsystems[0].namespaces[0].size: missing, expected a size such as 64KiB, 512 to "
	 "4EiB\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: file, path: /x, create: true}\n",
	 "FILE:5: " NS0 "size: missing, expected a size such as 10GiB with \"create: "
	 "true\"\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: memory, size: 1M, path: /x, engine: aio, "
			  "direct: off, create: true}\n",
	 "FILE:5: " NS0 "path: is valid only with backend file or block; remove it\nFILE:5: " NS0
	 "engine: is valid only with backend file or block; remove it\nFILE:5: " NS0
	 "direct: is valid only with backend file or block; remove it\nFILE:5: " NS0
	 "create: is valid only with backend file; remove it\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: memory, size: 1M, iopoll: true}\n",
	 "FILE:5: " NS0 "iopoll: is valid only with backend file or block; remove it\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: file, path: /x, engine: aio, iopoll: true}\n",
	 "FILE:5: subsystems[0].namespaces[0].iopoll: is valid only with engine auto or io_uring; "
	 "remove it\n"},
	{LISTEN SUBSYS NS
	 "{nsid: 1, backend: file, path: /x, create: true, size: 1M, read_only: true}\n",
	 "FILE:5: " NS0 "create: a file that is created cannot be read_only; remove one of "
	 "them\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: memory, size: 10 GiB}\n",
	 "FILE:5: subsystems[0].namespaces[0].size: found \"10 GiB\", expected a size such as "
	 "64KiB, 512 to 4EiB\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: memory, size: 0}\n",
	 "FILE:5: subsystems[0].namespaces[0].size: found \"0\", expected 512 to 4EiB\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: memory, size: 6k, block_size: 4096}\n",
	 "FILE:5: " NS0 "size: found \"6k\" (6144 bytes), expected a multiple of "
	 "block_size (4096)\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: memory, size: 1000}\n",
	 "FILE:5: " NS0 "size: found \"1000\" (1000 bytes), expected a multiple of "
	 "block_size (512)\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: null, size: 1M, uuid: 1234}\n",
	 "FILE:5: " NS0 "uuid: found \"1234\", expected a UUID such as "
	 "f81d4fae-7dec-11d0-a765-00a0c91e6bf6; uuidgen generates one\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: null, size: 1M, nguid: 12, "
			  "eui64: 0000000000000000}\n",
	 "FILE:5: " NS0 "nguid: found \"12\", expected 32 hexadecimal digits, not all "
	 "zero\n"
	 "FILE:5: " NS0 "eui64: found \"0000000000000000\", expected 16 hexadecimal "
	 "digits, not all zero\n"},
	{LISTEN SUBSYS NS "{nsid: 1, backend: null, size: 1M, eui64: 0x34567890123456}\n",
	 "FILE:5: " NS0 "eui64: found \"0x34567890123456\", expected 16 hexadecimal "
	 "digits, not all zero\n"},
	{LISTEN SUBSYS NS "nsid: 1\n        backend: null\n        size: 1M\n"
			  "        uuid: f81d4fae-7dec-11d0-a765-00a0c91e6bf6\n"
			  "  - nqn: nqn.2026-01.org.example:b\n" NS
			  "nsid: 1\n        backend: null\n        size: 1M\n"
			  "        uuid: F81D4FAE-7dec-11d0-a765-00a0c91e6bf6\n",
	 "FILE:14: subsystems[1].namespaces[0].uuid: F81D4FAE-7dec-11d0-a765-00a0c91e6bf6 "
	 "is "
	 "already used by the namespace in line 5; each needs its own\n"},
};

static void namespace_errors(void)
{
	CHECK_BAD(namespace_mistakes);
}

static void fills_in_defaults(void)
{
	static const char text[] =
		LISTEN "ceph: [{name: a}]\n" SUBSYS NS "{nsid: 3, backend: memory, size: 1GiB}\n";
	struct rdt_config *a, *b;
	struct said said;

	CU_ASSERT_EQUAL_FATAL(t_config_load_text(text, strlen(text), &said, &a), 0);
	CU_ASSERT_EQUAL_FATAL(t_config_load_text(text, strlen(text), &said, &b), 0);
	CU_ASSERT_STRING_EQUAL(said.text, "");
	CU_ASSERT_EQUAL(a->target.reactors, 2);
	CU_ASSERT_EQUAL(a->target.queue_depth, 128);
	CU_ASSERT_EQUAL(a->target.io_queues, 128);
	CU_ASSERT_EQUAL(a->target.engine_depth, 256);
	CU_ASSERT_EQUAL(a->target.sgl_descriptors, 16);
	CU_ASSERT_EQUAL(a->target.limits.connections, 65536);
	CU_ASSERT_EQUAL(a->target.limits.unconnected_per_address, 512);
	CU_ASSERT_EQUAL(a->ceph[0].takeover, RDT_CEPH_TAKEOVER);
	CU_ASSERT_EQUAL(a->target.state_times, 64);
	CU_ASSERT_FALSE(a->target.state_times_at_exit);
	CU_ASSERT_EQUAL(a->target.max_data_bytes, 1 << 20);
	CU_ASSERT_EQUAL(a->target.in_capsule_bytes, 8192);
	CU_ASSERT_EQUAL(a->target.buffer_bytes, 32 << 20);
	CU_ASSERT_EQUAL(a->target.capsule_bytes, 32 << 20);
	CU_ASSERT_EQUAL(a->target.spin_ns, 50000);
	CU_ASSERT_EQUAL(a->target.sqpoll_ns, 0);
	CU_ASSERT_EQUAL(a->target.peer_timeout_ns, UINT64_C(60000000000));
	CU_ASSERT_EQUAL(a->target.drain_timeout_ns, UINT64_C(10000000000));
	CU_ASSERT_PTR_NULL(a->target.congestion);
	CU_ASSERT_EQUAL_FATAL(a->listeners_count, 1);
	CU_ASSERT_EQUAL(a->listeners[0].port, 4420);
	CU_ASSERT_EQUAL(a->listeners[0].provider, RDT_PROVIDER_AUTO);
	CU_ASSERT_FALSE(a->listeners[0].crc);
	CU_ASSERT_TRUE(a->listeners[0].send_with_inv);
	CU_ASSERT_TRUE(a->listeners[0].inline_sends);
	CU_ASSERT_EQUAL_FATAL(a->subsystems_count, 1);
	CU_ASSERT_FALSE(a->subsystems[0].allow_any_host);
	CU_ASSERT_STRING_EQUAL(a->subsystems[0].model, "rdtarget");
	CU_ASSERT_EQUAL(strlen(a->subsystems[0].serial), 20);
	CU_ASSERT_STRING_EQUAL(a->subsystems[0].serial, b->subsystems[0].serial);
	CU_ASSERT_EQUAL_FATAL(a->subsystems[0].namespaces_count, 1);
	CU_ASSERT_EQUAL(a->subsystems[0].namespaces[0].block_size, 512);
	CU_ASSERT_EQUAL(a->subsystems[0].namespaces[0].size_bytes, 1 << 30);
	/* Constants: an identity that changes with a release is a lost disk. */
	CU_ASSERT_EQUAL(memcmp(a->subsystems[0].namespaces[0].uuid_bytes, PINNED_UUID, 16), 0);
	CU_ASSERT_PTR_NULL(a->subsystems[0].namespaces[0].uuid);
	CU_ASSERT_STRING_EQUAL(a->subsystems[0].serial, PINNED_SERIAL);
	rdt_config_put(&a);
	rdt_config_put(&b);
	CU_ASSERT_PTR_NULL(a);
	rdt_config_put(&a);
}

static const char every_key[] =
	"target:\n  reactors: 4\n  cpus: [3, 2, 1, 0]\n  queue_depth: 0x40\n  io_queues: "
	"8\n"
	"  max_data_size: 256k\n  in_capsule_size: 0\n  buffer_memory: 1M\n"
	"  capsule_memory: 2M\n"
	"  spin: 0\n  sqpoll: 2ms\n  sqpoll_cpus: [7, 6, 5, 4]\n  congestion: cubic\n  "
	"peer_timeout: 0\n  drain_timeout: 1.5s\n  engine_depth: 32\n"
	"  sgl_descriptors: 4\n  state_times: 0\n  state_times_at_exit: yes\n"
	"  limits: {connections: 9, connections_per_host: 8, connections_per_address: 7,\n"
	"           controllers: 6, controllers_per_host: 5, unconnected: 3, half_open: "
	"7}\n"
	"listeners:\n"
	"  - {address: 0.0.0.0, port: 0, provider: iwarp, crc: yes, congestion: reno,\n"
	"     send_buffer: 1M, receive_buffer: 256k}\n"
	"  - {address: 0.0.0.0, port: 0, send_with_inv: false}\n"
	"  - {address: '::', port: 4421, provider: verbs, send_with_inv: true, "
	"inline_sends: no}\n"
	"subsystems:\n"
	"  - nqn: nqn.2026-01.org.example:a\n    serial: S1\n    model: M 1\n"
	"    hosts: [nqn.2026-01.org.example:h]\n"
	"    namespaces:\n"
	"      - {nsid: 1, backend: file, path: /a, create: true, size: 8k, "
	"block_size: 4096, engine: aio, direct: on}\n"
	"      - {nsid: 9, backend: block, path: /dev/b, read_only: true, direct: off,\n"
	"         iopoll: true,\n"
	"         uuid: F81D4FAE-7dec-11d0-a765-00a0c91e6bf6,\n"
	"         nguid: 0123456789abcdef0123456789ABCDEF, eui64: 0123456789abcdef}\n"
	"  - nqn: nqn.2026-01.org.example:empty\n    allow_any_host: true\n";

static void check_target_keys(const struct rdt_config *c)
{
	CU_ASSERT_EQUAL(c->target.reactors, 4);
	CU_ASSERT_EQUAL(c->target.queue_depth, 64);
	CU_ASSERT_EQUAL(c->target.max_data_bytes, 262144);
	CU_ASSERT_EQUAL(c->target.in_capsule_bytes, 0);
	CU_ASSERT_EQUAL(c->target.buffer_bytes, 1 << 20);
	CU_ASSERT_EQUAL(c->target.capsule_bytes, 2 << 20);
	CU_ASSERT_EQUAL(c->target.limits.connections, 9);
	CU_ASSERT_EQUAL(c->target.limits.connections_per_host, 8);
	CU_ASSERT_EQUAL(c->target.limits.connections_per_address, 7);
	CU_ASSERT_EQUAL(c->target.limits.controllers, 6);
	CU_ASSERT_EQUAL(c->target.limits.controllers_per_host, 5);
	CU_ASSERT_EQUAL(c->target.limits.controllers_per_address, 8192);
	CU_ASSERT_EQUAL(c->target.limits.unconnected, 3);
	CU_ASSERT_EQUAL(c->target.limits.half_open, 7);
	CU_ASSERT_EQUAL(c->target.limits.unconnected_per_address, 512);
	CU_ASSERT_EQUAL_FATAL(c->target.cpus_count, 4);
	CU_ASSERT_EQUAL(c->target.cpus[0], 3);
	CU_ASSERT_EQUAL(c->target.cpus[3], 0);
	CU_ASSERT_EQUAL(c->target.spin_ns, 0);
	CU_ASSERT_EQUAL(c->target.sqpoll_ns, 2000000);
	CU_ASSERT_EQUAL_FATAL(c->target.sqpoll_cpus_count, 4);
	CU_ASSERT_EQUAL(c->target.sqpoll_cpus[0], 7);
	CU_ASSERT_STRING_EQUAL(c->target.congestion, "cubic");
	CU_ASSERT_EQUAL(c->target.sgl_descriptors, 4);
	CU_ASSERT_EQUAL(c->target.state_times, 0);
	CU_ASSERT_TRUE(c->target.state_times_at_exit);
	CU_ASSERT_EQUAL(c->target.peer_timeout_ns, 0);
	CU_ASSERT_EQUAL(c->target.drain_timeout_ns, UINT64_C(1500000000));
}

static void check_listener_keys(const struct rdt_config *c)
{
	CU_ASSERT_EQUAL_FATAL(c->listeners_count, 3);
	CU_ASSERT_EQUAL(c->listeners[0].port, 0);
	CU_ASSERT_STRING_EQUAL(c->listeners[0].congestion, "reno");
	CU_ASSERT_EQUAL(c->listeners[0].send_buffer_bytes, 1 << 20);
	CU_ASSERT_EQUAL(c->listeners[0].receive_buffer_bytes, 256 << 10);
	CU_ASSERT_PTR_NULL(c->listeners[1].congestion);
	CU_ASSERT_EQUAL(c->listeners[1].send_buffer_bytes, 0);
	CU_ASSERT_TRUE(c->listeners[0].crc);
	CU_ASSERT_EQUAL(c->listeners[0].provider, RDT_PROVIDER_IWARP);
	CU_ASSERT_FALSE(c->listeners[1].send_with_inv);
	CU_ASSERT_TRUE(c->listeners[1].inline_sends);
	CU_ASSERT_TRUE(c->listeners[2].send_with_inv);
	CU_ASSERT_FALSE(c->listeners[2].inline_sends);
}

static void check_subsystem_keys(const struct rdt_config *c)
{
	static const uint8_t eui[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
	const struct rdt_ns_config *ns;

	CU_ASSERT_EQUAL_FATAL(c->subsystems_count, 2);
	CU_ASSERT_FALSE(c->subsystems[0].allow_any_host);
	CU_ASSERT_STRING_EQUAL(c->subsystems[0].hosts[0], "nqn.2026-01.org.example:h");
	ns = c->subsystems[0].namespaces;
	CU_ASSERT_EQUAL(ns[0].engine, RDT_ENGINE_AIO);
	CU_ASSERT_EQUAL(ns[0].direct, RDT_DIRECT_ON);
	CU_ASSERT_FALSE(ns[0].iopoll);
	CU_ASSERT_TRUE(ns[1].iopoll);
	CU_ASSERT_TRUE(ns[0].create);
	CU_ASSERT_EQUAL(ns[0].size_bytes, 8192);
	CU_ASSERT_EQUAL(ns[1].backend, RDT_BACKEND_BLOCK);
	CU_ASSERT_TRUE(ns[1].read_only);
	CU_ASSERT_EQUAL(ns[1].uuid_bytes[0], 0xf8);
	CU_ASSERT_EQUAL(ns[1].nguid_bytes[15], 0xef);
	CU_ASSERT_EQUAL(memcmp(ns[1].eui64_bytes, eui, sizeof(eui)), 0);
	CU_ASSERT_EQUAL(c->subsystems[1].namespaces_count, 0);
	CU_ASSERT_TRUE(c->subsystems[1].allow_any_host);
	CU_ASSERT_STRING_NOT_EQUAL(c->subsystems[0].serial, c->subsystems[1].serial);
}

static void loads_every_key(void)
{
	struct rdt_config *c T_ENDS(rdt_config_put) = NULL;
	struct said said;

	if (t_config_load_text(every_key, strlen(every_key), &said, &c)) {
		printf("# %s", said.text);
		CU_FAIL_FATAL("good configuration refused");
	}
	check_target_keys(c);
	check_listener_keys(c);
	check_subsystem_keys(c);
}

static void gateways_state(void)
{
#define GATEWAY(more, lock)                                                                  \
	LISTEN "target: {state_dir: /s}\n" SUBSYS more "    namespaces:\n"                   \
	       "      - {nsid: 1, backend: rbd, rbd: {pool: a, image: b, lock: " lock "}}\n" \
	       "      - {nsid: 2, backend: rbd, rbd: {pool: a, image: c, lock: " lock "}}\n"
	static const char *const resv = "rbd: without \"lock: exclusive\" each gateway";
	static const char *const wp = "rbd: each gateway (the subsystem has a range of controller "
				      "IDs) keeps its own write protection";
	static const struct {
		const char *text;
		int resv, wp;
	} cases[] = {
		{GATEWAY("    cntlid_min: 1\n", "auto"), 1, 1},
		{GATEWAY("    cntlid_max: 9\n", "exclusive"), 0, 1},
		{GATEWAY("    cntlid_max: 9\n    write_protect: off\n", "exclusive"), 0, 0},
		{GATEWAY("    cntlid_max: 9\n    reservations: off\n    write_protect: off\n",
			 "auto"),
		 0, 0},
		{GATEWAY("", "auto"), 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdt_config *config;
		struct said said;
		const char *found;

		CU_ASSERT_EQUAL_FATAL(
			t_config_load_text(cases[i].text, strlen(cases[i].text), &said, &config),
			0);
		found = strstr(said.text, resv);
		CU_ASSERT_EQUAL(found != NULL, cases[i].resv);
		CU_ASSERT_PTR_NULL(found ? strstr(found + 1, resv) : NULL); /* once */
		found = strstr(said.text, wp);
		CU_ASSERT_EQUAL(found != NULL, cases[i].wp);
		CU_ASSERT_PTR_NULL(found ? strstr(found + 1, wp) : NULL);
		rdt_config_put(&config);
	}
#undef GATEWAY
}

const struct t_case t_config_cases[] = {
	{"mistakes of structure are named with their line", structure_errors},
	{"mistakes in target", target_errors},
	{"mistakes in listeners", listener_errors},
	{"mistakes in subsystems", subsystem_errors},
	{"an empty list of hosts is a setting, and nothing is none", who_may_connect},
	{"mistakes in paths and host lists", path_errors},
	{"an NQN of 224 bytes is refused, 223 are fine", long_nqn},
	{"NQNs of other forms are used, with a warning", names_of_other_forms},
	{"any host and an empty list of hosts, with a warning", any_host_and_an_empty_list},
	{"what each gateway keeps for itself is warned of", gateways_state},
	{"all mistakes are reported at once", all_mistakes_at_once},
	{"a target may have nothing to serve yet", nothing_to_serve},
	{"mistakes in namespaces", namespace_errors},
	{"what is not given is filled in, and stays the same", fills_in_defaults},
	{"paths and host lists arrive", paths_are_loaded},
	{"every key arrives in its field", loads_every_key},
	{NULL, NULL},
};

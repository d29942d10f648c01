/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of listeners, subsystems, hosts that authenticate themselves, and referrals. */
#include "keys.h"

#include <errno.h>

#include "nvmf/auth_ids.h"
#include "nvmf/wire.h"
#include "tgt_limits.h"
#include "util/sockaddr.h"

#define ANEW        RDT_WHEN_ANEW
#define AT_ONCE     RDT_WHEN_AT_ONCE
#define CONNECTIONS RDT_WHEN_CONNECTIONS

#define V4_MAPPED   "is an IPv4 address in the form of IPv6; write the IPv4 address"

const char *rdt_wrong_address(const char *text)
{
	struct sockaddr_storage ss;
	int err = rd_addr_parse(text, 0, &ss);

	if (err == -ENODEV) /* the interface may appear later */
		return NULL;
	if (err)
		return "";
	if (rd_addr_is_v4_mapped((const struct sockaddr *)&ss))
		return V4_MAPPED;
	if (rd_addr_lacks_scope((const struct sockaddr *)&ss))
		return "is a link-local address without its interface; write it as fe80::1%eth0";
	return NULL;
}

static const char *wrong_referral(const char *text)
{
	struct sockaddr_storage ss;

	if (rd_addr_parse(text, 0, &ss) || rd_addr_is_any((const struct sockaddr *)&ss))
		return "";
	return rd_addr_is_v4_mapped((const struct sockaddr *)&ss) ? V4_MAPPED : NULL;
}

static const char *wrong_ascii(const char *text)
{
	for (; *text; text++)
		if (*text < 0x20 || *text > 0x7e)
			return "";
	return NULL;
}

const struct rdt_row rdt_nqn_element = {.type = RDT_KEY_NQN};
static const struct rdt_row host_id_element = {
	.type = RDT_KEY_TEXT, .wrong = rdt_wrong_uuid, .expected = "a UUID"};

/* ---- listeners ---- */

static const struct rdt_choice providers[] = {{"auto", RDT_PROVIDER_AUTO},
					      {"iwarp", RDT_PROVIDER_IWARP},
					      {"verbs", RDT_PROVIDER_VERBS},
					      {NULL, 0}};

static const struct rdt_choice transports[] = {
	{"rdma", RDT_TRANSPORT_RDMA}, {"tcp", RDT_TRANSPORT_TCP}, {NULL, 0}};

static const struct rdt_choice tls_settings[] = {{"off", RDT_TLS_OFF},
						 {"allowed", RDT_TLS_ALLOWED},
						 {"required", RDT_TLS_REQUIRED},
						 {NULL, 0}};

static const struct rdt_choice ana_states[] = {{"optimized", RDT_ANA_OPTIMIZED},
					       {"non-optimized", RDT_ANA_NON_OPTIMIZED},
					       {"inaccessible", RDT_ANA_INACCESSIBLE},
					       {"persistent-loss", RDT_ANA_PERSISTENT_LOSS},
					       {"change", RDT_ANA_CHANGE},
					       {NULL, 0}};

const char *rdt_config_transport_name(enum rdt_transport_kind kind)
{
	const char *name = rdt_choice_name(transports, kind);

	return name ? name : "unknown";
}

const char *rdt_config_ana_name(unsigned int state)
{
	const char *name = rdt_choice_name(ana_states, state);

	return name ? name : "unknown";
}

unsigned int rdt_config_ana_state(const char *name)
{
	static const struct rdt_row row = {.type = RDT_KEY_CHOICE, .choices = ana_states};
	uint64_t state;

	return rdt_row_parse(&row, name, &state) ? 0 : (unsigned int)state;
}

#define T struct rdt_ana_config

static const struct rdt_row ana_rows[] = {
	{"group", RDT_KEY_NUMBER, AT_ONCE, RDT_AT(T, group), .min = 1, .max = RDT_ANA_GROUPS,
	 .needed = RDT_ALWAYS, .example = "2", .says = "An ANA group."},
	{"state", RDT_KEY_CHOICE, AT_ONCE, RDT_AT(T, state), .choices = ana_states,
	 .needed = RDT_ALWAYS, .example = "non-optimized", .says = "Its state on this listener."},
	{0},
};
#undef T

static const struct rdt_section ana_section = {{ana_rows}, sizeof(struct rdt_ana_config)};
static const struct rdt_row ana_element = {.type = RDT_KEY_MAPPING, .section = &ana_section};

#define T      struct rdt_listener_config
#define IWARP  (1u << RDT_PROVIDER_AUTO | 1u << RDT_PROVIDER_IWARP)
#define RDMA   (1u << RDT_TRANSPORT_RDMA)
#define TCP    (1u << RDT_TRANSPORT_TCP)
#define VERBS  (1u << RDT_PROVIDER_AUTO | 1u << RDT_PROVIDER_VERBS)
#define BUFFER .min = 16u << 10, .max = 1u << 30, .unset = "the kernel's choice", .example = "4MiB"

static const struct rdt_row listener_rows[] = {
	{"address", RDT_KEY_TEXT, ANEW, RDT_AT(T, address), .needed = RDT_ALWAYS,
	 .wrong = rdt_wrong_address, .example = "127.0.0.1",
	 .expected = "a numeric IPv4 or IPv6 address; 0.0.0.0 or \"::\" for all",
	 .says = "Numeric IPv4 or IPv6 address; 0.0.0.0 and \"::\" mean all addresses."},
	{"port", RDT_KEY_NUMBER, ANEW, RDT_AT(T, port), .max = 65535, .def = "4420",
	 .says = "TCP or RDMA port; 0: a free one, which is logged and kept."},
	{"transport", RDT_KEY_CHOICE, ANEW, RDT_AT(T, transport), .choices = transports,
	 .def = "rdma", .says = "NVMe/RDMA, or NVMe/TCP; each needs a port of its own."},
	{"provider", RDT_KEY_CHOICE, ANEW, RDT_AT(T, provider), .transports = RDMA,
	 .choices = providers, .def = "auto",
	 .says = "rdma: what serves the connections; auto: verbs if an RDMA device has the "
		 "address, "
		 "else iwarp."},
	{"crc", RDT_KEY_BOOL, ANEW, RDT_AT(T, crc), .transports = RDMA, .def = "false",
	 .says = "iwarp: whether CRC32C is requested on every frame."},
	{"congestion", RDT_KEY_TEXT, ANEW, RDT_AT(T, congestion), .max = 15, .with = IWARP,
	 .wrong = rdt_wrong_congestion, .unset = "that of target", .example = "reno",
	 .expected = "the name of a TCP congestion control; see "
		     "/proc/sys/net/ipv4/tcp_available_congestion_control",
	 .says = "TCP congestion control of this listener's connections."},
	{"send_buffer", RDT_KEY_SIZE, ANEW, RDT_AT(T, send_buffer),
	 RDT_NUMBER_AT(T, send_buffer_bytes), BUFFER, .with = IWARP,
	 .says = "Send buffer of each socket."},
	{"receive_buffer", RDT_KEY_SIZE, ANEW, RDT_AT(T, receive_buffer),
	 RDT_NUMBER_AT(T, receive_buffer_bytes), BUFFER, .with = IWARP,
	 .says = "Receive buffer of each socket."},
	{"tls", RDT_KEY_CHOICE, ANEW, RDT_AT(T, tls), .transports = TCP, .choices = tls_settings,
	 .def = "off",
	 .says = "tcp: whether hosts may begin with TLS, or must; with keys of host_auth."},
	{"send_with_inv", RDT_KEY_BOOL, ANEW, RDT_AT(T, send_with_inv), .transports = RDMA,
	 .with = VERBS, .def = "true",
	 .says = "Whether responses invalidate the host's memory key if the host asks for it."},
	{"inline_sends", RDT_KEY_BOOL, ANEW, RDT_AT(T, inline_sends), .transports = RDMA,
	 .with = VERBS, .def = "true",
	 .says = "Whether the work request carries responses, where the device supports it."},
	{"ana", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, ana), .max = RDT_ANA_GROUPS,
	 .element = &ana_element, .unset = "all groups are optimized",
	 .says = "Asymmetric Namespace Access: states of groups on this listener."},
	{0},
};
#undef T

const struct rdt_section rdt_listener_section = {
	{listener_rows}, sizeof(struct rdt_listener_config), "provider"};

/* ---- authentication ---- */

static const struct rdt_choice auth_settings[] = {
	{"optional", RDT_AUTH_OPTIONAL}, {"required", RDT_AUTH_REQUIRED}, {NULL, 0}};

static const struct rdt_choice auth_hashes[] = {{"sha256", NVMF_AUTH_SHA256},
						{"sha384", NVMF_AUTH_SHA384},
						{"sha512", NVMF_AUTH_SHA512},
						{NULL, 0}};

static const struct rdt_choice auth_groups[] = {{"null", NVMF_AUTH_GROUP_NULL},
						{"ffdhe2048", NVMF_AUTH_FFDHE2048},
						{"ffdhe3072", NVMF_AUTH_FFDHE3072},
						{"ffdhe4096", NVMF_AUTH_FFDHE4096},
						{"ffdhe6144", NVMF_AUTH_FFDHE6144},
						{"ffdhe8192", NVMF_AUTH_FFDHE8192},
						{NULL, 0}};

static const struct rdt_row hash_element = {
	.type = RDT_KEY_CHOICE, .width = sizeof(int), .choices = auth_hashes};
static const struct rdt_row group_element = {
	.type = RDT_KEY_CHOICE, .width = sizeof(int), .choices = auth_groups};

#define T struct rdt_host_auth_config

static const struct rdt_row host_auth_rows[] = {
	{"host", RDT_KEY_NQN, CONNECTIONS, RDT_AT(T, host), .needed = RDT_ALWAYS,
	 .example = RDT_EXAMPLE_HOST,
	 .says = "NQN of a host; in a subsystem it must also be in hosts."},
	{"dhchap_key_file", RDT_KEY_TEXT, CONNECTIONS, RDT_AT(T, dhchap_key_file),
	 .unset = "the host need not authenticate; tls_key_file is needed then",
	 .example = "/etc/rdtarget/keys/host1.key",
	 .says = "File with the key of the host for DH-HMAC-CHAP."},
	{"dhchap_ctrl_key_file", RDT_KEY_TEXT, CONNECTIONS, RDT_AT(T, dhchap_ctrl_key_file),
	 .unset = "a host that requires this is refused",
	 .example = "/etc/rdtarget/keys/host1.ctrl.key",
	 .says = "File with another key, by which the controller authenticates itself."},
	{"tls_key_file", RDT_KEY_TEXT, CONNECTIONS, RDT_AT(T, tls_key_file),
	 .unset = "the host cannot use TLS", .example = "/etc/rdtarget/keys/host1.tls.key",
	 .says = "File with the pre-shared key of the host for TLS."},
	{"dhchap_hashes", RDT_KEY_LIST, CONNECTIONS, RDT_LIST_AT(T, dhchap_hashes), .min = 1,
	 .max = RDT_AUTH_HASHES, .element = &hash_element, .unset = "all",
	 .example = "[sha256, sha384, sha512]",
	 .says = "Hashes that may be used, the preferred one first."},
	{"dhchap_dhgroups", RDT_KEY_LIST, CONNECTIONS, RDT_LIST_AT(T, dhchap_dhgroups), .min = 1,
	 .max = RDT_AUTH_GROUPS, .element = &group_element, .unset = "all but \"null\"",
	 .example = "[ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144, ffdhe8192, \"null\"]",
	 .says = "Diffie-Hellman groups that may be used, the preferred one first."},
	{0},
};
#undef T

const struct rdt_section rdt_host_auth_section = {{host_auth_rows},
						  sizeof(struct rdt_host_auth_config)};
static const struct rdt_row host_auth_element = {.type = RDT_KEY_MAPPING,
						 .section = &rdt_host_auth_section};

#define T struct rdt_subsys_config

/* Keys of subsystems and of the discovery subsystem. */
static const struct rdt_row auth_rows[] = {
	{"authentication", RDT_KEY_CHOICE, CONNECTIONS, RDT_AT(T, authentication),
	 .choices = auth_settings, .def = "optional",
	 .says = "Whether only hosts with a dhchap_key_file must authenticate themselves, or all "
		 "hosts."},
	{"host_auth", RDT_KEY_LIST, CONNECTIONS, RDT_LIST_AT(T, host_auth),
	 .element = &host_auth_element, .unset = "none",
	 .says = "Hosts with keys, for DH-HMAC-CHAP or TLS."},
	{0},
};

static const struct rdt_row discovery_rows[] = {
	{"rdma_only", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, rdma_only), .max = 1024,
	 .element = &rdt_nqn_element, .unset = "none", .example = RDT_EXAMPLE_HOSTS,
	 .says = "NQNs of hosts to which the discovery log lists NVMe/RDMA only."},
	{"tcp_only", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, tcp_only), .max = 1024,
	 .element = &rdt_nqn_element, .unset = "none", .example = RDT_EXAMPLE_HOSTS,
	 .says = "NQNs of hosts to which the discovery log lists NVMe/TCP only."},
	{0},
};

const struct rdt_section rdt_discovery_section = {{auth_rows, discovery_rows}, sizeof(T)};

/* ---- subsystems ---- */

static const struct rdt_choice duplicates[] = {{"allow", RDT_DUPLICATE_ALLOW},
					       {"replace", RDT_DUPLICATE_REPLACE},
					       {"refuse", RDT_DUPLICATE_REFUSE},
					       {NULL, 0}};

static const struct rdt_choice reservations[] = {
	{"on", RDT_RESERVATIONS_ON}, {"off", RDT_RESERVATIONS_OFF}, {NULL, 0}};

static const struct rdt_choice shown[] = {
	{"all", RDT_SHOW_ALL}, {"rdma", RDT_SHOW_RDMA}, {"tcp", RDT_SHOW_TCP}, {NULL, 0}};

static const struct rdt_choice write_protects[] = {
	{"off", RDT_WP_OFF}, {"until-reset", RDT_WP_UNTIL_RESET}, {"all", RDT_WP_ALL}, {NULL, 0}};

static const struct rdt_row host_qos_element = {.type = RDT_KEY_MAPPING,
						.section = &rdt_host_qos_section};
static const struct rdt_row ns_element = {.type = RDT_KEY_MAPPING, .section = &rdt_ns_section};

static const struct rdt_row subsys_rows[] = {
	{"nqn", RDT_KEY_NQN, ANEW, RDT_AT(T, nqn), .needed = RDT_ALWAYS,
	 .example = "nqn.2026-01.org.example:disk1", .says = "NVMe Qualified Name, unique."},
	{"serial", RDT_KEY_TEXT, RDT_WHEN_RESTART, RDT_AT(T, serial), .min = 1, .max = 20,
	 .wrong = wrong_ascii, .expected = "1 to 20 printable ASCII characters",
	 .unset = "derived from the NQN, so that it does not change", .example = "RD0001",
	 .says = "Serial number, up to 20 ASCII characters."},
	{"model", RDT_KEY_TEXT, RDT_WHEN_RESTART, RDT_AT(T, model), .min = 1, .max = 40,
	 .wrong = wrong_ascii, .expected = "1 to 40 printable ASCII characters", .def = "rdtarget",
	 .says = "Model number, up to 40 ASCII characters."},
	{"allow_any_host", RDT_KEY_BOOL, AT_ONCE, RDT_AT(T, allow_any_host),
	 .unset = "none; a subsystem needs this key or hosts", .example = "true",
	 .says = "Whether every host may connect."},
	{"hosts", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, hosts), .element = &rdt_nqn_element,
	 .unset = "none; a subsystem needs this key or allow_any_host",
	 .example = RDT_EXAMPLE_HOSTS,
	 .says = "NQNs of the hosts that may connect; an empty list: no host."},
	{"shared_host_ids", RDT_KEY_LIST, CONNECTIONS, RDT_LIST_AT(T, shared_host_ids), .max = 1024,
	 .element = &host_id_element, .unset = "none",
	 .example = "[6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11]",
	 .says = "Host Identifiers that several hosts with keys use on purpose."},
	{"cntlid_min", RDT_KEY_NUMBER, CONNECTIONS, RDT_AT(T, cntlid_min), .min = NVMF_CNTLID_MIN,
	 .max = NVMF_CNTLID_MAX, .def = "1", .says = "Smallest controller ID."},
	{"cntlid_max", RDT_KEY_NUMBER, CONNECTIONS, RDT_AT(T, cntlid_max), .min = NVMF_CNTLID_MIN,
	 .max = NVMF_CNTLID_MAX, .def = "65519", .says = "Largest controller ID."},
	{"duplicate_host", RDT_KEY_CHOICE, CONNECTIONS, RDT_AT(T, duplicate_host),
	 .choices = duplicates, .def = "allow",
	 .says = "Whether a host may have a second controller through the same listener, and if "
		 "not, which of the two is kept."},
	{"discovery_transport", RDT_KEY_CHOICE, AT_ONCE, RDT_AT(T, discovery_transport),
	 .choices = shown, .def = "all",
	 .says = "The transport whose listeners the discovery log lists for the subsystem."},
	{"reservations", RDT_KEY_CHOICE, RDT_WHEN_RESTART, RDT_AT(T, reservations),
	 .choices = reservations, .def = "on", .says = "Whether hosts may reserve namespaces."},
	{"write_protect", RDT_KEY_CHOICE, RDT_WHEN_RESTART, RDT_AT(T, write_protect),
	 .choices = write_protects, .def = "until-reset",
	 .says = "How hosts may protect namespaces against writes."},
	{"host_qos", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, host_qos), .element = &host_qos_element,
	 .unset = "none",
	 .says = "Limits per second of single hosts, over all namespaces of the subsystem."},
	{0},
};

/* The longest key is last. */
static const struct rdt_row namespaces_rows[] = {
	{"namespaces", RDT_KEY_LIST, AT_ONCE, RDT_LIST_AT(T, namespaces), .max = RDT_NS_SLOTS,
	 .element = &ns_element, .unset = "none", .says = "The namespaces of the subsystem."},
	{0},
};
#undef T

const struct rdt_section rdt_subsys_section = {{subsys_rows, auth_rows, namespaces_rows},
					       sizeof(struct rdt_subsys_config)};

/* ---- referrals ---- */

#define T struct rdt_referral_config

static const struct rdt_row referral_rows[] = {
	{"address", RDT_KEY_TEXT, AT_ONCE, RDT_AT(T, address), .needed = RDT_ALWAYS,
	 .wrong = wrong_referral, .example = "192.0.2.10",
	 .expected = "the numeric IPv4 or IPv6 address of a discovery service",
	 .says = "Numeric IPv4 or IPv6 address of the discovery service."},
	{"port", RDT_KEY_NUMBER, AT_ONCE, RDT_AT(T, port), .min = 1, .max = 65535, .def = "4420",
	 .says = "Its port."},
	{"transport", RDT_KEY_CHOICE, AT_ONCE, RDT_AT(T, transport), .choices = transports,
	 .def = "rdma", .says = "NVMe/RDMA, or NVMe/TCP."},
	{0},
};
#undef T

const struct rdt_section rdt_referral_section = {{referral_rows},
						 sizeof(struct rdt_referral_config)};

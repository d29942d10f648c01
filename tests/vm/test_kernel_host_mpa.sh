#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host on rdtarget, with each way in which siw can open a connection: CRC, the peer-to-peer model and
# MPA revision 1. Captures show what was on the wire.
# Interop: Linux nvme-rdma -> rdtarget
t_programs=(RDTARGET)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

configuration()
{
	cat <<-END
	listeners:
	  - { address: $user4, port: 4420, provider: iwarp }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, backend: memory, size: 16MiB }
	END
}

start()
{
	t_network
	configuration >/run/t/target.yaml
	t_target_start /run/t/target.yaml
	modprobe nvme-rdma
}

# through_siw NAME PARAMETER...
through_siw()
{
	local name=$1 device

	shift
	t_rdma "$@"
	t_capture_start "$name"
	connect_kernel "$user4" 4420
	verified_io "$device" --rw=randwrite --iodepth=16 --size=2m --bssplit=4k/60:20k/20:256k/20
	disconnect_kernel
	t_capture_stop "$name"
	t_until 20 t_target_is_idle
}

# handshake CAPTURE REQUEST REPLY: the start of each frame behind its key, as a regular expression of
# hexadecimal digits: flags, revision, length of private data, IRD, ORD.
handshake()
{
	local key_request=4d504120494420526571204672616d65 key_reply=4d504120494420526570204672616d65

	t_tshark "$1" -Y tcp.len -T fields -e tcp.payload | tr -d ':' |
		grep -E "^($key_request|$key_reply)" >"$t_scratch/$1.mpa"
	t_expect "^$key_request" "$t_scratch/$1.mpa"
	t_expect "^$key_reply" "$t_scratch/$1.mpa"
	! grep "^$key_request" "$t_scratch/$1.mpa" | grep -vE "^$key_request$2" ||
		t_fail "a request is not /$2/"
	! grep "^$key_reply" "$t_scratch/$1.mpa" | grep -vE "^$key_reply$3" ||
		t_fail "a reply is not /$3/"
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "siw with its defaults" through_siw plain
	t_case "siw requires CRC" through_siw crc mpa_crc_required=1
	t_case "siw requires CRC, strictly" through_siw strict_crc mpa_crc_required=1 mpa_crc_strict=1
	t_case "siw is a peer (RTR)" through_siw peer peer_to_peer=1
	t_case "siw is a peer (RTR) and requires CRC" through_siw peer_crc peer_to_peer=1 mpa_crc_required=1
	t_case "siw uses MPA revision 1" through_siw old mpa_version=1
	t_case "siw uses MPA revision 1 and requires CRC" through_siw old_crc mpa_version=1 \
		mpa_crc_required=1
	t_guest_done
fi

# IRD 128 is 0x80; bit 15 of it is the peer-to-peer model, of the ORD the RTR by Write.
ord='00(0[1-9a-f]|[1-7][0-9a-f]|80)'
t_case "handshake: enhanced" handshake plain "10020024""00800000" "1002....""....$ord"
t_case "handshake: CRC" handshake crc "50020024" "5002....""....$ord"
t_case "handshake: CRC, strict" handshake strict_crc "50020024" "5002....""....$ord"
t_case "handshake: peer to peer" handshake peer "10020024""[89abcdef]...[4-9a-f]..." \
	"1002....""[89abcdef]...[4-9a-f]..."
t_case "handshake: peer to peer and CRC" handshake peer_crc "50020024""[89abcdef]...[4-9a-f]..." \
	"5002....""[89abcdef]...[4-9a-f]..."
t_case "handshake: revision 1" handshake old "00010020" "0001"
t_case "handshake: revision 1 and CRC" handshake old_crc "40010020" "4001"
t_wire_cases plain crc strict_crc peer peer_crc old old_crc
t_dmesg_case
t_done

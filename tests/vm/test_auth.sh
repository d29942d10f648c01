#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2016,SC2034,SC2154,SC2317 # functions are called by name
# DH-HMAC-CHAP with the Linux kernel, in both directions: nvme-rdma or nvme-tcp on rdtarget, rdinit on nvmet-rdma or nvmet-tcp. The kernel needs
# authentication, which Debian 12's default has not, but its linux-image-6.12-amd64. docs/interop.md is about the default:
# Interop: none
t_programs=(RDTARGET RDINIT RDCONFORM)
if [ -z "${RD_VM_KERNEL:-}" ] && grep -qsx 'VERSION_ID="12"' /etc/os-release; then
	export RD_VM_KERNEL=linux-image-6.12-amd64
fi
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly hostnqn=nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6
readonly discovery=nqn.2014-08.org.nvmexpress.discovery
readonly nvmet=/sys/kernel/config/nvmet
# rdconform's
readonly conform_hosts=(nqn.2014-08.org.nvmexpress:uuid:5d6a8c1e-3a0f-4f57-9d0a-7c1be1a4000{1,2})
readonly list=$t_dir/../../docs/conformance.md
# Each hash without a group and with one, and each group. The hash of a key that a group gives does not depend on its size, and
# a large one takes 10 to 20 seconds here. None of it depends on the transport, so that of TCP has a few.
pairs=("sha256 null" "sha256 ffdhe2048" "sha384 ffdhe2048" "sha512 ffdhe2048")
[ "$provider" = tcp ] || pairs+=("sha256 ffdhe4096" "sha256 ffdhe8192" "sha384 null" "sha512 null")
readonly pairs

kernel_authenticates()
{
	grep -q dhchap_secret /dev/nvme-fabrics && [ -e /sys/kernel/config/nvmet/hosts/probe/dhchap_key ]
}

keys()
{
	(
		umask 077
		"$RDINIT" gen-dhchap-key --hmac=1 >/run/t/host.key
		"$RDINIT" gen-dhchap-key --hmac=2 >/run/t/ctrl.key
		"$RDINIT" gen-dhchap-key >/run/t/other.key
	)
}

# Of our host; "tcp" is no provider.
our_options()
{
	[ "$provider" = tcp ] || echo "--provider=$provider"
}

# ---- the kernel as host ----

# One subsystem for each hash and group, all with the same keys.
configuration()
{
	local pair hash group way="provider: $provider"

	[ "$provider" != tcp ] || way="transport: tcp"
	cat <<-END
	listeners:
	  - { address: $user4, port: 4420, $way }
	discovery:
	  authentication: required
	  host_auth:
	    - host: $hostnqn
	      dhchap_key_file: /run/t/host.key
	      dhchap_ctrl_key_file: /run/t/ctrl.key
	subsystems:
	END
	for pair in "${pairs[@]}"; do
		hash=${pair% *} group=${pair#* }
		cat <<-END
		  - nqn: $nqn:$hash:$group
		    allow_any_host: false
		    hosts: [$hostnqn]
		    authentication: required
		    host_auth:
		      - host: $hostnqn
		        dhchap_key_file: /run/t/host.key
		        dhchap_ctrl_key_file: /run/t/ctrl.key
		        dhchap_hashes: [$hash]
		        dhchap_dhgroups: ["$group"]
		    namespaces:
		      - { nsid: 1, backend: memory, size: 8MiB }
		END
	done
}

connect_as_host()
{
	local subnqn=$1

	shift
	nvme_fabric connect "$user4" 4420 -n "$subnqn" -q "$hostnqn" --nr-io-queues=2 "$@"
	t_until 30 has_block_device 1 "$subnqn"
}

disconnect_host()
{
	timeout 100 nvme disconnect -n "$1"
	t_until 30 no_controller "$1"
}

# rdtarget logs at most ten authentications in five seconds.
# connected_and_logged SUBNQN WORDS OPTION...: the host connects; true when the log has the queue's line.
connected_and_logged()
{
	local subnqn=$1 words=$2

	shift 2
	connect_as_host "$subnqn" "$@"
	if grep -qE "$subnqn: authenticated host $hostnqn .*queue 1: $words\$" /run/t/target.log; then
		return 0
	fi
	disconnect_host "$subnqn"
	return 1
}

# linux_host HASH GROUP: both directions, then one-way, each with data.
linux_host()
{
	local subnqn=$nqn:$1:$2 words="SHA-${1#sha}, $2"

	[ "$2" != null ] || words="SHA-${1#sha}, no Diffie-Hellman"
	t_until 60 connected_and_logged "$subnqn" "$words, and the controller" \
		-S "$(cat /run/t/host.key)" -C "$(cat /run/t/ctrl.key)"
	verified_io "$(block_device 1 "$subnqn")" --rw=randwrite --size=1m --bs=4k --iodepth=8
	disconnect_host "$subnqn"
	t_until 60 connected_and_logged "$subnqn" "$words" -S "$(cat /run/t/host.key)"
	verified_io "$(block_device 1 "$subnqn")" --rw=randwrite --size=1m --bs=4k --iodepth=8
	disconnect_host "$subnqn"
}

# connect_discovery HOST_KEY_FILE CTRL_KEY_FILE: by the kernel's own interface, because nvme-cli 2.4 leaves out the
# secrets where the subsystem is that of discovery.
connect_discovery()
{
	local options=transport=$kernel_transport,traddr=$user4,trsvcid=4420,nqn=$discovery,hostnqn=$hostnqn

	options+=,hostid=${hostnqn##*:},keep_alive_tmo=30,dhchap_secret=$(cat "$1"),dhchap_ctrl_secret=$(cat "$2")
	timeout 100 bash -c 'printf %s "$1" >/dev/nvme-fabrics' bash "$options"
}

linux_discovers()
{
	connect_discovery /run/t/host.key /run/t/ctrl.key
	t_until 30 controller "$discovery"
	timeout 100 nvme get-log "/dev/$(controller "$discovery")" --log-id=0x70 --log-len=4096 --raw-binary >/run/t/log
	grep -aq "$nqn:sha256:null" /run/t/log
	t_expect "$discovery: authenticated host $hostnqn .*queue 0: SHA-256, ffdhe2048, and the controller\$" /run/t/target.log
	disconnect_host "$discovery"
}

linux_does_not_discover()
{
	t_refuted nvme_fabric discover "$user4" 4420 -q "$hostnqn"
	t_refuted connect_discovery /run/t/other.key /run/t/ctrl.key
	t_refuted connect_discovery /run/t/host.key /run/t/other.key
	t_refuted nvme_fabric discover "$user4" 4420 -q "$hostnqn:other"
	# shellcheck disable=SC2046 # none or one word
	in_user timeout 100 "$RDINIT" discover "nvme+$kernel_transport://$user4:4420" --hostnqn "$hostnqn" $(our_options) \
		--dhchap-secret-file /run/t/host.key --dhchap-ctrl-secret-file /run/t/ctrl.key >/run/t/log
	t_expect "$nqn:sha256:null\$" /run/t/log
}

linux_host_is_refused()
{
	local subnqn=$nqn:sha256:ffdhe2048

	t_refuted nvme_fabric connect "$user4" 4420 -n "$subnqn" -q "$hostnqn" -S "$(cat /run/t/other.key)"
	t_refuted nvme_fabric connect "$user4" 4420 -n "$subnqn" -q "$hostnqn" -S "$(cat /run/t/host.key)" \
		-C "$(cat /run/t/other.key)"
	no_controller "$subnqn"
}

# As fio writes and checks, the host authenticates all its queues again by the same key.
linux_host_again()
{
	local subnqn=$nqn:sha384:ffdhe2048 device before

	connect_as_host "$subnqn" -S "$(cat /run/t/host.key)" -C "$(cat /run/t/ctrl.key)"
	device=$(block_device 1 "$subnqn")
	before=$(grep -c "$subnqn: authenticated host" /run/t/target.log)
	verified_io "$device" --rw=randwrite --size=4m --bs=4k --iodepth=4 --loops=4 &
	cat /run/t/host.key >"/sys/class/nvme/$(controller "$subnqn")/dhchap_secret"
	t_until 60 authenticated_more "$subnqn" $((before + 2))
	wait $!
	disconnect_host "$subnqn"
}

authenticated_more()
{
	[ "$(grep -c "$1: authenticated host" /run/t/target.log)" -ge "$2" ]
}

# ---- the kernel as target ----

nvmet_listens()
{
	if [ "$provider" = tcp ]; then
		ss -ltnH 'sport = :4420' | grep -q .
	else
		rdma res show cm_id | grep -q 'state LISTEN'
	fi
}

nvmet_start()
{
	local subsystem=$nvmet/subsystems/$nqn port=$nvmet/ports/1 host

	mkdir -p "$subsystem/namespaces/1"
	echo /dev/nullb0 >"$subsystem/namespaces/1/device_path"
	echo 1 >"$subsystem/namespaces/1/enable"
	mkdir "$nvmet/hosts/$hostnqn"
	cat /run/t/host.key >"$nvmet/hosts/$hostnqn/dhchap_key"
	cat /run/t/ctrl.key >"$nvmet/hosts/$hostnqn/dhchap_ctrl_key"
	ln -s "$nvmet/hosts/$hostnqn" "$subsystem/allowed_hosts/$hostnqn"
	for host in "${conform_hosts[@]}"; do
		mkdir "$nvmet/hosts/$host"
		cat /run/t/host.key >"$nvmet/hosts/$host/dhchap_key"
		cat /run/t/ctrl.key >"$nvmet/hosts/$host/dhchap_ctrl_key"
		echo ffdhe2048 >"$nvmet/hosts/$host/dhchap_dhgroup"
		ln -s "$nvmet/hosts/$host" "$subsystem/allowed_hosts/$host"
	done
	mkdir "$port"
	echo "$kernel_transport" >"$port/addr_trtype"
	echo ipv4 >"$port/addr_adrfam"
	echo "$kernel4" >"$port/addr_traddr"
	echo 4420 >"$port/addr_trsvcid"
	ln -s "$subsystem" "$port/subsystems/$nqn"
	t_until 20 nvmet_listens
}

# rdinit_on_nvmet VERB [OPTION...]
rdinit_on_nvmet()
{
	local verb=$1

	shift
	# shellcheck disable=SC2046 # none or one word
	in_user timeout 100 "$RDINIT" "$verb" "nvme+$kernel_transport://$kernel4/$nqn/1" --hostnqn "$hostnqn" $(our_options) "$@"
}

# linux_target HASH GROUP
linux_target()
{
	local host=(--dhchap-secret-file /run/t/host.key)

	echo "hmac($1)" >"$nvmet/hosts/$hostnqn/dhchap_hash"
	echo "$2" >"$nvmet/hosts/$hostnqn/dhchap_dhgroup"
	head -c 1000000 /dev/urandom >/run/t/data
	rdinit_on_nvmet write --data /run/t/data "${host[@]}" --dhchap-ctrl-secret-file /run/t/ctrl.key \
		--verbose --verbose 2>/run/t/trace || {
		grep "^rdinit" /run/t/trace
		return 1
	}
	t_expect "challenged with SHA-${1#sha}, $2\$" /run/t/trace
	cmp -n 1000000 /run/t/data <(dd if=/dev/nullb0 iflag=direct bs=1M count=1 status=none)
	rdinit_on_nvmet read --data-size 1000000 --data /run/t/back "${host[@]}"
	cmp /run/t/data /run/t/back
}

# rdinit_fails PATTERN [OPTION...]
rdinit_fails()
{
	local pattern=$1

	shift
	t_refuted rdinit_on_nvmet id-ns "$@" 2>/run/t/said
	t_expect "$pattern" /run/t/said
}

linux_target_is_refused()
{
	rdinit_fails "the target demands authentication, and there is no secret for host NQN \"$hostnqn\""
	# nvmet closes together with its Failure1, so that this may be lost.
	rdinit_fails "host NQN \"$hostnqn\": (refused by the target: authentication failed|no answer to the host.s proof)" \
		--dhchap-secret-file /run/t/other.key
	rdinit_fails "host NQN \"$hostnqn\": the target's proof is wrong" --dhchap-secret-file /run/t/host.key \
		--dhchap-ctrl-secret-file /run/t/other.key
}

# listed WORD: the tests that the page has with this word.
listed()
{
	sed -n "/^## Linux 6.12/,/^## /s/^| \`\([a-z_]*\.[a-z_]*\.[a-z0-9_]*\)\` | $1 |.*/\1/p" "$list" | sort
}

# The family auth of rdconform fails in exactly the tests that the page names.
conforms()
{
	listed differs >/run/t/known
	listed sometimes >/run/t/sometimes
	[ -s /run/t/known ] || t_fail "$list lists no differences"
	# shellcheck disable=SC2046 # none or one word
	in_user timeout 500 "$RDCONFORM" "nvme+$kernel_transport://$kernel4:4420/$nqn/1" -t auth $(our_options) --timeout 30s \
		--dhchap-secret-file /run/t/host.key --dhchap-ctrl-secret-file /run/t/ctrl.key >/run/t/conform.out 2>&1 ||
		[ $? -eq 1 ]
	cp /run/t/conform.out "$t_share/conform.log"
	t_expect '^[0-9]+ tests: ' /run/t/conform.out
	sed -n 's/^[0-9]* tests: /note: &/p' /run/t/conform.out
	sed -n 's/^\(.*\): FAILED$/\1/p' /run/t/conform.out | sort | comm -23 - /run/t/sometimes >/run/t/failed
	diff /run/t/known /run/t/failed || {
		grep -A 2 FAILED /run/t/conform.out
		t_fail "other differences than in docs/conformance.md"
	}
}

start()
{
	t_network
	[ "$provider" = tcp ] || t_rdma
	modprobe "nvme-$kernel_transport"
	modprobe "nvmet-$kernel_transport"
	mkdir "$nvmet/hosts/probe"
}

start_peers()
{
	rmdir "$nvmet/hosts/probe"
	keys
	t_memory_disk nullb0 16
	configuration >/run/t/target.yaml
	t_target_start /run/t/target.yaml
	nvmet_start
}

if t_guest; then
	t_first_case "modules and devices" start
	if ! kernel_authenticates; then
		echo "ok 2 - authentication # SKIP the kernel $(uname -r) has no in-band authentication"
		t_number=2
		t_guest_done skipped
	fi
	t_first_case "rdtarget and nvmet start" start_peers
	for pair in "${pairs[@]}"; do
		t_case "Linux authenticates to rdtarget: ${pair/ /, }" linux_host "${pair% *}" "${pair#* }"
	done
	t_case "Linux with wrong keys is refused" linux_host_is_refused
	t_case "Linux authenticates for the discovery log" linux_discovers
	t_case "Linux without the key reads no discovery log" linux_does_not_discover
	t_case "Linux authenticates again during verified I/O" linux_host_again
	for pair in "${pairs[@]}"; do
		t_case "rdinit authenticates to nvmet: ${pair/ /, }" linux_target "${pair% *}" "${pair#* }"
	done
	t_case "rdinit refuses and is refused" linux_target_is_refused
	t_case "rdconform's family auth on nvmet" conforms
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

# From what is refused on purpose.
t_dmesg_case 'nvme nvme[0-9]+: |nvmet: ctrl|nvmet: got cmd|nvmet_tcp: failed cmd|qid [0-9]+: '
t_done

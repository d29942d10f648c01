#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdinit and librdinit, over either provider, on the Linux kernel's target (nvmet-rdma over siw or rxe).
# Interop: rdinit, librdinit -> Linux nvmet-rdma
t_programs=(RDINIT RDVERIFY RDBEYOND RDDEV)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly uri4=nvme+rdma://192.168.78.1:4420 uri6='nvme+rdma://[fd00::1]:4420'
readonly nvmet=/sys/kernel/config/nvmet disk_mib=64

# nvmet_port ID FAMILY ADDRESS
nvmet_port()
{
	local port=$nvmet/ports/$1

	mkdir "$port"
	echo rdma >"$port/addr_trtype"
	echo "$2" >"$port/addr_adrfam"
	echo "$3" >"$port/addr_traddr"
	echo 4420 >"$port/addr_trsvcid"
	ln -s "$nvmet"/subsystems/"$nqn" "$port/subsystems/$nqn"
}

nvmet_listens()
{
	[ "$(rdma res show cm_id | grep -c 'state LISTEN')" -ge 2 ]
}

nvmet_start()
{
	mkdir -p "$nvmet"/subsystems/"$nqn"/namespaces/1
	echo 1 >"$nvmet"/subsystems/"$nqn"/attr_allow_any_host
	echo VM0002 >"$nvmet"/subsystems/"$nqn"/attr_serial
	echo /dev/nullb0 >"$nvmet"/subsystems/"$nqn"/namespaces/1/device_path
	echo 1 >"$nvmet"/subsystems/"$nqn"/namespaces/1/enable
	nvmet_port 1 ipv4 "$kernel4"
	nvmet_port 2 ipv6 "$kernel6"
	t_until 20 nvmet_listens
}

nvmet_stop()
{
	local port

	for port in 1 2; do
		rm -f "$nvmet"/ports/"$port"/subsystems/"$nqn"
		[ ! -d "$nvmet"/ports/"$port" ] || rmdir "$nvmet"/ports/"$port"
	done
}

start()
{
	t_network
	t_rdma
	modprobe nvmet-rdma
	t_memory_disk nullb0 "$disk_mib" discard=1
	nvmet_start
	head -c 3000001 /dev/urandom >/run/t/data
}

user_rdinit()
{
	in_user timeout 100 "$RDINIT" "$@" --provider "$provider"
}

# Otherwise all of this would test another provider.
right_provider()
{
	user_rdinit id-ctrl "$uri4/$nqn" --verbose >/run/t/out 2>&1
	t_expect "^rdinit: .*\\($provider\\): controller" /run/t/out
	in_user timeout 100 "$RDINIT" id-ctrl "$uri4/$nqn" --verbose >/run/t/out 2>&1
	t_expect "^rdinit: .*\\($provider\\): controller" /run/t/out
}

discovery()
{
	user_rdinit discover "$1" >/run/t/out
	t_expect 'trtype: *rdma' /run/t/out
	t_expect "adrfam: *$2" /run/t/out
	t_expect "traddr: *$3" /run/t/out
	t_expect "subnqn: *$nqn" /run/t/out
}

identify()
{
	user_rdinit id-ctrl "$1/$nqn" >/run/t/out
	t_expect '^sn *: VM0002' /run/t/out
	t_expect "^subnqn *: $nqn" /run/t/out
	user_rdinit id-ctrl "$1/$nqn" -o json >/run/t/out
	python3 -c 'import json, sys; assert json.load(sys.stdin)["sn"].strip() == "VM0002"' </run/t/out
	user_rdinit id-ns "$1/$nqn/1" >/run/t/out
	t_expect '^nsze *: 0x20000$' /run/t/out
	user_rdinit list-ns "$1/$nqn" >/run/t/out
	t_expect '0x1$' /run/t/out
}

# round_trip URI [OPTION...]
round_trip()
{
	local uri=$1/$nqn/1 size

	shift
	size=$(stat -c %s /run/t/data)
	user_rdinit write "$uri" --data /run/t/data "$@"
	cmp -n "$size" /run/t/data /dev/nullb0
	user_rdinit read "$uri" --data /run/t/back --data-size "$size" "$@"
	cmp /run/t/data /run/t/back
	# Neither end of it is a block border.
	user_rdinit write "$uri" --offset 10000001 --data /run/t/data "$@"
	cmp -n "$size" -i 0:10000001 /run/t/data /dev/nullb0
	user_rdinit read "$uri" --offset 10000001 --data-size "$size" "$@" >/run/t/back
	cmp /run/t/data /run/t/back
	user_rdinit flush "$uri" "$@"
}

# verified SECONDS URI [OPTION...]
verified()
{
	in_user timeout $(($1 + 100)) "$RDVERIFY" "$2/$nqn/1" --seconds "$1" --range 33554432 "${@:3}"
}

# The device reads zeroes before it writes.
device_starts()
{
	dd if=/dev/zero of=/dev/nullb0 bs=1M count=8 oflag=direct status=none
	t_device_start "$uri4/$nqn/1"
	t_device_goes_on
}

# The ports of the target go and come back under verified I/O. Not over siw: README.md, what is lost when a port is removed.
device_over_a_restart()
{
	device_starts
	nvmet_stop
	t_until 60 t_device_lost
	nvmet_port 1 ipv4 "$kernel4"
	nvmet_port 2 ipv6 "$kernel6"
	t_until 20 nvmet_listens
	t_device_goes_on
	t_device_end
}

device_over_an_outage()
{
	device_starts
	t_wire_cut
	t_until 60 t_device_lost
	t_wire_mend
	t_device_goes_on
	t_device_end
}

captured()
{
	t_capture_start "$1"
	user_rdinit write "$2/$nqn/1" --data /run/t/data "${@:3}"
	user_rdinit read "$2/$nqn/1" --data /run/t/back --data-size 3000001 "${@:3}"
	cmp /run/t/data /run/t/back
	t_capture_stop "$1"
}

# The answer of the target, not a check of ours before it.
verbs()
{
	local line verb options bad=0

	mkdir -p /run/t/json
	while read -r line; do
		verb=${line%% *} options=${line#"$verb"}
		case $verb in
		discover | list | list-subsys | show-topology) line=$uri4 ;;
		*) line=$uri4/$nqn ;;
		esac
		# shellcheck disable=SC2086 # a list of options
		user_rdinit "$verb" "$line" $options --output-format=json >/run/t/json/"$verb" </dev/null || {
			echo "$verb $options: status $?"
			bad=1
		}
	done <<-END
		discover
		list
		list-subsys
		show-topology
		connect-test
		id-ctrl
		id-ns
		list-ns
		ns-descs
		nvm-id-ctrl
		get-log --log-id=2 --log-len=512
		smart-log
		error-log --log-entries=2
		fw-log
		changed-ns-list-log
		effects-log
		ana-log
		get-feature --feature-id=7
		set-feature --feature-id=0xb --value=0x100
		show-regs
		get-property --offset=0x1c
		reset
		write --data-size=4096 --data=/dev/zero
		flush
		write-zeroes --start-block=16 --block-count=7
		dsm --ad --slbs=32 --blocks=8
	END
	[ "$bad" = 0 ]
	PYTHONPATH=$t_dir/../loop python3 -c 'import json, os, t_schema
for verb in os.listdir("/run/t/json"):
    with open("/run/t/json/" + verb, encoding="utf-8") as f:
        t_schema.check(verb, json.load(f))'
}

beyond_the_end()
{
	in_user timeout 100 "$RDBEYOND" "$uri4/$nqn/1" >/run/t/out
	cat /run/t/out
	# 6.1's nvmet leaves the range to the block layer and so knows no better status.
	t_expect '^status 0x[0-9a-f]+: .*(LBA Out of Range|Internal Error)' /run/t/out
}

no_such_subsystem()
{
	t_refuted user_rdinit id-ctrl "$uri4/$nqn:none" >/run/t/out 2>&1
	cat /run/t/out
	t_expect 'Invalid Parameters|[Ii]nvalid' /run/t/out
}

nobody_listens()
{
	t_refuted user_rdinit id-ctrl "nvme+rdma://$kernel4:4499/$nqn" >/run/t/out 2>&1
	cat /run/t/out
	t_expect 'refused' /run/t/out
}

# Without enhanced setup, siw lets nvmet read nothing from the host, not even the data of Connect, and drops the
# connection (6.1): rdinit must report an error that says so.
revision_1()
{
	t_refuted user_rdinit id-ctrl "$uri4/$nqn" --mpa-revision 1 >/run/t/out 2>&1
	cat /run/t/out
	t_expect '^rdinit: ' /run/t/out
}

# through_siw NAME PARAMETER...: siw with these settings. As a responder it enables nothing by itself, it only refuses
# what is not requested; so rdinit requests it.
through_siw()
{
	local name=$1

	shift
	nvmet_stop
	t_rdma "$@"
	nvmet_port 1 ipv4 "$kernel4"
	nvmet_port 2 ipv6 "$kernel6"
	t_until 20 nvmet_listens
	captured "$name" "$uri4" --crc
	verified 3 "$uri4" --crc
}

writes_arrive()
{
	[ "$(awk '{ print $5 }' /sys/block/nullb0/stat)" -ge "$1" ]
}

# torn_down COMMAND...: what happens to the target while rdverify runs.
torn_down()
{
	local before

	before=$(awk '{ print $5 }' /sys/block/nullb0/stat)
	rm -f /run/t/verify.status
	(
		status=0
		verified 60 "$uri4" >/run/t/verify.log 2>&1 || status=$?
		echo "$status" >/run/t/verify.status
	) &
	t_until 60 writes_arrive $((before + 200))
	"$@"
	# Long before the minute has passed: by the error, not by a time-out.
	t_until 40 test -s /run/t/verify.status
	cat /run/t/verify.log
	[ "$(cat /run/t/verify.status)" -eq 1 ] || t_fail "status $(cat /run/t/verify.status)"
	grep -v '^rdverify: seed' /run/t/verify.log | grep -q . || t_fail "it did not say why"
	! grep -qE 'offset [0-9]+:' /run/t/verify.log || t_fail "that is about data"
}

disable_namespace()
{
	echo 0 >"$nvmet"/subsystems/"$nqn"/namespaces/1/enable
}

# After this nothing of the kernel's is used. In 6.1 siw loses a work request of nvmet's when it finds the connection
# gone or no READ allowed; nvmet_rdma_release_queue_work then waits in nvmet_sq_destroy for ever, and so does the
# removal of a port.
drop_the_subsystem()
{
	rm "$nvmet"/ports/1/subsystems/"$nqn"
}

enable_namespace()
{
	echo 1 >"$nvmet"/subsystems/"$nqn"/namespaces/1/enable
}

if t_guest; then
	t_first_case "nvmet starts" start
	t_case "rdinit selects the right provider" right_provider
	t_case "discover, IPv4" discovery $uri4 ipv4 "$kernel4"
	t_case "discover, IPv6" discovery "$uri6" ipv6 "$kernel6"
	t_case "id-ctrl, id-ns, list-ns, IPv4" identify $uri4
	t_case "id-ctrl, id-ns, list-ns, IPv6" identify "$uri6"
	t_case "write, read, flush" round_trip $uri4
	t_case "write, read, flush, IPv6" round_trip "$uri6"
	[ "$provider" = verbs ] || {
		t_case "write, read, flush with CRC" round_trip $uri4 --crc
		t_case "write, read, flush without the peer-to-peer model" round_trip $uri4 --no-p2p
	}
	t_case "verified random I/O" verified 8 $uri4 --queues 2
	t_case "verified random I/O at depth 128" verified 5 $uri4 --queues 4 --depth 128
	[ "$provider" = verbs ] || {
		t_case "verified random I/O with CRC" verified 5 $uri4 --crc
		t_case "captured, IPv4" captured ipv4 $uri4
		t_case "captured, IPv6" captured ipv6 "$uri6"
		t_case "captured, CRC" captured crc $uri4 --crc
	}
	t_case "the verbs, and the schemas of their JSON" verbs
	t_case "a read beyond the end gets the target's status" beyond_the_end
	t_case "a subsystem that does not exist" no_such_subsystem
	t_case "a port without a listener" nobody_listens
	[ "$provider" = verbs ] || {
		t_case "siw requires CRC" through_siw siw_crc mpa_crc_required=1 mpa_crc_strict=1
		t_case "siw is a peer and requires CRC" \
			through_siw siw_peer_crc peer_to_peer=1 mpa_crc_required=1
	}
	t_case "the namespace is disabled under I/O" torn_down disable_namespace
	t_case "the namespace is enabled again" enable_namespace
	t_case "I/O to the namespace works again" verified 2 $uri4
	[ "$device_type" = siw ] || t_case "a device while the ports of the target are removed and added" device_over_a_restart
	t_case "a device over a network outage" device_over_an_outage
	[ "$provider" = verbs ] || t_case "MPA revision 1 fails with an error" revision_1
	t_case "the target is torn down under I/O" torn_down drop_the_subsystem
	t_guest_done
fi

[ "$provider" = verbs ] || t_wire_cases ipv4 ipv6 crc siw_crc siw_peer_crc
# From the read beyond the end, from the subsystem that does not exist, and from requests in flight when the namespace
# and the subsystem were removed.
expected='attempt to access beyond end of device|nullb0: rw=0|ctrl [0-9]+ (keep-alive|fatal error)'
expected+='|connect request for invalid subsystem|received IB QP event: (send queue drained|QP fatal error)|could not find controller'
expected+='|nvmet_rdma: (post_recv cmd|sending cmd response) failed'
t_dmesg_case "$expected"
t_done

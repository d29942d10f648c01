#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdinit and librdinit on the Linux kernel's target over NVMe/TCP: digests, verified I/O, many queues, faults.
# Interop: rdinit, librdinit -> Linux nvmet-tcp
t_programs=(RDINIT RDVERIFY RDDEV)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly uri4=nvme+tcp://192.168.78.1:4420 uri6='nvme+tcp://[fd00::1]:4420'
readonly nvmet=/sys/kernel/config/nvmet disk_mib=64

# nvmet_port ID FAMILY ADDRESS
nvmet_port()
{
	local port=$nvmet/ports/$1

	mkdir "$port"
	echo tcp >"$port/addr_trtype"
	echo "$2" >"$port/addr_adrfam"
	echo "$3" >"$port/addr_traddr"
	echo 4420 >"$port/addr_trsvcid"
	ln -s "$nvmet"/subsystems/"$nqn" "$port/subsystems/$nqn"
}

nvmet_ports()
{
	nvmet_port 1 ipv4 "$kernel4"
	nvmet_port 2 ipv6 "$kernel6"
	t_until 20 nvmet_listens
}

nvmet_listens()
{
	[ "$(ss -ltnH 'sport = :4420' | wc -l)" -ge 2 ]
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
	local subsystem=$nvmet/subsystems/$nqn

	t_network
	modprobe nvmet-tcp
	t_memory_disk nullb0 "$disk_mib" discard=1
	mkdir -p "$subsystem"/namespaces/1
	echo 1 >"$subsystem"/attr_allow_any_host
	echo VM0003 >"$subsystem"/attr_serial
	echo /dev/nullb0 >"$subsystem"/namespaces/1/device_path
	echo 1 >"$subsystem"/namespaces/1/enable
	nvmet_ports
	head -c 3000001 /dev/urandom >/run/t/data
}

user_rdinit()
{
	in_user timeout 100 "$RDINIT" "$@"
}

discovery()
{
	user_rdinit discover "$1" >/run/t/out
	t_expect 'trtype: *tcp' /run/t/out
	t_expect "adrfam: *$2" /run/t/out
	t_expect "traddr: *$3" /run/t/out
	t_expect "subnqn: *$nqn" /run/t/out
}

identify()
{
	user_rdinit id-ctrl "$1/$nqn" >/run/t/out
	t_expect '^sn *: VM0003' /run/t/out
	t_expect "^subnqn *: $nqn" /run/t/out
	user_rdinit id-ns "$1/$nqn/1" >/run/t/out
	t_expect '^nsze *: 0x20000$' /run/t/out
	user_rdinit list-ns "$1/$nqn" >/run/t/out
	t_expect '0x1$' /run/t/out
	user_rdinit connect-test "$1/$nqn" >/run/t/out
	t_expect 'all steps succeeded' /run/t/out
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

verified()
{
	in_user timeout 100 "$RDVERIFY" "$1/$nqn/1" --seconds 5 --range 33554432
}

# All queues connect at once and work.
many_queues()
{
	user_rdinit bench "$uri4/$nqn/1" --queues 64 --depth 2 --io-count 1280 "$@" --output-format=json >/run/t/out
	t_expect '"queues": *64' /run/t/out
	t_expect '"ios": *1280' /run/t/out
}

# The device reads zeroes before it writes.
device_starts()
{
	dd if=/dev/zero of=/dev/nullb0 bs=1M count=8 oflag=direct status=none
	t_device_start "$@" "$uri4/$nqn/1"
	t_device_goes_on
}

# The ports of the target go and come back under verified I/O.
device_over_a_restart()
{
	device_starts
	nvmet_stop
	t_until 60 t_device_lost
	nvmet_ports
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

no_such_subsystem()
{
	t_refuted user_rdinit id-ctrl "$uri4/$nqn:none" >/run/t/out 2>&1
	cat /run/t/out
	t_expect '[Ii]nvalid' /run/t/out
}

nobody_listens()
{
	t_refuted user_rdinit id-ctrl "nvme+tcp://$kernel4:4499/$nqn" >/run/t/out 2>&1
	cat /run/t/out
	t_expect 'refused' /run/t/out
}

if t_guest; then
	t_first_case "nvmet starts" start
	t_case "discover, IPv4" discovery "$uri4" ipv4 "$kernel4"
	t_case "discover, IPv6" discovery "$uri6" ipv6 "$kernel6"
	t_case "id-ctrl, id-ns, list-ns, connect-test" identify "$uri4"
	t_case "the same over IPv6" identify "$uri6"
	t_case "write and read" round_trip "$uri4"
	t_case "write and read over IPv6" round_trip "$uri6"
	t_case "write and read with a header digest" round_trip "$uri4" --hdr-digest
	t_case "write and read with a data digest" round_trip "$uri4" --data-digest
	t_case "write and read with both digests" round_trip "$uri4" --hdr-digest --data-digest
	t_case "verified I/O" verified "$uri4"
	t_case "64 queues connect at once" many_queues
	t_case "64 queues of a device with digests" many_queues --device --hdr-digest --data-digest
	t_case "a device while the ports of the target are removed and added" device_over_a_restart
	t_case "a device over a network outage" device_over_an_outage
	t_case "a subsystem that does not exist" no_such_subsystem
	t_case "a port without a listener" nobody_listens
	t_guest_done
fi

t_dmesg_case "$lost_connections|nvmet"
t_done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host (nvme-tcp) on rdtarget: connecting, digests, verified I/O, faults.
# Interop: Linux nvme-tcp -> rdtarget
t_programs=(RDTARGET)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly port_tcp=4420 file=/run/disk
readonly namespace="{ nsid: 1, backend: file, path: $file, create: true, size: 96MiB, block_size: 512 }"
readonly io_options=(--rw=randwrite --iodepth=16 --size=2m --bssplit=512/20:4k/50:64k/20:256k/10)

# configuration NAMESPACES
configuration()
{
	cat <<-END
	target:
	  reactors: 2
	listeners:
	  - { address: $user4, port: $port_tcp, transport: tcp }
	  - { address: "$user6", port: $port_tcp, transport: tcp }
	subsystems:
	  - nqn: $nqn
	    serial: VM0001
	    model: rdtarget in a vm
	    allow_any_host: true
	    namespaces: [$1]
	END
}

# A kernel that is both host and target's machine hands on pages, and its check of what is copied to programs (hardened
# usercopy) takes pages that follow each other for one object, if they are large: 6.1 stops with "Kernel memory exposure
# attempt". Without large pages for fio's buffers there are none.
no_huge_pages()
{
	echo never >/sys/kernel/mm/transparent_hugepage/enabled
}

start()
{
	t_network
	modprobe nvme-tcp
	no_huge_pages
	configuration "$namespace" >/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

discovery()
{
	nvme_fabric discover "$1" "$port_tcp" >/run/t/out
	t_expect 'trtype: *tcp' /run/t/out
	t_expect "adrfam: *$2" /run/t/out
	t_expect "traddr: *$1\$" /run/t/out
	t_expect "trsvcid: *$port_tcp\$" /run/t/out
	t_expect "subnqn: *$nqn\$" /run/t/out
	t_expect 'sectype: *none' /run/t/out
}

connect_and_identify()
{
	connect_kernel "$user4" "$port_tcp"
	timeout 60 nvme id-ctrl "$ctrl" >/run/t/out
	t_expect '^sn *: VM0001 *$' /run/t/out
	t_expect "^subnqn *: $nqn\$" /run/t/out
	t_expect '^ioccsz *: 516$' /run/t/out
	t_expect '^icdoff *: 0$' /run/t/out
	timeout 60 nvme smart-log "$ctrl" >/run/t/out
	t_expect '^media_errors[^:]*: 0$' /run/t/out
}

# mixed_io ADDRESS [OPTION...]
mixed_io()
{
	local address=$1

	shift
	connect_kernel "$address" "$port_tcp" "$@"
	verified_io "$device" --rw=randwrite --iodepth=32 --size=10m \
		--bssplit=512/10:4k/40:12k/10:16k/20:64k/10:1m/10
	verified_io "$device" --rw=write --iodepth=1 --size=1m --bs=8k --offset=32m
	verified_io "$device" --rw=write --iodepth=4 --size=8m --bs=1m --offset=60m
	disconnect_kernel
}

file_system()
{
	connect_kernel "$user4" "$port_tcp"
	mkfs.ext4 -q "$device"
	mkdir -p /run/t/mount
	mount "$device" /run/t/mount
	dd if=/dev/urandom of=/run/t/mount/random bs=1M count=8 status=none
	(cd /run/t/mount && sha256sum random >/run/t/sums)
	timeout 120 umount /run/t/mount
	echo 3 >/proc/sys/vm/drop_caches
	fsck.ext4 -fn "$device"
	mount -o ro "$device" /run/t/mount
	(cd /run/t/mount && sha256sum --quiet -c /run/t/sums)
	umount /run/t/mount
	disconnect_kernel
}

reset_under_io()
{
	connect_kernel "$user4" "$port_tcp" "$@"
	io_start "${io_options[@]}"
	for _ in 1 2 3; do
		io_is_on 100
		timeout 60 nvme reset "$ctrl"
		t_until 30 controller_is live
	done
	io_is_on 1
	io_stop $((2 << 20))
	disconnect_kernel
}

restart_under_io()
{
	connect_kernel "$user4" "$port_tcp" --reconnect-delay=1
	io_start "${io_options[@]}"
	io_is_on 100
	t_target_end "$1"
	t_target_start /run/t/target.yaml
	t_until 60 controller_is live
	io_is_on 100
	io_stop $((2 << 20))
	disconnect_kernel
}

# reload NAMESPACES
reload()
{
	local before

	before=$(wc -l </run/t/target.log)
	configuration "$1" >/run/t/target.yaml
	t_target_signal HUP
	t_until 30 reloaded $((before + 1))
}

reloaded()
{
	tail -n +"$1" /run/t/target.log | grep -q ': reloaded'
}

no_block_device()
{
	! has_block_device
}

# Its device goes, with an error for what is in flight, and the host stays connected. What it had written is there when the
# namespace is back.
namespace_removed_under_io()
{
	connect_kernel "$user4" "$port_tcp" "$@"
	verified_io "$device" --rw=write --bs=64k --iodepth=4 --offset=64m --size=4m
	io_start "${io_options[@]}" --time_based --runtime=1000
	io_is_on 100
	reload ""
	t_until 60 no_block_device
	t_until 200 test -s /run/t/io.status
	[ "$(cat /run/t/io.status)" -ne 0 ] || t_fail "fio did not notice"
	controller_is live
	reload "$namespace"
	t_until 60 has_block_device
	controller_is live
	device=$(block_device)
	verified_io "$device" --rw=write --bs=64k --iodepth=4 --offset=64m --size=4m --verify_only
	verified_io "$device" "${io_options[@]}"
	disconnect_kernel
}

# What the wire loses is sent again; a host that nobody hears for too long comes back.
network_outage()
{
	connect_kernel "$user4" "$port_tcp" --keep-alive-tmo=2 --reconnect-delay=1
	io_start "${io_options[@]}"
	io_is_on 100
	t_wire_cut
	t_until 60 controller_is connecting
	t_wire_mend
	t_until 60 controller_is live
	io_is_on 1
	io_stop $((2 << 20))
	disconnect_kernel
}

# attach NUMBER: a host of its own, through the kernel's interface; nvme-cli takes a second host for the first.
attach()
{
	local id

	id=6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c$(printf %02x "$1")
	printf '%s' "transport=tcp,traddr=$user4,trsvcid=$port_tcp,nqn=$nqn,nr_io_queues=2,nr_write_queues=2," \
		"hostnqn=nqn.2014-08.org.nvmexpress:uuid:$id,hostid=$id" >/dev/nvme-fabrics
}

# 32 hosts connect at once, with two I/O queues each at least: one for reads, one for writes.
storm()
{
	local i pids=() bad=0

	no_controller || disconnect_kernel
	for i in {1..32}; do
		attach "$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || bad=$((bad + 1))
	done
	[ "$bad" -eq 0 ] || t_fail "$bad of 32 hosts could not connect"
	t_until 30 has_block_device
	[ "$(cat /sys/class/nvme/nvme*/state | grep -cx live)" -eq 32 ] || t_fail "not all controllers are live"
	# One of each controller's queues is its admin queue.
	[ "$(cat /sys/class/nvme/nvme*/queue_count | awk '{ n += $1 - 1 } END { print n }')" -ge 64 ] ||
		t_fail "less than 64 queues: $(cat /sys/class/nvme/nvme*/queue_count | sort | uniq -c)"
	disconnect_kernel
}

refused()
{
	t_refuted nvme_fabric connect "$user4" "$port_tcp" -n "$nqn":none 2>/run/t/out
	cat /run/t/out
	no_controller "$nqn":none
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "nvme discover, IPv4" discovery "$user4" ipv4
	t_case "nvme discover, IPv6" discovery "$user6" ipv6
	t_case "connect, id-ctrl, smart-log" connect_and_identify
	t_case "verified I/O" mixed_io "$user4"
	t_case "verified I/O over IPv6" mixed_io "$user6"
	t_case "verified I/O with a header digest" mixed_io "$user4" --hdr-digest
	t_case "verified I/O with a data digest" mixed_io "$user4" --data-digest
	t_case "verified I/O with both digests" mixed_io "$user4" --hdr-digest --data-digest
	t_case "verified I/O without SQ flow control" mixed_io "$user4" --disable-sqflow
	t_case "verified I/O with write queues and small queues" mixed_io "$user4" --nr-write-queues=2 --queue-size=16
	t_case "ext4: make, fill, check, compare" file_system
	t_case "a subsystem that does not exist is refused" refused
	t_case "nvme reset under I/O, three times" reset_under_io
	t_case "nvme reset under I/O with digests, three times" reset_under_io --hdr-digest --data-digest
	t_case "rdtarget stopped by SIGTERM and started again under I/O" restart_under_io TERM
	t_case "rdtarget killed and started again under I/O" restart_under_io KILL
	t_case "a network outage under I/O" network_outage
	t_case "the namespace is removed under I/O, and added again" namespace_removed_under_io
	t_case "the namespace is removed under I/O with digests, and added again" namespace_removed_under_io --hdr-digest --data-digest
	t_case "a storm of 64 queues of 32 hosts" storm
	t_case "nothing is left at the target" t_until 60 t_target_is_idle
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

# What was in flight when the namespace was removed (Invalid Namespace or Format), and what came before its device was gone.
removed='I/O Cmd\(0x[12]\) .*\(sct 0x0 / sc 0xb\)|operation not supported error, dev nvme|no available path - failing I/O$'
t_dmesg_case "$lost_connections|Connect Invalid Data Parameter|$removed"
t_done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host (nvme-rdma) on rdtarget: everything a user does.
# Interop: Linux nvme-rdma -> rdtarget
t_programs=(RDTARGET)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly port_plain=4420 port_crc=4421

configuration()
{
	cat <<-END
	target:
	  reactors: 2
	listeners:
	  - { address: $user4, port: $port_plain, provider: $provider }
	  - { address: "$user6", port: $port_plain, provider: $provider }
		$([ "$provider" = verbs ] || echo "  - { address: $user4, port: $port_crc, provider: iwarp, crc: true }")
	subsystems:
	  - nqn: $nqn
	    serial: VM0001
	    model: rdtarget in a vm
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, backend: file, path: /run/disk, create: true, size: 96MiB, block_size: 512 }
	      - { nsid: 7, backend: memory, size: 8MiB }
	  - nqn: $nqn:block
	    allow_any_host: true
	    namespaces:
	      - { nsid: 3, backend: block, path: /dev/nullb0 }
	END
}

start()
{
	t_network
	t_rdma
	modprobe nvme-rdma
	t_memory_disk nullb0 64
	configuration >/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

discovery()
{
	nvme_fabric discover "$1" "$port_plain" >/run/t/out
	t_expect 'trtype: *rdma' /run/t/out
	t_expect "adrfam: *$2" /run/t/out
	t_expect "traddr: *$1\$" /run/t/out
	t_expect "trsvcid: *$port_plain\$" /run/t/out
	t_expect "subnqn: *$nqn\$" /run/t/out
}

identify()
{
	timeout 60 nvme id-ctrl "$ctrl" >/run/t/out
	t_expect '^sn *: VM0001 *$' /run/t/out
	t_expect '^mn *: rdtarget in a vm *$' /run/t/out
	t_expect "^subnqn *: $nqn\$" /run/t/out
	timeout 60 nvme id-ns "$ctrl" -n 1 >/run/t/out
	t_expect '^nsze *: 0x30000$' /run/t/out
	t_expect 'lbads:9 .*in use' /run/t/out
	timeout 60 nvme list-ns "$ctrl" >/run/t/out
	t_expect '0x1$' /run/t/out
	t_expect '0x7$' /run/t/out
	timeout 60 nvme list >/run/t/out
	t_expect "^$device .*VM0001 .*rdtarget in a vm" /run/t/out
	timeout 60 nvme smart-log "$ctrl" >/run/t/out
	t_expect '^critical_warning[^:]*: 0$' /run/t/out
	t_expect '^media_errors[^:]*: 0$' /run/t/out
}

connect_and_identify()
{
	connect_kernel "$user4" "$port_plain"
	identify
}

mixed_io()
{
	local device

	device=$(block_device)
	verified_io "$device" --rw=randwrite --iodepth=32 --size=10m \
		--bssplit=512/10:4k/40:12k/10:16k/20:64k/10:1m/10
	verified_io "$device" --rw=write --iodepth=1 --size=1m --bs=8k --offset=32m
	verified_io "$device" --rw=randwrite --iodepth=8 --numjobs=4 --size=1m --offset_increment=4m \
		--offset=40m --bsrange=512-256k
	verified_io "$device" --rw=write --iodepth=4 --size=12m --bs=1m --offset=60m
}

file_system()
{
	local device

	device=$(block_device)
	mkfs.ext4 -q "$device"
	mkdir -p /run/t/mount
	mount "$device" /run/t/mount
	cp -r "$t_dir" "$t_dir"/../../common/fabric /run/t/mount/
	dd if=/dev/urandom of=/run/t/mount/random bs=1M count=8 status=none
	(cd /run/t/mount && find . -type f -exec sha256sum {} +) >/run/t/sums
	timeout 120 umount /run/t/mount
	echo 3 >/proc/sys/vm/drop_caches
	fsck.ext4 -fn "$device"
	mount -o ro "$device" /run/t/mount
	(cd /run/t/mount && sha256sum --quiet -c /run/t/sums)
	umount /run/t/mount
}

flush()
{
	timeout 60 nvme flush "$(block_device)" -n 1
}

# some_io DEVICE: a short test of a backend.
some_io()
{
	verified_io "$1" --rw=randwrite --iodepth=16 --size=4m --bsrange=4k-128k --blockalign=4k
}

block_backend()
{
	nvme_fabric connect "$user4" "$port_plain" -n "$nqn":block --nr-io-queues=2
	t_until 30 has_block_device 3 "$nqn":block
	some_io "$(block_device 3 "$nqn":block)"
	timeout 60 nvme disconnect -n "$nqn":block
}

memory_backend()
{
	t_until 10 has_block_device 7
	some_io "$(block_device 7)"
}

# zeroed NSID RANGES COMMAND...: random data, in which the command (DEVICE follows it, OPTION... behind that) has to
# make zeroes of the ranges (first block:blocks ...) and of nothing else.
zeroed()
{
	local nsid=$1 ranges=$2 range device

	shift 2
	device=$(block_device "$nsid")
	head -c 1M /dev/urandom >/run/t/expected
	dd if=/run/t/expected of="$device" bs=128k oflag=direct status=none
	for range in $ranges; do
		dd if=/dev/zero of=/run/t/expected bs=512 seek="${range%:*}" count="${range#*:}" \
			conv=notrunc status=none
	done
	timeout 60 "${@/DEVICE/$device}"
	dd if="$device" of=/run/t/back bs=128k count=8 iflag=direct status=none
	cmp /run/t/expected /run/t/back
}

deallocate()
{
	zeroed 1 "101:37 1000:600" nvme dsm DEVICE -d -s 101,1000 -b 37,600
	zeroed 7 "101:37 1000:600" nvme dsm DEVICE -d -s 101,1000 -b 37,600
	# Without the attribute it is a hint and changes nothing.
	zeroed 1 "" nvme dsm DEVICE -w -s 8 -b 64
	# The kernel's own: a page of ranges, whatever their number.
	zeroed 1 "256:1024" blkdiscard -o 131072 -l 524288 DEVICE
}

write_zeroes()
{
	zeroed 1 "101:37" nvme write-zeroes DEVICE -s 101 -c 36
	zeroed 7 "101:37" nvme write-zeroes DEVICE -s 101 -c 36
	zeroed 1 "301:1000" nvme write-zeroes DEVICE -s 301 -c 999 -d
	zeroed 1 "256:1024" blkdiscard -z -o 131072 -l 524288 DEVICE
}

nothing_is_left()
{
	disconnect_kernel
	t_until 20 t_target_is_idle
}

ports_that_wait()
{
	ss -Htan state time-wait dst "$user4:$port_plain" | wc -l
}

# As a port scanner does. The listener is rdtarget's, or the kernel's on its behalf.
closed_at_once()
{
	local buckets=/proc/sys/net/ipv4/tcp_max_tw_buckets before fd i most

	before=$(ports_that_wait)
	# No port may stay in use: rdma_cm chooses among all of them, and siw then cannot bind it.
	read -r most <$buckets
	echo 0 >$buckets
	for ((i = 0; i < 50; i++)); do
		exec {fd}<>"/dev/tcp/$user4/$port_plain"
		exec {fd}>&-
	done
	discovery "$user4" ipv4
	echo "$most" >$buckets
	[ "$(ports_that_wait)" -le "$before" ]
}

# Directly through the kernel's interface: nvme-cli 2.4 takes the second host for the first, whatever their names.
several_hosts()
{
	local i uuid=00000000-0000-0000-0000-00000000000

	for i in 1 2; do
		printf '%s,' transport=rdma traddr="$user4" trsvcid="$port_plain" nqn="$nqn" nr_io_queues=2 \
			hostnqn=nqn.2014-08.org.nvmexpress:uuid:"$uuid""$i" hostid="$uuid""$i" |
			sed 's/,$//' >/dev/nvme-fabrics
	done
	t_until 30 has_block_device
	[ "$(grep -lx "$nqn" /sys/class/nvme/nvme*/subsysnqn | wc -l)" -eq 2 ]
	verified_io "$(block_device)" --rw=randwrite --iodepth=16 --size=2m --bs=16k
	disconnect_kernel
}

# captured_io ADDRESS PORT NAME
captured_io()
{
	local device

	t_capture_start "$3"
	connect_kernel "$1" "$2"
	verified_io "$device" --rw=randwrite --iodepth=4 --size=1m --bssplit=512/25:4k/25:20k/25:128k/25
	disconnect_kernel
	t_capture_stop "$3"
}

without_registration_of_everything()
{
	local device

	modprobe -r nvme-rdma
	modprobe nvme-rdma register_always=N
	grep -qx N /sys/module/nvme_rdma/parameters/register_always
	connect_kernel "$user4" "$port_plain"
	verified_io "$device" --rw=randwrite --iodepth=32 --size=4m --bssplit=512/20:4k/60:64k/20
	disconnect_kernel
}

refused()
{
	# A subsystem that does not exist, and one that the target does not offer to this host.
	t_refuted nvme_fabric connect "$user4" "$port_plain" -n "$nqn":none 2>/run/t/out
	cat /run/t/out
	no_controller "$nqn":none
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "nvme discover, IPv4" discovery "$user4" ipv4
	t_case "nvme discover, IPv6" discovery "$user6" ipv6
	t_case "connect, id-ctrl, id-ns, list-ns, list, smart-log" connect_and_identify
	t_case "verified I/O of mixed sizes and depths" mixed_io
	t_case "ext4: make, fill, check, compare" file_system
	t_case "nvme flush" flush
	t_case "nvme dsm, discard" deallocate
	t_case "nvme write-zeroes" write_zeroes
	t_case "a block device as the backend" block_backend
	t_case "memory as the backend" memory_backend
	t_case "disconnect leaves no connection at the target" nothing_is_left
	t_case "a subsystem that does not exist is refused" refused
	if [ "$device_type" = siw ]; then
		t_case "TCP connections that are closed immediately" closed_at_once
	fi
	t_case "two hosts at a time" several_hosts
	t_case "verified I/O, IPv4, captured" captured_io "$user4" $port_plain ipv4
	t_case "verified I/O, IPv6, captured" captured_io "$user6" $port_plain ipv6
	[ "$provider" = verbs ] ||
		t_case "verified I/O with CRC requested by the target, captured" captured_io "$user4" $port_crc crc
	t_case "register_always=N" without_registration_of_everything
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

t_wire_cases ipv4 ipv6
[ "$provider" = verbs ] || t_wire_cases crc
# From the connection that is refused on purpose, and from register_always=N.
t_dmesg_case 'Connect Invalid Data Parameter|enabling unsafe global rkey'
t_done

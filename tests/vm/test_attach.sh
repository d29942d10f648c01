#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdinit attach: a namespace of rdtarget as a block device of the kernel's ublk. Debian 12's default kernel has no ublk, but
# its linux-image-6.12-amd64. docs/interop.md is about the default:
# Interop: none
t_programs=(RDTARGET RDINIT)
if [ -z "${RD_VM_KERNEL:-}" ] && grep -qsx 'VERSION_ID="12"' /etc/os-release; then
	export RD_VM_KERNEL=linux-image-6.12-amd64
fi
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly uuid=5c1f0e3a-7b52-4d0e-9f0a-2d6d3f5f7a10 other_uuid=5c1f0e3a-7b52-4d0e-9f0a-2d6d3f5f7a11
readonly file=/run/disk state=/run/rdinit/attach
readonly io_options=(--rw=randwrite --iodepth=16 --size=4m --bssplit=4k/50:64k/20:256k/30)

# configuration [MIB]: of the first namespace.
configuration()
{
	cat <<-END
	target:
	  reactors: 1
	listeners:
	  - { address: $user4, port: 4420, transport: tcp }
	  - { address: $user4, port: 4421, transport: tcp }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, uuid: $uuid, backend: file, path: $file, create: true, size: ${1:-64}MiB }
	      - { nsid: 2, uuid: $other_uuid, backend: memory, size: 8MiB, block_size: 4096 }
	END
}

start()
{
	t_network
	configuration >/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

# attach URI... [OPTION...]: sets device.
attach()
{
	"$RDINIT" attach "$@" --keep-alive-tmo=2 --reconnect-delay=1 >/run/t/attach.out 2>/run/t/attach.log || {
		cat /run/t/attach.log
		t_fail "attach"
	}
	device=$(cat /run/t/attach.out)
	[ -b "$device" ] || t_fail "\"$device\" is no block device"
}

uri()
{
	echo "nvme+tcp://$user4:${2:-4420}/$nqn/$1"
}

detach()
{
	"$RDINIT" detach "$@" >/run/t/detach.out
	[ ! -e "$device" ] || t_fail "$device is still there"
	[ ! -e "$state/${device##*/}" ] || t_fail "its file is still there"
	! pidof "$RDINIT" || t_fail "its process is still there"
}

# What the block device has is on the namespace, and the other way round.
read_and_write()
{
	attach "$(uri 1)"
	[ "$(blockdev --getsize64 "$device")" -eq $((64 << 20)) ]
	dd if=/dev/urandom of=/run/t/data bs=1M count=3 status=none
	dd if=/run/t/data of="$device" bs=64k seek=5 oflag=direct status=none
	cmp -n $((3 << 20)) /run/t/data "$file" 0 $((5 * 65536))
	# Through the kernel's cache: detaching writes it.
	dd if=/run/t/data of="$device" bs=1M seek=9 status=none
	detach "$device"
	cmp -n $((3 << 20)) /run/t/data "$file" 0 $((9 << 20))
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "attach, read and write, detach" read_and_write
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

t_dmesg_case
t_done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# Two rdtargets with one subsystem on the same storage. The Linux kernel's host and a device of librdinit have a path to each;
# the targets are drained, killed and started again, one at a time and then both. Neither host sees an error or a wrong block.
# Interop: Linux nvme-rdma, librdinit -> rdtarget
t_programs=(RDTARGET RDCTL RDDEV)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly shared=nqn.2024-01.io.rdnvme:vm-shared port_a=4421 port_b=4422
readonly io_size=1048576

# configuration NAME PORT FIRST_CNTLID DISK OTHER_DISK
configuration()
{
	cat <<-END
	target: { state_dir: /run/t/state_$1 }
	control: { socket: /run/t/$1.sock }
	listeners:
	  - { address: $user4, port: $2, provider: $provider }
	subsystems:
	  - nqn: $shared
	    serial: VM0003
	    allow_any_host: true
	    cntlid_min: $3
	    cntlid_max: $(($3 + 999))
	    namespaces:
	      - { nsid: 1, backend: block, path: $4 }
	      - { nsid: 2, backend: block, path: $5 }
	END
}

# Two devices on one file: rdtarget opens each exclusively. Their data is in the page cache of the file.
disk()
{
	losetup --find --show "/run/disk$1"
}

start()
{
	t_network
	t_rdma_for_lost_connections
	modprobe nvme-rdma
	modprobe loop
	grep -qx Y /sys/module/nvme_core/parameters/multipath
	truncate -s 4M /run/disk1 /run/disk2
	configuration a "$port_a" 1 "$(disk 1)" "$(disk 2)" >/run/t/a.yaml
	configuration b "$port_b" 1001 "$(disk 1)" "$(disk 2)" >/run/t/b.yaml
	target a
	target b
}

target()
{
	t_target_start "/run/t/$1.yaml" "$1"
}

port_of()
{
	if [ "$1" = a ]; then
		echo "$port_a"
	else
		echo "$port_b"
	fi
}

# path TARGET: the kernel's controller.
path()
{
	local dir

	for dir in /sys/class/nvme/nvme*; do
		if grep -qs "trsvcid=$(port_of "$1")" "$dir/address"; then
			echo "$dir"
			return 0
		fi
	done
	return 1
}

# path_is TARGET STATE [ANA_STATE]: the second is that of namespace 1 on this path.
path_is()
{
	local dir nsid

	dir=$(path "$1") && grep -qx "$2" "$dir/state" || return 1
	[ -n "${3:-}" ] || return 0
	for nsid in "$dir"/nvme*c*n*/nsid; do
		if grep -qsx 1 "$nsid"; then
			grep -qx "$3" "${nsid%/*}/ana_state"
			return
		fi
	done
	return 1
}

# Both hosts connect to both targets and begin their I/O.
hosts_begin()
{
	local name

	for name in a b; do
		nvme_fabric connect "$user4" "$(port_of "$name")" -n "$shared" --nr-io-queues=2 --reconnect-delay=1 \
			--ctrl-loss-tmo=200 --keep-alive-tmo=5
		t_until 30 path_is "$name" live optimized
	done
	t_until 30 has_block_device 1 "$shared"
	device=$(block_device 1 "$shared")
	rm -f /run/t/io.stop /run/t/io.status
	echo 0 >/run/t/passes
	io_until_told >/run/t/io.log 2>&1 &
	# Not more at once than an emulated processor has time for beside fio.
	t_device_start --threads 1 --slots 4 "nvme+rdma://$user4:$port_a/$shared/2" "nvme+rdma://$user4:$port_b/$shared/2"
}

# Writes and checks the namespace again and again, each time with other data.
io_until_told()
{
	local status=0 pass=0

	while [ "$status" -eq 0 ] && [ ! -e /run/t/io.stop ]; do
		pass=$((pass + 1))
		verified_io "$device" --rw=randwrite --bs=4k --size="$io_size" --iodepth=16 --randseed="$pass" >/run/t/io.pass ||
			status=$?
		grep -q "^fio: error 0, read $((io_size / 1024)) KiB, written $((io_size / 1024)) KiB" /run/t/io.pass ||
			status=1
		if [ "$status" -eq 0 ]; then
			# The file is never empty for its readers.
			echo "$pass" >/run/t/passes.next
			mv /run/t/passes.next /run/t/passes
		fi
	done
	echo "$status" >/run/t/io.status
}

passes_are()
{
	[ ! -f /run/t/io.status ] || t_fail "the I/O has ended: $(cat /run/t/io.log /run/t/io.pass)"
	[ "$(cat /run/t/passes)" -ge "$1" ]
}

# A pass of the kernel's host begins and ends, and commands of the device do.
io_goes_on()
{
	t_until 200 passes_are $(($(cat /run/t/passes) + 2))
	t_device_goes_on
}

# path_comes_back TARGET NUMBER: of the device's path.
path_comes_back()
{
	target "$1"
	t_until 60 path_is "$1" live optimized
	t_until 60 device_path_is "$2" live
	io_goes_on
}

# device_path_is NUMBER STATE: in the last event of this path.
device_path_is()
{
	grep "^event path $1 " /run/t/dev.log | tail -n 1 | grep -q "^event path $1 $2:"
}

device_path_is_lost()
{
	! device_path_is "$1" live
}

# drained_and_killed TARGET NUMBER
drained_and_killed()
{
	"$RDCTL" --socket "/run/t/$1.sock" drain --timeout 60
	t_until 30 path_is "$1" live inaccessible
	io_goes_on
	t_target_end KILL "$1"
	t_until 60 path_is "$1" connecting
	io_goes_on
	path_comes_back "$1" "$2"
}

killed()
{
	t_target_end KILL "$1"
	t_until 60 path_is "$1" connecting
	t_until 60 device_path_is_lost "$2"
	io_goes_on
	path_comes_back "$1" "$2"
}

# No path is left for a while.
both_killed()
{
	local name

	for name in a b; do
		t_target_end KILL "$name"
	done
	t_until 60 path_is a connecting
	t_until 60 path_is b connecting
	t_until 60 device_path_is_lost 0
	t_until 60 device_path_is_lost 1
	path_comes_back a 0
	path_comes_back b 1
}

# The processes of the I/O are not children of the case in which they end: all is one case.
under_io()
{
	hosts_begin
	io_goes_on
	drained_and_killed a 0
	drained_and_killed b 1
	killed a 0
	killed b 1
	both_killed
	touch /run/t/io.stop
	t_until 200 test -s /run/t/io.status
	[ "$(cat /run/t/io.status)" -eq 0 ] || t_fail "fio: $(cat /run/t/io.log /run/t/io.pass)"
	t_device_end
	echo "note: $(cat /run/t/passes) passes of fio, $(t_device_ops) commands of the device"
}

disconnected()
{
	timeout 100 nvme disconnect -n "$shared"
	t_until 30 no_controller "$shared"
	t_until 30 t_target_is_idle a
	t_until 30 t_target_is_idle b
}

if t_guest; then
	t_first_case "two rdtargets start" start
	t_case "each is drained, killed and started again under I/O of two hosts" under_io
	t_case "disconnect leaves no connection at the targets" disconnected
	t_case "SIGTERM ends the first rdtarget cleanly" t_target_ends_cleanly a
	t_case "SIGTERM ends the second rdtarget cleanly" t_target_ends_cleanly b
	t_guest_done
fi

# The devices under the targets; tmpfs has no Write Zeroes: rdtarget writes them.
disks='loop[0-9]+: '
disks+='|operation not supported error, dev loop[0-9]+, .*WRITE_ZEROES|blk_print_req_error: [0-9]+ callbacks suppressed'
t_dmesg_case "$lost_connections|$disks"
t_done

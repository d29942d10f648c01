#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host while rdtarget hands its connections to the next process, under verified I/O on ext4: it
# notices nothing. When the next process is killed right after it has taken over, the host connects again.
# Interop: Linux nvme-rdma or nvme-tcp -> rdtarget during upgrades
t_programs=(RDTARGET RDCTL)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly disk=/run/disk socket=/run/t/control.sock mount=/run/t/mount io_size=2097152
readonly io_options=(--rw=randwrite --iodepth=16 --size="$io_size" --bssplit=4k/70:64k/20:256k/10)

configuration()
{
	local listener="address: $user4, port: 4420"

	[ "$provider" = tcp ] && listener+=", transport: tcp" || listener+=", provider: $provider"
	cat <<-END
	target: { reactors: 2 }
	control: { socket: $socket }
	listeners: [{ $listener }]
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, backend: file, path: $disk, create: true, size: 64MiB }
	      - { nsid: 2, backend: memory, size: 8MiB }
	END
}

start()
{
	# "ip netns exec" gives a target a copy of all mounts: what is unmounted here has to be unmounted there, too.
	mount --make-rshared /
	t_network
	[ "$provider" = tcp ] || t_rdma_for_lost_connections
	modprobe "nvme-$kernel_transport"
	# Pages of a large one that nvme-tcp hands on stop 6.1: test_kernel_host_tcp.sh.
	echo never >/sys/kernel/mm/transparent_hugepage/enabled
	configuration >/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

# The process that serves, as it says itself.
serving()
{
	"$RDCTL" -s "$socket" -o json status >/run/t/status
	python3 -c 'import json; print(json.load(open("/run/t/status"))["pid"])'
}

gone()
{
	! [ -d "/proc/$1" ] || grep -qs "^State:.Z" "/proc/$1/status"
}

# upgrade: from here on t_target_signal reaches the next process. What rdctl says is in /run/t/upgrade.
upgrade()
{
	local former

	former=$(cat /run/t/target.pid)
	timeout 100 "$RDCTL" -s "$socket" upgrade >/run/t/upgrade 2>&1 || {
		cat /run/t/upgrade
		t_fail "rdctl upgrade"
	}
	t_until 60 gone "$former"
	rm -f /run/t/target.status
	serving >/run/t/target.pid
	[ "$(cat /run/t/target.pid)" != "$former" ] || t_fail "the same process serves"
}

# What the kernel says of the device, what is on it, and the network below it. How long a Keep Alive took is a time,
# and that of a slow machine.
kernel_said()
{
	dmesg | grep -E 'nvme|siw|EXT4-fs|I/O error|JBD2' | grep -v 'long keepalive RTT'
}

connect_and_mount()
{
	connect_kernel "$user4" 4420 --reconnect-delay=1
	t_until 30 has_block_device 2
	mkfs.ext4 -q -E nodiscard "$device"
	mkdir -p "$mount"
	mount "$device" "$mount"
	disk_device=$device
	# The device that verified I/O writes to is a file of it.
	device=$mount/io
}

# On the disk, and on the namespace whose content is the target's memory.
write_random()
{
	dd if=/dev/urandom of="$mount/random" bs=1M count=4 conv=fsync status=none
	sha256sum "$mount/random" >/run/t/sums
}

unmount_and_check()
{
	timeout 120 umount "$mount"
	echo 3 >/proc/sys/vm/drop_caches
	fsck.ext4 -fn "$disk_device"
	mount "$disk_device" "$mount"
	sha256sum --quiet -c /run/t/sums
	holds_the_last_pass "$mount/io" "$io_size" "${io_options[@]}"
	umount "$mount"
	disconnect_kernel
}

ten_upgrades()
{
	local memory

	connect_and_mount
	write_random
	memory=$(block_device 2)
	dd if="$mount/random" of="$memory" bs=1M oflag=direct status=none
	io_start "${io_options[@]}"
	io_is_on 50
	kernel_said >/run/t/said
	rm -f /run/t/pauses
	for _ in {1..10}; do
		upgrade
		t_expect 'has taken over: [1-9][0-9]* connections of 1 controllers rested for .* ms, 0 connect again' /run/t/upgrade
		sed -n 's/.*rested for \([0-9.]*\) ms.*/\1/p' /run/t/upgrade >>/run/t/pauses
		io_is_on 50
	done
	io_stop "$io_size"
	kernel_said | diff /run/t/said - || t_fail "the kernel said the above"
	cmp -n $((4 << 20)) "$mount/random" <(dd if="$memory" bs=1M count=4 iflag=direct status=none)
	unmount_and_check
	echo "note: $(cat /run/t/io.pass) passes, pauses of $(sort -n /run/t/pauses | tr '\n' ' ')ms"
}

killed_right_after()
{
	connect_and_mount
	io_start "${io_options[@]}"
	for _ in 1 2 3; do
		io_is_on 50
		write_random
		upgrade
		t_target_signal KILL
		t_until 30 gone "$(cat /run/t/target.pid)"
		t_target_start /run/t/target.yaml
		t_until 60 controller_is live
		sha256sum --quiet -c /run/t/sums
	done
	io_is_on 50
	io_stop "$io_size"
	unmount_and_check
}

# The file that it is asked to start is no target: it says so, and the host notices nothing.
refused()
{
	connect_and_mount
	write_random
	io_start "${io_options[@]}"
	io_is_on 50
	kernel_said >/run/t/said
	echo 'target: { no_such_key: 1 }' >/run/t/target.yaml
	t_refuted timeout 100 "$RDCTL" -s "$socket" upgrade >/run/t/upgrade 2>&1
	t_expect 'it refuses the configuration' /run/t/upgrade
	t_expect 'target.yaml:1: target.no_such_key: unknown key' /run/t/target.log
	configuration >/run/t/target.yaml
	[ "$(serving)" = "$(cat /run/t/target.pid)" ] || t_fail "another process serves"
	io_is_on 50
	io_stop "$io_size"
	kernel_said | diff /run/t/said - || t_fail "the kernel said the above"
	unmount_and_check
}

upgraded_ends_cleanly()
{
	upgrade
	t_target_signal TERM
	t_until 60 gone "$(cat /run/t/target.pid)"
	t_expect 'stopped: [0-9]+ reads and [0-9]+ writes served$' /run/t/target.log
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "ten upgrades in a row under verified I/O on ext4: the kernel logs nothing" ten_upgrades
	t_case "an upgrade with a broken configuration is refused: the kernel logs nothing" refused
	t_case "the next process is killed right after it has taken over, three times, under verified I/O on ext4" killed_right_after
	t_case "nothing is left at the target" t_until 60 t_target_is_idle
	t_case "an upgrade without a host, and SIGTERM ends the next process cleanly" upgraded_ends_cleanly
	t_guest_done
fi

t_dmesg_case "$lost_connections"
t_done

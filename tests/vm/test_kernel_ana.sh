#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host with two paths to rdtarget: ANA states, failover under I/O, and what the
# host learns by asynchronous events.
# Interop: Linux nvme-rdma -> rdtarget
t_programs=(RDTARGET)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly port_a=4420 port_b=4421

# configuration STATE_A STATE_B [NAMESPACE...]: of group 1 on each listener; namespaces after the first.
configuration()
{
	local a=$1 b=$2

	shift 2
	cat <<-END
	listeners:
	  - { address: $user4, port: $port_a, provider: $provider, ana: [{ group: 1, state: $a }] }
	  - { address: $user4, port: $port_b, provider: $provider, ana: [{ group: 1, state: $b }] }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, backend: memory, size: 64MiB, block_size: 4096 }
	END
	for ns in "$@"; do
		echo "      - $ns"
	done
}

reload()
{
	local before

	before=$(wc -l </run/t/target.log)
	configuration "$@" >/run/t/target.yaml
	t_target_signal HUP
	t_until 20 reloaded $((before + 1))
}

reloaded()
{
	tail -n +"$1" /run/t/target.log | grep -q 'main: reloaded: '
}

start()
{
	t_network
	t_rdma
	modprobe nvme-rdma
	[ "$(cat /sys/module/nvme_core/parameters/multipath)" = Y ]
	configuration optimized non-optimized >/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

# The states of namespace 1's paths, in the order of the ports.
states()
{
	local port dir

	for port in $port_a $port_b; do
		for dir in /sys/class/nvme/nvme*; do
			grep -qs "trsvcid=$port" "$dir/address" || continue
			cat "$dir"/nvme*c*n*/ana_state
		done
	done | paste -sd' '
}

states_are()
{
	[ "$(states)" = "$1" ]
}

two_paths()
{
	nvme_fabric connect "$user4" "$port_a" -n "$nqn" --nr-io-queues=2
	nvme_fabric connect "$user4" "$port_b" -n "$nqn" --nr-io-queues=2
	t_until 30 has_block_device
	t_until 30 states_are "optimized non-optimized"
	timeout 60 nvme id-ctrl "/dev/$(controller)" >/run/t/out
	t_expect '^anagrpmax *: *64$' /run/t/out
	timeout 60 nvme ana-log "/dev/$(controller)" >/run/t/out
	cat /run/t/out
	t_expect 'optimized' /run/t/out
}

states_follow()
{
	reload inaccessible optimized
	t_until 20 states_are "inaccessible optimized"
	reload persistent-loss non-optimized
	t_until 20 states_are "persistent-loss non-optimized"
	reload optimized non-optimized
	t_until 20 states_are "optimized non-optimized"
}

# The state changes twelve times; fio sees no error and no wrong block.
failover()
{
	local i fio

	verified_io "$(block_device)" --rw=randwrite --iodepth=16 --bsrange=4k-64k --blockalign=4k \
		--size=48m --loops=6 --do_verify=1 >/run/t/fio 2>&1 &
	fio=$!
	for i in 1 2 3 4 5 6; do
		kill -0 "$fio" || break
		reload inaccessible optimized
		t_until 20 states_are "inaccessible optimized"
		reload optimized inaccessible
		t_until 20 states_are "optimized inaccessible"
	done
	wait "$fio"
	cat /run/t/fio
	echo "note: $i rounds of failover and back under fio"
	[ "$i" -ge 3 ]
	reload optimized non-optimized
}

has_no_block_device()
{
	! has_block_device "$@"
}

size_is()
{
	[ "$(cat /sys/block/"$(basename "$(block_device "$1")")"/size)" -eq "$2" ]
}

namespaces_come_and_go()
{
	reload optimized non-optimized '{ nsid: 2, backend: memory, size: 8MiB }'
	t_until 30 has_block_device 2
	t_until 30 size_is 2 16384
	reload optimized non-optimized '{ nsid: 2, backend: memory, size: 16MiB }'
	t_until 30 size_is 2 32768
	reload optimized non-optimized
	t_until 30 has_no_block_device 2
	has_block_device 1
}

nothing_is_left()
{
	disconnect_kernel
	t_until 20 t_target_is_idle
}

if t_guest; then
	t_first_case "rdtarget starts with two listeners" start
	t_first_case "the kernel has two paths, with their states" two_paths
	t_case "state changes reach the kernel by events" states_follow
	t_case "failover under fio" failover
	t_case "namespaces come, grow and go" namespaces_come_and_go
	t_case "disconnect leaves no connection at the target" nothing_is_left
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

# For moments there is no path, and the kernel says so once for each request that waits. The machine is
# emulated, and slow.
t_dmesg_case 'no usable path|nvme_ns_head_submit_bio: .* suppressed|long keepalive RTT'
t_done

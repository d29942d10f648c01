#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# RDMA devices that are taken away from the verbs provider, in use and idle, and come back. The network is this
# test's own: x0 on d0 (192.168.80.1, fd80::1) and x1 on d1 (192.168.81.1, fd81::1).
# Interop: rdinit, librdinit -> rdtarget
t_programs=(RDTARGET RDINIT RDVERIFY TEST_FABRIC)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly wildcards=/run/t/wildcards.yaml single=/run/t/single.yaml

# 6.1 delays a removal until nobody has the device open; our programs must not delay it.
remove()
{
	timeout 20 rdma link delete "$1" || t_fail "$1 cannot be removed: somebody has it open"
}

add()
{
	rdma link add "$1" type "$device_type" netdev "d${1#x}"
}

# modules first|last: load ib_uverbs before or after rdma_cm. The kernel takes a device from the module loaded
# last first.
modules()
{
	modprobe -r "$driver" rdma_ucm 2>/dev/null || true
	modprobe -r ib_uverbs rdma_cm
	if [ "$1" = first ]; then
		modprobe ib_uverbs
	else
		modprobe rdma_cm
	fi
	modprobe "$driver" "${driver_options[@]}"
	modprobe rdma_ucm
}

# What a failed case left behind.
clear_away()
{
	local pid

	for pid in $(pidof rdtarget rdverify rdma); do
		kill -KILL "$pid"
	done
	t_until 20 no_process
	[ ! -e /sys/class/infiniband/x0 ] || remove x0
	[ ! -e /sys/class/infiniband/x1 ] || remove x1
}

no_process()
{
	! pidof rdtarget rdverify rdma
}

namespaces()
{
	cat <<-END
		subsystems:
		  - nqn: $nqn
		    allow_any_host: true
		    namespaces:
		      - {nsid: 1, backend: memory, size: 16MiB}
		      - {nsid: 2, backend: memory, size: 16MiB}
	END
}

start()
{
	local i

	modprobe dummy numdummies=0
	for i in 0 1; do
		ip link add d$i type dummy
		ip link set d$i mtu 4200 up
		ip addr add 192.168.8$i.1/24 dev d$i
		ip addr add fd8$i::1/64 dev d$i nodad
	done
	modules first
	{
		printf 'listeners:\n  - {address: 0.0.0.0, provider: verbs}\n'
		printf '  - {address: "::", provider: verbs, send_with_inv: false, inline_sends: false}\n'
		namespaces
	} >$wildcards
	{
		printf 'listeners:\n  - {address: 192.168.80.1}\n'
		namespaces
	} >$single
}

# verify NAME ADDRESS NSID: verified I/O on two queues until verified NAME or its connection is lost; its messages
# are in /run/t/NAME.log, its exit status in /run/t/NAME.status.
verify()
{
	rm -f "/run/t/$1.status" "/run/t/$1.pid"
	(
		status=0
		"$RDVERIFY" "nvme+rdma://$2/$nqn/$3" --seconds 600 --range 4194304 --seed 1 --queues 2 --depth 8 \
			</dev/null >"/run/t/$1.log" 2>&1 &
		echo $! >"/run/t/$1.pid"
		wait $! || status=$?
		echo $status >"/run/t/$1.status"
	) &
	t_until 10 test -s "/run/t/$1.pid"
}

# All that was written is read once more.
verified()
{
	kill -INT "$(cat "/run/t/$1.pid")"
	t_until 60 test -s "/run/t/$1.status"
	cat "/run/t/$1.log"
	[ "$(cat "/run/t/$1.status")" -eq 0 ]
}

# It lost its connection, and no data was wrong before.
lost()
{
	t_until 20 test -s "/run/t/$1.status"
	[ "$(cat "/run/t/$1.status")" -eq 1 ]
	t_expect 'connection lost|transport error' "/run/t/$1.log"
}

serves()
{
	"$RDINIT" id-ns "nvme+rdma://$1/$nqn/1" --provider verbs >/dev/null
}

target_has()
{
	[ "$(t_target_figure "$1")" -eq "$2" ]
}

has_moved()
{
	[ "$(t_target_figure writes)" -gt "$1" ]
}

files_of_target()
{
	find "/proc/$(cat /run/t/target.pid)/fd" -type l | wc -l
}

one_of_two_under_load()
{
	local writes

	clear_away
	add x0
	add x1
	t_target_start $wildcards
	verify gone 192.168.80.1 1
	verify stays '[fd81::1]' 2
	t_until 30 target_has io_queues 4
	t_until 30 has_moved 50
	remove x0
	lost gone
	t_until 10 target_has io_queues 2
	writes=$(t_target_figure writes)
	t_until 10 has_moved "$writes"
	add x0
	t_until 10 serves 192.168.80.1
	t_until 10 serves '[fd80::1]'
	verified stays
	t_expect 'x0: the RDMA device was removed$' /run/t/target.log
}

# What two reactors with two listeners may keep of the last removal; objects of earlier ones have been freed.
few_regions()
{
	[ "$(t_target_figure mrs)" -le 4 ]
}

# Nothing of a removed device is kept, except two files of librdmacm until it next looks for devices.
holds_nothing()
{
	t_until 10 few_regions
	! find "/proc/$(cat /run/t/target.pid)/fd" -lname '*uverbs*' -o -lname '*infinibandevent*' | grep .
}

the_only_one()
{
	local files

	clear_away
	add x0
	t_target_start $wildcards
	t_until 10 serves 192.168.80.1
	remove x0
	holds_nothing
	files=$(files_of_target)
	for _ in 1 2; do
		add x0
		t_until 10 serves 192.168.80.1
		verify gone '[fd80::1]' 1
		t_until 30 target_has io_queues 2
		remove x0
		lost gone
		holds_nothing
		[ "$(files_of_target)" -eq "$files" ] || t_fail "files: $files before, $(files_of_target) now"
	done
	add x0
	verify stays 192.168.80.1 1
	t_until 30 target_has io_queues 2
	verified stays
	t_until 10 t_target_is_idle
	t_target_ends_cleanly
	remove x0
}

listener_on_one_address()
{
	clear_away
	add x0
	t_target_start $single
	t_expect 'listening on 192.168.80.1:4420 .verbs.$' /run/t/target.log
	# Nobody has connected yet.
	remove x0
	t_until 10 t_has 'no longer listening on 192.168.80.1:4420' /run/t/target.log
	add x0
	t_until 10 t_has 'listening on 192.168.80.1:4420 again' /run/t/target.log
	verify stays 192.168.80.1 1
	t_until 30 target_has io_queues 2
	verified stays
	remove x0
	t_target_ends_cleanly
}

# Choosing a provider opens no device, and the end works without the device.
wildcard_nobody_used()
{
	clear_away
	add x0
	sed -i 's/, provider: verbs//' $wildcards
	t_target_start $wildcards
	t_expect 'listening on 0.0.0.0:4420 .verbs.$' /run/t/target.log
	remove x0
	t_target_ends_cleanly
}

# The interface resolves no neighbour and drops everything: an address that never answers.
silence()
{
	clear_away
	add x0
	RD_TEST_FABRIC=verbs RD_TEST_ADDR=192.168.80.1 RD_TEST_ADDR6=fd80::1 RD_TEST_SILENT=192.168.80.77 \
		"$TEST_FABRIC" silence
	remove x0
}

provider_level()
{
	clear_away
	add x0
	RD_TEST_FABRIC=verbs RD_TEST_ADDR=192.168.80.1 RD_TEST_ADDR6=fd80::1 \
		RD_TEST_LINK="x0 type $device_type netdev d0" "$TEST_FABRIC" hotplug
	remove x0
}

uverbs_last()
{
	clear_away
	modules last
	provider_level
}

if t_guest; then
	t_first_case "two interfaces" start
	t_case "one of two devices is removed under load, and added again" one_of_two_under_load
	t_case "the only device is removed under load, and added again" the_only_one
	t_case "the device of a listener is removed before a host has connected" listener_on_one_address
	t_case "a wildcard listener keeps no unused device" wildcard_nobody_used
	t_case "the provider closes everything on a removed device" provider_level
	t_case "an address that never answers delays nothing else" silence
	t_case "the provider detects the removal if rdma_cm was loaded first" uverbs_last
	t_case "rdtarget detects the removal if rdma_cm was loaded first" the_only_one
	t_guest_done
fi

t_dmesg_case
t_done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host (nvme-rdma) on rdtarget: commands beyond reading and writing, two paths with ANA states,
# changes of the configuration while it is connected, reservations of two hosts.
# Interop: Linux nvme-rdma -> rdtarget
t_programs=(RDTARGET)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly port_a=4420 port_b=4421
readonly host=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000 # and 1 or 2
readonly anyone="allow_any_host: true"

# configuration STATE_A STATE_B HOSTS [NAMESPACE...]: of group 1 on each listener; who may connect; what there is
# besides namespace 1.
configuration()
{
	local a=$1 b=$2 hosts=$3

	shift 3
	cat <<-END
	target:
	  state_dir: /run/t/state
	listeners:
	  - { address: $user4, port: $port_a, provider: $provider, ana: [{ group: 1, state: $a }] }
	  - { address: "$user6", port: $port_b, provider: $provider, ana: [{ group: 1, state: $b }] }
	subsystems:
	  - nqn: $nqn:memory
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, backend: memory, size: 4MiB }
	  - nqn: $nqn
	    $hosts
	    namespaces:
	      - { nsid: 1, backend: file, path: /run/disk, create: true, size: 64MiB }
	END
	[ $# -eq 0 ] || printf '      - %s\n' "$@"
}

# reload CONFIGURATION...: returns when rdtarget has applied it.
reload()
{
	local before

	before=$(wc -l </run/t/target.log)
	configuration "$@" >/run/t/target.yaml
	t_target_signal HUP
	t_until 30 reloaded $((before + 1))
	! tail -n +$((before + 1)) /run/t/target.log | grep -E 'not reloaded|reloaded in part|restart' ||
		t_fail "the above while reloading"
}

reloaded()
{
	tail -n +"$1" /run/t/target.log | grep -qE 'reloaded'
}

start()
{
	t_network
	t_rdma
	modprobe nvme-rdma
	grep -qx Y /sys/module/nvme_core/parameters/multipath
	configuration optimized non-optimized "$anyone" '{ nsid: 2, backend: memory, size: 8MiB, ana_group: 2 }' \
		>/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

# attach HOST ADDRESS PORT [OPTION]: through the kernel's interface; nvme-cli takes a second host for the first.
attach()
{
	printf '%s' "transport=rdma,traddr=$2,trsvcid=$3,nqn=$nqn,nr_io_queues=2,hostnqn=$host$1," \
		"hostid=${host#*uuid:}$1${4:+,$4}" >/dev/nvme-fabrics
}

# says FILE PATTERN: compares its first line, without starting a process, because this runs often.
says()
{
	local line

	{ read -r line <"$1"; } 2>/dev/null || return 1
	# shellcheck disable=SC2053 # a pattern
	[[ $line == $2 ]]
}

# ---- two paths ----

# path PORT: the controller that came by it.
path()
{
	local dir

	for dir in /sys/class/nvme/nvme*; do
		if says "$dir/subsysnqn" "$nqn" && says "$dir/address" "*trsvcid=$1*"; then
			echo "${dir##*/}"
			return 0
		fi
	done
	return 1
}

# states_are A B: of namespace 1 on each path.
states_are()
{
	state_is "$port_a" "$1" && state_is "$port_b" "$2"
}

state_is()
{
	local dir

	for dir in "/sys/class/nvme/$(path "$1")"/nvme*c*n*; do
		if says "$dir/nsid" 1; then
			says "$dir/ana_state" "$2"
			return
		fi
	done
	return 1
}

two_paths()
{
	attach 1 "$user4" "$port_a"
	attach 1 "$user6" "$port_b"
	t_until 30 has_block_device 1
	t_until 30 has_block_device 2
	t_until 30 states_are optimized non-optimized
	timeout 60 nvme list-subsys >/run/t/out
	t_expect "traddr=$user4,trsvcid=$port_a" /run/t/out
	t_expect "traddr=$user6,trsvcid=$port_b" /run/t/out
}

nvme_says()
{
	timeout 60 nvme "$@" >/run/t/out 2>&1 || {
		cat /run/t/out
		t_fail "nvme $*"
	}
}

# nvme_refuses REGEX COMMAND...: with that status.
nvme_refuses()
{
	local status=$1

	shift
	t_refuted timeout 60 nvme "$@" >/run/t/out 2>&1
	t_expect "$status" /run/t/out
}

identify()
{
	local ctrl property

	ctrl=/dev/$(path "$port_a")
	nvme_says id-ctrl "$ctrl"
	t_expect '^anagrpmax *: 64$' /run/t/out
	t_expect '^oncs *: 0x' /run/t/out
	nvme_says id-ns "$ctrl" -n 1
	t_expect '^anagrpid *: *1$' /run/t/out
	nvme_says id-ns "$ctrl" -n 2
	t_expect '^anagrpid *: *2$' /run/t/out
	nvme_says ns-descs "$ctrl" -n 1
	t_expect '^uuid' /run/t/out
	nvme_says list-ns "$ctrl" -a
	t_expect '0x2$' /run/t/out
	nvme_says list-ctrl "$ctrl" -n 1
	# Two controllers, one for each path.
	[ "$(grep -c '^\[ *[0-9]*\]:0x' /run/t/out)" -eq 2 ] || { cat /run/t/out; t_fail "two controllers"; }
	nvme_says cmdset-ind-id-ns "$ctrl" -n 1
	nvme_says nvm-id-ctrl "$ctrl"
	nvme_says nvm-id-ns "$ctrl" -n 1
	nvme_says id-iocs "$ctrl"
	# Not with show-regs: nvme-cli 2.3 ends itself (double free) at the first property that does not exist, 0Ch.
	for property in 0x0:cap 0x8:version 0x14:cc 0x1c:csts 0x68:crto; do
		nvme_says get-property "$ctrl" -o "${property%:*}"
		cat /run/t/out
	done
	nvme_refuses 'INVALID_FIELD|Invalid Field' get-property "$ctrl" -o 0x24
}

log_pages()
{
	local ctrl page

	ctrl=/dev/$(path "$port_a")
	nvme_says supported-log-pages "$ctrl"
	for page in 0x1 0x2 0x3 0x4 0x5 0xc 0x80; do
		t_expect "(LID|lid|Log Page|\()[^a-z0-9]*$page\>" /run/t/out
	done
	for page in error smart fw changed-ns-list ana fid-support-effects mi-cmd-support-effects resv-notif; do
		nvme_says "$page-log" "$ctrl"
	done
	nvme_says ana-log "$ctrl"
	t_expect '^grpid\s*:\s*1$' /run/t/out
	t_expect '^grpid\s*:\s*2$' /run/t/out
	t_expect '^state\s*:\s*optimized$' /run/t/out
	nvme_says ana-log "/dev/$(path "$port_b")"
	t_expect '^state\s*:\s*non-optimized$' /run/t/out
	# Without the command set, nvme-cli 2.3 takes it from CAP, as show-regs does, and says nothing when that fails.
	nvme_says effects-log "$ctrl" --csi=0
	t_expect 'Copy' /run/t/out
	# Errors are in the log: the last command, by its status.
	nvme_refuses 'LBA Out of Range|LBA_RANGE' verify "$(block_device)" -s 131072 -c 0
	nvme_says error-log "/dev/$(path "$port_a")" -e 8
	t_expect 'LBA' /run/t/out
}

features()
{
	local ctrl fid

	ctrl=/dev/$(path "$port_a")
	for fid in 1 2 4 6 7 0xa 0xb 0xe 0xf 0x16 0x19; do
		nvme_says get-feature "$ctrl" -f "$fid"
		nvme_says get-feature "$ctrl" -f "$fid" -s 3
	done
	for fid in 5 0x82 0x83 0x84; do
		nvme_says get-feature "$ctrl" -f "$fid" -n 1
		nvme_says get-feature "$ctrl" -f "$fid" -n 1 -s 3
	done
	nvme_says get-feature "$ctrl" -f 0x81 --cdw11=1 -b
	nvme_refuses 'INVALID_FIELD|Invalid Field' get-feature "$ctrl" -f 0xc
	# The events that the kernel has enabled.
	nvme_says get-feature "$ctrl" -f 0xb
	t_expect 'alue:0x0*900' /run/t/out
}

# ---- commands ----

# fill DEVICE: 1 MiB of random data, and what it is in /run/t/expected.
fill()
{
	head -c 1M /dev/urandom >/run/t/expected
	dd if=/run/t/expected of="$1" bs=128k oflag=direct status=none
}

# is_expected DEVICE
is_expected()
{
	dd if="$1" of=/run/t/back bs=128k count=8 iflag=direct status=none
	cmp /run/t/expected /run/t/back
}

# expect_blocks SOURCE FIRST COUNT TO: in what is expected, COUNT blocks of the file SOURCE from FIRST on are at TO.
expect_blocks()
{
	dd if="$1" of=/run/t/expected bs=512 skip="$2" count="$3" seek="$4" conv=notrunc status=none
}

copy()
{
	local device

	device=$(block_device "$1")
	fill "$device"
	nvme_says copy "$device" --sdlba=1500 --slbs=0,100,1000 --blocks=15,0,99
	cp /run/t/expected /run/t/before
	expect_blocks /run/t/before 0 16 1500
	expect_blocks /run/t/before 100 1 1516
	expect_blocks /run/t/before 1000 100 1517
	is_expected "$device"
	nvme_refuses 'LBA Out of Range|LBA_RANGE' copy "$device" --sdlba=0 --slbs=1000000 --blocks=0
	is_expected "$device"
}

compare()
{
	local device

	device=$(block_device "$1")
	fill "$device"
	dd if=/run/t/expected of=/run/t/piece bs=512 skip=64 count=8 status=none
	nvme_says compare "$device" -s 64 -c 7 -z 4096 -d /run/t/piece
	nvme_refuses 'Compare Failure|COMPARE_FAILED' compare "$device" -s 65 -c 7 -z 4096 -d /run/t/piece
	dd if=/dev/zero of=/run/t/piece bs=1 seek=4095 count=1 conv=notrunc status=none
	dd if=/run/t/piece of="$device" bs=4096 seek=9 oflag=direct status=none
	nvme_says compare "$device" -s 72 -c 7 -z 4096 -d /run/t/piece
	printf x | dd of=/run/t/piece bs=1 seek=4095 conv=notrunc status=none
	nvme_refuses 'Compare Failure|COMPARE_FAILED' compare "$device" -s 72 -c 7 -z 4096 -d /run/t/piece
}

zeroes()
{
	local device

	device=$(block_device "$1")
	fill "$device"
	nvme_says write-zeroes "$device" -s 101 -c 36
	expect_blocks /dev/zero 0 37 101
	is_expected "$device"
	nvme_says dsm "$device" -d -s 500,1000 -b 7,600
	expect_blocks /dev/zero 0 7 500
	expect_blocks /dev/zero 0 600 1000
	is_expected "$device"
}

# Blocks that the host has marked as bad cannot be verified until they are written again.
verify()
{
	local device

	nvme_says verify "$(block_device 1)" -s 0 -c 255
	# If one of the namespaces is a file, Write Uncorrectable is not offered.
	printf '%s' "transport=rdma,traddr=$user4,trsvcid=$port_a,nqn=$nqn:memory,nr_io_queues=1" >/dev/nvme-fabrics
	t_until 30 has_block_device 1 "$nqn:memory"
	device=$(block_device 1 "$nqn:memory")
	fill "$device"
	nvme_says write-uncor "$device" -s 40 -c 0
	nvme_refuses 'Unrecovered Read Error|READ_ERROR' verify "$device" -s 0 -c 255
	nvme_says verify "$device" -s 0 -c 39
	nvme_says verify "$device" -s 41 -c 99
	dd if=/run/t/expected of="$device" bs=4096 seek=5 skip=5 count=1 oflag=direct status=none
	nvme_says verify "$device" -s 0 -c 255
	is_expected "$device"
	timeout 60 nvme disconnect -n "$nqn:memory"
}

# ---- changes while connected ----

states_follow()
{
	reload inaccessible optimized "$anyone"
	t_until 30 states_are inaccessible optimized
	reload persistent-loss non-optimized "$anyone"
	t_until 30 states_are persistent-loss non-optimized
	reload optimized non-optimized "$anyone"
	t_until 30 states_are optimized non-optimized
}

# io_until_told DEVICE: rounds of writing and checking, counted in /run/t/rounds, until /run/t/enough exists.
io_until_told()
{
	local rounds=0

	while [ ! -e /run/t/enough ]; do
		verified_io "$1" --rw=randwrite --iodepth=16 --bsrange=4k-64k --blockalign=4k --size=1m >/run/t/fio
		t_expect '^fio: error 0, read [1-9][0-9]* KiB, written [1-9]' /run/t/fio
		rounds=$((rounds + 1))
		# The file is never empty for its readers.
		echo "$rounds" >/run/t/rounds.next
		mv /run/t/rounds.next /run/t/rounds
	done
}

# io_starts DEVICE: in the background, of process $io.
io_starts()
{
	rm -f /run/t/enough
	echo 0 >/run/t/rounds
	io_until_told "$1" >/run/t/rounds.log 2>&1 &
	io=$!
}

rounds_are()
{
	[ "$(cat /run/t/rounds)" -ge "$1" ]
}

# io_goes_on: waits until a new round has begun and ended. A round that failed ends the test.
io_goes_on()
{
	local rounds

	kill -0 "$io" || t_fail "fio: $(cat /run/t/rounds.log /run/t/fio)"
	read -r rounds </run/t/rounds
	t_until 60 rounds_are $((rounds + 2))
}

io_ends_well()
{
	touch /run/t/enough
	wait "$io" || t_fail "fio: $(cat /run/t/rounds.log /run/t/fio)"
}

# fio sees no error and no wrong block while the usable path changes, nor when no path is usable for a while.
failover()
{
	local io i

	io_starts "$(block_device)"
	for i in 1 2; do
		reload inaccessible optimized "$anyone"
		t_until 30 states_are inaccessible optimized
		io_goes_on
		reload optimized inaccessible "$anyone"
		t_until 30 states_are optimized inaccessible
		io_goes_on
		reload inaccessible inaccessible "$anyone"
		t_until 30 states_are inaccessible inaccessible
	done
	reload non-optimized inaccessible "$anyone"
	io_goes_on
	io_ends_well
	echo "note: $(cat /run/t/rounds) rounds of fio"
	reload optimized non-optimized "$anyone"
	t_until 30 states_are optimized non-optimized
}

has_no_block_device()
{
	! has_block_device "$@"
}

# size_is NSID BLOCKS
size_is()
{
	local device

	device=$(block_device "$1") && [ "$(cat "/sys/block/${device##*/}/size")" -eq "$2" ]
}

namespaces_change()
{
	local state=(optimized non-optimized "$anyone")

	reload "${state[@]}"
	t_until 30 has_no_block_device 2
	truncate -s 8M /run/grows
	reload "${state[@]}" '{ nsid: 3, backend: file, path: /run/grows }' '{ nsid: 4, backend: memory, size: 4MiB }'
	t_until 30 size_is 3 16384
	t_until 30 size_is 4 8192
	fill "$(block_device 3)"
	truncate -s 16M /run/grows
	reload "${state[@]}" '{ nsid: 3, backend: file, path: /run/grows }' '{ nsid: 4, backend: memory, size: 6MiB }'
	t_until 30 size_is 3 32768
	t_until 30 size_is 4 12288
	is_expected "$(block_device 3)"
	verified_io "$(block_device 3)" --rw=write --bs=64k --iodepth=4 --size=1m --offset=14m
	truncate -s 12M /run/grows
	reload "${state[@]}" '{ nsid: 3, backend: file, path: /run/grows }'
	t_until 30 size_is 3 24576
	t_until 30 has_no_block_device 4
	is_expected "$(block_device 3)"
	reload "${state[@]}"
	t_until 30 has_no_block_device 3
	has_block_device 1
}

# ---- two hosts ----

# disk HOST [NSID]: without multipath each host has its own.
disk()
{
	local dir

	for dir in /sys/class/nvme/nvme*/nvme*n*; do
		if says "${dir%/*}/hostnqn" "$host$1" && says "$dir/nsid" "${2:-1}" && [ -b "/dev/${dir##*/}" ]; then
			echo "/dev/${dir##*/}"
			return 0
		fi
	done
	return 1
}

has_disk()
{
	disk "$@" >/dev/null
}

has_no_disk()
{
	! disk "$@" >/dev/null
}

# host_controller HOST
host_controller()
{
	local dir

	for dir in /sys/class/nvme/nvme*; do
		if says "$dir/hostnqn" "$host$1"; then
			echo "/dev/${dir##*/}"
			return 0
		fi
	done
	return 1
}

host_is_gone()
{
	! host_controller "$1"
}

two_hosts()
{
	disconnect_kernel
	modprobe -r nvme-rdma nvme-fabrics nvme-core
	modprobe nvme-core multipath=N
	modprobe nvme-rdma
	attach 1 "$user4" "$port_a"
	attach 2 "$user4" "$port_a" ctrl_loss_tmo=4,reconnect_delay=1
	t_until 30 has_disk 1
	t_until 30 has_disk 2
	[ "$(disk 1)" != "$(disk 2)" ]
}

# report_has HOST REGEX...: in the reservation report.
report_has()
{
	local regex

	nvme_says resv-report "$(disk "$1")" --eds
	shift
	for regex in "$@"; do
		t_expect "$regex" /run/t/out
	done
}

# may_not_write DEVICE
may_not_write()
{
	! dd if=/dev/zero of="$1" bs=4096 count=1 oflag=direct 2>/run/t/out || t_fail "$1 took a write"
	t_expect 'Invalid exchange' /run/t/out
}

write_exclusive()
{
	local mine other

	mine=$(disk 1)
	other=$(disk 2)
	fill "$mine"
	report_has 1 '^rtype *: 0$' '^regctl *: 0$'
	nvme_says resv-register "$mine" --nrkey=0x11 --rrega=0
	nvme_says resv-register "$other" --nrkey=0x22 --rrega=0
	nvme_says resv-acquire "$mine" --crkey=0x11 --rtype=1 --racqa=0
	report_has 2 '^rtype *: 1$' '^regctl *: 2$' 'rkey *: 0?x?11$' 'rkey *: 0?x?22$' 'rcsts *: 1$' 'rcsts *: 0$'
	nvme_refuses 'Reservation Conflict|RESERVATION_CONFLICT' resv-acquire "$other" --crkey=0x22 --rtype=1 --racqa=0
	nvme_refuses 'Reservation Conflict|RESERVATION_CONFLICT' resv-register "$other" --crkey=0x23 --rrega=1
	may_not_write "$other"
	nvme_refuses 'Reservation Conflict|RESERVATION_CONFLICT' write-zeroes "$other" -s 0 -c 7
	is_expected "$other"
	nvme_says write-zeroes "$mine" -s 0 -c 7
	expect_blocks /dev/zero 0 8 0
	is_expected "$other"
}

preempted()
{
	local mine other

	mine=$(disk 1)
	other=$(disk 2)
	nvme_says resv-acquire "$other" --crkey=0x22 --prkey=0x11 --rtype=2 --racqa=1
	report_has 2 '^rtype *: 2$' '^regctl *: 1$' 'rkey *: 0?x?22$'
	! dd if="$mine" of=/dev/null bs=4096 count=1 iflag=direct 2>/run/t/out || t_fail "exclusive, and read"
	t_expect 'Invalid exchange' /run/t/out
	may_not_write "$mine"
	nvme_says resv-notif-log "$(host_controller 1)"
	cat /run/t/out
	dd if=/dev/zero of="$other" bs=4096 count=1 oflag=direct status=none
}

released()
{
	local mine other

	mine=$(disk 1)
	other=$(disk 2)
	nvme_says resv-release "$other" --crkey=0x22 --rtype=2 --rrela=0
	report_has 1 '^rtype *: 0$' '^regctl *: 1$'
	fill "$mine"
	is_expected "$other"
	nvme_says resv-register "$other" --crkey=0x22 --rrega=1
	report_has 1 '^regctl *: 0$'
}

masked()
{
	local state=(optimized non-optimized "$anyone")
	local namespace="nsid: 5, backend: memory, size: 4MiB"

	reload "${state[@]}" "{ $namespace, hosts: ['${host}1'] }"
	t_until 30 has_disk 1 5
	has_no_disk 2 5
	nvme_says list-ns "$(host_controller 2)"
	! grep -q '0x5$' /run/t/out || t_fail "namespace 5 is not for host 2"
	fill "$(disk 1 5)"
	reload "${state[@]}" "{ $namespace, hosts: ['${host}2'] }"
	t_until 30 has_disk 2 5
	t_until 30 has_no_disk 1 5
	is_expected "$(disk 2 5)"
	reload "${state[@]}" "{ $namespace }"
	t_until 30 has_disk 1 5
	is_expected "$(disk 1 5)"
	reload "${state[@]}"
	t_until 30 has_no_disk 1 5
	t_until 30 has_no_disk 2 5
}

not_allowed_any_more()
{
	local io

	io_starts "$(disk 1)"
	reload optimized non-optimized "hosts: ['${host}1']"
	# Its controller ends; it tries again, and is refused.
	t_until 60 host_is_gone 2
	t_refuted attach 2 "$user4" "$port_a"
	io_goes_on
	io_ends_well
	reload optimized non-optimized "hosts: ['${host}1', '${host}2']"
	attach 2 "$user4" "$port_a"
	t_until 30 has_disk 2
}

nothing_is_left()
{
	disconnect_kernel
	t_until 20 t_target_is_idle
}

if t_guest; then
	t_first_case "rdtarget starts with two listeners" start
	t_first_case "two paths, with their states" two_paths
	t_case "identify and properties" identify
	t_case "log pages" log_pages
	t_case "features" features
	t_case "nvme copy, file" copy 1
	t_case "nvme copy, memory" copy 2
	t_case "nvme compare, file" compare 1
	t_case "nvme compare, memory" compare 2
	t_case "nvme write-zeroes and dsm" zeroes 1
	t_case "nvme verify and write-uncor" verify
	t_case "the kernel gets changed ANA states by events" states_follow
	t_case "failover between two paths under fio" failover
	t_case "namespaces are added, grown, shrunk and removed" namespaces_change
	t_case "two hosts, each with a device of its own" two_hosts
	t_case "a reservation: conflicts for the other host" write_exclusive
	t_case "a reservation is preempted" preempted
	t_case "a reservation is released" released
	t_case "a namespace for one host, then for the other" masked
	t_case "a host is removed from the allowed hosts" not_allowed_any_more
	t_case "disconnect leaves no connection at the target" nothing_is_left
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

# From commands that are refused on purpose (6.12: reservation conflict), from two hosts in one kernel, from the controller of the host that may not
# reconnect, and from a scan that finds a namespace which is being removed.
allowed='I/O Cmd.*sct 0x0 / sc 0x83|critical nexus error|no usable path'
allowed+='|nvme_ns_head_submit_bio: .* suppressed|Found shared namespace|Support for shared namespaces|starting error recovery|Property Set error: 880'
allowed+='|Connect Invalid Data Parameter, subsysnqn|failed to connect queue|Failed reconnect|Identify Descriptors failed \(nsid=4, status=0x400b\)'
allowed+='|reservation conflict error'
t_dmesg_case "$allowed"
t_done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdinit attach on a machine with two processors and the kernel 6.12, with ublk and with nbd: two queues, each with a thread.
# Interop: none
export RD_VM_CPUS=2
t_programs=(RDTARGET RDINIT)
if [ -z "${RD_VM_KERNEL:-}" ] && grep -qsx 'VERSION_ID="12"' /etc/os-release; then
	export RD_VM_KERNEL=linux-image-6.12-amd64
fi
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

# shellcheck source=tests/vm/t_attach.sh
. "$t_dir/t_attach.sh"

# by DRIVER FUNCTION...
by()
{
	attach_driver=$1
	shift
	fresh "$@"
}

# Processor time of the threads that serve queues, the smallest of them: in clock ticks.
least_used_queue()
{
	local thread fields least=""

	for thread in "/proc/$(served_by)/task"/*; do
		[[ $(cat "$thread/comm") == queue ]] || continue
		read -r -a fields <"$thread/stat"
		[ -n "$least" ] && [ "$least" -le $((fields[13] + fields[14])) ] || least=$((fields[13] + fields[14]))
	done
	echo "${least:-0}"
}

all_queues_work()
{
	[ "$(least_used_queue)" -gt 5 ]
}

# Verified I/O from both processors, while paths are lost and, with ublk, the process is killed.
two_queues()
{
	attach "$(uri 1)" "$(uri 1 4421)" --nr-io-queues=2
	[ "$(find "/sys/block/${device##*/}/mq" -mindepth 1 -maxdepth 1 -type d | wc -l)" -eq 2 ]
	is_ready_for_pressure "$(served_by)"
	io_start "${io_options[@]}" --numjobs=2 --offset_increment=8m --cpus_allowed=0,1 --cpus_allowed_policy=split --group_reporting
	io_is_on 100
	t_until 60 all_queues_work
	if [ "$attach_driver" = ublk ]; then
		kill -KILL "$(served_by)"
		t_until 30 attached_is left
		t_refuted "$RDINIT" attach "$(uri 1)" --nr-io-queues=1 2>/run/t/out
		t_expect 'was attached with --nr-io-queues=2' /run/t/out
		attach "$(uri 1)" "$(uri 1 4421)" --nr-io-queues=2
		io_is_on 100
	fi
	configuration | sed "/port: 4420/d" >/run/t/one.yaml
	reload /run/t/one.yaml
	io_is_on 100
	configuration >/run/t/both.yaml
	reload /run/t/both.yaml
	io_is_on 100
	io_stop $((8 << 20))
	detach "$device"
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "ublk: two queues under verified I/O, killed, a path lost and back" by ublk two_queues
	t_case "nbd: two queues under verified I/O, a path lost and back" by nbd two_queues
	t_case "nbd: limits, discard, write zeroes, read-only" by nbd limits
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

t_dmesg_case 'block nbd[0-9]+: shutting down sockets'
t_done

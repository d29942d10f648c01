#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host on rdtarget under faults: no data is lost or wrong.
# Interop: Linux nvme-rdma -> rdtarget
t_programs=(RDTARGET)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly io_size=2097152
readonly io_options=(--rw=randwrite --bs=4k --size="$io_size" --iodepth=16)

configuration()
{
	cat <<-END
	listeners:
	  - { address: $user4, port: 4420, provider: $provider }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, backend: file, path: /run/disk, create: true, size: 2MiB, block_size: 512 }
	END
}

start()
{
	t_network
	t_rdma_for_lost_connections
	modprobe nvme-rdma
	configuration >/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

# connected: a fresh controller that tries again each second, for a minute.
connected()
{
	connect_kernel "$user4" 4420 --reconnect-delay=1 --ctrl-loss-tmo=60 "$@"
}

io_ends_well()
{
	io_stop "$io_size"
	disconnect_kernel
	# All data is in the file, which is read directly.
	file_holds_the_last_pass >/run/t/only.log 2>&1 || {
		cat /run/t/only.log
		t_fail "the file does not hold what was written"
	}
	echo "note: $(cat /run/t/io.pass) passes"
}

file_holds_the_last_pass()
{
	holds_the_last_pass /run/disk "$io_size" "${io_options[@]}"
}

# The check can fail: one byte of the file is inverted, and restored.
corruption_is_found()
{
	turn_over_a_byte
	t_refuted file_holds_the_last_pass
	turn_over_a_byte
	file_holds_the_last_pass
}

turn_over_a_byte()
{
	local byte

	byte=$(od -An -tu1 -j 5000 -N 1 /run/disk)
	printf '%b' "\\x$(printf %x $((byte ^ 255)))" |
		dd of=/run/disk bs=1 seek=5000 conv=notrunc status=none
}

restart_under_io()
{
	local signal=$1 i

	connected
	io_start "${io_options[@]}"
	for i in 1 2 3; do
		io_is_on 200
		t_target_end "$signal"
		t_until 30 controller_is connecting
		t_target_start /run/t/target.yaml
		t_until 60 controller_is live
	done
	io_is_on 1
	io_ends_well
}

reset_under_io()
{
	local i

	connected
	io_start "${io_options[@]}"
	for i in 1 2 3; do
		io_is_on 200
		timeout 60 nvme reset "$ctrl"
		t_until 30 controller_is live
	done
	io_is_on 1
	io_ends_well
}

network_outage()
{
	connected --keep-alive-tmo=2
	io_start "${io_options[@]}"
	io_is_on 200
	t_wire_cut
	t_until 60 controller_is connecting
	t_wire_mend
	t_until 60 controller_is live
	io_is_on 1
	io_ends_well
	t_until 60 t_target_is_idle
}

gone_for_good()
{
	connect_kernel "$user4" 4420 --reconnect-delay=1 --ctrl-loss-tmo=3
	t_target_end KILL
	t_until 60 no_controller
	t_target_start /run/t/target.yaml
	connected
	disconnect_kernel
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "rdtarget killed and started again under I/O, three times" restart_under_io KILL
	t_case "the data check detects corruption" corruption_is_found
	t_case "rdtarget stopped by SIGTERM and started again under I/O, three times" \
		restart_under_io TERM
	t_case "nvme reset under I/O, three times" reset_under_io
	t_case "a network outage under I/O" network_outage
	t_case "rdtarget does not return: the host gives up, and can connect later" gone_for_good
	t_case "nothing is left at the target" t_until 30 t_target_is_idle
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

t_dmesg_case "$lost_connections"
t_done

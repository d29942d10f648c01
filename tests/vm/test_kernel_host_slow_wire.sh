#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host on rdtarget over a wire with a delay: what the target has sent is still on its way when the
# buffers of these reads serve other reads.
# Interop: Linux nvme-rdma -> rdtarget
t_programs=(RDTARGET)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly io_size=2097152

start()
{
	t_network
	t_rdma
	modprobe nvme-rdma
	cat >/run/t/target.yaml <<-END
	listeners:
	  - { address: $user4, port: 4420, provider: $provider }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, backend: file, path: /run/disk, create: true, size: 4MiB }
	END
	t_target_start /run/t/target.yaml
}

# Reads begin at random moments, some dozen within one delay.
reads_bring_their_own_data()
{
	connect_kernel "$user4" 4420
	verified_io "$device" --rw=randwrite --bs=4k --size="$io_size" --iodepth=8
	modprobe sch_netem
	in_user tc qdisc add dev v1 root netem delay 60ms limit 100000
	verified_io "$device" --rw=randread --bs=4k --size="$io_size" --iodepth=64 --rate_iops=500 \
		--rate_process=poisson >/run/t/fio
	cat /run/t/fio
	t_expect "fio: error 0, read $((io_size / 1024)) KiB" /run/t/fio
	in_user tc qdisc del dev v1 root
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "reads over a slow link return the right data" reads_bring_their_own_data
	t_case "the host disconnects" disconnect_kernel
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

t_dmesg_case
t_done

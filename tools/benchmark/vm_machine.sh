#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317,SC2329 # functions are called by name
# For tools/bench --vm: rdtarget over verbs beside the kernel's own target on one device, each on a null block device,
# both used by the kernel's host and by our programs. In the machine vm_guest.py measures; what it found goes to
# RD_BENCH_VM_OUT.
t_programs=(RDTARGET RDINIT)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/../../tests/vm/t_vm.sh"

readonly nvmet=/sys/kernel/config/nvmet kernel_nqn=nqn.2024-01.io.rdnvme:nvmet
readonly here=${BASH_SOURCE[0]%/*}

# null_disk NAME: takes and gives nothing, as fast as a block device can.
null_disk()
{
	local dir=/sys/kernel/config/nullb/$1

	mkdir "$dir"
	echo 0 >"$dir/irqmode"
	echo 512 >"$dir/blocksize"
	echo 1024 >"$dir/size"
	echo 1 >"$dir/power"
	t_until 10 test -b "/dev/$1"
}

# What arrives at either end is received by a processor of its own, the first one for the host (vm_guest.py runs all hosts
# there) and the second one for the targets: as two machines would, and in order, as rxe needs it (for_rxe).
two_ends()
{
	echo 1 >/sys/class/net/v0/queues/rx-0/rps_cpus
	echo 2 >/sys/class/net/v1/queues/rx-0/rps_cpus
}

# Both targets are on v1's device, the host is on v0's.
nvmet_start()
{
	local subsystem=$nvmet/subsystems/$kernel_nqn port=$nvmet/ports/1

	mkdir -p "$subsystem/namespaces/1" "$port"
	echo 1 >"$subsystem/attr_allow_any_host"
	echo /dev/nullb1 >"$subsystem/namespaces/1/device_path"
	echo 1 >"$subsystem/namespaces/1/enable"
	echo rdma >"$port/addr_trtype"
	echo ipv4 >"$port/addr_adrfam"
	echo "$user4" >"$port/addr_traddr"
	echo 4421 >"$port/addr_trsvcid"
	ln -s "$subsystem" "$port/subsystems/$kernel_nqn"
}

# The reactor spins on the targets' processor, for a few times what an I/O takes on processors that are programs.
rdtarget_start()
{
	cat >/run/t/target.yaml <<-END
		target:
		  reactors: 1
		  cpus: [1]
		  spin: 2ms
		listeners:
		  - address: $user4
		    port: 4420
		    provider: verbs
		subsystems:
		  - nqn: $nqn
		    allow_any_host: true
		    namespaces:
		      - nsid: 1
		        backend: block
		        path: /dev/nullb0
	END
	t_target_start /run/t/target.yaml
}

start()
{
	t_network
	two_ends
	t_rdma
	modprobe -a nvmet-rdma nvme-rdma
	modprobe null_blk nr_devices=0
	null_disk nullb0
	null_disk nullb1
	nvmet_start
	rdtarget_start
	nvme_fabric connect "$user4" 4420 -n "$nqn" --nr-io-queues=1
	nvme_fabric connect "$user4" 4421 -n "$kernel_nqn" --nr-io-queues=1
	t_until 30 has_block_device 1 "$nqn"
	t_until 30 has_block_device 1 "$kernel_nqn"
}

measure()
{
	python3 -B "$here/vm_guest.py" --rdinit "$RDINIT" --engine "${RD_BENCH_VM_ENGINE:-}" \
		--pid "$(cat /run/t/target.pid)" --repetitions "$RD_BENCH_VM_REPETITIONS" --seconds "$RD_BENCH_VM_SECONDS" \
		"rdtarget=$(block_device 1 "$nqn")=nullb0=nvme+rdma://$user4:4420/$nqn/1" \
		"nvmet=$(block_device 1 "$kernel_nqn")=nullb1=nvme+rdma://$user4:4421/$kernel_nqn/1" >"$t_share/samples.json"
}

if t_guest; then
	t_first_case "both targets serve the kernel" start
	t_case "all loads were measured" measure
	t_guest_done
fi

if [ -s "$t_share/samples.json" ]; then
	cp "$t_share/samples.json" "$RD_BENCH_VM_OUT"
fi
t_done

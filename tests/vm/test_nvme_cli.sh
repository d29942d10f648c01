#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# nvme-cli through the kernel's host and rdinit by itself, on the same rdtarget: the same JSON, member by member.
# Interop: none
t_programs=(RDTARGET RDINIT)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly port_plain=4420

start()
{
	t_network
	t_rdma
	modprobe nvme-rdma
	cat >/run/t/target.yaml <<-END
	listeners:
	  - { address: $user4, port: $port_plain, provider: $provider }
	subsystems:
	  - nqn: $nqn
	    serial: VM0001
	    model: rdtarget in a vm
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, backend: memory, size: 8MiB, nguid: 0123456789abcdef0123456789abcdef }
	      - { nsid: 7, backend: memory, size: 8MiB, block_size: 4096 }
	END
	t_target_start /run/t/target.yaml
	connect_kernel "$user4" "$port_plain"
	echo "$device $ctrl" >/run/t/names
	# Something to report.
	timeout 60 nvme resv-register "$device" --nrkey=0x1234 --rrega=0
	timeout 60 nvme resv-acquire "$device" --crkey=0x1234 --rtype=1 --racqa=0
	timeout 60 nvme write "$device" --start-block=0 --block-count=7 --data-size=4096 --data=/dev/zero
}

# same VERB WHAT "NVME-CLI'S ARGUMENTS" "OURS" [DIFFERENCE=REASON...]; WHAT: ctrl or device
same()
{
	local verb=$1 what=$2 theirs=$3 ours=$4 device ctrl

	shift 4
	read -r device ctrl </run/t/names
	# shellcheck disable=SC2086 # lists of arguments
	timeout 60 nvme "$verb" "${!what}" $theirs -o json >/run/t/theirs
	# shellcheck disable=SC2086
	timeout 60 "$RDINIT" "$verb" --provider="$provider" "nvme+rdma://$user4:$port_plain/$nqn" $ours --output-format=json \
		>/run/t/ours
	python3 "$t_dir/compare_json.py" /run/t/theirs /run/t/ours "$@"
}

discovery()
{
	nvme_fabric discover "$user4" "$port_plain" -o json >/run/t/theirs
	timeout 60 "$RDINIT" discover --provider="$provider" "nvme+rdma://$user4:$port_plain" --output-format=json >/run/t/ours
	python3 "$t_dir/compare_json.py" /run/t/theirs /run/t/ours
}

# Logs whose JSON has a member named after the device: the name is made the same.
named_by_device()
{
	local verb=$1 ctrl

	read -r _ ctrl </run/t/names
	timeout 60 nvme "$verb" "$ctrl" -o json | sed "s|\"${ctrl##*/}\":|\"device\":|" >/run/t/theirs
	timeout 60 "$RDINIT" "$verb" --provider="$provider" "nvme+rdma://$user4:$port_plain/$nqn" --output-format=json |
		sed "s|\"$user4:$port_plain\":|\"device\":|" >/run/t/ours
	shift
	python3 "$t_dir/compare_json.py" /run/t/theirs /run/t/ours "$@"
}

# nvme-cli's own get-lba-status (2.3) passes a buffer of length 0 to the kernel and prints no JSON: the bytes are
# compared.
lba_status()
{
	local device

	read -r device _ </run/t/names
	timeout 60 nvme admin-passthru "$device" --opcode=0x86 --namespace-id=1 --cdw12=1023 --cdw13=0x02000000 \
		--data-len=4096 --read --raw-binary >/run/t/theirs
	timeout 60 "$RDINIT" get-lba-status --provider="$provider" "nvme+rdma://$user4:$port_plain/$nqn/1" --raw-binary \
		>/run/t/ours
	cmp /run/t/theirs /run/t/ours
	# The blocks that were written are in the first 64 KiB, which are tracked as a whole: one descriptor, NLB 127.
	python3 -c 'import struct, sys
assert struct.unpack("<IB3xQIxB", sys.stdin.buffer.read(22)) == (1, 2, 0, 127, 2)' </run/t/ours
}

# Not compared: nvme-cli 2.3 fails in effects-log, aborts in supported-log-pages, and prints memory that is not the
# controller's in show-regs, with a controller over Fabrics.

readonly own="each connection has a controller of its own"
readonly place="nvme-cli names the kernel's device, rdinit the address"
readonly unused="nvme-cli leaves it out where NSFEAT says that it is not in use"

if t_guest; then
	t_first_case "rdtarget starts, the kernel connects" start
	t_case "discover" discovery
	t_case "id-ctrl" same id-ctrl ctrl "" "" "cntlid=$own"
	t_case "id-ns" same id-ns device "" "-n 1" "npwg=$unused" "npwa=$unused" "npdg=$unused" \
		"npda=$unused" "nows=$unused" "uuid=nvme-cli has it in ns-descs alone"
	t_case "list-ns" same list-ns ctrl "" ""
	t_case "ns-descs" same ns-descs device "" "-n 1"
	t_case "smart-log" same smart-log ctrl "" ""
	t_case "ana-log" same ana-log ctrl "" "" "Asymmetric Namespace Access Log for NVMe device=$place"
	t_case "list-ctrl" same list-ctrl ctrl "" "" "num_ctrl=$own" "ctrl_list=$own"
	t_case "cmdset-ind-id-ns" same cmdset-ind-id-ns device "-n 1" "-n 1"
	t_case "nvm-id-ctrl" same nvm-id-ctrl ctrl "" ""
	t_case "error-log" same error-log ctrl "-e 4" "-e 4"
	t_case "fw-log" named_by_device fw-log
	t_case "fid-support-effects-log" same fid-support-effects-log ctrl "" ""
	t_case "resv-notif-log" same resv-notif-log ctrl "" ""
	t_case "changed-ns-list-log" named_by_device changed-ns-list-log "Changed Namespace List Log=$place"
	t_case "resv-report" same resv-report device "-e" "-n 1"
	t_case "get-lba-status" lba_status
	t_case "disconnect" disconnect_kernel
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

t_dmesg_case
t_done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# nvme-cli through the kernel's host and rdinit by itself, on the same rdtarget: the same JSON, member by member.
# Interop: none
t_programs=(RDTARGET RDINIT)
# nvme-cli 2.13, whose names rdinit has: this machine's, else that of a root of Debian 13.
if [ -z "${RD_VM_GUEST:-}${RD_VM_NVME_ROOT:-}" ] && ! nvme version 2>/dev/null | grep -q '^nvme version 2\.13 '; then
	if ! RD_VM_NVME_ROOT=$("$(dirname "$0")/tls_root"); then
		echo "1..0 # SKIP this machine has no nvme-cli 2.13; $RD_VM_NVME_ROOT"
		exit 0
	fi
	export RD_VM_NVME_ROOT
fi
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly port_plain=4420

# nvme of the root, before that of this machine in PATH.
newer_nvme()
{
	local root=$1 libraries=$1/usr/lib/x86_64-linux-gnu

	mkdir -p /run/t/bin
	printf '#!/bin/sh\nexec %s --library-path %s %s "$@"\n' "$root/lib64/ld-linux-x86-64.so.2" "$libraries" \
		"$root/usr/sbin/nvme" >/run/t/bin/nvme
	chmod +x /run/t/bin/nvme
}

start()
{
	[ -z "${RD_VM_NVME_ROOT:-}" ] || newer_nvme "$RD_VM_NVME_ROOT"
	nvme version
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

# nvme-cli's own get-lba-status prints no JSON: the bytes are
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

# of_target VERB "NVME-CLI'S ARGUMENTS" "OURS" [DIFFERENCE=REASON...]: verbs that are about all that is connected in one, and
# about what the target offers in the other.
of_target()
{
	# shellcheck disable=SC2086 # lists of arguments
	timeout 60 nvme "$1" $2 -o json >/run/t/theirs
	# shellcheck disable=SC2086
	timeout 60 "$RDINIT" "$1" --provider="$provider" "nvme+rdma://$user4:$port_plain" $3 -o json >/run/t/ours
	python3 "$t_dir/compare_json.py" /run/t/theirs /run/t/ours "${@:4}"
}

# The text, line by line in any order: the kernel has its own order of namespaces. What the scripts remove are the names of
# devices, which only nvme-cli has, and the URI.
# text_of_target VERB "ARGUMENTS" SED_SCRIPT_FOR_THEIRS SED_SCRIPT_FOR_OURS
text_of_target()
{
	# shellcheck disable=SC2086
	timeout 60 nvme "$1" $2 | sed -E "$3" | sort >/run/t/theirs
	# shellcheck disable=SC2086
	timeout 60 "$RDINIT" "$1" --provider="$provider" "nvme+rdma://$user4:$port_plain" $2 | sed -E "$4" | sort >/run/t/ours
	grep -q . /run/t/theirs
	diff /run/t/theirs /run/t/ours
}

# fails STATUS OUR_STATUS REGEX "NVME-CLI'S COMMAND" "OURS": with these exit statuses; what both say has that, if any.
fails()
{
	local theirs=0 ours=0 device ctrl

	read -r device ctrl </run/t/names
	# shellcheck disable=SC2086
	timeout 60 nvme ${4//DEVICE/$device} >/run/t/theirs 2>&1 </dev/null || theirs=$?
	# shellcheck disable=SC2086
	timeout 60 "$RDINIT" $5 >/run/t/ours 2>&1 </dev/null || ours=$?
	echo "$theirs $ours of $4: $(head -c 300 /run/t/theirs /run/t/ours)"
	[ "$theirs $ours" = "$1 $2" ] || t_fail "expected status $1 of nvme-cli, $2 of rdinit"
	t_expect "$3" /run/t/theirs
	t_expect "$3" /run/t/ours
}

refused_by_the_target()
{
	local at="--provider=$provider nvme+rdma://$user4:$port_plain/$nqn" ns

	ns=$at/1
	fails 1 1 'Connection refused|connection refused' "discover -t rdma -a $user4 -s 4499" \
		"discover --provider=$provider nvme+rdma://$user4:4499"
	fails 1 1 '' "connect -t rdma -a $user4 -s $port_plain -n $nqn:none" "id-ctrl $at:none"
	fails 1 1 'Invalid Namespace or Format|no namespace 99' "ns-descs DEVICE -n 99" "ns-descs $at/99"
	fails 1 1 'Invalid Field in Command' "get-feature DEVICE -f 0xc" "get-feature $at -f 0xc"
	fails 1 1 'Invalid Log Page' "get-log DEVICE -i 0x55 -l 512" "get-log $at -i 0x55 -l 512"
	fails 1 1 'Invalid Command Opcode' "admin-passthru DEVICE --opcode=0xc5" "admin-passthru $at --opcode=0xc5"
	fails 1 1 'Invalid Command Opcode' "io-passthru DEVICE --opcode=0x85 -n 1" "io-passthru $ns --opcode=0x85"
	fails 1 1 'Compare Failure' "compare DEVICE -s 0 -c 7 -z 4096 -d /bin/ls" "compare $ns -s 0 -c 7 -z 4096 -d /bin/ls"
	fails 1 1 'Reservation Conflict' "resv-acquire DEVICE -c 0x9999 -t 1" "resv-acquire $ns -c 0x9999 -t 1"
}

past_the_end()
{
	local ns="--provider=$provider nvme+rdma://$user4:$port_plain/$nqn/1"

	fails 1 1 'LBA Out of Range' "write-zeroes DEVICE -s 16384 -c 7" "write-zeroes $ns -s 16384 -c 7"
	fails 1 1 'LBA Out of Range' "verify DEVICE -s 16384 -c 7" "verify $ns -s 16384 -c 7"
	fails 1 1 'LBA Out of Range' "dsm DEVICE -d -s 16384 -b 8" "dsm $ns -d -s 16384 -b 8"
	fails 1 1 'LBA Out of Range' "copy DEVICE --sdlba=0 -s 16384 -b 0" "copy $ns --sdlba=0 -s 16384 -b 0"
	# rdinit looks at the size first.
	fails 1 1 '' "write DEVICE -s 16384 -c 7 -z 4096 -d /dev/zero" "write $ns -s 16384 -c 7 -z 4096 -d /dev/zero"
	fails 1 1 '' "read DEVICE -s 16384 -c 7 -z 4096" "read $ns -s 16384 -c 7 -z 4096"
}

# docs/nvme-cli.md has the reasons why the statuses differ.
wrong_usage()
{
	local at="--provider=$provider nvme+rdma://$user4:$port_plain/$nqn"

	fails 1 2 "frobnicate" "frobnicate" "frobnicate"
	fails 1 2 "--frobnicate" "id-ctrl DEVICE --frobnicate" "id-ctrl $at --frobnicate"
	fails 1 2 "zzz" "id-ns DEVICE --namespace-id=zzz" "id-ns $at --namespace-id=zzz"
	fails 1 2 '' "id-ctrl" "id-ctrl"
	fails 1 2 '' "get-log DEVICE" "get-log $at"
	fails 1 2 '' "id-ctrl DEVICE -o xml" "id-ctrl $at -o xml"
	fails 0 1 '' "id-ns DEVICE -n 99" "id-ns $at/99"
	fails 0 0 '' "help" "help"
	fails 0 0 '' "version" "version"
}

# Both copy as many blocks for the same numbers.
copied()
{
	local device

	read -r device _ </run/t/names
	head -c 8192 /dev/urandom >/run/t/data
	for tool in theirs ours; do
		timeout 60 nvme write "$device" -s 0 -c 15 -z 8192 -d /run/t/data
		timeout 60 nvme write-zeroes "$device" -s 64 -c 31
		if [ "$tool" = theirs ]; then
			timeout 60 nvme copy "$device" --sdlba=64 --slbs=0,8 --blocks=3,0
		else
			timeout 60 "$RDINIT" copy --provider="$provider" "nvme+rdma://$user4:$port_plain/$nqn/1" --sdlba=64 \
				--slbs=0,8 --blocks=3,0
		fi
		timeout 60 nvme read "$device" -s 64 -c 31 -z 16384 -d "/run/t/$tool"
	done
	cmp -n 2048 /run/t/data /run/t/theirs
	cmp /run/t/theirs /run/t/ours
}

readonly own="each connection has a controller of its own"
readonly place="nvme-cli names the kernel's device, rdinit the address"
readonly kernels_name="nvme-cli has the name of the kernel's device, which rdinit does not make"
readonly offered="list-subsys of rdinit prints the discovery log; it does not connect"
readonly vendors="the bytes of the vendor, which rdinit does not show"
readonly unused="nvme-cli leaves it out where NSFEAT says that it is not in use"

if t_guest; then
	PATH=/run/t/bin:$PATH
	t_first_case "rdtarget starts, the kernel connects" start
	t_case "discover" discovery
	t_case "id-ctrl" same id-ctrl ctrl "" "" "cntlid=$own"
	t_case "id-ns" same id-ns device "" "-n 1" "npwg=$unused" "npwa=$unused" "npdg=$unused" \
		"npda=$unused" "nows=$unused" "uuid=nvme-cli has it in ns-descs alone" "vs=$vendors"
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
	t_case "changed-ns-list-log" named_by_device changed-ns-list-log "Changed Attached Namespace List Log=$place"
	t_case "resv-report" same resv-report device "-e" "-n 1"
	t_case "get-lba-status" lba_status
	t_case "nvm-id-ns" same nvm-id-ns device "-n 1" "-n 1" "npdgl=$unused"
	t_case "mi-cmd-support-effects-log" same mi-cmd-support-effects-log ctrl "" ""
	t_case "list" of_target list "" "" "Devices.DevicePath=$place" "Devices.GenericPath=$kernels_name"
	t_case "list, text" text_of_target list "" 's|^/dev/nvme\S+ +/dev/ng\S+ +||; s/^Node +Generic +//; s/^-+ -+ //; s/ 0x([0-9]+) +/ \1 /; s/^(-+ -+ )-+ /\1/; s/(Namespace) +/\1 /' \
		's|^nvme\S+ +||; s/^Node +//; s/^-+ //; s/ ([17]) +/ \1 /; s/^(-+ -+ )-+ /\1/'
	t_case "list-subsys" of_target list-subsys "" "" "Subsystems.Name=$kernels_name" \
		"Subsystems.Paths.Name=$kernels_name" "Subsystems.Paths.State=$offered"
	t_case "list-subsys, text" text_of_target list-subsys "" 's/^nvme-//; s/\+- nvme0 (.*) live *$/+- \1/; /^ *hostnqn=/d' ''
	t_case "show-topology" of_target show-topology "" "" "Subsystems.Name=$kernels_name" \
		"Subsystems.Namespaces.Paths.Name=$kernels_name" \
		"Subsystems.Paths=paths that cannot be reached have no namespace to be listed with"
	t_case "show-topology, text" text_of_target show-topology "" 's/^nvme-//; s/\+- nvme0 /+- /; /^ *hostnqn=/d' ''
	t_case "show-topology by path, text" text_of_target show-topology "--ranking=ctrl" 's/^nvme-//; s/\+- nvme0 /+- /; /^ *hostnqn=/d' ''
	t_case "copy" copied
	t_case "exit statuses: refused by the target" refused_by_the_target
	t_case "exit statuses: past the end" past_the_end
	t_case "exit statuses: wrong usage" wrong_usage
	t_case "disconnect" disconnect_kernel
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

# From the connections that the exit statuses are about.
t_dmesg_case 'rdma_connect_locked failed|Connect Invalid Data Parameter, subsysnqn'
t_done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdtarget and rdinit over the verbs provider: those of the loop tests that are about what a provider does (README.md), with
# smaller counts and amounts of data. RD_VM_LOOP names some of their files ("cli kill").
# Interop: rdinit, librdinit -> rdtarget
t_programs=(RDTARGET RDINIT RDVERIFY LIBRDINIT)
# The interpreter itself: the one in PATH may be a script, and those are slow in the machine.
[ -n "${python:-}" ] || python=$(python3 -c 'import sys; print(sys.executable)')
export python
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly loop_dir=$t_dir/../loop disk_mib=1024 scale=8 at_once=2

# The tests need a file system with direct I/O, loop devices, and a name for the address.
start()
{
	t_network
	t_rdma
	modprobe loop
	t_memory_disk nullb0 "$disk_mib"
	mkfs.ext4 -q -E nodiscard /dev/nullb0
	mount /dev/nullb0 /run/t/work --mkdir
	chmod 1777 /run/t/work
	echo "$kernel4 rdnvme-loop" >>/etc/hosts
}

# one_file NAME: its TAP, messages and exit status in the share, where they outlive a machine that hangs.
one_file()
{
	local status=0

	TMPDIR=/run/t/work PYTHONPATH=$loop_dir PYTHONPYCACHEPREFIX=/run/t/pyc RD_TEST_FABRIC=$provider \
	RD_TEST_ADDR=$kernel4 RD_TEST_ADDR6=$kernel6 RD_TEST_NAME=rdnvme-loop RD_TEST_SCALE=$scale \
		"$python" "$loop_dir/test_$1.py" >"$t_share/loop/$1.tap" 2>"$t_share/loop/$1.err" || status=$?
	echo "$((SECONDS - started)) $status" >"$t_share/loop/$1.new"
	mv "$t_share/loop/$1.new" "$t_share/loop/$1.status"
}

# Each is one process in the background; a slot is free when one has its status.
all_files()
{
	local name

	mkdir "$t_share/loop"
	# Without byte code Python is too slow here.
	unset PYTHONDONTWRITEBYTECODE
	PYTHONPATH=$loop_dir PYTHONPYCACHEPREFIX=/run/t/pyc "$python" -c 'import t_serving'
	for name in "$@"; do
		while [ "$(jobs -rp | wc -l)" -ge $at_once ]; do
			wait -n || true
		done
		one_file "$name" &
	done
	wait
}

take_over()
{
	local at status

	read -r at status <"$t_share/loop/$1.status"
	t_take_tap "$t_share/loop/$1.tap" "$t_share/loop/$1.err" "$status" "$1: "
	t_note "$1: done after $at s"
}

# serve NAMESPACE: rdtarget with this one.
serve()
{
	cat >/run/t/target.yaml <<-END
	listeners:
	  - { address: $kernel4, port: 4420, provider: $provider }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, $1 }
	END
	t_target_start /run/t/target.yaml
}

# The kernel's address resolution can miss the answer of a neighbour on the same machine.
unknown_neighbour()
{
	local i

	serve "backend: memory, size: 16MiB"
	for ((i = 0; i < 5; i++)); do
		ip neigh flush all
		timeout 60 "$RDINIT" id-ctrl "nvme+rdma://$kernel4/$nqn" --connect-timeout 8s >/dev/null
	done
	t_target_ends_cleanly
}

# A device that can be polled for results is: it takes a second for each I/O by itself, and none for those. And it holds
# what was written, with what is too large for that.
polled_device()
{
	local uri=nvme+rdma://$kernel4/$nqn/1

	t_memory_disk nullb1 64 poll_queues=1 irqmode=2 completion_nsec=1000000000
	serve "backend: block, path: /dev/nullb1, iopoll: true"
	head -c 4M /dev/urandom >/run/t/in
	timeout 60 "$RDINIT" write "$uri" --data /run/t/in
	timeout 60 "$RDINIT" bench "$uri" --rw randread --depth 1 --io-count 100 --no-progress
	timeout 60 "$RDINIT" bench "$uri" --rw randread --depth 127 --io-count 2000 --no-progress
	timeout 60 "$RDINIT" read "$uri" --data /run/t/out --data-size 4MiB
	cmp /run/t/in /run/t/out
	t_target_ends_cleanly
	! grep iopoll /run/t/target.log || t_fail "it was not polled"
}

no_queue_pair()
{
	! rdma resource show qp | grep -v -e ' type GSI ' -e ' type SMI '
}

if t_guest; then
	t_first_case "a device, a file system" start
	started=$SECONDS
	if [ -n "${RD_VM_LOOP:-}" ]; then
		read -ra names <<<"$RD_VM_LOOP"
	else
		# Python itself is not asked which files have cases for this fabric: it is slow here.
		mapfile -t names < <(cd "$loop_dir" && grep -lF "main(fabrics=('iwarp', 'verbs'))" test_*.py |
			sed 's/test_\(.*\)\.py/\1/')
	fi
	all_files "${names[@]}" &
	taken=0
	# In the order in which they end. A machine that hangs has a limit of its own.
	while [ "$taken" -lt ${#names[@]} ]; do
		for name in "${names[@]}"; do
			[ -s "$t_share/loop/$name.status" ] || continue
			take_over "$name"
			rm "$t_share/loop/$name.status"
			taken=$((taken + 1))
		done
		t_pause 1
	done
	wait
	t_case "an unresolved neighbour" unknown_neighbour
	t_case "a device that is polled for completions" polled_device
	t_case "no queue pair is left" t_until 20 no_queue_pair
	t_guest_done
fi

t_dmesg_case 'EXT4-fs|loop[0-9]+:|Buffer I/O error|I/O error, dev loop'
t_done

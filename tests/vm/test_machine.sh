#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The virtual machine itself: what tests/vm/run promises. Each case is a machine of its own.
# Interop: none
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/rdvm-machine.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
number=0 failed=0

# machine STATUS OUTPUT-REGEX ERROR-REGEX OPTION... -- COMMAND...: output without its last line ends.
machine()
{
	local status=$1 out=$2 err=$3 rc=0

	shift 3
	"$here/run" --dmesg "$scratch/dmesg" "$@" >"$scratch/out" 2>"$scratch/err" || rc=$?
	if [ "$rc" -eq "$status" ] && [[ $(<"$scratch/out") =~ $out ]] && [[ $(<"$scratch/err") =~ $err ]]; then
		return 0
	fi
	echo "status $rc, expected $status; or no /$out/ in the output, or no /$err/ in the errors"
	cat "$scratch/out" "$scratch/err"
	return 1
}

result()
{
	local what=$1

	shift
	number=$((number + 1))
	if "$@" >"$scratch/log" 2>&1; then
		echo "ok $number - $what"
	else
		echo "not ok $number - $what"
		failed=$((failed + 1))
		sed 's/^/# /' "$scratch/log"
	fi
}

streams()
{
	# shellcheck disable=SC2016
	machine 7 $'^out 1\nout 2\n/[^\n]*\nsecret words$' '^err$' -- \
		sh -c 'echo out 1; echo err >&2; echo out 2 >/dev/stdout; pwd; echo "$SECRET"; exit 7'
	grep -q 'Linux version [0-9]' "$scratch/dmesg"
}

much_output()
{
	"$here/run" -- seq 1 200000 >"$scratch/out"
	seq 1 200000 | cmp - "$scratch/out"
}

share_is_written()
{
	mkdir "$scratch/share"
	echo from the host >"$scratch/share/in"
	machine 0 '^from the host' '' --share "$scratch/share" -- \
		sh -c "cat '$scratch/share/in' && seq 100000 >'$scratch/share/out'; echo x >'$here/never'"
	seq 100000 | cmp - "$scratch/share/out"
	[ ! -e "$here/never" ]
}

# A tree may be anywhere; what it writes while it is tested goes to memory.
tree_in_var_tmp()
{
	local tree

	tree=$(mktemp -d /var/tmp/rdvm-tree.XXXXXX)
	# shellcheck disable=SC2016 # the program's
	printf '#!/bin/sh\necho "in $PWD, $TMPDIR"; echo x >never' >"$tree/program"
	chmod +x "$tree/program"
	(cd "$tree" && machine 0 "^in $tree, /run/tmp" '' -- "$tree/program") && [ ! -e "$tree/never" ]
	local rc=$?
	rm -r "$tree"
	return "$rc"
}

devices()
{
	# shellcheck disable=SC2016
	machine 0 'siw0.*rxe0|rxe0.*siw0' '' -- sh -ec 'modprobe -a siw rdma_rxe dummy nvme-rdma nvmet-rdma
		for name in siw rxe; do
			ip link add d-$name type dummy; ip link set d-$name up
			rdma link add ${name}0 type $name netdev d-$name
		done
		ibv_devices'
}

# The same work takes the same time: the second time of a loop, when all of it is translated, differs by what interrupts it.
instructions_are_time()
{
	# shellcheck disable=SC2016
	"$here/run" --icount -- bash -c 'for i in 1 2 3; do
			read -r before _ </proc/self/schedstat
			for ((n = 0; n < 20000; n++)); do :; done
			read -r after _ </proc/self/schedstat
			echo $((after - before))
		done' >"$scratch/out"
	awk '{ print; n[NR] = $1 } END { exit NR != 3 || n[3] < 1000000 || n[3] > n[2] * 1.02 || n[3] < n[2] * 0.98 }' "$scratch/out"
}

# The command and what it leaves behind are a service's.
with_systemd()
{
	# shellcheck disable=SC2016
	machine 7 $'^systemd\nrunning\n/run/tmp$' '^err$' --systemd -- sh -c 'cat /proc/1/comm
		systemctl is-system-running --wait; echo $TMPDIR; echo err >&2; sleep 1000 & exit 7'
}

if ! "$here/run" --prepare; then
	echo "1..0 # SKIP no virtual machine can be had here"
	exit 0
fi
export SECRET="secret words"
result "status, output, errors, directory, environment" streams
result "a lot of output is complete" much_output
result "a shared directory is written, the rest is not" share_is_written
result "a tree in /var/tmp" tree_in_var_tmp
result "siw and rxe devices" devices
result "a command that takes too long" machine 124 '^begin' 'timed out' --timeout 3 -- \
	sh -c 'echo begin; sleep 1000'
result "a machine that panics" machine 123 '^begin' 'sysrq triggered crash' -- \
	sh -c 'echo begin; echo c >/proc/sysrq-trigger'
result "time by instructions" instructions_are_time
result "time by instructions is for one processor" machine 125 '' '--icount is for one processor, not 2' --icount --cpus 2 -- true
result "systemd as the first process" with_systemd
result "a command that does not exist" machine 127 '' 'No such file' -- /no/such/command
echo "1..$number"
[ "$failed" -eq 0 ]

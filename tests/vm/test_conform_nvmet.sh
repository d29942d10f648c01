#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2016,SC2034,SC2154,SC2317 # functions are called by name
# rdconform on the Linux kernel's target: the differences are exactly those of docs/conformance.md.
# Interop: rdconform -> Linux nvmet-rdma
t_programs=(RDCONFORM)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly nvmet=/sys/kernel/config/nvmet
readonly list=$t_dir/../../docs/conformance.md

# The tests in the tables of docs/conformance.md: those that fail on Linux ("differs", or "differs on" this device or
# this kernel), and those that must not be run on it.
known()
{
	local series here

	series=$(uname -r | grep -o '^[0-9]*\.[0-9]*')
	here="$device_type|${series/./\\.}"
	sed -nE '/^## Linux 6.1 and/,/^## /s/^\| `([a-z_]*\.[a-z_]*\.[a-z0-9_]*)` \| differs( on ([^|]*\<)?('"$here"')\>[^|]*)? \|.*/\1/p' \
		"$list" | sort
}

deadly()
{
	sed -n '/^## Linux 6.1 and/,/^## /s/^| `\([a-z_]*\.[a-z_]*\.[a-z0-9_]*\)` | not run |.*/\1/p' "$list"
}

nvmet_listens()
{
	rdma res show cm_id | grep -q 'state LISTEN'
}

start()
{
	local port=$nvmet/ports/1 ns=$nvmet/subsystems/$nqn/namespaces/1

	t_network
	t_rdma
	modprobe nvmet-rdma
	t_memory_disk nullb0 64 discard=1
	mkdir -p "$ns" "$port"
	echo 1 >"$nvmet/subsystems/$nqn/attr_allow_any_host"
	echo /dev/nullb0 >"$ns/device_path"
	echo 1 >"$ns/enable"
	echo rdma >"$port/addr_trtype"
	echo ipv4 >"$port/addr_adrfam"
	echo "$kernel4" >"$port/addr_traddr"
	echo 4420 >"$port/addr_trsvcid"
	ln -s "$nvmet/subsystems/$nqn" "$port/subsystems/$nqn"
	t_until 20 nvmet_listens
	known >/run/t/known
	[ -s /run/t/known ] || t_fail "$list lists no differences"
}

# differs FAMILY: its failures are exactly the known ones.
differs()
{
	local except=() name

	while read -r name; do
		except+=(--except "$name")
	done < <(deadly)
	in_user timeout 500 "$RDCONFORM" "nvme+rdma://$kernel4:4420/$nqn/1" -t "$1" "${except[@]}" --dataloss \
		--provider "$provider" --timeout 30s >"/run/t/$1.out" 2>&1 || [ $? -eq 1 ]
	t_expect '^[0-9]+ tests: ' "/run/t/$1.out"
	sed -n 's/^[0-9]* tests: /note: &/p' "/run/t/$1.out"
	sed -n 's/^\(.*\): FAILED$/\1/p' "/run/t/$1.out" | sort >/run/t/failed
	comm -23 /run/t/failed /run/t/known >/run/t/new
	if [ -s /run/t/new ]; then
		grep -A 2 -F -f /run/t/new "/run/t/$1.out"
		t_fail "not in docs/conformance.md"
	fi
	sed -n 's/^\(.*\): ok$/\1/p' "/run/t/$1.out" | sort | comm -12 - /run/t/known >/run/t/gone
	[ ! -s /run/t/gone ] || t_fail "in docs/conformance.md, and passed: $(tr '\n' ' ' </run/t/gone)"
}

if t_guest; then
	t_first_case "nvmet starts" start
	for family in fabrics admin io reservation discovery queue rdma; do
		t_case "$family" differs $family
	done
	t_guest_done
fi

# The kernel's log may complain about what this does to nvmet, and 6.12's rxe about each error of a work request.
t_dmesg_case 'nvmet|nullb0|attempt to access beyond end of device|siw|rxe[01]: qp#[0-9]+ .*non-flush error status'
t_done

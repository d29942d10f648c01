# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154,SC2317 # functions are called by name
# rdconform on the Linux kernel's target, whose differences are listed. The script has uri(), nvmet_listens(),
# and the arrays options and sections.

readonly nvmet=/sys/kernel/config/nvmet
readonly list=$t_dir/../../docs/conformance.md

# The rows of docs/conformance.md, of the sections that the script names.
rows()
{
	local section

	for section in "${sections[@]}"; do
		sed -n "/^## $section\$/,/^## /p" "$list"
	done
}

# Those that fail on Linux: "differs", or "differs on" this device or this kernel.
known()
{
	local series here

	series=$(uname -r | grep -o '^[0-9]*\.[0-9]*')
	here="$device_type|${series/./\\.}"
	rows | sed -nE 's/^\| `([a-z_]*\.[a-z_]*\.[a-z0-9_]*)` \| differs( on ([^|]*\<)?('"$here"')\>[^|]*)? \|.*/\1/p' | sort
}

# Those that must not be run on it.
deadly()
{
	rows | sed -n 's/^| `\([a-z_]*\.[a-z_]*\.[a-z0-9_]*\)` | not run |.*/\1/p'
}

# nvmet_start TRTYPE: one namespace, behind one port.
nvmet_start()
{
	local port=$nvmet/ports/1 ns=$nvmet/subsystems/$nqn/namespaces/1

	t_memory_disk nullb0 64 discard=1
	mkdir -p "$ns" "$port"
	echo 1 >"$nvmet/subsystems/$nqn/attr_allow_any_host"
	echo /dev/nullb0 >"$ns/device_path"
	echo 1 >"$ns/enable"
	echo "$1" >"$port/addr_trtype"
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
	in_user timeout 500 "$RDCONFORM" "$(uri)" -t "$1" "${except[@]}" --dataloss --timeout 30s "${options[@]}" >"/run/t/$1.out" 2>&1 || [ $? -eq 1 ]
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

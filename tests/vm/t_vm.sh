# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# For tests that run in a virtual machine; sourced first by each of them, and TAP is what they print.
#
# The script starts on the host: sourcing this file runs it again inside the machine, then the host
# part goes on behind it (t_guest is false there) with what the machine left in $t_share. Cases are
# numbered across both.
#
# RD_VM_DEVICE (siw or rxe; $device_type here) is the driver, RD_VM_PROVIDER (iwarp or verbs; $provider) what our
# programs use: the same script runs once for each pair that makes sense to it. "veth" and "tcp" is NVMe/TCP.
#
#   t_programs=(RDTARGET)    # variables with the paths of the programs that it needs
#   t_machine=(--systemd)    # options of the machine, if it needs some: tests/vm/run
#   . "$(dirname "$0")/t_vm.sh"
#   if t_guest; then
#       t_case "what is true" function argument ...
#       t_guest_done
#   fi
#   t_dmesg_case REGEX
#   t_done

set -uo pipefail

t_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
t_name=$(basename "$0" .sh)
t_number=0
t_failed=0
t_log="" # of the current case
exec {t_never}<> <(:) # there is never anything to read
readonly device_type=${RD_VM_DEVICE:-siw} provider=${RD_VM_PROVIDER:-iwarp}

case "$device_type $provider" in
"siw iwarp" | "siw verbs" | "rxe verbs" | "veth tcp") ;;
*)
	echo "Bail out! RD_VM_DEVICE=$device_type RD_VM_PROVIDER=$provider: expected siw iwarp, siw verbs, rxe verbs or veth tcp"
	exit 1
	;;
esac

t_guest()
{
	[ -n "${RD_VM_GUEST:-}" ]
}

t_note()
{
	printf '# %s\n' "$*"
}

# t_fail WHAT: the reason why the current case has failed; ends it.
t_fail()
{
	printf 'FAILED: %s\n' "$*"
	exit 1
}

t_result()
{
	local verdict=$1

	t_number=$((t_number + 1))
	shift
	printf '%s %d - %s\n' "$verdict" "$t_number" "$*"
	[ "$verdict" = ok ] || t_failed=$((t_failed + 1))
}

# The output of a failed case, and what may explain it.
t_explain()
{
	sed 's/^/# /' "$t_log"
	if t_guest; then
		for log in /run/t/*.log; do
			[ "$log" != "$t_log" ] || continue
			[ ! -s "$log" ] || grep -v ' status: ' "$log" | tail -n 12 | sed "s|^|# ${log##*/}: |"
		done
		t_where_threads_are
		dmesg | sed -n "/$t_name: case $t_number\$/,\$p" | tail -n 30 | sed 's/^/# dmesg: /'
	fi
}

# Our programs: their states, their processor time, and what they are doing in the kernel.
t_where_threads_are()
{
	local pid task

	for pid in $(pidof rdtarget rdinit rdverify); do
		for task in "/proc/$pid/task"/*; do
			echo "# $(cat "$task/comm") ${task##*/}: $(cut -d ' ' -f 3,14,15 "$task/stat")"
			sed 's/^\[<0>\] /#   /' "$task/stack"
		done
	done
}

# t_case NAME FUNCTION [ARGUMENT...]: the function runs in a shell of its own with -e. RD_VM_CASES, a
# regular expression, selects cases by name.
t_case()
{
	local what=$1 rc since=$SECONDS

	shift
	[[ -z ${RD_VM_CASES:-} || $what =~ $RD_VM_CASES || -n ${t_always:-} ]] || return 0
	t_log=$t_scratch/case.log
	! t_guest || echo "<6>$t_name: case $((t_number + 1))" >/dev/kmsg
	(
		set -eE
		trap 'echo "status $? at ${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND" >&2' ERR
		"$@"
	) >"$t_log" 2>&1
	rc=$?
	if [ "$rc" -eq 0 ]; then
		t_result ok "$what"
		sed -n 's/^note: /# /p' "$t_log"
	else
		t_result "not ok" "$what"
		t_explain
	fi
	t_note "time $((SECONDS - since)) $what"
}

# t_first_case NAME FUNCTION [ARGUMENT...]: if it fails, the others are not run.
t_first_case()
{
	t_always=yes t_case "$@"
	[ "$t_failed" -eq 0 ] || t_guest_done early
}

# t_pause SECONDS: sleeps without a process; an emulated machine starts only few processes in a second.
t_pause()
{
	read -r -t "$1" -u "$t_never" || true
}

# t_until SECONDS COMMAND...: wait for the command to succeed.
t_until()
{
	local end=$((SECONDS + $1))

	shift
	until "$@"; do
		if [ "$SECONDS" -ge "$end" ]; then
			echo "waited in vain for: $*"
			return 1
		fi
		t_pause 0.1
	done
}

t_has()
{
	grep -qE -- "$1" "$2"
}

# t_expect REGEX FILE: or the case fails, with the file.
t_expect()
{
	t_has "$1" "$2" || {
		cat "$2"
		t_fail "no /$1/ in the above"
	}
}

# t_refuted COMMAND...: it must fail, with a status and not by a signal.
t_refuted()
{
	local rc=0

	"$@" || rc=$?
	if [ "$rc" -lt 1 ] || [ "$rc" -ge 124 ]; then
		t_fail "status $rc of: $*"
	fi
}

# t_take_tap TAP STDERR STATUS [PREFIX]: takes over the cases of another test program.
t_take_tap()
{
	local line planned="none" seen=0 said=""

	while read -r line; do
		case $line in
		1..*) planned=${line#1..} ;;
		"ok "* | "not ok "*)
			seen=$((seen + 1))
			t_result "${line%% [0-9]*}" "${4:-}${line#* - }"
			if [[ $line == not* ]]; then
				said=$(t_said_about "${line#* - }" "$2")
				[ -z "$said" ] || printf '%s\n' "$said"
			fi
			;;
		"#"*) printf '%s\n' "$line" ;;
		esac
	done <"$1"
	# A program that died has not reported that itself.
	if [ "$seen" != "$planned" ] || { [ "$3" -ne 0 ] && ! grep -q '^not ok' "$1"; }; then
		t_result "not ok" "${4:-}$seen of $planned cases, exit status $3"
		said=""
	fi
	[ "$3" -eq 0 ] || [ -n "$said" ] || sed 's/^\(# \)\?/# /' "$2"
}

# t_said_about CASE STDERR: from the case's name to the place of its files, as t_loop.py explains a failure.
t_said_about()
{
	WHAT="# $1:" awk '$0 == ENVIRON["WHAT"] { on = 1 } on { sub(/^(# )?/, "# "); print } /^# kept / { on = 0 }' "$2"
}

t_guest_done()
{
	# For the reader of a failure that only the host's part finds.
	cp /run/t/*.log "$t_share/" 2>/dev/null || true
	echo "$t_number $t_failed ${1:-complete}" >"$t_share/cases"
	exit 0
}

# t_dmesg_case [REGEX]: no error in the kernel's log, and no warning except those of REGEX.
t_dmesg_case()
{
	t_case "the kernel's log is clean" t_dmesg_is_clean "${1:-^\$}"
}

t_dmesg_is_clean()
{
	local allowed=$1 bad since=$t_scratch/since found=0

	sed -n "/$t_name: begin\$/,\$p" "$t_share/dmesg" >"$since"
	[ -s "$since" ] || t_fail "the log does not go back to the start"
	# These are always errors.
	bad='WARNING|BUG|Oops|Call Trace|general protection|stack-protector|UBSAN|KASAN'
	bad+='|[Bb]ogus remote invalidation|blocked for more than|soft lockup|rcu.*stall|refcount_t'
	bad+='|Unexpected nvme completion|tag .* does not match|genctr mismatch|use after free'
	! grep -nE "$bad" "$since" || found=1
	# Allowed once in a run: README.md, what 6.1 does.
	if [ "$device_type" = rxe ] && [ "$(grep -cE "$rxe_twice" "$since")" -eq 1 ]; then
		echo "note: rxe sent again what was not lost, and nvme-rdma its I/O"
		allowed+="|$rxe_twice|$rxe_twice_then"
	fi
	# The rest by level: warnings and worse.
	! grep -E '^[a-z]+ *:(emerg|alert|crit|err|warn)' "$since" | grep -vE "$harmless|$allowed" ||
		found=1
	[ "$found" -eq 0 ] || t_fail "the above in the kernel's log"
}

# Seen with 6.1 whatever the peer: nobody runs iwpmd; siw on an interface without a speed, not built by
# Debian; an emulated processor that had to wait.
harmless='iwpm_register_pid: Unable to send|speed is unknown|loading out-of-tree module taints'
harmless+='|module verification failed|hrtimer: interrupt took|clocksource|long keepalive RTT'

# rxe's spurious timeout, and what nvme-rdma logs about it.
rxe_twice='rdma_rxe: rxe_reg_fast_mr: .* not free'
rxe_twice_then='nvme nvme[0-9]+: (I/O [0-9]+ QID [0-9]+ timeout|starting error recovery)'
rxe_twice_then+='|block nvme[0-9]+n[0-9]+: no usable path - requeuing I/O'

# For t_dmesg_case, when connections are lost on purpose: nvme-rdma's messages depend on what it was doing, and rxe retransmits
# what the network lost (README.md). Errors above them, of a block device or a file system, are not among these.
lost_connections='nvme nvme[0-9]+: |block nvme[0-9a-z]+: no usable path|: [0-9]+ callbacks suppressed'
[ "$device_type" != rxe ] || lost_connections+='|rxe_reg_fast_mr: .* not free'

# ---- captures, read by Wireshark on the host ----

t_tshark()
{
	tshark -r "$t_share/$1.pcap" -o tcp.try_heuristic_first:TRUE "${@:2}" 2>"$t_scratch/tshark.err" || {
		cat "$t_scratch/tshark.err"
		return 1
	}
}

# t_wire_cases CAPTURE...: what a third implementation reports about the frames. The name of a capture ends in "crc"
# where MPA's CRC is on.
t_wire_cases()
{
	local capture

	for capture in "$@"; do
		t_case "Wireshark reports no malformed frame: $capture" t_wire_is_sound "$capture"
	done
}

t_wire_is_sound()
{
	if [ "$device_type" = rxe ]; then
		t_roce_is_sound "$1"
	else
		t_iwarp_is_sound "$1"
	fi
}

# t_none_are CAPTURE FILTER WHAT
t_none_are()
{
	t_tshark "$1" -Y "$2" >"$t_scratch/$1.bad"
	[ ! -s "$t_scratch/$1.bad" ] || {
		head -n 20 "$t_scratch/$1.bad"
		t_fail "$3"
	}
}

t_iwarp_is_sound()
{
	local out=$t_scratch/$1 what good frames

	t_tshark "$1" -O iwarp_mpa,iwarp_ddp_rdmap >"$out.text"
	# Bytes that TCP has retransmitted are checked where they came first; the copy is an error of reassembly.
	t_none_are "$1" '(_ws.malformed || iwarp_mpa.bad_length || iwarp_mpa.marker_flag == 1) &&
		!tcp.analysis.retransmission && !tcp.analysis.out_of_order' "malformed frames"
	! grep 'Bad CRC' "$out.text" || t_fail "wrong CRCs"
	# Otherwise nothing would be checked.
	for what in 'Request frame header' 'Reply frame header' 'OpCode: Write' 'OpCode: Read Request' \
		'OpCode: Read Response' 'OpCode: Send'; do
		grep -q "$what" "$out.text" || t_fail "no $what among the frames"
	done
	frames=$(grep -c 'OpCode:' "$out.text")
	good=$(grep -c 'Good CRC32' "$out.text" || true)
	if [[ $1 == *crc ]]; then
		[ "$good" -eq "$frames" ] || t_fail "$good good CRCs in $frames frames"
	else
		[ "$good" -eq 0 ] || t_fail "$good CRCs that nobody asked for"
	fi
	echo "note: $frames frames, $good with a CRC, which is right"
}

# RoCE v2. Nothing is lost on a veth, so nothing may be requested again either (AETH syndromes of 32 and more).
t_roce_is_sound()
{
	local out=$t_scratch/$1 what

	t_none_are "$1" '_ws.malformed' "malformed frames"
	t_none_are "$1" 'infiniband.aeth.syndrome >= 32' "frames that are not acknowledged"
	t_tshark "$1" -T fields -e infiniband.bth.opcode >"$out.opcodes"
	# SEND, WRITE, READ request and response, SEND with invalidate: some of each, whole or first or last.
	for what in '[04]' '(6|10)' 12 '1[3-6]' 23; do
		grep -qxE "$what" "$out.opcodes" || t_fail "no opcode $what among the frames"
	done
	echo "note: $(grep -cE '^[0-9]' "$out.opcodes") frames"
}

t_done()
{
	echo "1..$t_number"
	[ "$t_failed" -eq 0 ]
	exit
}

# The host's part of a test: run the machine, continue its numbers.
t_run_machine()
{
	local rc=0 extent name

	# shellcheck disable=SC2154 # the test's
	for name in "${t_programs[@]}"; do
		[ -x "${!name:-}" ] || {
			echo "Bail out! $name has to name the program, as meson test does"
			exit 1
		}
	done
	t_share=$(mktemp -d "${TMPDIR:-/var/tmp}/rdvm-$t_name.XXXXXX")
	t_scratch=$t_share/host
	mkdir "$t_scratch"
	trap 't_keep_or_remove' EXIT
	RD_VM_GUEST=1 RD_VM_SHARE=$t_share "$t_dir/run" --share "$t_share" --dmesg "$t_share/dmesg" \
		--timeout "${RD_VM_TIMEOUT:-1100}" ${t_machine[@]+"${t_machine[@]}"} -- "$0" || rc=$?
	if [ "$rc" -eq 77 ]; then
		echo "1..0 # SKIP no virtual machine can be had here"
		exit 0
	fi
	if [ -f "$t_share/cases" ]; then
		read -r t_number t_failed extent <"$t_share/cases"
		[ "$extent" = complete ] || t_done
	else
		echo "Bail out! the machine did not get to its end: status $rc"
		exit 1
	fi
}

t_keep_or_remove()
{
	if [ "$t_failed" -gt 0 ] || [ ! -f "$t_share/cases" ] || [ -n "${RD_TEST_KEEP:-}" ]; then
		t_note "kept: $t_share"
	else
		rm -rf "$t_share"
	fi
}

if t_guest; then
	t_share=$RD_VM_SHARE
	t_scratch=/run/t
	mkdir -p "$t_scratch"
	echo "<6>$t_name: begin" >/dev/kmsg
	t_note "kernel $(uname -r)"
	# shellcheck source=tests/vm/t_net.sh
	. "$t_dir/t_net.sh"
else
	t_run_machine
fi

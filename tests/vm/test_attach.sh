#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdinit attach: a namespace of rdtarget as a block device of the kernel's ublk. Debian 12's default kernel has no ublk, but
# its linux-image-6.12-amd64. docs/interop.md is about the default:
# Interop: none
t_programs=(RDTARGET RDINIT)
if [ -z "${RD_VM_KERNEL:-}" ] && grep -qsx 'VERSION_ID="12"' /etc/os-release; then
	export RD_VM_KERNEL=linux-image-6.12-amd64
fi
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly attach_driver=ublk
# shellcheck source=tests/vm/t_attach.sh
. "$t_dir/t_attach.sh"

killed_and_recovered()
{
	local old_device _

	attach "$(uri 1)"
	old_device=$device
	io_start "${io_options[@]}"
	for _ in 1 2 3; do
		io_is_on 100
		kill -KILL "$(served_by)"
		t_until 30 attached_is left
		t_refuted "$RDINIT" detach "$device" 2>/run/t/out
		t_expect 'its process has ended, and its I/O waits|the process of .* has ended|is in use' /run/t/out
		attach "$(uri 1)"
		[ "$device" = "$old_device" ] || t_fail "$device instead of $old_device"
		attached_is live
	done
	io_is_on 100
	io_stop $((4 << 20))
	# The file has what the last pass wrote.
	detach "$device"
	holds_the_last_pass "$disk" $((4 << 20)) "${io_options[@]}"
}

# Without --force a device is kept whose data cannot be written; SIGTERM and then --force.
left_on_purpose()
{
	attach "$(uri 1)"
	kill -KILL "$(served_by)"
	t_until 30 attached_is left
	t_refuted "$RDINIT" detach "$device" 2>/run/t/out
	t_expect "the process of ${device##*/} has ended, and its I/O waits" /run/t/out
	attach "$(uri 1)"
	detach "$device"
}

has_mib()
{
	[ "$(blockdev --getsize64 "$device")" -eq $(($1 << 20)) ]
}

said_so()
{
	t_has 'the namespace has 786432 blocks now; this kernel cannot resize an attached ublk device' /run/t/attach.log
}

resized_or_said_so()
{
	has_mib 384 || said_so
}

# Linux 6.16 resizes it; before that the reason is told, and attaching anew shows the size.
larger()
{
	rm -f /run/t/attach.out
	"$RDINIT" attach "$(uri 1)" --foreground >/run/t/attach.out 2>/run/t/attach.log &
	t_until 30 test -s /run/t/attach.out
	device=$(cat /run/t/attach.out)
	has_mib 320
	truncate -s 384M "$disk"
	configuration 384 >/run/t/larger.yaml
	reload /run/t/larger.yaml
	t_until 30 resized_or_said_so
	detach "$device"
	attach "$(uri 1)"
	has_mib 384
	detach "$device"
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "attach, read and write, detach" fresh read_and_write
	t_case "limits, discard, write zeroes, read-only" fresh limits
	t_case "ext4: make, fill, refuse to detach, compare" fresh file_system ext4
	t_case "xfs: make, fill, refuse to detach, compare" fresh file_system xfs
	t_case "fstrim deallocates" fresh trim
	t_case "a second attach is refused with the name of the first" fresh twice
	t_case "attach without the permission of the kernel" fresh not_permitted
	t_case "paths lost and back under verified I/O" fresh paths_lost
	t_case "kill -9 and recovery under verified I/O, three times" fresh killed_and_recovered
	t_case "a device without its process is kept" fresh left_on_purpose
	t_case "detach --force without the target" fresh forced target
	t_case "detach --force of a stopped process" fresh forced stopped
	t_case "detach --force while a detach waits" fresh force_ends_a_detach
	t_case "detach --force after kill -9" fresh forced killed
	t_case "a namespace that grows" fresh larger
	t_case "a namespace removed under a mounted file system, and back" fresh removed_while_mounted
	t_case "a namespace that shrinks under a mounted file system" fresh shrunk_while_mounted
	t_case "process and target stopped and continued under verified I/O" fresh stopped_and_continued
	t_case "the process is locked in memory, an I/O flusher and not killed for memory" fresh memory_is_kept
	t_case "a process that may not lock its memory says so" fresh memory_cannot_be_locked
	t_case "dirty pages are written back while memory is short" fresh written_back_under_pressure
	t_case "TLS: verified I/O, the target lost and back, kill -9 and recovery" fresh by_tls
	t_case "TLS: a wrong key, none, and a file that does not exist" fresh refused_in_words_of_tls
	t_case "in the foreground, ended by SIGTERM" fresh foreground_ends
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

# Of a device that was removed by force, also under a file system.
t_dmesg_case 'I/O error, dev ublkb[0-9]+, sector|(EXT4-fs|Buffer I/O error|JBD2|Aborting journal).* \(?ublkb[0-9]+|callbacks suppressed'
t_done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdinit attach with the kernel's nbd, which Debian 12's default kernel has: a namespace of rdtarget as a block device.
# Interop: none
t_programs=(RDTARGET RDINIT)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly attach_driver=nbd
# shellcheck source=tests/vm/t_attach.sh
. "$t_dir/t_attach.sh"

# Without ublk, --driver=auto takes nbd.
automatic()
{
	"$RDINIT" attach "$(uri 1)" >/run/t/attach.out
	device=$(cat /run/t/attach.out)
	if [ -e /dev/ublk-control ]; then
		[[ $device == /dev/ublkb* ]]
		"$RDINIT" detach "$device"
	else
		[[ $device == /dev/nbd* ]]
		detach "$device"
	fi
}

# Neither driver is there, nor can its module be loaded.
no_driver()
{
	local kind kept=/run/modprobe.d/no-driver.conf

	[ ! -e /dev/ublk-control ] && [ ! -e /sys/block/nbd0 ] || t_fail "a driver is there"
	mkdir -p "${kept%/*}"
	printf 'install %s /bin/false\n' nbd ublk_drv >"$kept"
	for kind in auto nbd; do
		t_refuted timeout 100 "$RDINIT" attach "$(uri 1)" --driver="$kind" >/run/t/attach.out 2>/run/t/attach.log
		t_expect 'this kernel has no module nbd that could be loaded' /run/t/attach.log
		[ ! -s /run/t/attach.out ] || t_fail "it has an output: $(cat /run/t/attach.out)"
	done
	rm "$kept"
}

has_mib()
{
	[ "$(blockdev --getsize64 "$device")" -eq $(($1 << 20)) ]
}

# A file system grows while it is used.
resized()
{
	local before

	attach "$(uri 1)"
	wipefs -qa "$device"
	mkfs.ext4 -q "$device"
	mkdir -p /run/t/mount
	mount "$device" /run/t/mount
	before=$(stat -f -c %b /run/t/mount)
	dd if=/dev/urandom of=/run/t/mount/random bs=1M count=4 status=none
	(cd /run/t/mount && sha256sum random >/run/t/sums)
	truncate -s 384M "$disk"
	configuration 384 >/run/t/larger.yaml
	reload /run/t/larger.yaml
	t_until 30 has_mib 384
	resize2fs "$device"
	[ "$(stat -f -c %b /run/t/mount)" -gt "$before" ]
	(cd /run/t/mount && sha256sum --quiet -c /run/t/sums)
	umount /run/t/mount
	fsck.ext4 -fn "$device"
	detach "$device"
}

# There is no recovery: the I/O ends with errors, and the namespace is attached anew.
killed()
{
	attach "$(uri 1)"
	kill -KILL "$(served_by)"
	t_until 30 attached_is left
	t_refuted dd if="$device" of=/dev/null bs=4k count=1 iflag=direct status=none
	attach "$(uri 1)"
	attached_is live
	verified_io "$device" --rw=randwrite --iodepth=16 --size=2m --bs=4k
	detach "$device"
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "attach without either driver" no_driver
	t_case "the driver is chosen by what the kernel has" fresh automatic
	t_case "attach, read and write, detach" fresh read_and_write
	t_case "limits, discard, write zeroes, read-only" fresh limits
	t_case "ext4: make, fill, refuse to detach, compare" fresh file_system ext4
	t_case "xfs: make, fill, refuse to detach, compare" fresh file_system xfs
	t_case "fstrim deallocates" fresh trim
	t_case "a second attach is refused with the name of the first" fresh twice
	t_case "attach without the permission of the kernel" fresh not_permitted
	t_case "paths lost and back under verified I/O" fresh paths_lost
	t_case "a file system grows with the namespace" fresh resized
	t_case "a namespace removed under a mounted file system, and back" fresh removed_while_mounted
	t_case "a namespace that shrinks under a mounted file system" fresh shrunk_while_mounted
	t_case "kill -9 ends the I/O with errors" fresh killed
	t_case "detach --force without the target" fresh forced target
	t_case "detach --force of a stopped process" fresh forced stopped
	t_case "detach --force while a detach waits" fresh force_ends_a_detach
	t_case "detach --force after kill -9" fresh forced killed
	t_case "process and target stopped and continued under verified I/O" fresh stopped_and_continued
	t_case "the process is locked in memory, an I/O flusher and not killed for memory" fresh memory_is_kept
	t_case "a process that may not lock its memory says so" fresh memory_cannot_be_locked
	t_case "dirty pages are written back while memory is short" fresh written_back_under_pressure
	t_case "TLS: verified I/O, the target lost and back" fresh by_tls
	t_case "TLS: a wrong key, none, and a file that does not exist" fresh refused_in_words_of_tls
	t_case "in the foreground, ended by SIGTERM" fresh foreground_ends
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

# Of a device that was removed by force, also under a file system, or whose process was killed.
t_dmesg_case 'I/O error, dev nbd[0-9]+, sector|(EXT4-fs|Buffer I/O error|JBD2|Aborting journal).* \(?nbd[0-9]+|Dev nbd[0-9]+: unable to read|block nbd[0-9]+: |callbacks suppressed'
t_done

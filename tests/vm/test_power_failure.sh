#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# What a power failure leaves of a block device, and of a file and the state directory on ext4, under rdtarget: the kernel's
# dm-log-writes logs what is on stable storage, and at each mark all that was answered as stored must be there
# (powerfail.py).
# Interop: none
t_programs=(RDTARGET)
# The interpreter itself: the one in PATH may be a script, and those are slow in the machine.
[ -n "${python:-}" ] || python=$(python3 -c 'import sys; print(sys.executable)')
export python
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly disk_mib=32
export DM_DISABLE_UDEV=1 # nobody else makes the nodes of devices

# logged NAME: /dev/mapper/NAME, on a disk of memory; its log is the other one.
logged()
{
	t_memory_disk "$1-data" $disk_mib
	t_memory_disk "$1-log" 192
	dmsetup create "$1" --table \
		"0 $((disk_mib * 2048)) log-writes /dev/$1-data /dev/$1-log"
	t_until 10 test -b "/dev/mapper/$1"
}

start()
{
	t_network
	modprobe dm_log_writes
	logged raw
	logged fs
	t_memory_disk again $disk_mib
	mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/fs
	mount /dev/mapper/fs /run/t/fs --mkdir
}

# serve DIRECT BACKEND PATH STATE_DIR [KEYS]
serve()
{
	cat >/run/t/power.yaml <<-END
		target: {state_dir: $4}
		listeners:
		  - {address: $user4}
		subsystems:
		  - nqn: $nqn
		    allow_any_host: true
		    namespaces:
		      - {nsid: 1, backend: $2, path: $3, direct: $1${5:+, $5}}
		      - {nsid: 2, backend: memory, size: 1MiB}
	END
	t_target_start /run/t/power.yaml
}

answers()
{
	in_user "$python" "$t_dir/powerfail.py" host "$user4" "$1" "/run/t/$1.json"
	t_target_ends_cleanly
}

# survives ARGUMENT...: what powerfail.py replays
survives()
{
	local rc=0

	"$python" "$t_dir/powerfail.py" "$@" || rc=$?
	# 3: nothing is lost, and the log lacks what was not stored, so that a missing sync would have been seen.
	[ "$rc" -eq 3 ] || t_fail "status $rc, expected 3"
}

a_block_device()
{
	serve on block /dev/mapper/raw /run/t/state
	answers raw
	dmsetup remove raw
	survives block /dev/raw-log /run/t/raw.json
}

a_file()
{
	serve auto file /run/t/fs/disk.img /run/t/fs/state "size: 4MiB, create: true"
	answers fs
	umount /run/t/fs
	dmsetup remove fs
	survives file /dev/fs-log /run/t/fs.json /dev/again /run/t/again
}

if t_guest; then
	t_first_case "devices whose writes are logged, and ext4 on one" start
	t_case "what was answered as stored is on the block device" a_block_device
	t_case "what was answered as stored is in the file and the state directory" a_file
	t_guest_done
fi

t_dmesg_case 'CONFIG_IMA_DISABLE_HTABLE is disabled'
t_done

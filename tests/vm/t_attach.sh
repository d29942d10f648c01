# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# What the tests of rdinit attach do with a block device, whichever driver made it. Sourced behind t_vm.sh, with the driver's
# name in $attach_driver.

readonly uuid=5c1f0e3a-7b52-4d0e-9f0a-2d6d3f5f7a10 other_uuid=5c1f0e3a-7b52-4d0e-9f0a-2d6d3f5f7a11
readonly disk=/run/disk state=/run/rdinit/attach
readonly tls_disk=/run/tls_disk tls_uuid=5c1f0e3a-7b52-4d0e-9f0a-2d6d3f5f7a12 tls_host=nqn.2024-01.io.rdnvme:vm-host
readonly io_options=(--rw=randwrite --iodepth=16 --size=4m --bssplit=4k/50:64k/20:256k/30)

# configuration [MIB]: of the first namespace.
configuration()
{
	cat <<-END
	target:
	  reactors: 1
	listeners:
	  - { address: $user4, port: 4420, transport: tcp }
	  - { address: $user4, port: 4421, transport: tcp }
	  - { address: $user4, port: 4422, transport: tcp, tls: required }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, uuid: $uuid, backend: file, path: $disk, create: true, size: ${1:-320}MiB }
	      - { nsid: 2, uuid: $other_uuid, backend: memory, size: 8MiB, block_size: 4096 }
	  - nqn: $nqn:tls
	    hosts: [$tls_host]
	    host_auth:
	      - { host: $tls_host, tls_key_file: /run/t/tls.key }
	    namespaces:
	      - { nsid: 1, uuid: $tls_uuid, backend: file, path: $tls_disk, create: true, size: 16MiB }
	END
}

start()
{
	mkdir -p /run/t/mount
	(umask 077 && "$RDINIT" gen-tls-key >/run/t/tls.key && "$RDINIT" gen-tls-key >/run/t/wrong.key)
	t_network
	configuration >/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

# attach URI... [OPTION...]: sets device.
attach()
{
	"$RDINIT" attach "$@" --driver="$attach_driver" --keep-alive-tmo=2 --reconnect-delay=1 >/run/t/attach.out 2>/run/t/attach.log || {
		cat /run/t/attach.log
		t_fail "attach"
	}
	device=$(cat /run/t/attach.out)
	[ -b "$device" ] || t_fail "\"$device\" is no block device"
}

uri()
{
	echo "nvme+tcp://$user4:${2:-4420}/$nqn/$1"
}

# The kernel keeps the nodes of nbd.
is_gone()
{
	if [ "$attach_driver" = nbd ]; then
		[ ! -e "/sys/block/${device##*/}/pid" ]
	else
		[ ! -e "$device" ]
	fi
}

detach()
{
	"$RDINIT" detach "$@" >/run/t/detach.out
	is_gone || t_fail "$device is still there"
	[ ! -e "$state/${device##*/}" ] || t_fail "its file is still there"
	! pidof "$RDINIT" || t_fail "its process is still there"
}

# fresh FUNCTION...: a case, without what a failed one has left.
fresh()
{
	local left

	umount /run/t/mount 2>/dev/null || true
	for left in $("$RDINIT" list --attached | awk 'NR > 1 { print $1 }'); do
		"$RDINIT" detach --force "$left"
	done
	[ ! -e /run/t/target.status ] || t_target_start /run/t/target.yaml
	"$@"
}

# What the block device has is on the namespace, and the other way round.
read_and_write()
{
	attach "$(uri 1)"
	[ "$(blockdev --getsize64 "$device")" -eq $((320 << 20)) ]
	dd if=/dev/urandom of=/run/t/data bs=1M count=3 status=none
	dd if=/run/t/data of="$device" bs=64k seek=5 oflag=direct status=none
	cmp -n $((3 << 20)) /run/t/data "$disk" 0 $((5 * 65536))
	# Through the kernel's cache: detaching writes it.
	dd if=/run/t/data of="$device" bs=1M seek=9 status=none
	detach "$device"
	cmp -n $((3 << 20)) /run/t/data "$disk" 0 $((9 << 20))
}

# The columns of `rdinit list --attached`: attached_is STATE.
attached_is()
{
	"$RDINIT" list --attached | awk -v d="$device" -v s="$1" '$1 == d && $3 == s { n++ } END { exit n != 1 }'
}

# For io_is_on of t_net.sh: writes that the block device has completed.
writes_done()
{
	local fields

	read -ra fields <"/sys/block/${device##*/}/stat"
	echo "${fields[4]}"
}

# reload FILE: rdtarget takes this configuration. Returns when it has.
reload()
{
	local before

	before=$(grep -c ': reloaded' /run/t/target.log) || true
	cp "$1" /run/t/target.yaml
	t_target_signal HUP
	t_until 30 reloaded_more_than "${before:-0}"
}

reloaded_more_than()
{
	[ "$(grep -c ': reloaded' /run/t/target.log)" -gt "$1" ]
}

limits()
{
	local queue

	attach "$(uri 2)"
	queue=/sys/block/${device##*/}/queue
	[ "$(cat "$queue/logical_block_size")" -eq 4096 ]
	[ "$(cat "$queue/fua")" -eq 1 ]
	[ "$(cat "$queue/write_cache")" = "write back" ]
	[ "$(cat "$queue/discard_max_bytes")" -gt 0 ]
	[ "$attach_driver" = nbd ] || [ "$(cat "$queue/write_zeroes_max_bytes")" -gt 0 ]
	verified_io "$device" --rw=randwrite --iodepth=32 --size=8m --bssplit=4k/40:12k/30:64k/20:1m/10
	# A larger request than a command has, and what reads as zeroes afterwards.
	blkdiscard -z "$device"
	cmp -n $((8 << 20)) "$device" /dev/zero
	blkdiscard "$device"
	detach "$device"
	attach "$(uri 2)" --read-only
	[ "$(blockdev --getro "$device")" -eq 1 ]
	t_refuted dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct status=none
	detach "$device"
}

file_system()
{
	local kind=$1

	attach "$(uri 1)"
	wipefs -qa "$device"
	"mkfs.$kind" -q "$device"
	mount "$device" /run/t/mount
	dd if=/dev/urandom of=/run/t/mount/random bs=1M count=8 status=none
	dd if=/dev/urandom of=/run/t/mount/synced bs=64k count=8 oflag=sync status=none
	(cd /run/t/mount && sha256sum random synced >/run/t/sums)
	# A device in use is not detached.
	t_refuted "$RDINIT" detach "$device" 2>/run/t/out
	t_expect 'is in use: it is mounted' /run/t/out
	attached_is live
	timeout 120 umount /run/t/mount
	detach "$device"
	attach "$(uri 1)"
	echo 3 >/proc/sys/vm/drop_caches
	mount -o ro "$device" /run/t/mount
	(cd /run/t/mount && sha256sum --quiet -c /run/t/sums)
	umount /run/t/mount
	detach "$device"
}

file_kib()
{
	stat -c %b "$disk" | awk '{ print int($1 / 2) }'
}

trim()
{
	local before

	attach "$(uri 1)"
	mkfs.ext4 -q "$device"
	mount "$device" /run/t/mount
	dd if=/dev/urandom of=/run/t/mount/random bs=1M count=16 oflag=sync status=none
	before=$(file_kib)
	rm /run/t/mount/random
	sync -f /run/t/mount
	fstrim /run/t/mount
	echo "note: $before KiB before fstrim, $(file_kib) after"
	[ "$(file_kib)" -le $((before - 15 * 1024)) ]
	umount /run/t/mount
	detach "$device"
}

twice()
{
	attach "$(uri 1)"
	t_refuted "$RDINIT" attach "$(uri 1 4421)" 2>/run/t/out
	t_expect "attached already: it is $device, served by process [0-9]+" /run/t/out
	attached_is live
	detach "$device"
	t_refuted "$RDINIT" detach "$device" 2>/run/t/out
	t_expect 'is not attached by rdinit' /run/t/out
}

# Two paths, and each of them is lost while the other one is there; then both are.
paths_lost()
{
	attach "$(uri 1)" "$(uri 1 4421)"
	io_start "${io_options[@]}"
	io_is_on 100
	for port in 4420 4421; do
		configuration | sed "/port: $port/d" >/run/t/one.yaml
		reload /run/t/one.yaml
		io_is_on 100
		attached_is live
		configuration >/run/t/both.yaml
		reload /run/t/both.yaml
		io_is_on 100
	done
	t_target_end KILL
	t_until 30 attached_is waiting
	t_target_start /run/t/target.yaml
	t_until 60 attached_is live
	io_is_on 100
	io_stop $((4 << 20))
	detach "$device"
}

# ---- TLS ----

# attach_by_tls KEY_FILE: the namespace that has no other way.
attach_by_tls()
{
	attach "nvme+tcp://$user4:4422/$nqn:tls/1" --hostnqn="$tls_host" --tls-key-file="$1"
}

# Connections at the listener that requires TLS.
connected_by_tls()
{
	grep -c " $nqn:tls: controller .* for $tls_host .*: connected" /run/t/target.log || true
}

# The key is used for each connection: of the first process, after the loss of the target, of the next process.
by_tls()
{
	local before

	before=$(connected_by_tls)
	attach_by_tls /run/t/tls.key
	[ "$(connected_by_tls)" -gt "$before" ]
	dd if=/dev/urandom of=/run/t/data bs=1M count=3 status=none
	dd if=/run/t/data of="$device" bs=1M seek=9 oflag=direct status=none
	cmp -n $((3 << 20)) /run/t/data "$tls_disk" 0 $((9 << 20))
	is_ready_for_pressure "$(served_by)"
	io_start "${io_options[@]}"
	io_is_on 100
	t_target_end KILL
	t_until 30 attached_is waiting
	before=$(connected_by_tls)
	t_target_start /run/t/target.yaml
	t_until 60 attached_is live
	[ "$(connected_by_tls)" -gt "$before" ]
	io_is_on 100
	if [ "$attach_driver" = ublk ]; then
		kill -KILL "$(served_by)"
		t_until 30 attached_is left
		attach_by_tls /run/t/tls.key
		io_is_on 100
	fi
	io_stop $((4 << 20))
	detach "$device"
	holds_the_last_pass "$tls_disk" $((4 << 20)) "${io_options[@]}"
}

# refused_by_tls REGEX OPTION...
refused_by_tls()
{
	local says=$1

	shift
	t_refuted "$RDINIT" attach "nvme+tcp://$user4:4422/$nqn:tls/1" --hostnqn="$tls_host" --driver="$attach_driver" "$@" \
		>/run/t/attach.out 2>/run/t/attach.log
	t_expect "$says" /run/t/attach.log
	[ ! -s /run/t/attach.out ] || t_fail "it has an output: $(cat /run/t/attach.out)"
	[ -z "$(find "$state" -type f -name '*[0-9]')" ] || t_fail "files are left: $(ls "$state")"
}

refused_in_words_of_tls()
{
	refused_by_tls 'TLS: the target does not know the identity "NVMe1R01 .*; tried were the identities NVMe1R01, NVMe0R01' \
		--tls-key-file=/run/t/wrong.key
	refused_by_tls 'instead of answering ICReq .*--tls-key-file'
	refused_by_tls '/run/t/none.key' --tls-key-file=/run/t/none.key
	attach_by_tls /run/t/tls.key
	detach "$device"
}

served_by()
{
	"$RDINIT" list --attached | awk -v d="$device" '$1 == d { print $4 }'
}

# A reader that waits for I/O of the device, in the background.
reader_start()
{
	(
		rc=0
		dd if="$device" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/run/t/reader.log || rc=$?
		echo "$rc" >/run/t/reader.status
	) &
}

# Everything that --force promises: no path, no answer, no process.
forced()
{
	local how=$1

	attach "$(uri 1)"
	rm -f /run/t/reader.status
	case $how in
	target)
		t_target_end KILL
		t_until 30 attached_is waiting
		;;
	stopped) kill -STOP "$(served_by)" ;;
	killed)
		kill -KILL "$(served_by)"
		t_until 30 attached_is left
		;;
	esac
	reader_start
	detach --force "$device"
	t_until 30 test -s /run/t/reader.status
	[ "$(cat /run/t/reader.status)" -ne 0 ] || t_fail "the reader read something"
	[ "$how" != target ] || t_target_start /run/t/target.yaml
	# It can be attached anew.
	attach "$(uri 1)"
	detach "$device"
}

# Without the target a detach waits for what is in the kernel's cache; --force ends that as well.
force_ends_a_detach()
{
	attach "$(uri 1)"
	dd if=/dev/urandom of="$device" bs=64k count=4 status=none
	t_target_end KILL
	t_until 30 attached_is waiting
	(
		rc=0
		"$RDINIT" detach "$device" >/run/t/waits.out 2>&1 || rc=$?
		echo "$rc" >/run/t/waits.status
	) &
	t_until 30 attached_is stopping
	[ ! -e /run/t/waits.status ] || t_fail "it did not wait: $(cat /run/t/waits.out)"
	detach --force "$device"
	t_until 30 test -s /run/t/waits.status
	t_target_start /run/t/target.yaml
}

foreground_ends()
{
	rm -f /run/t/attach.out
	"$RDINIT" attach "$(uri 1)" --driver="$attach_driver" --foreground >/run/t/attach.out 2>/run/t/attach.log &
	t_until 30 test -s /run/t/attach.out
	device=$(cat /run/t/attach.out)
	[ -b "$device" ]
	kill -TERM $!
	wait $! || t_fail "exit status $?"
	is_gone
	[ ! -s /run/t/attach.log ] || t_fail "$(cat /run/t/attach.log)"
}

# ---- memory ----

# The process is not killed for memory, each mapping of its own is locked, and each thread has PF_MEMALLOC_NOIO and
# PF_LOCAL_THROTTLE of <linux/sched.h>, which PR_SET_IO_FLUSHER sets.
is_ready_for_pressure()
{
	local pid=$1 thread fields flusher=$((0x80000 | 0x100000))

	[ "$(cat "/proc/$pid/oom_score_adj")" -eq -1000 ]
	awk '/^[0-9a-f]+-[0-9a-f]+ / { at = $0; own = $2 ~ /w.p/; n += own }
		/^VmFlags:/ && own && !/ lo( |$)/ { print "not locked: " at; bad = 1 }
		END { exit bad || n < 10 }' "/proc/$pid/smaps" || t_fail "memory of the process is not locked"
	for thread in "/proc/$pid/task"/*; do
		read -r -a fields <"$thread/stat"
		(((fields[8] & flusher) == flusher)) || t_fail "no I/O flusher, flags ${fields[8]}: $(cat "$thread/comm")"
	done
}

memory_is_kept()
{
	attach "$(uri 1)"
	is_ready_for_pressure "$(served_by)"
	detach "$device"
}

memory_cannot_be_locked()
{
	rm -f /run/t/attach.out
	ulimit -l 8192
	setpriv --bounding-set=-sys_resource,-ipc_lock --inh-caps=-sys_resource,-ipc_lock \
		"$RDINIT" attach "$(uri 1)" --driver="$attach_driver" >/run/t/attach.out 2>/run/t/attach.log
	device=$(cat /run/t/attach.out)
	t_expect "${device##*/}: may hang when memory is short: this process cannot become an I/O flusher" /run/t/attach.log
	t_expect "${device##*/}: may hang when memory is short: this process cannot be locked in memory" /run/t/attach.log
	detach "$device"
}

# Prints a line when it has taken all memory but $1 MiB, and keeps it until its input ends.
readonly take_memory='
import mmap, sys
def available():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable:")) >> 10
kept = []
while (more := available() - int(sys.argv[1])) > 0:
    kept.append(mmap.mmap(-1, min(more, 16) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE))
print(len(kept), flush=True)
sys.stdin.read()
'

reclaimed()
{
	awk '/^pgsteal_(kswapd|direct) / { n += $2 } END { print n }' /proc/vmstat
}

# More dirty pages than there is memory for, which come back through the process. What rdtarget writes to is there already.
written_back_under_pressure()
{
	local before i open out in taker taken

	attach "$(uri 1)"
	dd if=/dev/zero of="$device" bs=1M count=128 oflag=direct status=none
	dd if=/dev/urandom of=/run/t/data bs=1M count=16 status=none
	coproc taker_of_memory { exec python3 -c "$take_memory" 64; }
	taker=$taker_of_memory_PID out=${taker_of_memory[0]} in=${taker_of_memory[1]}
	read -r taken <&"$out"
	[ "$taken" -gt 0 ]
	before=$(reclaimed)
	# The last one to close it would drop its pages.
	exec {open}<"$device"
	for ((i = 0; i < 8; i++)); do
		dd if=/run/t/data of="$device" bs=1M seek=$((i * 16)) conv=notrunc status=none
	done
	timeout 300 sync "$device"
	exec {open}<&-
	echo "note: $(($(reclaimed) - before)) pages were reclaimed"
	[ "$(reclaimed)" -gt $((before + 8192)) ] || t_fail "memory was not short"
	kill -0 "$taker" || t_fail "the memory was given back"
	eval "exec $in>&-"
	for ((i = 0; i < 8; i++)); do
		cmp -n $((16 << 20)) /run/t/data "$disk" 0 $((i << 24))
	done
	detach "$device"
}

not_permitted()
{
	t_refuted setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \
		"$RDINIT" attach "$(uri 1)" --driver="$attach_driver" >/run/t/attach.out 2>/run/t/attach.log
	t_expect 'the kernel does not let this process (add|connect) an? (ublk|nbd) device: run rdinit as root' /run/t/attach.log
	[ ! -s /run/t/attach.out ] || t_fail "it has an output: $(cat /run/t/attach.out)"
	[ -z "$(find "$state" -type f -name '*[0-9]')" ] || t_fail "files are left: $(ls "$state")"
	attach "$(uri 1)"
	detach "$device"
}

# ---- what stands still ----

timeouts()
{
	grep -c 'keep alive timed out' /run/t/target.log || true
}

timed_out_more_than()
{
	[ "$(timeouts)" -gt "$1" ]
}

# As on a machine that is paused and continued: the process, the target, and both at a time.
stopped_and_continued()
{
	local pid before

	attach "$(uri 1)"
	pid=$(served_by)
	io_start "${io_options[@]}"
	io_is_on 100
	before=$(timeouts)
	kill -STOP "$pid"
	t_until 60 timed_out_more_than "$before"
	kill -CONT "$pid"
	io_is_on 100
	t_target_signal STOP
	t_until 60 attached_is waiting
	kill -STOP "$pid"
	t_target_signal CONT
	kill -CONT "$pid"
	t_until 60 attached_is live
	io_is_on 100
	io_stop $((4 << 20))
	detach "$device"
}

# ---- a namespace that changes under a mounted file system ----

# attach_and_mount: in the foreground, so that what the process says is in /run/t/attach.log.
attach_and_mount()
{
	rm -f /run/t/attach.out
	"$RDINIT" attach "$(uri 1)" --driver="$attach_driver" --keep-alive-tmo=2 --reconnect-delay=1 --foreground \
		>/run/t/attach.out 2>/run/t/attach.log &
	t_until 30 test -s /run/t/attach.out
	device=$(cat /run/t/attach.out)
	wipefs -qa "$device"
	mkfs.ext4 -qF "$device"
	mount "$device" /run/t/mount
	dd if=/dev/urandom of=/run/t/mount/random bs=1M count=4 oflag=sync status=none
	(cd /run/t/mount && sha256sum random >/run/t/sums)
}

# writer_start: a write that waits, in the background.
writer_start()
{
	rm -f /run/t/writer.status
	(
		rc=0
		dd if=/run/t/mount/random of=/run/t/mount/later bs=1M conv=fsync status=none 2>/run/t/writer.log || rc=$?
		echo "$rc" >/run/t/writer.status
	) &
}

# I/O waits for a namespace that is gone, and goes on when it is there again; detach --force ends it.
removed_while_mounted()
{
	attach_and_mount
	cp /run/t/target.yaml /run/t/with.yaml
	sed "/uuid: $uuid,/d" /run/t/target.yaml >/run/t/without.yaml
	reload /run/t/without.yaml
	writer_start
	t_until 30 attached_is waiting
	t_expect "${device##*/}: .*namespace" /run/t/attach.log
	[ ! -e /run/t/writer.status ] || t_fail "it did not wait: $(cat /run/t/writer.log)"
	t_refuted "$RDINIT" detach "$device" 2>/run/t/out
	t_expect 'is in use: it is mounted' /run/t/out
	reload /run/t/with.yaml
	t_until 60 test -s /run/t/writer.status
	[ "$(cat /run/t/writer.status)" -eq 0 ] || t_fail "$(cat /run/t/writer.log)"
	attached_is live
	reload /run/t/without.yaml
	writer_start
	t_until 30 attached_is waiting
	[ ! -e /run/t/writer.status ] || t_fail "it did not wait: $(cat /run/t/writer.log)"
	"$RDINIT" detach --force "$device"
	t_until 30 test -s /run/t/writer.status
	[ "$(cat /run/t/writer.status)" -ne 0 ] || t_fail "a write to nowhere"
	umount /run/t/mount
	is_gone
	reload /run/t/with.yaml
	attach "$(uri 1)"
	fsck.ext4 -fp "$device" || [ $? -eq 1 ]
	mount -o ro "$device" /run/t/mount
	(cd /run/t/mount && sha256sum --quiet -c /run/t/sums && cmp random later)
	umount /run/t/mount
	detach "$device"
}

# What is behind the end fails at once; what is before it can be used.
shrunk_while_mounted()
{
	attach_and_mount
	truncate -s 160M "$disk"
	configuration 160 >/run/t/smaller.yaml
	reload /run/t/smaller.yaml
	t_until 30 t_has 'the namespace has become smaller, 327680 blocks instead of [0-9]+' /run/t/attach.log
	t_refuted dd if="$device" of=/dev/null bs=4k count=1 skip=$((200 << 8)) iflag=direct status=none
	attached_is live
	echo 3 >/proc/sys/vm/drop_caches
	(cd /run/t/mount && sha256sum --quiet -c /run/t/sums)
	umount /run/t/mount
	detach "$device"
	attach "$(uri 1)"
	[ "$(blockdev --getsize64 "$device")" -eq $((160 << 20)) ]
	detach "$device"
	configuration >/run/t/target.yaml
	truncate -s 320M "$disk"
	t_target_signal HUP
}

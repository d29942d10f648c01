#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host with its own multipath on two rdtargets before one Ceph RBD image: whatever happens to the one
# that holds the image's lock, the other takes over, no I/O fails, and no acknowledged write is lost. The cluster runs in
# the machine, too.
# Interop: Linux nvme-rdma with multipath -> two rdtargets with a Ceph RBD image
for program in ceph-mon ceph-osd ceph rbd monmaptool ceph-authtool; do
	command -v "$program" >/dev/null || {
		echo "1..0 # SKIP $program is not installed"
		exit 0
	}
done
t_programs=(RDTARGET RDCTL RDTARGET_RBD)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly io_size=1048576
# Pauses after each 16 writes: the cluster, too, needs the machine's only processor. A gateway that stands still has 16 of them.
readonly io_options=(--rw=randwrite --bs=4k --size="$io_size" --iodepth=16 --thinktime=100ms --thinktime_blocks=16)
# Seconds until a gateway that does not answer is replaced: more than the usual 4, because this machine is slow.
readonly takeover=8
holder=a other=b

# port GATEWAY
port()
{
	[ "$1" = a ] && echo 4420 || echo 4421
}

# gateway_start a|b
gateway_start()
{
	local first=1

	[ "$1" = a ] || first=30001
	cat >"/run/t/$1.yaml" <<-END
	ceph:
	  - { name: main, conf: $ceph_conf, user: $ceph_user, keyring: $ceph_keyring, takeover: $takeover }
	control: { socket: /run/t/$1.sock }
	listeners:
	  - { address: $user4, port: $(port "$1"), provider: $provider }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    cntlid_min: $first
	    cntlid_max: $((first + 29999))
	    namespaces:
	      - { nsid: 1, backend: rbd, rbd: { cluster: main, pool: $ceph_pool, image: $ceph_image, lock: exclusive } }
	END
	t_target_start "/run/t/$1.yaml" "$1"
}

cluster_is_up()
{
	[ ! -f /run/t/cluster.status ] || t_fail "the cluster ended: $(tail -n 5 /run/t/cluster.log)"
	[ -f /run/t/cluster ]
}

cluster_start()
{
	local since=$SECONDS

	t_network
	(
		in_user python3 "$t_dir/ceph_cluster.py" /run/t 8M </dev/null >/run/t/cluster.log 2>&1
		echo $? >/run/t/cluster.status
	) &
	t_until 400 cluster_is_up
	echo "note: $((SECONDS - since)) s"
}

# lines GATEWAY: of its log.
lines()
{
	wc -l <"/run/t/$1.log"
}

# said GATEWAY LINES REGEX: after so many lines.
said()
{
	tail -n +$(($2 + 1)) "/run/t/$1.log" | grep -qE -- "$3"
}

gateways_start()
{
	# Otherwise siw makes nvme-rdma fail I/O for good on a connection that is being lost: kernel.sh, make_send_status.
	if [ "$device_type" = siw ]; then
		t_rdma lost_send_status=-5
	else
		t_rdma
	fi
	modprobe nvme-rdma
	grep -qx Y /sys/module/nvme_core/parameters/multipath
	gateway_start a
	t_until 150 said a 0 'its lock is held here'
	gateway_start b
	t_until 150 said b 0 'another client holds its lock'
}

# path GATEWAY: the controller of the path by it.
path()
{
	local dir

	for dir in /sys/class/nvme/nvme*; do
		if grep -qsx "$nqn" "$dir/subsysnqn" && grep -qs "trsvcid=$(port "$1")" "$dir/address"; then
			echo "$dir"
			return 0
		fi
	done
	return 1
}

# path_is GATEWAY CONTROLLER-STATE ANA-STATE
path_is()
{
	local dir

	dir=$(path "$1") && grep -qsx "$2" "$dir/state" && grep -qsx "$3" "$dir"/nvme*c*n*/ana_state
}

paths_are_usual()
{
	path_is "$holder" live optimized && path_is "$other" live inaccessible
}

# writes_by GATEWAY: completed on that path.
writes_by()
{
	awk '{ print $5 }' "$(path "$1")"/nvme*c*n*/stat
}

wrote_by()
{
	[ "$(writes_by "$1")" -gt "$2" ]
}

# Two paths to one disk, and verified I/O on it, which goes on until the end.
connect()
{
	local gateway

	for gateway in a b; do
		nvme_fabric connect "$user4" "$(port "$gateway")" -n "$nqn" --nr-io-queues=2 --reconnect-delay=1 \
			--ctrl-loss-tmo=600
	done
	t_until 100 has_block_device
	t_until 100 paths_are_usual
	device=$(block_device)
	one_disk
	io_start "${io_options[@]}"
	io_is_on 100
}

# The kernel takes both for paths of one disk: there is no second block device.
one_disk()
{
	local dirs

	dirs=(/sys/class/nvme/nvme*/nvme*c*n*)
	[ ${#dirs[@]} -eq 2 ]
	dirs=(/dev/nvme*n*)
	[ "${dirs[*]}" = "$device" ]
}

# seconds_since EPOCHREALTIME
seconds_since()
{
	awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f", to - from }'
}

# replaced WHAT FUNCTION: after this the other gateway gets the lock, and the host writes by it.
replaced()
{
	local what=$1 from begin writes locked

	io_is_on 50
	wrote_by "$holder" 0
	from=$(lines "$other")
	writes=$(writes_by "$other")
	begin=$EPOCHREALTIME
	"$2"
	t_until 200 said "$other" "$from" 'its lock is held here'
	locked=$(seconds_since "$begin")
	t_until 200 wrote_by "$other" "$writes"
	echo "note: $what: the lock is taken over after $locked s, the host writes again after $(seconds_since "$begin") s"
}

# The one that took over serves alone until the first one is back, without the lock.
back_without_lock()
{
	t_until 150 said "$holder" "$1" 'another client holds its lock'
	t_until 150 path_is "$holder" live inaccessible
	path_is "$other" live optimized
	io_is_on 50
}

killed()
{
	t_target_end KILL "$holder"
}

holder_is_killed()
{
	local from had

	had=$(lines "$other")
	replaced "killed" killed
	said "$other" "$had" 'was broken: that gateway has not answered'
	from=$(lines "$holder")
	gateway_start "$holder"
	back_without_lock "$from"
}

stopped()
{
	t_target_signal STOP "$holder"
}

# It is stopped with writes on their way, and continues after the other one has written.
holder_is_stopped()
{
	local from

	from=$(lines "$holder")
	replaced "stopped" stopped
	io_is_on 300
	t_target_signal CONT "$holder"
	t_until 150 said "$holder" "$from" "blocked this rdtarget's connection"
	back_without_lock "$from"
}

# drained: no path is left from the drain to the end of the process, which frees the lock; I/O waits meanwhile.
drained()
{
	"$RDCTL" --socket "/run/t/$holder.sock" drain
	"$RDCTL" --socket "/run/t/$holder.sock" shutdown
	t_until 150 test -s "/run/t/$holder.status"
	[ "$(cat "/run/t/$holder.status")" -eq 0 ]
}

holder_is_drained()
{
	local from had

	had=$(lines "$other")
	replaced "drained and shut down" drained
	! said "$other" "$had" 'was broken' || t_fail "the lock was broken, not given"
	from=$(lines "$holder")
	gateway_start "$holder"
	back_without_lock "$from"
}

# What fio verified at the host is in the image, as Ceph's own client reads it.
image_holds_all()
{
	io_is_on 50
	io_stop "$io_size"
	echo "note: $(cat /run/t/io.pass) passes of $((io_size / 1024)) KiB"
	timeout 100 nvme disconnect -n "$nqn"
	t_until 100 no_controller
	in_user env CEPH_CONF="$ceph_conf" timeout 100 rbd export --no-progress "$ceph_pool/$ceph_image" /run/t/image
	holds_the_last_pass /run/t/image "$io_size" "${io_options[@]}"
	# The check can fail.
	printf x | dd of=/run/t/image bs=1 seek=5000 conv=notrunc status=none
	t_refuted holds_the_last_pass /run/t/image "$io_size" "${io_options[@]}"
}

gateways_end()
{
	local gateway

	for gateway in a b; do
		t_target_end TERM "$gateway"
		[ "$(cat "/run/t/$gateway.status")" -eq 0 ]
	done
}

# takes_over NAME CASE: the roles change when the case has passed; without that the next one says little.
takes_over()
{
	t_first_case "$1" "$2"
	read -r holder other <<<"$other $holder"
}

if t_guest; then
	t_first_case "a Ceph cluster starts" cluster_start
	# shellcheck disable=SC1091
	. /run/t/cluster
	t_first_case "two gateways start, and one holds the lock" gateways_start
	device=""
	t_first_case "two paths, and verified I/O" connect
	takes_over "the gateway with the lock is killed" holder_is_killed
	takes_over "the gateway with the lock is stopped, and continued" holder_is_stopped
	takes_over "the gateway with the lock is drained and shut down" holder_is_drained
	device=$(block_device)
	t_case "no I/O has failed, and the image contains the written data" image_holds_all
	t_case "SIGTERM ends both gateways cleanly" gateways_end
	t_guest_done
fi

# Connections are lost on purpose. Errors above them, of the block device, must not occur.
lost='nvme nvme[0-9]+: |block nvme[0-9a-z]+: no usable path|: [0-9]+ callbacks suppressed'
[ "$device_type" != rxe ] || lost+='|rxe_reg_fast_mr: .* not free'
t_dmesg_case "$lost"
t_done

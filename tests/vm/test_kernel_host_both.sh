#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# The Linux kernel's host on rdtarget by both transports at once: one namespace with a path of each, one of which is lost and
# comes back under verified I/O; what discovery shows.
# Interop: Linux nvme-rdma and nvme-tcp with multipath -> rdtarget
t_programs=(RDTARGET)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly port_rdma=4420 port_tcp=8009 io_size=2097152
readonly host=nqn.2014-08.org.nvmexpress:uuid:6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11
readonly io_options=(--rw=randwrite --bs=4k --size="$io_size" --iodepth=16)

# configuration LIMIT TRANSPORT...: listeners; LIMIT is what the discovery log shows of the subsystem.
configuration()
{
	local limit=$1

	shift
	echo listeners:
	case " $* " in *" rdma "*) echo "  - { address: $user4, port: $port_rdma, provider: $provider }" ;; esac
	case " $* " in *" tcp "*) echo "  - { address: $user4, port: $port_tcp, transport: tcp }" ;; esac
	cat <<-END
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    discovery_transport: $limit
	    namespaces:
	      - { nsid: 1, backend: file, path: /run/disk, create: true, size: 8MiB, block_size: 512 }
	END
}

# reload LIMIT TRANSPORT...: returns when rdtarget has applied it.
reload()
{
	local before

	before=$(wc -l </run/t/target.log)
	configuration "$@" >/run/t/target.yaml
	t_target_signal HUP
	t_until 30 reloaded $((before + 1))
}

reloaded()
{
	tail -n +"$1" /run/t/target.log | grep -q ': reloaded: '
}

start()
{
	t_network
	t_rdma_for_lost_connections
	modprobe nvme-rdma
	modprobe nvme-tcp
	grep -qx Y /sys/module/nvme_core/parameters/multipath
	configuration all rdma tcp >/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

# shows TRANSPORT...: the records of the subsystem.
shows()
{
	timeout 100 nvme discover -t tcp -a "$user4" -s "$port_tcp" >/run/t/out
	cat /run/t/out
	awk -v nqn="$nqn" '/^trtype:/ { type = $2 } $1 == "subnqn:" && $2 == nqn { print type }' /run/t/out | sort >/run/t/types
	printf '%s\n' "$@" | sort | cmp - /run/t/types
}

limited_discovery()
{
	shows rdma tcp
	reload tcp rdma tcp
	shows tcp
	reload rdma rdma tcp
	shows rdma
	reload all rdma tcp
	shows rdma tcp
}

# attach TRANSPORT PORT: as one host, which tries again each second.
attach()
{
	printf '%s' "transport=$1,traddr=$user4,trsvcid=$2,nqn=$nqn,nr_io_queues=2,hostnqn=$host," \
		"hostid=${host#*uuid:},reconnect_delay=1,ctrl_loss_tmo=600,keep_alive_tmo=5" >/dev/nvme-fabrics
}

# path_is TRANSPORT STATE
path_is()
{
	local dir

	for dir in /sys/class/nvme/nvme*; do
		if grep -qsx "$nqn" "$dir/subsysnqn" && grep -qsx "$1" "$dir/transport"; then
			grep -qsx "$2" "$dir/state"
			return
		fi
	done
	return 1
}

both_paths()
{
	path_is rdma live && path_is tcp live
}

one_disk_of_both()
{
	attach rdma "$port_rdma"
	attach tcp "$port_tcp"
	t_until 30 both_paths
	t_until 30 has_block_device
	[ "$(find /sys/block -name 'nvme*n*' ! -name 'nvme*c*' | wc -l)" -eq 1 ] || t_fail "not one namespace: $(ls /sys/block)"
	device=$(block_device)
	verified_io "$device" "${io_options[@]}"
}

# lost_and_back TRANSPORT OTHER: the other one remains for a time.
lost_and_back()
{
	local transport=$1

	shift
	device=$(block_device)
	io_start "${io_options[@]}"
	for _ in 1 2; do
		io_is_on 100
		reload all "$@"
		t_until 60 path_is "$transport" connecting
		io_is_on 100
		reload all rdma tcp
		t_until 60 both_paths
		io_is_on 100
	done
	io_stop "$io_size"
}

file_has_it()
{
	timeout 100 nvme disconnect -n "$nqn"
	t_until 30 no_controller
	holds_the_last_pass /run/disk "$io_size" "${io_options[@]}"
}

if t_guest; then
	t_first_case "rdtarget starts" start
	t_case "discovery shows both transports, or one" limited_discovery
	t_case "one namespace with a path of each transport" one_disk_of_both
	t_case "the TCP path is lost and restored, twice, under verified I/O" lost_and_back tcp rdma
	t_case "the RDMA path is lost and restored, twice, under verified I/O" lost_and_back rdma tcp
	t_case "the file contains the written data" file_has_it
	t_case "nothing is left at the target" t_until 60 t_target_is_idle
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

t_dmesg_case "$lost_connections|siw"
t_done

# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# In the guest: the network, the RDMA devices, our programs, the kernel's host and target. Sourced by t_vm.sh.
#
#   nvme-rdma or nvmet-rdma - siw0 or rxe0 on v0 (192.168.78.1, fd00::1) === v1 (.2, ::2) - rdtarget or rdinit
#
# The kernel speaks NVMe/RDMA or NVMe/TCP from the initial network namespace. Without verbs our programs live
# behind v1 in the namespace "user", where no RDMA is. With verbs they need a device: siw1 or rxe1 on v1.
# Neither driver of 6.1 works outside of the initial namespace, so v1 stays in it, and rules send what goes from
# one address to the other over the wire and not through lo or, as rxe does with one device, through nothing.

readonly kernel4=192.168.78.1 kernel6=fd00::1 user4=192.168.78.2 user6=fd00::2
readonly nqn=nqn.2024-01.io.rdnvme:vm

# The module of $device_type, and what it is always loaded with.
if [ "$device_type" = siw ]; then
	readonly driver=siw driver_options=(keep_listener=1) # see kernel.sh
else
	readonly driver=rdma_rxe driver_options=()
fi
if [ "$provider" = tcp ]; then
	readonly kernel_transport=tcp
else
	readonly kernel_transport=rdma
fi

t_network()
{
	local mtu

	case "$device_type $provider" in
	# RoCE then divides its messages at 4096 bytes, with the usual 1500 at 1024.
	"rxe "*) mtu=4200 ;;
	# siw sends one packet for each frame: with jumbo frames three times as much is transferred in a second here.
	"siw verbs") mtu=9000 ;;
	# Our own provider meets siw with the usual size, where messages consist of many frames.
	*) mtu=1500 ;;
	esac
	if [ "$provider" != verbs ]; then
		ip netns add user
		ip link add v0 type veth peer name v1 netns user
		user_ip link set lo up
	else
		ip link add v0 type veth peer name v1
		one_namespace
	fi
	[ "$device_type" != rxe ] || for_rxe
	ip -batch - <<-END
		addr add $kernel4/24 dev v0
		addr add $kernel6/64 dev v0 nodad
		link set v0 mtu $mtu up
	END
	user_ip -batch - <<-END
		addr add $user4/24 dev v1
		addr add $user6/64 dev v1 nodad
		link set v1 mtu $mtu up
	END
	t_until 10 grep -qx up /sys/class/net/v0/operstate
	t_until 10 in_user grep -qx up /sys/class/net/v1/operstate
	[ "$provider" != verbs ] || routes_over_the_wire
}

# ip where v1 is.
user_ip()
{
	if [ "$provider" != verbs ]; then
		ip -n user "$@"
	else
		ip "$@"
	fi
}

for_rxe()
{
	local end

	# Packets that wait to be received must not be dropped because they are many: for rxe that is a loss on the wire.
	echo 100000 >/proc/sys/net/core/netdev_max_backlog
	# With two processors a veth delivers packets out of order. rxe then asks for them again, and the sender's rxe (6.1:
	# rxe_requester) repeats the local operations in its queue too: "rxe_reg_fast_mr: not free", and the connection is
	# lost. So one processor receives everything, in order.
	for end in v0 v1; do
		echo 1 >/sys/class/net/$end/queues/rx-0/rps_cpus
	done
}

one_namespace()
{
	local end

	for end in all v0 v1; do
		echo 0 >/proc/sys/net/ipv4/conf/$end/rp_filter
		echo 1 >/proc/sys/net/ipv4/conf/$end/accept_local
		echo 1 >/proc/sys/net/ipv4/conf/$end/arp_ignore
	done
}

# Incoming packets are local, as usual; packets to the other address are not.
routes_over_the_wire()
{
	wires 4 $kernel4 $user4
	wires 6 $kernel6 $user6
}

# wires FAMILY KERNEL USER
wires()
{
	ip -"$1" -batch - <<-END
		rule add pref 10 iif v0 lookup local
		rule add pref 10 iif v1 lookup local
		route add $3 dev v0 src $2 table 20
		rule add pref 20 to $3 lookup 20
		route add $2 dev v1 src $3 table 21
		rule add pref 21 to $2 lookup 21
		rule add pref 40 lookup local
		rule del pref 0
	END
}

# Where our programs run.
in_user()
{
	if [ "$provider" != verbs ]; then
		ip netns exec user "$@"
	else
		"$@"
	fi
}

# libibverbs opens all installed drivers, which takes a fifth of a second for each program here.
two_drivers()
{
	if [ ! -d /run/t/drivers ]; then
		mkdir /run/t/drivers
		cp /etc/libibverbs.d/{rxe,siw}.driver /run/t/drivers
		mount --bind /run/t/drivers /etc/libibverbs.d
	fi
}

# t_rdma [PARAMETER=VALUE...]: make the devices, with the driver loaded anew with these settings.
t_rdma()
{
	two_drivers
	if [ -d "/sys/module/$driver" ]; then
		rdma link delete "$device_type"0
		[ "$provider" != verbs ] || rdma link delete "$device_type"1
		modprobe -r "$driver"
	fi
	modprobe "$driver" "${driver_options[@]}" "$@"
	rdma link add "$device_type"0 type "$device_type" netdev v0
	if [ "$provider" = verbs ]; then
		rdma link add "$device_type"1 type "$device_type" netdev v1
		modprobe rdma_ucm
		t_until 10 test -c /dev/infiniband/rdma_cm
	fi
}

# t_rdma for a test in which the kernel's host loses connections: otherwise siw makes nvme-rdma fail I/O for good on such a
# connection (kernel.sh, make_send_status).
t_rdma_for_lost_connections()
{
	if [ "$device_type" = siw ]; then
		t_rdma lost_send_status=-5
	else
		t_rdma
	fi
}

# All packets are lost, in both directions, while interfaces and addresses stay; and the end of that.
t_wire_cut()
{
	modprobe sch_netem
	tc qdisc add dev v0 root netem loss 100%
	in_user tc qdisc add dev v1 root netem loss 100%
}

t_wire_mend()
{
	in_user tc qdisc del dev v1 root
	tc qdisc del dev v0 root
}

# t_memory_disk NAME MIB [ATTRIBUTE=VALUE...]: a block device of memory, with blocks of 512 bytes. (6.1 names it for its
# folder.)
t_memory_disk()
{
	local dir=/sys/kernel/config/nullb/$1 more

	modprobe null_blk nr_devices=0
	mkdir "$dir"
	echo 1 >"$dir/memory_backed"
	echo 512 >"$dir/blocksize"
	echo "$2" >"$dir/size"
	for more in "${@:3}"; do
		echo "${more#*=}" >"$dir/${more%%=*}"
	done
	echo 1 >"$dir/power"
	t_until 10 test -b "/dev/$1"
}

# ---- our programs with Debian 13's libraries ----

# newer PROGRAM: prints the path of a script that runs it with Debian 13's C library and OpenSSL 3.5, with which the kernel
# decrypts too; Debian 12's has the kernel encrypt only. They are those of the root RD_VM_TLS_ROOT, without one this machine's.
newer()
{
	local script=/run/t/newer-${1##*/} from=${RD_VM_TLS_ROOT:-} libraries=usr/lib/x86_64-linux-gnu

	printf '#!/bin/sh\nexec %s "$@"\n' "${from:+$from/lib64/ld-linux-x86-64.so.2 --library-path $from/$libraries:/$libraries }$1" >"$script"
	chmod +x "$script"
	echo "$script"
}

# ---- rdtarget ----

# t_target_start CONFIGURATION [NAME]: returns when it is ready. Several run at a time under different names; the log of
# each is /run/t/NAME.log ("target" without a name).
t_target_start()
{
	local config=$1 name=${2:-target} before

	touch "/run/t/$name.log"
	before=$(wc -l <"/run/t/$name.log")
	rm -f "/run/t/$name.pid" "/run/t/$name.status"
	(
		status=0
		# shellcheck disable=SC2016
		in_user sh -c 'echo $$ >"$2"; exec "$0" -c "$1"' "$RDTARGET" "$config" "/run/t/$name.pid" \
			</dev/null >>"/run/t/$name.log" 2>&1 || status=$?
		echo $status >"/run/t/$name.status"
	) >/dev/null 2>&1 &
	t_until 100 t_target_ready $((before + 1)) "$name"
}

# t_target_ready LINE [NAME]: it has said so in that line of its log or later.
t_target_ready()
{
	local name=${2:-target}

	[ ! -f "/run/t/$name.status" ] || t_fail "rdtarget ended: $(tail -n 3 "/run/t/$name.log")"
	tail -n +"$1" "/run/t/$name.log" | grep -q ': ready$'
}

# t_target_signal SIGNAL [NAME]
t_target_signal()
{
	kill -"$1" "$(cat "/run/t/${2:-target}.pid")"
}

# t_target_end SIGNAL [NAME]: ends it by a signal; the status is in /run/t/NAME.status.
t_target_end()
{
	t_target_signal "$@"
	t_until 60 test -s "/run/t/${2:-target}.status"
}

# t_target_figure KEY [NAME]: the sum over the lines of one SIGUSR1.
t_target_figure()
{
	local name=${2:-target} before

	before=$(wc -l <"/run/t/$name.log")
	t_target_signal USR1 "$name"
	t_until 10 t_target_told $((before + 1)) "$name" || return
	tail -n +$((before + 1)) "/run/t/$name.log" |
		sed -n "s/.*status: reactor=.* $1=\([0-9]*\).*/\1/p" |
		awk '{ sum += $1; n++ } END { if (n) print sum; else exit 1 }'
}

# t_target_told LINE NAME
t_target_told()
{
	tail -n +"$1" "/run/t/$2.log" | grep -q 'status: end$'
}

# t_target_is_idle [NAME]: no queue, request or buffer in use, the state to which an idle target must return.
t_target_is_idle()
{
	local key

	for key in admin_queues io_queues requests waiting_for_buffers buffer_bytes reserve_bytes; do
		[ "$(t_target_figure $key "$@")" = 0 ] || return 1
	done
}

# t_target_ends_cleanly [NAME]: SIGTERM without connections: exit status 0, at once.
t_target_ends_cleanly()
{
	t_target_end TERM "$@"
	[ "$(cat "/run/t/${1:-target}.status")" -eq 0 ]
	t_expect 'stopped: [0-9]+ reads and [0-9]+ writes served$' "/run/t/${1:-target}.log"
}

# ---- a device of librdinit: verified I/O that survives its connections ----

# t_device_start [--OPTION NUMBER]... URI...: the log of rddev is /run/t/dev.log.
t_device_start()
{
	rm -f /run/t/dev.stop /run/t/dev.log
	mkfifo /run/t/dev.stop
	in_user timeout 1000 "$RDDEV" --keep-alive-tmo 5000 --reconnect-delay 1000 --io-timeout 30000 "$@" \
		</run/t/dev.stop >/run/t/dev.log 2>&1 &
	t_device=$!
	# A process of its own holds the other end: a descriptor would be inherited by a target that is started later.
	sleep 1000 >/run/t/dev.stop &
	t_device_stop=$!
	t_until 60 grep -q '^event device live' /run/t/dev.log
}

t_device_ops()
{
	sed -n 's/^ops \([0-9]*\).*/\1/p' /run/t/dev.log | tail -n 1
}

t_device_has()
{
	kill -0 "$t_device" || t_fail "rddev ended: $(tail -n 5 /run/t/dev.log)"
	[ "$(t_device_ops)" -ge "$1" ]
}

# Commands go on.
t_device_goes_on()
{
	local now

	now=$(t_device_ops)
	t_until 120 t_device_has $((${now:-0} + 50))
}

# t_device_lost [PATH]
t_device_lost()
{
	grep -qE "^event path ${1:-0} (lost|waiting)" /run/t/dev.log
}

# Every block is read once more.
t_device_end()
{
	kill "$t_device_stop"
	wait "$t_device" || t_fail "rddev: $(tail -n 5 /run/t/dev.log)"
	t_expect '^verified$' /run/t/dev.log
}

# ---- the kernel as host ----

nvme_fabric()
{
	local verb=$1 address=$2 port=$3

	shift 3
	timeout 100 nvme "$verb" -t "$kernel_transport" -a "$address" -s "$port" "$@"
}

# block_device [NSID [NQN]]: found in sysfs.
block_device()
{
	local dir

	for dir in /sys/block/nvme*; do
		if grep -qsx "${2:-$nqn}" "$dir/device/subsysnqn" && grep -qsx "${1:-1}" "$dir/nsid" &&
			[ -b "/dev/${dir##*/}" ]; then
			echo "/dev/${dir##*/}"
			return 0
		fi
	done
	return 1
}

has_block_device()
{
	block_device "$@" >/dev/null
}

controller()
{
	local dir

	for dir in /sys/class/nvme/nvme*; do
		if grep -qsx "${1:-$nqn}" "$dir/subsysnqn"; then
			echo "${dir##*/}"
			return 0
		fi
	done
	return 1
}

controller_is()
{
	grep -qsx "$1" "/sys/class/nvme/$(controller)/state"
}

no_controller()
{
	! controller "$@" >/dev/null
}

# connect_kernel ADDRESS PORT [OPTION...]: sets device and ctrl.
connect_kernel()
{
	local address=$1 port=$2

	shift 2
	no_controller || disconnect_kernel
	nvme_fabric connect "$address" "$port" -n $nqn --nr-io-queues=2 "$@"
	t_until 30 has_block_device
	device=$(block_device)
	ctrl=/dev/$(controller)
}

disconnect_kernel()
{
	timeout 100 nvme disconnect -n $nqn
	t_until 30 no_controller
}

# verified_io DEVICE [OPTION...]: fio writes, reads back and checks every block. What is not in /dev may be a file.
verified_io()
{
	local dev=$1

	shift
	[[ -b $dev || $dev != /dev/* ]] || t_fail "$dev is no block device"
	# nvme-tcp and siw send without MSG_NOSIGNAL, in the thread that submits: a connection that ends would kill it.
	(trap '' PIPE && exec timeout 300 fio --name=verified --filename="$dev" --direct=1 --ioengine=libaio \
		--verify=crc32c --verify_fatal=1 --verify_state_save=0 --output-format=terse "$@") |
		awk -F';' 'NF > 40 { print "fio: error " $5 ", read " $6 " KiB, written " $47 " KiB" }'
}

# ---- verified I/O that goes on during faults ----

# Writes completed on the paths' own devices: the multipath device above counts nothing.
writes_done()
{
	local dir stat fields sum=0

	for dir in /sys/class/nvme/nvme*; do
		grep -qsx "$nqn" "$dir/subsysnqn" || continue
		for stat in "$dir"/nvme*/stat; do
			read -ra fields <"$stat" || continue
			sum=$((sum + fields[4]))
		done
	done 2>/dev/null
	echo "$sum"
}

wrote_at_least()
{
	[ "$(writes_done)" -ge "$1" ]
}

# io_start FIO_OPTION...: writes and checks all blocks of $device that these options name again and again, each time with
# other data, until it is told to stop or a block is wrong. So it runs when a fault occurs, on any machine.
io_start()
{
	rm -f /run/t/io.status /run/t/io.stop
	(
		status=0 pass=0
		while [ "$status" -eq 0 ] && [ ! -e /run/t/io.stop ]; do
			pass=$((pass + 1))
			echo "$pass" >/run/t/io.pass
			# In a shell of its own, which a device that is gone ends.
			(verified_io "$device" "$@" --randseed="$pass") >/run/t/io.log 2>&1 || status=$?
		done
		echo "$status" >/run/t/io.status
	) &
}

# io_is_on WRITES: so many writes later it still runs.
io_is_on()
{
	t_until 150 wrote_at_least $(($(writes_done) + $1))
	[ ! -f /run/t/io.status ] || t_fail "the I/O has ended: $(cat /run/t/io.log)"
}

# io_stop BYTES: the last pass has written and checked so much.
io_stop()
{
	touch /run/t/io.stop
	t_until 200 test -s /run/t/io.status
	cat /run/t/io.log
	[ "$(cat /run/t/io.status)" -eq 0 ] || t_fail "fio failed"
	t_expect "fio: error 0, read $(($1 / 1024)) KiB, written $(($1 / 1024)) KiB" /run/t/io.log
}

# holds_the_last_pass FILE BYTES FIO_OPTION...: what the host's last pass has written is in this file.
holds_the_last_pass()
{
	local file=$1 bytes=$2

	shift 2
	timeout 100 fio --name=verified --filename="$file" --verify=crc32c --verify_fatal=1 --verify_only \
		--output-format=terse "$@" --iodepth=1 --randseed="$(cat /run/t/io.pass)" |
		awk -F';' -v kib=$((bytes / 1024)) '{ print } NF > 40 { n++; bad += $5 || $6 != kib } END { exit n != 1 || bad }'
}

# ---- the wire ----

# t_capture_start NAME: returns when it captures.
t_capture_start()
{
	[ ! -f /run/t/tcpdump.pid ] || kill -KILL "$(cat /run/t/tcpdump.pid)" || true
	tcpdump -Z root -i v0 -s 0 -B 65536 -U -w "/run/t/$1.pcap" "tcp or udp port 4791" </dev/null \
		2>/run/t/tcpdump.log &
	echo $! >/run/t/tcpdump.pid
	t_until 20 t_has 'listening on' /run/t/tcpdump.log
}

# The file goes to the share; a capture that lost packets proves nothing.
t_capture_stop()
{
	kill -INT "$(cat /run/t/tcpdump.pid)"
	rm /run/t/tcpdump.pid
	t_until 20 t_has 'dropped by kernel' /run/t/tcpdump.log
	t_expect '^0 packets dropped by kernel' /run/t/tcpdump.log
	cp "/run/t/$1.pcap" "$t_share/"
}

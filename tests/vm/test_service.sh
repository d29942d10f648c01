#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdtarget.service as it is installed, run by systemd as the machine's first process: from inside its sandbox it serves a
# file and a block device through an RDMA device to the kernel's host, and answers HTTP; it is reloaded, upgraded, restarted, which
# a host over NVMe/TCP does not notice, ended by the watchdog and started again under verified I/O, and stopped.
# Interop: Linux nvme-rdma -> rdtarget as a systemd service
[ -x /lib/systemd/systemd ] || {
	echo "1..0 # SKIP systemd is not installed"
	exit 0
}
[ -f "${RDTARGET_UNIT:-}" ] || {
	echo "Bail out! RDTARGET_UNIT has to name the unit that meson has made, as meson test does"
	exit 1
}
t_programs=(RDTARGET RDCTL)
t_machine=(--systemd)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly configs=$t_dir/../../configs
readonly config=/usr/local/etc/rdtarget/rdtarget.yaml page=http://127.0.0.1:10420
readonly io_size=2097152
readonly io_options=(--rw=randwrite --bs=4k --size="$io_size" --iodepth=8)
# The limit of `systemd-analyze security`: 0 is nothing allowed, 10 is everything.
readonly exposure=2.1

# As meson install does it, with the prefix of the unit.
install_service()
{
	grep -qx systemd /proc/1/comm
	grep -qx 'ExecStart=/usr/local/bin/rdtarget -c /usr/local/etc/rdtarget/rdtarget.yaml' "$RDTARGET_UNIT"
	mkdir -p /usr/local/bin /usr/local/etc
	cp "$RDTARGET" "$RDCTL" /usr/local/bin
	cp "$RDTARGET_UNIT" /etc/systemd/system/rdtarget.service
	systemd-sysusers "$configs/systemd/sysusers.conf"
	sed 's,@sysconfdir@,/usr/local/etc,' "$configs/systemd/tmpfiles.conf.in" >/run/t/tmpfiles.conf
	systemd-tmpfiles --create /run/t/tmpfiles.conf
	systemctl daemon-reload
}

exposure_is_low()
{
	local said

	systemd-analyze security --offline=true --no-pager "$RDTARGET_UNIT" >/run/t/security
	said=$(sed -n 's/.*Overall exposure level for rdtarget.service: \([0-9.]*\).*/\1/p' /run/t/security)
	[ -n "$said" ] || t_fail "no exposure level: $(cat /run/t/security)"
	echo "note: exposure level $said of at most $exposure"
	awk -v said="$said" -v most="$exposure" 'BEGIN { exit !(said <= most) }' || t_fail "exposure level $said"
}

# configuration [NAMESPACE...]: besides the file and the block device.
configuration()
{
	cat <<-END
	target: { state_dir: /var/lib/rdtarget }
	control: { socket: /run/rdtarget/control.sock }
	http: {}
	listeners:
	  - { address: $user4, port: 4420, provider: $provider }
	  - { address: $user4, port: 4421, transport: tcp }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, backend: file, path: disk1.img, create: true, size: 16MiB }
	      - { nsid: 2, backend: block, path: /dev/nullb0 }
	END
	[ $# -eq 0 ] || printf '      - %s\n' "$@"
}

service_tells()
{
	systemctl status --no-pager rdtarget || true
	journalctl --no-pager --unit rdtarget | tail -n 20
}

service_is()
{
	[ "$(systemctl show -P "$1" rdtarget)" = "$2" ]
}

service_starts()
{
	t_network
	t_rdma_for_lost_connections
	modprobe nvme-rdma
	t_memory_disk nullb0 16
	# What docs/operate.md has udev do.
	chgrp rdtarget /dev/nullb0
	chmod 0660 /dev/nullb0
	configuration >"$config"
	systemctl start rdtarget || { service_tells && t_fail "it does not start"; }
	service_is ActiveState active
	service_is User rdtarget
}

# It has no right that the unit does not give it.
it_is_confined()
{
	local pid

	pid=$(systemctl show -P MainPID rdtarget)
	cat "/proc/$pid/status" >/run/t/status
	t_expect "^Uid:.$(id -u rdtarget)\b" /run/t/status
	t_expect '^CapEff:.0+$' /run/t/status
	t_expect '^CapBnd:.0+$' /run/t/status
	t_expect '^NoNewPrivs:.1$' /run/t/status
	t_expect '^Seccomp:.2$' /run/t/status
	# The file system, as the process sees it.
	touch /root/hidden
	t_refuted nsenter -t "$pid" -m test -e /root/hidden
	t_refuted nsenter -t "$pid" -m touch /etc/never
	nsenter -t "$pid" -m touch /var/lib/rdtarget/ever
}

# Through the device, as the kernel's list of queue pairs says.
serves_both()
{
	local nsid

	connect_kernel "$user4" 4420 --reconnect-delay=1 --ctrl-loss-tmo=600
	rdma res show qp link "${device_type}1" >/run/t/qps
	t_expect 'comm reactor-' /run/t/qps
	t_until 100 has_block_device 2
	for nsid in 1 2; do
		verified_io "$(block_device "$nsid")" "${io_options[@]}"
	done
	"$RDCTL" -o json ns >/run/t/ns
	t_expect '"nsid": *2' /run/t/ns
}

# fetch PATH: the answer's body in /run/t/body; a status that is an error ends it with one.
fetch()
{
	python3 -c 'import sys, urllib.request
sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], timeout=100).read())' "$page$1" >/run/t/body
}

it_answers_http()
{
	fetch /
	t_expect '<title>.*rdtarget' /run/t/body
	fetch /status.json
	python3 - "$nqn" <<-'END'
	import json, sys
	with open('/run/t/body') as f:
	    status = json.load(f)
	assert sys.argv[1] in json.dumps(status), status
	END
	fetch /metrics
	t_expect '^rdtarget_io_completed_total\{.*nsid="2".* [1-9][0-9.e+]*$' /run/t/body
	fetch /healthz
}

# The host stays connected and sees the new namespace.
reload_applies()
{
	configuration '{ nsid: 3, backend: memory, size: 4MiB }' >"$config"
	systemctl reload rdtarget
	t_until 150 has_block_device 3
	controller_is live
	service_is NRestarts 0
}

reload_is_refused()
{
	"$RDCTL" -o json status >/run/t/status
	grep -q 'backend: found' /run/t/status
}

# It is refused as a whole, the service goes on, and the next reload is good.
reload_of_a_broken_file_fails()
{
	configuration '{ nsid: 3, backend: nothing }' >"$config"
	t_refuted systemctl reload rdtarget
	service_is ActiveState active
	has_block_device 3
	t_until 100 reload_is_refused
	configuration '{ nsid: 3, backend: memory, size: 4MiB }' >"$config"
	systemctl reload rdtarget
	service_is NRestarts 0
}

main_pid_is_not()
{
	! service_is MainPID "$1"
}

# An emulated machine may be too slow for the time in which the next process opens its storage: then nothing has happened.
upgraded()
{
	"$RDCTL" upgrade >/run/t/upgrade 2>&1
}

# The next process opens what the sandbox allows, and systemd takes it for the service's. Connections of an RDMA device do not
# move: the host connects again, and what is in memory is still there.
upgrade_under_io()
{
	local pid memory

	memory=$(block_device 3)
	dd if=/dev/urandom of=/run/t/random bs=1M count=4 status=none
	dd if=/run/t/random of="$memory" bs=1M oflag=direct status=none
	device=$(block_device 1)
	io_start "${io_options[@]}"
	io_is_on 100
	pid=$(systemctl show -P MainPID rdtarget)
	t_until 200 upgraded || { cat /run/t/upgrade && service_tells && t_fail "rdctl upgrade"; }
	t_expect 'process [0-9]+, has taken over: ' /run/t/upgrade
	t_until 60 main_pid_is_not "$pid"
	t_until 60 test ! -d "/proc/$pid"
	service_is ActiveState active
	service_is NRestarts 0
	grep -qx 'CapEff:.0*' "/proc/$(systemctl show -P MainPID rdtarget)/status"
	t_until 150 controller_is live
	io_is_on 100
	io_stop "$io_size"
	holds_the_last_pass /var/lib/rdtarget/disk1.img "$io_size" "${io_options[@]}"
	cmp /run/t/random <(dd if="$memory" bs=1M iflag=direct status=none)
	fetch /healthz
}

# What the kernel says of the devices.
kernel_said()
{
	dmesg | grep -E 'nvme|I/O error' | grep -v 'long keepalive RTT'
}

connect_by_tcp()
{
	disconnect_kernel
	modprobe nvme-tcp
	# Pages of a large one that nvme-tcp hands on stop 6.1: test_kernel_host_tcp.sh.
	echo never >/sys/kernel/mm/transparent_hugepage/enabled
	# A process starts slowly in an emulated machine.
	timeout 100 nvme connect -t tcp -a "$user4" -s 4421 -n $nqn --nr-io-queues=2 --reconnect-delay=1 --ctrl-loss-tmo=600 \
		--keep-alive-tmo=60
	t_until 30 has_block_device 3
	device=$(block_device 1)
	ctrl=/dev/$(controller)
}

# Five times: another process serves the same connections, and what is in memory. Its store is empty then.
restarts_under_io()
{
	local pid memory

	connect_by_tcp
	memory=$(block_device 3)
	dd if=/run/t/random of="$memory" bs=1M oflag=direct status=none
	io_start "${io_options[@]}"
	io_is_on 100
	kernel_said >/run/t/said
	for _ in {1..5}; do
		pid=$(systemctl show -P MainPID rdtarget)
		systemctl restart rdtarget
		service_is ActiveState active
		main_pid_is_not "$pid"
		service_is NFileDescriptorStore 0
		io_is_on 100
	done
	io_stop "$io_size"
	kernel_said | diff /run/t/said - || t_fail "the kernel said the above"
	journalctl --no-pager --unit rdtarget >/run/t/journal
	[ "$(grep -c "took over from process .* by the service manager's store" /run/t/journal)" -eq 5 ] ||
		t_fail "not each restart took the connections over: $(tail -n 40 /run/t/journal)"
	sed -n "s/.*manager's store: .* rested for/note: connections rested for/p" /run/t/journal
	service_is NRestarts 0
	holds_the_last_pass /var/lib/rdtarget/disk1.img "$io_size" "${io_options[@]}"
	cmp /run/t/random <(dd if="$memory" bs=1M iflag=direct status=none)
}

# A stop drains, as SIGTERM does, and stores nothing; the host connects again to the next start.
stop_under_io()
{
	device=$(block_device 1)
	io_start "${io_options[@]}"
	io_is_on 100
	systemctl stop rdtarget
	service_is Result success
	journalctl --no-pager --unit rdtarget >/run/t/journal
	t_expect 'Terminated: draining' /run/t/journal
	service_is NFileDescriptorStore 0
	systemctl start rdtarget
	t_until 150 controller_is live
	io_is_on 100
	io_stop "$io_size"
	holds_the_last_pass /var/lib/rdtarget/disk1.img "$io_size" "${io_options[@]}"
	# The host of the cases below is nvme-rdma's.
	connect_kernel "$user4" 4420 --reconnect-delay=1 --ctrl-loss-tmo=600
}

restarted()
{
	service_is NRestarts 1 && service_is ActiveState active
}

# A process that stands still feeds no watchdog. The host's I/O goes on when systemd has started another one.
watchdog_restarts_it()
{
	local pid

	mkdir -p /run/systemd/system/rdtarget.service.d
	printf '[Service]\nWatchdogSec=20\nRestartSec=100ms\n' >/run/systemd/system/rdtarget.service.d/quick.conf
	systemctl daemon-reload
	systemctl restart rdtarget
	t_until 150 controller_is live
	service_is WatchdogUSec 20s
	device=$(block_device 1)
	io_start "${io_options[@]}"
	io_is_on 200
	pid=$(systemctl show -P MainPID rdtarget)
	kill -STOP "$pid"
	t_until 120 restarted
	service_is MainPID "$pid" && t_fail "it is the same process"
	journalctl --no-pager --unit rdtarget >/run/t/journal
	t_expect 'Watchdog timeout' /run/t/journal
	t_until 150 controller_is live
	io_is_on 200
	io_stop "$io_size"
	disconnect_kernel
	holds_the_last_pass /var/lib/rdtarget/disk1.img "$io_size" "${io_options[@]}"
}

stops_and_leaves_nothing()
{
	systemctl stop rdtarget
	service_is Result success
	service_is ActiveState inactive
	rdma res show qp link "${device_type}1" >/run/t/qps
	! grep 'comm reactor-' /run/t/qps || t_fail "queue pairs are left"
	[ ! -e /run/rdtarget ] || t_fail "/run/rdtarget is left"
}

if t_guest; then
	t_first_case "the service is installed" install_service
	t_case "systemd-analyze rates the sandbox as safe" exposure_is_low
	t_first_case "systemd starts the service" service_starts
	t_case "the process is confined" it_is_confined
	t_case "a file and a block device are served through an RDMA device" serves_both
	t_case "status page, metrics and probes answer" it_answers_http
	t_case "a reload applies a changed configuration under a host" reload_applies
	t_case "a reload of a broken file fails, and changes nothing" reload_of_a_broken_file_fails
	t_case "rdctl upgrade under I/O: systemd supervises the next process, the host reconnects" upgrade_under_io
	t_case "systemctl restart, five times, under I/O over NVMe/TCP: the kernel says nothing" restarts_under_io
	t_case "systemctl stop under I/O drains, and the host reconnects after a start" stop_under_io
	t_case "the watchdog kills it, and systemd restarts it, under I/O" watchdog_restarts_it
	t_case "systemd stops it, and nothing is left behind" stops_and_leaves_nothing
	[ "$t_failed" -eq 0 ] || service_tells 2>&1 | sed 's/^/# /'
	t_guest_done
fi

t_dmesg_case "$lost_connections"
t_done

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdinit-attach@.service and the rules of udev as they are installed, run by systemd and udevd, on the kernel 6.12 (see
# test_attach.sh): the device has its name, a file system on it is mounted after the service and unmounted before it, and a
# killed process is followed by the next one under verified I/O.
# Interop: none
if ! [ -x /lib/systemd/systemd ] || ! [ -x /lib/systemd/systemd-udevd ]; then
	echo "1..0 # SKIP systemd or udev is not installed"
	exit 0
fi
[ -f "${ATTACH_UNIT:-}" ] || {
	echo "Bail out! ATTACH_UNIT has to name the unit that meson has made, as meson test does"
	exit 1
}
t_programs=(RDTARGET RDINIT)
t_machine=(--systemd)
if [ -z "${RD_VM_KERNEL:-}" ] && grep -qsx 'VERSION_ID="12"' /etc/os-release; then
	export RD_VM_KERNEL=linux-image-6.12-amd64
fi
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly uuid=5c1f0e3a-7b52-4d0e-9f0a-2d6d3f5f7a10 service=rdinit-attach@disk1.service
readonly tls_uuid=5c1f0e3a-7b52-4d0e-9f0a-2d6d3f5f7a12 tls_service=rdinit-attach@disk2.service
readonly tls_host=nqn.2024-01.io.rdnvme:vm-host tls_key=/usr/local/etc/rdinit/disk2.tls.key
readonly link=/dev/disk/by-id/rdinit-$uuid mount=/run/mount1 mount_unit=run-mount1.mount
readonly io_options=(--rw=randwrite --iodepth=16 --size=4m --bssplit=4k/50:64k/20:256k/30)

# As meson install does it, with the prefix of the unit. The program finds its library from where it was built.
install_service()
{
	grep -qx systemd /proc/1/comm
	grep -q '^ExecStart=/usr/local/bin/rdinit attach ' "$ATTACH_UNIT"
	mkdir -p /usr/local/bin /usr/local/etc/rdinit/attach.d /run/udev/rules.d
	ln -s "$RDINIT" /usr/local/bin/rdinit
	cp "$ATTACH_UNIT" /etc/systemd/system/rdinit-attach@.service
	cp "$t_dir/../../configs/systemd/61-rdinit.rules" /run/udev/rules.d/
	cat >/usr/local/etc/rdinit/attach.d/disk1 <<-END
	URIS=nvme+tcp://$user4:4420/$nqn/1 nvme+tcp://$user4:4421/$nqn/1
	OPTIONS=--ctrl-loss-tmo=-1 --keep-alive-tmo=2 --reconnect-delay=1
	END
	(umask 077 && "$RDINIT" gen-tls-key >"$tls_key" && "$RDINIT" gen-tls-key >/run/t/wrong.key)
	cp "$tls_key" /run/t/tls.key
	cat >/usr/local/etc/rdinit/attach.d/disk2 <<-END
	URIS=nvme+tcp://$user4:4422/$nqn:tls/1
	OPTIONS=--ctrl-loss-tmo=-1 --keep-alive-tmo=2 --reconnect-delay=1 --hostnqn=$tls_host --tls-key-file=$tls_key
	END
	/lib/systemd/systemd-udevd --daemon
	systemctl daemon-reload
	t_network
	cat >/run/t/target.yaml <<-END
	target: { reactors: 1 }
	listeners:
	  - { address: $user4, port: 4420, transport: tcp }
	  - { address: $user4, port: 4421, transport: tcp }
	  - { address: $user4, port: 4422, transport: tcp, tls: required }
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    namespaces:
	      - { nsid: 1, uuid: $uuid, backend: file, path: /run/disk, create: true, size: 64MiB }
	  - nqn: $nqn:tls
	    hosts: [$tls_host]
	    host_auth:
	      - { host: $tls_host, tls_key_file: /run/t/tls.key }
	    namespaces:
	      - { nsid: 1, uuid: $tls_uuid, backend: memory, size: 16MiB }
	END
	t_target_start /run/t/target.yaml
}

no_link()
{
	[ ! -e "$link" ]
}

name_stays()
{
	systemctl start "$service" || {
		systemctl status --no-pager "$service"
		return 1
	}
	t_until 30 test -b "$link"
	# An MBR with one partition, 1 MiB behind the first MiB.
	printf '\0\0\0\0\203\0\0\0\0\010\0\0\0\010\0\0' | dd of="$link" bs=1 seek=446 status=none
	printf '\125\252' | dd of="$link" bs=1 seek=510 status=none
	blockdev --rereadpt "$link"
	t_until 30 test -b "$link-part1"
	[ "$(blockdev --getsize64 "$link-part1")" -eq $((1 << 20)) ]
	wipefs -qa "$link"
	systemctl stop "$service"
	t_until 30 no_link
	[ "$(systemctl is-failed "$service")" = inactive ]
}

# The mount needs the service; neither the network nor the service ends before it.
mounted_in_order()
{
	local dev

	systemctl start "$service"
	t_until 30 test -b "$link"
	mkfs.ext4 -qF "$link"
	mkdir -p "$mount"
	echo "$link $mount ext4 _netdev,x-systemd.requires=$service 0 0" >>/etc/fstab
	systemctl daemon-reload
	systemctl stop "$service"
	t_until 30 no_link
	for order in "$(systemctl show -P After "$mount_unit")" "$(systemctl show -P Requires "$mount_unit")"; do
		[[ " $order " == *" $service "* ]] || t_fail "$mount_unit is not ordered behind $service: $order"
	done
	[[ " $(systemctl show -P Before "$service") " == *" remote-fs-pre.target "* ]]
	systemctl start "$mount_unit"
	findmnt "$mount"
	dd if=/dev/urandom of="$mount/random" bs=1M count=8 status=none
	(cd "$mount" && sha256sum random >/run/t/sums)
	# What is in the page cache is on the namespace when the service has stopped.
	systemctl stop "$service"
	t_refuted findmnt "$mount"
	t_until 30 no_link
	systemctl start "$mount_unit"
	(cd "$mount" && sha256sum --quiet -c /run/t/sums)
	systemctl stop "$service"
}

restarts()
{
	systemctl show -P NRestarts "$service"
}

restarted()
{
	[ "$(restarts)" -gt "$1" ] && [ "$(systemctl is-active "$service")" = active ]
}

writes_done()
{
	local fields

	read -ra fields <"/sys/block/$(basename "$(realpath "$device")")/stat"
	echo "${fields[4]}"
}

killed()
{
	local before _

	device=$link
	systemctl start "$service"
	t_until 30 test -b "$link"
	io_start "${io_options[@]}"
	for _ in 1 2; do
		io_is_on 100
		before=$(restarts)
		systemctl kill --kill-whom=main -s KILL "$service"
		t_until 60 restarted "$before"
		io_is_on 100
	done
	io_stop $((4 << 20))
	systemctl stop "$service"
	t_until 30 no_link
}

tls_link_is_there()
{
	[ -b "$(realpath "/dev/disk/by-id/rdinit-$tls_uuid")" ]
}

# The key is in the file of attach.d, for the first process and for the next one; another key is refused in words.
by_tls()
{
	local before

	systemctl start "$tls_service"
	t_until 30 tls_link_is_there
	device=/dev/disk/by-id/rdinit-$tls_uuid
	dd if=/dev/urandom of=/run/t/data bs=1M count=2 status=none
	dd if=/run/t/data of="$device" bs=1M oflag=direct status=none
	before=$(systemctl show -P NRestarts "$tls_service")
	systemctl kill --kill-whom=main -s KILL "$tls_service"
	t_until 60 tls_restarted "$before"
	dd if="$device" bs=1M count=2 iflag=direct status=none | cmp - /run/t/data
	systemctl stop "$tls_service"
	cp /run/t/wrong.key "$tls_key"
	t_refuted systemctl start "$tls_service"
	t_until 60 t_has 'refused TLS from .*: the identity "NVMe1R01 .*" was made from another key' /run/t/target.log
	journalctl --no-pager -u "$tls_service" >/run/t/journal.log
	t_expect 'TLS: the target does not know the identity "NVMe1R01' /run/t/journal.log
	cp /run/t/tls.key "$tls_key"
	systemctl reset-failed "$tls_service"
	systemctl start "$tls_service"
	t_until 30 tls_link_is_there
	systemctl stop "$tls_service"
}

tls_restarted()
{
	[ "$(systemctl show -P NRestarts "$tls_service")" -gt "$1" ] && [ "$(systemctl is-active "$tls_service")" = active ]
}

if t_guest; then
	t_first_case "unit and rules are installed" install_service
	t_case "the device and its partition have names that stay" name_stays
	t_case "mounted behind the service, unmounted before it" mounted_in_order
	t_case "killed and started again under verified I/O, twice" killed
	t_case "TLS with a key that attach.d names" by_tls
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_guest_done
fi

t_dmesg_case
t_done

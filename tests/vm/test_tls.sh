#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2016,SC2034,SC2154,SC2317 # functions are called by name
# TLS 1.3 with the Linux kernel, in both directions: nvme-tcp on rdtarget, rdinit on nvmet-tcp. The kernel needs TLS, which
# Debian 12's default has not, but its linux-image-6.12-amd64. Its handshakes are those of tlshd, and its keys those of
# nvme-cli, which both are Debian 13's: where this machine runs another version, they are those of a root of Debian 13
# (tests/vm/README.md). docs/interop.md is about the default:
# Interop: none
t_programs=(RDTARGET RDINIT)
if [ -z "${RD_VM_KERNEL:-}" ] && grep -qsx 'VERSION_ID="12"' /etc/os-release; then
	export RD_VM_KERNEL=linux-image-6.12-amd64
fi
if [ -z "${RD_VM_GUEST:-}${RD_VM_TLS_ROOT:-}" ] && [ ! -x /usr/sbin/tlshd ]; then
	if ! RD_VM_TLS_ROOT=$("$(dirname "$0")/tls_root"); then
		echo "1..0 # SKIP this machine has no tlshd; $RD_VM_TLS_ROOT"
		exit 0
	fi
	export RD_VM_TLS_ROOT
fi
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

readonly hostnqn=nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6
readonly nvmet=/sys/kernel/config/nvmet
# Debian 13's root; empty: that of this machine.
readonly root=${RD_VM_TLS_ROOT:-}
# The hash of the key, and the version of the identity. tlshd 1.0 can use keys with SHA-256 only: GnuTLS makes the binder of
# each external key with that hash.
readonly forms=("1 1" "1 0")

# A program of Debian 13. meson has malloc() fill memory for the sake of our programs (MALLOC_PERTURB_), and tlshd 1.0 does
# not start with that: it loses the list of its ciphers.
debian13()
{
	if [ -n "$root" ]; then
		chroot "$root" env -u MALLOC_PERTURB_ PATH=/usr/sbin:/usr/bin "$@"
	else
		env -u MALLOC_PERTURB_ "$@"
	fi
}

# tls_stat NAME: from the kernel's statistics, of the network namespace of our programs.
tls_stat()
{
	in_user awk -v name="$1" '$1 == name { print $2 }' /proc/net/tls_stat
}

# by_kernel COMMAND...: meanwhile the kernel begins to encrypt, and to decrypt, for one of our programs.
by_kernel()
{
	local name
	local -A before

	for name in TlsTxSw TlsRxSw TlsDecryptError; do
		before[$name]=$(tls_stat "$name")
	done
	"$@"
	for name in TlsTxSw TlsRxSw; do
		[ "$(tls_stat "$name")" -gt "${before[$name]}" ] || t_fail "$name has remained ${before[$name]}"
	done
	[ "$(tls_stat TlsDecryptError)" -eq "${before[TlsDecryptError]}" ] || t_fail "records could not be decrypted"
}

# It has said its name before it knows whether it can start; then it opens a socket for what the kernel asks.
tlshd_is_ready()
{
	local pid

	pid=$(pidof -s tlshd) && find "/proc/$pid/fd" -lname 'socket:*' | grep -q .
}

kernel_has_tls()
{
	grep -q tls /dev/nvme-fabrics && [ -e "$nvmet/ports/99/addr_tsas" ]
}

modules()
{
	modprobe tls
	modprobe nvme-tcp
	modprobe nvmet-tcp
	mkdir "$nvmet/ports/99"
}

start()
{
	local dir form

	rmdir "$nvmet/ports/99"
	t_network
	for dir in dev sys proc run; do
		[ -z "$root" ] || mount --rbind "/$dir" "$root/$dir"
	done
	# The steps are those of docs/hosts.md: first the module, whose keyring tlshd looks up once, when it starts.
	sed 's/^\[authenticate\]$/&\nkeyrings=.nvme/' "$root/etc/tlshd.conf" >/run/t/tlshd.conf
	t_expect '^keyrings=.nvme$' /run/t/tlshd.conf
	debian13 tlshd -s -c /run/t/tlshd.conf >/run/t/tlshd.log 2>&1 &
	t_until 20 tlshd_is_ready || {
		cat /run/t/tlshd.log
		t_fail "tlshd does not start"
	}
	(
		umask 077
		"$RDINIT" gen-tls-key --hmac=1 >/run/t/key1
		"$RDINIT" gen-tls-key --hmac=1 >/run/t/other
	)
	head -c 1000000 /dev/urandom >/run/t/data
	for form in "${forms[@]}"; do
		# shellcheck disable=SC2086
		kernel_key "/run/t/key${form% *}" "${form#* }" "$(subsystem $form)"
	done
	kernel_key /run/t/key1 1 "$nqn:other"
}

# kernel_key FILE VERSION SUBNQN: the kernel knows the key, as nvme-cli derives it, and rdinit names its identity.
kernel_key()
{
	local identity

	debian13 timeout 100 nvme check-tls-key --keydata="$(cat "$1")" --hostnqn="$hostnqn" --subsysnqn="$3" --identity="$2" --insert \
		--keyfile=/run/t/tls-keys
	identity=$("$RDINIT" check-tls-key --key-file="$1" --hostnqn="$hostnqn" --subsysnqn="$3" --identity="$2" --compat |
		sed -n 's/^Its identity: //p')
	grep -qF "psk       $identity: " /proc/keys || t_fail "no key has that identity: $(grep NVMe /proc/keys)"
}

# subsystem HASH VERSION: its NQN.
subsystem()
{
	echo "$nqn:$1:$2"
}

# ---- the kernel as target ----

nvmet_start()
{
	local form subnqn port=$nvmet/ports/1

	t_memory_disk nullb0 64
	mkdir "$port"
	echo tcp >"$port/addr_trtype"
	echo ipv4 >"$port/addr_adrfam"
	echo "$kernel4" >"$port/addr_traddr"
	echo 4420 >"$port/addr_trsvcid"
	echo tls1.3 >"$port/addr_tsas"
	for form in "${forms[@]}"; do
		# shellcheck disable=SC2086
		subnqn=$(subsystem $form)
		mkdir -p "$nvmet/subsystems/$subnqn/namespaces/1"
		echo 1 >"$nvmet/subsystems/$subnqn/attr_allow_any_host"
		echo /dev/nullb0 >"$nvmet/subsystems/$subnqn/namespaces/1/device_path"
		echo 1 >"$nvmet/subsystems/$subnqn/namespaces/1/enable"
		ln -s "$nvmet/subsystems/$subnqn" "$port/subsystems/$subnqn"
	done
}

# rdinit_on_nvmet VERB SUBNQN OPTION...
rdinit_on_nvmet()
{
	local verb=$1 subnqn=$2

	shift 2
	in_user timeout 100 "$RDINIT" "$verb" "nvme+tcp://$kernel4/$subnqn/1" --hostnqn="$hostnqn" "$@"
}

# linux_target HASH VERSION
linux_target()
{
	local subnqn identity

	subnqn=$(subsystem "$1" "$2")
	rdinit_on_nvmet connect-test "$subnqn" --tls-key-file="/run/t/key$1" >/run/t/said
	cat /run/t/said
	t_expect "TLS identity: NVMe$2R0$1 $hostnqn $subnqn" /run/t/said
	t_expect 'encryption by the kernel' /run/t/said
	rdinit_on_nvmet write "$subnqn" --data /run/t/data --tls-key-file="/run/t/key$1"
	rdinit_on_nvmet read "$subnqn" --data-size 1000000 --data /run/t/back --tls-key-file="/run/t/key$1"
	cmp /run/t/data /run/t/back
}

linux_target_by_kernel()
{
	RDINIT=$(newer "$RDINIT")
	by_kernel linux_target 1 1
	t_expect 'encryption by the kernel, decryption by the kernel' /run/t/said
}

linux_target_refuses()
{
	local subnqn

	subnqn=$(subsystem 1 1)
	t_refuted rdinit_on_nvmet id-ctrl "$subnqn" --tls-key-file=/run/t/other 2>/run/t/said
	cat /run/t/said
	t_expect 'TLS: the target .*; tried were the identities NVMe1R01, NVMe0R01' /run/t/said
	t_refuted rdinit_on_nvmet id-ctrl "$subnqn" 2>/run/t/said
	cat /run/t/said
}

# ---- the kernel as host ----

# One subsystem for each form, and one for which rdtarget has another key.
configuration()
{
	local form subnqn

	cat <<-END
	listeners:
	  - { address: $user4, port: 4420, transport: tcp, tls: required }
	subsystems:
	END
	for form in "${forms[@]}" other; do
		subnqn=$nqn:other
		# shellcheck disable=SC2086
		[ "$form" = other ] || subnqn=$(subsystem $form)
		[ "$form" = other ] || form=key${form% *}
		cat <<-END
		  - nqn: $subnqn
		    hosts: [$hostnqn]
		    host_auth:
		      - { host: $hostnqn, tls_key_file: /run/t/$form }
		    namespaces:
		      - { nsid: 1, backend: memory, size: 16MiB }
		END
	done
}

rdtarget_start()
{
	configuration >/run/t/target.yaml
	t_target_start /run/t/target.yaml
}

# connect_host SUBNQN OPTION...
connect_host()
{
	local subnqn=$1

	shift
	debian13 timeout 100 nvme connect -t tcp -a "$user4" -s 4420 -n "$subnqn" -q "$hostnqn" \
		--hostid="${hostnqn##*:}" --nr-io-queues=2 "$@"
}

# linux_host HASH VERSION
linux_host()
{
	local subnqn

	subnqn=$(subsystem "$1" "$2")
	connect_host "$subnqn" --tls
	t_until 30 has_block_device 1 "$subnqn"
	verified_io "$(block_device 1 "$subnqn")" --rw=randrw --size=2m --bssplit=4k/60:64k/40 --iodepth=16
	debian13 timeout 100 nvme disconnect -n "$subnqn"
	t_until 30 no_controller "$subnqn"
}

# A host that leaves, as nvme-tcp does it: without a close_notify, and with a reset of what is still sent to it.
linux_host_comes_and_goes()
{
	local subnqn i

	subnqn=$(subsystem 1 1)
	for ((i = 0; i < 5; i++)); do
		connect_host "$subnqn" --tls
		t_until 30 has_block_device 1 "$subnqn"
		debian13 timeout 100 nvme disconnect -n "$subnqn"
		t_until 30 no_controller "$subnqn"
	done
}

linux_host_by_kernel()
{
	RDTARGET=$(newer "$RDTARGET")
	t_target_start /run/t/target.yaml newer
	by_kernel linux_host 1 1
	by_kernel linux_host_comes_and_goes
	t_expect 'disconnected: closed by the host' /run/t/newer.log
	t_refuted grep 'disconnected: .*[Pp]ipe' /run/t/newer.log
	t_target_ends_cleanly newer
}

rdtarget_refuses()
{
	t_refuted connect_host "$nqn:other" --tls
	t_refuted connect_host "$(subsystem 1 1)"
	tail -n 20 /run/t/target.log
	t_expect 'identity "NVMe1R01 .*:other' /run/t/target.log
	t_expect 'plain NVMe/TCP' /run/t/target.log
}

if t_guest; then
	t_first_case "the kernel's modules" modules
	if ! kernel_has_tls; then
		echo "ok 2 - TLS # SKIP the kernel $(uname -r) has no TLS for NVMe/TCP"
		t_number=2
		t_guest_done skipped
	fi
	t_first_case "tlshd starts" start
	t_first_case "nvmet starts" nvmet_start
	for form in "${forms[@]}"; do
		# shellcheck disable=SC2086
		t_case "rdinit on nvmet: hash ${form% *}, identity of version ${form#* }" linux_target $form
	done
	t_case "rdinit with OpenSSL 3.5 on nvmet: the kernel encrypts and decrypts" linux_target_by_kernel
	t_case "nvmet refuses another key, and no TLS" linux_target_refuses
	t_first_case "rdtarget starts" rdtarget_start
	for form in "${forms[@]}"; do
		# shellcheck disable=SC2086
		t_case "Linux on rdtarget: hash ${form% *}, identity of version ${form#* }" linux_host $form
	done
	t_case "rdtarget refuses another key, and no TLS" rdtarget_refuses
	t_case "SIGTERM ends rdtarget cleanly" t_target_ends_cleanly
	t_case "Linux on rdtarget with OpenSSL 3.5: the kernel encrypts and decrypts" linux_host_by_kernel
	t_guest_done
fi

t_dmesg_case 'nvme nvme[0-9]+: |nvmet: ctrl|nvmet_tcp: |nvme_tcp: queue 0: failed to receive icresp'
t_done

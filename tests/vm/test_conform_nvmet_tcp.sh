#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2016,SC2034,SC2154,SC2317 # functions are called by name
# rdconform on the Linux kernel's target of NVMe/TCP: the differences are exactly those of docs/conformance.md.
# Interop: rdconform -> Linux nvmet-tcp
t_programs=(RDCONFORM)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"
options=(--timeout 8s) # it does not answer much of what is wrong
sections=("Linux 6.1 and 6.12" "Linux 6.1 and 6.12 over TCP")
# shellcheck source=tests/vm/t_conform.sh
. "$t_dir/t_conform.sh"

uri()
{
	echo "nvme+tcp://$kernel4:4420/$nqn/1"
}

nvmet_listens()
{
	ss -ltnH 'sport = :4420' | grep -q .
}

start()
{
	t_network
	modprobe nvmet-tcp
	nvmet_start tcp
}

if t_guest; then
	t_first_case "nvmet starts" start
	for family in fabrics admin io reservation discovery queue tcp host; do
		t_case "$family" differs $family
	done
	t_guest_done
fi

# The kernel's log may complain about what this does to nvmet.
t_dmesg_case 'nvmet|nullb0|attempt to access beyond end of device'
t_done

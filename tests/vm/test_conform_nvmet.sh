#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2016,SC2034,SC2154,SC2317 # functions are called by name
# rdconform on the Linux kernel's target: the differences are exactly those of docs/conformance.md.
# Interop: rdconform -> Linux nvmet-rdma
t_programs=(RDCONFORM)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"
options=(--provider "$provider")
sections=("Linux 6.1 and 6.12")
# shellcheck source=tests/vm/t_conform.sh
. "$t_dir/t_conform.sh"

uri()
{
	echo "nvme+rdma://$kernel4:4420/$nqn/1"
}

nvmet_listens()
{
	rdma res show cm_id | grep -q 'state LISTEN'
}

start()
{
	t_network
	t_rdma
	modprobe nvmet-rdma
	nvmet_start rdma
}

if t_guest; then
	t_first_case "nvmet starts" start
	for family in fabrics admin io reservation discovery queue rdma; do
		t_case "$family" differs $family
	done
	t_guest_done
fi

# The kernel's log may complain about what this does to nvmet, and 6.12's rxe about each error of a work request.
t_dmesg_case 'nvmet|nullb0|attempt to access beyond end of device|siw|rxe[01]: qp#[0-9]+ .*non-flush error status'
t_done

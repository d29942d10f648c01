#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# What the fabric seam promises to the layers above it, kept by the verbs provider: the unit tests of
# common/fabric, on a device.
# Interop: none
t_programs=(TEST_FABRIC)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

start()
{
	t_network
	t_rdma
}

if t_guest; then
	t_first_case "a device" start
	status=0
	RD_TEST_FABRIC=$provider RD_TEST_ADDR=$kernel4 RD_TEST_ADDR6=$kernel6 RD_TEST_PEER=$user4 RD_TEST_PEER6=$user6 \
		"$TEST_FABRIC" >/run/t/fabric.tap 2>/run/t/fabric.err || status=$?
	t_take_tap /run/t/fabric.tap /run/t/fabric.err "$status"
	t_guest_done
fi

# Memory goes away while the other side still uses it ("either side leaves at every state").
# 6.12's rxe reports each error of a work request.
t_dmesg_case 'siw: got TERMINATE. layer 0, type 1, code 0|rxe[01]: qp#[0-9]+ .*non-flush error status'
t_done

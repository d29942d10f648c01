#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2119,SC2120,SC2034,SC2154,SC2317 # functions are called by name
# rdconform on rdtarget: over RDMA devices, or (iwarp) rdconform on the device and rdtarget without one.
# Interop: rdconform -> rdtarget
t_programs=(RDTARGET RDCONFORM)
# shellcheck source=tests/vm/t_vm.sh
. "$(dirname "$0")/t_vm.sh"

start()
{
	t_network
	t_rdma
	modprobe rdma_ucm
	t_until 10 test -c /dev/infiniband/rdma_cm
	mkdir /run/t/state
	cat >/run/t/conform.yaml <<-END
		target:
		  state_dir: /run/t/state
		  buffer_memory: 32MiB
		  sgl_descriptors: 16
		  reactors: 1
		listeners:
		  - address: $user4
		    port: 4420
		    provider: $provider
		    ana:
		      - group: 2
		        state: non-optimized
		subsystems:
		  - nqn: $nqn
		    allow_any_host: true
		    namespaces:
		      - nsid: 1
		        backend: memory
		        size: 40MiB
		      - nsid: 5
		        backend: memory
		        size: 1MiB
		        ana_group: 2
	END
	t_target_start /run/t/conform.yaml
}

# conforms FAMILY
conforms()
{
	timeout 500 "$RDCONFORM" "nvme+rdma://$user4:4420/$nqn/1" -t "$1" --dataloss --provider verbs \
		--timeout 30s >"/run/t/$1.out" 2>&1 || {
		grep -A 2 -e ': FAILED$' -e '^rdconform: ' "/run/t/$1.out"
		t_fail "rdtarget does not conform"
	}
	sed -n 's/^[0-9]* tests: /note: &/p' "/run/t/$1.out"
}

if t_guest; then
	t_first_case "rdtarget starts" start
	for family in fabrics admin io reservation discovery queue rdma abuse; do
		t_case "$family" conforms $family
	done
	t_case "rdtarget ends cleanly" t_target_ends_cleanly
	t_guest_done
fi

# What the tests of keys, lengths and unknown memory cause on siw's connections.
t_dmesg_case 'siw: got TERMINATE|rxe0|rxe1'
t_done

# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# A target on a free port of the loopback, for the tests of the packages.

nqn=nqn.2024-01.io.rdnvme:package
work=$(mktemp -d)
daemon=

finish()
{
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT

# start_target: sets daemon and uri. It returns when the target serves; one that ends instead fails the test.
start_target()
{
	cat >"$work/rdtarget.yaml" <<END
listeners:
  - {address: 127.0.0.1, port: 0, provider: iwarp}
subsystems:
  - nqn: $nqn
    allow_any_host: true
    namespaces:
      - {nsid: 1, backend: memory, size: 64MiB}
END
	mkfifo "$work/ready"
	rdtarget --ready-fd 3 -c "$work/rdtarget.yaml" 3>"$work/ready" &
	daemon=$!
	read -r _ port <"$work/ready"
	uri=nvme+rdma://127.0.0.1:$port/$nqn
}

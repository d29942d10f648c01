# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Shared by tools/quickstart, tools/check, tools/package and tools/bench: packages, building. Source it from the top of the tree.

# shellcheck disable=SC2034 # used by those that source this
{
packages_build=(gcc libc6-dev meson ninja-build pkg-config libibverbs-dev librdmacm-dev liburing-dev
	libisal-dev libssl-dev libnvme-dev libyaml-dev libjansson-dev libmicrohttpd-dev uuid-dev)
packages_test=(libcunit1-dev python3 python3-cffi libpython3-dev mypy openssl gnutls-bin g++ clang-format tshark groff-base man-db
	shellcheck git fio dpkg-dev python3-matplotlib iproute2 e2fsprogs systemd
	nbdkit nbdkit-plugin-dev libnbd-bin libnbd-dev qemu-utils)
# For tools/check --all: other compilers and checkers, a cache for the builds, and a browser for the status page.
packages_check=(clang libclang-rt-dev valgrind ccache prometheus chromium chromium-driver)
# Likewise: the libraries of the module for Ceph RBD images, and a cluster for its tests.
packages_cluster=(librbd-dev librados-dev ceph-mon ceph-osd ceph-common)
# For tools/package: what configs/packaging/debian/control asks for beyond the lists above, and what looks at the result.
packages_package=(build-essential debhelper dh-python python3-cffi libpython3-dev dpkg-dev libcunit1-dev nbdkit-plugin-dev librbd-dev librados-dev libnbd-dev lintian)
# For tools/coverage.
packages_coverage=(gcovr)
# For tests/debian, on the machine that makes the root and not in it.
packages_debian=(mmdebstrap uidmap util-linux)
# For tests/debian/cross.
packages_cross=(mmdebstrap gcc-s390x-linux-gnu gcc-aarch64-linux-gnu qemu-user)
# For tools/bench; tgt is unpacked by it, not installed, since its package starts a daemon.
packages_bench=(fio dpkg-dev nbdkit libiscsi-bin libiscsi-dev python3-matplotlib util-linux)
}

step()
{
	printf '\n==> %s\n' "$*"
}

warn()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die()
{
	warn "$@"
	exit 1
}

is_debian_like()
{
	command -v apt-get >/dev/null && command -v dpkg-query >/dev/null
}

# missing_packages PACKAGE...: those that are not installed, one on each line.
missing_packages()
{
	local package

	for package in "$@"; do
		dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null |
			grep -q '^install ok installed$' || echo "$package"
	done
}

# need_packages PURPOSE PACKAGE...: install what is missing, with sudo when not root.
need_packages()
{
	local purpose=$1 missing
	local -a as_root=()

	shift
	if ! is_debian_like; then
		warn "not a Debian-like system, so nothing is installed; $purpose needs the equivalents of:"
		warn "  $*"
		return 0
	fi
	mapfile -t missing < <(missing_packages "$@")
	[ ${#missing[@]} -gt 0 ] || return 0
	step "Installing what is missing to $purpose: ${missing[*]}"
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null ||
			die "no sudo here; as root, run: apt-get install ${missing[*]}"
		as_root=(sudo)
		echo "(sudo is used for apt-get and for nothing else)"
	fi
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get -q install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"
}

# archive_tree: this tree, as an archive on standard output, without what was built in it. top is its folder.
archive_tree()
{
	# shellcheck disable=SC2154 # top
	tar -C "$top" --exclude='./build*' --exclude=./.git --exclude=__pycache__ -cf - .
}

# configure DIR OPTION...: set up a build directory, or bring one up to date. Meson's words are shown when it fails.
configure()
{
	local dir=$1 log

	shift
	mkdir -p "$dir"
	log=$dir/setup.log
	if [ -f "$dir/build.ninja" ]; then
		meson setup --reconfigure "$dir" "$@" >"$log" 2>&1 && return 0
		# Made by another meson, or on another machine.
		meson setup --wipe "$dir" "$@" >"$log" 2>&1 && return 0
	else
		meson setup "$dir" "$@" >"$log" 2>&1 && return 0
	fi
	cat "$log" >&2
	return 1
}

# compile DIR [TARGET...]: everything, or these.
compile()
{
	ninja -C "$@"
}

# test_names DIR: the tests of a build directory, one on each line. Meson prints "rdnvme:SUITE / NAME", newer versions
# "SUITE - rdnvme:NAME".
test_names()
{
	meson test -C "$1" --no-rebuild --list 2>/dev/null | sed 's|^.*rdnvme:||; s|^.* / ||'
}

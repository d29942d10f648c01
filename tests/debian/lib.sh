# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Roots of other versions of Debian and libraries of other architectures, made with mmdebstrap, for run, package and cross,
# which set here, top and suite.
# shellcheck disable=SC2154 # those three

cache=${RD_DEBIAN_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/rdnvme-debian}

# cannot WORD...: ends with the reason; the tree is not at fault, but this machine cannot make such a root.
cannot()
{
	echo "skipped  Debian $suite: $*"
	exit 77
}

check_suite()
{
	[[ $suite =~ ^[a-z][a-z-]*$ ]] || die "\"$suite\" is no name of a version of Debian, such as bookworm, trixie or unstable"
}

# in_namespace COMMAND...: with mounts and processes of its own, which end with it; as root there, or as one of this
# user's subordinate IDs.
in_namespace()
{
	if [ "$(id -u)" -eq 0 ]; then
		unshare --mount --pid --fork --kill-child -- "$@"
	else
		unshare --user --map-root-user --map-auto --mount --pid --fork --kill-child -- "$@"
	fi
}

check_machine()
{
	is_debian_like || cannot "this is not a Debian-like system"
	command -v mmdebstrap >/dev/null || cannot "mmdebstrap is not installed: apt-get install mmdebstrap"
	if [ "$(id -u)" -ne 0 ]; then
		grep -qs "^$(id -un):" /etc/subuid || cannot "/etc/subuid has no IDs for $(id -un), which namespaces need"
	fi
	in_namespace mount -t tmpfs none /mnt 2>/dev/null || cannot "mounting is not allowed here"
}

# find_mirror: sets mirror, the URI of Debian's packages in this machine's sources. What apt knows of a source
# without its lists is its name only.
find_mirror()
{
	local format codename

	# shellcheck disable=SC2016 # those are apt's
	format='$(COMPONENT) $(ORIGIN)/$(LABEL) $(RELEASE) $(REPO_URI)'
	# shellcheck source=/dev/null
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
	mirror=$(apt-get indextargets --format "$format" 'Created-By: Packages' | awk -v codename="$codename" '
		$1 != "main" { next }
		$2 == "Debian/Debian" { print $NF; found = 1; exit }
		!other && $(NF - 1) == codename { other = $NF }
		END { if (!found && other) print other }')
	[ -n "$mirror" ] || cannot "apt has no source here that is Debian's own"
	/usr/lib/apt/apt-helper download-file "${mirror%/}/dists/$suite/InRelease" "$work/InRelease" >"$work/log" 2>&1 ||
		cannot "it cannot be fetched from this machine's source of packages: $(tail -n 1 "$work/log")"
}

# prepare OUTPUT: checks this machine; sets output, a folder without logs of an earlier run, and work, a folder that is
# removed at the end.
prepare()
{
	mkdir -p "$cache" "$1"
	output=$(realpath "$1")
	rm -f "$output"/*.json
	check_machine
	work=$(mktemp -d "$cache/work.XXXXXX")
	# Its content may belong to subordinate IDs.
	trap 'in_namespace rm -rf "$work"' EXIT
}

# keep NAME CONTENT DAYS FUNCTION ARGUMENT...: sets kept, a path in the cache with what "FUNCTION PATH ARGUMENT..." has
# made. The path is reused if CONTENT and this file are unchanged, for at most DAYS.
keep()
{
	local name=$1 content=$2 days=$3 make=$4 sum lock

	shift 4
	sum=$({ echo "$content" && cat "${BASH_SOURCE[0]}"; } | sha256sum | cut -c 1-12)
	kept=$cache/$name.$sum
	exec {lock}>"$cache/lock"
	flock "$lock"
	if [ -z "$(find "$kept" -maxdepth 0 -mtime "-$days" 2>/dev/null)" ]; then
		rm -rf "${cache:?}/$name".*
		find_mirror
		"$make" "$kept.new" "$@" || die "$kept could not be made"
		touch "$kept.new"
		mv "$kept.new" "$kept"
	fi
	exec {lock}>&-
}

# run_mmdebstrap FILE OPTION... -- PACKAGE...: an archive of these packages of Debian, from the mirror.
run_mmdebstrap()
{
	local file=$1 mode=root packages
	local -a options=()

	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	[ "$(id -u)" -eq 0 ] || mode=unshare
	packages=$(IFS=, && echo "$*")
	apt-config dump | grep -Ei '^Acquire::https?::' >"$work/apt.conf" || true
	# A mirror that is not updated will do as well.
	echo 'Acquire::Check-Valid-Until "false";' >>"$work/apt.conf"
	TMPDIR=$work mmdebstrap --mode="$mode" --include="$packages" --format=tar --aptopt="$work/apt.conf" \
		--dpkgopt='path-exclude=/usr/share/doc/*' "${options[@]}" "$suite" "$file" "$mirror"
}

# make_root FILE PACKAGE...: an archive of a root with these packages and what Debian calls essential.
make_root()
{
	local file=$1

	shift
	step "Making a root of Debian $suite: $*"
	run_mmdebstrap "$file" --variant=minbase --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' -- "$@"
}

# prepare_root NAME PACKAGE...: sets root, the archive, kept for the next time. A development version of Debian changes
# every day.
prepare_root()
{
	local name=$1 days=30

	shift
	case $suite in
	unstable | sid | testing) days=1 ;;
	esac
	keep "$name" "$suite $*" "$days" make_root "$@"
	root=$kept
}

# enter_root DIR SCRIPT WHAT: SCRIPT of this folder in a copy of the root in DIR, which has tree.tar, as enter says.
enter_root()
{
	mkdir -p "$cache/fio-$suite"
	in_namespace bash "$here/enter" "$1" "$root" "$output" "$cache/fio-$suite" "$here/$2" "$3"
}

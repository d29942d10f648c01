# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Roots of other versions of Debian, made with mmdebstrap, for run and package, which set suite, cache and work.
# shellcheck disable=SC2154 # those three

# cannot WORD...: nothing is wrong with the tree, but this machine has no such root.
cannot()
{
	echo "skipped  Debian $suite: $*"
	exit 77
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

# make_root FILE PACKAGE...: an archive of a root with these packages and what Debian calls essential.
make_root()
{
	local file=$1 mode=root packages

	shift
	[ "$(id -u)" -eq 0 ] || mode=unshare
	packages=$(IFS=, && echo "$*")
	apt-config dump | grep -Ei '^Acquire::https?::' >"$work/apt.conf" || true
	# A mirror that stands still is as good for this.
	echo 'Acquire::Check-Valid-Until "false";' >>"$work/apt.conf"
	step "Making a root of Debian $suite: $*"
	TMPDIR=$work mmdebstrap --mode="$mode" --variant=minbase --include="$packages" --format=tar \
		--aptopt="$work/apt.conf" --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
		"$suite" "$file.new" "$mirror"
	mv "$file.new" "$file"
}

# prepare_root NAME PACKAGE...: sets root, the archive, kept for the next time. The packages and this file decide whether
# one that is there is right; a development version of Debian changes every day.
prepare_root()
{
	local name=$1 days=30 sum lock

	shift
	case $suite in
	unstable | sid | testing) days=1 ;;
	esac
	sum=$({ echo "$suite $*" && cat "${BASH_SOURCE[0]}"; } | sha256sum | cut -c 1-12)
	root=$cache/$name.$sum.tar
	exec {lock}>"$cache/lock"
	flock "$lock"
	if [ -z "$(find "$root" -mtime "-$days" 2>/dev/null)" ]; then
		rm -f "$cache/$name".*
		find_mirror
		make_root "$root" "$@"
	fi
	exec {lock}>&-
}

# copy_tree: this tree, as an archive, without what was built in it.
copy_tree()
{
	tar -C "$top" --exclude='./build*' --exclude=./.git -cf "$work/tree.tar" .
}

# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # here, top and recipe_dir are the caller's
# The virtual machine's kernel, modules and first file system, made from Debian packages and kept.
# Sourced by run, after tools/lib.sh; kernel_prepare sets kernel_dir.
#
#   KERNEL_DIR/vmlinux     the uncompressed kernel, booted through PVH
#   KERNEL_DIR/modules     /lib/modules/VERSION of the guest, with siw in updates/
#   KERNEL_DIR/initramfs   busybox, init, and the modules that it takes to get to the root
#   KERNEL_DIR/complete    its name is written last: without it the folder is made again

packages_vm=(qemu-system-x86 busybox-static kmod cpio xz-utils gcc make libc6-dev util-linux)
packages_vm_tests=(rdma-core ibverbs-utils nvme-cli fio e2fsprogs dmsetup iproute2 tcpdump tshark)

# In the order in which they are loaded.
initramfs_modules=(virtio virtio_ring virtio_pci virtio_console 9pnet_virtio 9p overlay)

# Not used in a virtual machine without screen and sound, and half of the package.
unwanted_modules=(sound drivers/gpu drivers/media drivers/staging drivers/usb drivers/net/wireless
	drivers/iio drivers/scsi drivers/hwmon drivers/net/ethernet)

progress()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

kernel_metapackage=${RD_VM_KERNEL:-linux-image-amd64}

# The files here that determine the kernel, and its version; other content makes another kernel.
recipe_sum()
{
	local here=$1

	{ cat "$here/kernel.sh" "$here/initramfs-init" && echo "$kernel_metapackage"; } | sha256sum | cut -c 1-12
}

kernel_cache()
{
	echo "${RD_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/rdnvme-vm}"
}

can_install()
{
	[ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# install_for PURPOSE PACKAGE...: need_packages for a test that may run where nothing can be installed.
install_for()
{
	local missing

	missing=$(shift && missing_packages "$@")
	[ -n "$missing" ] || return 0
	if ! can_install; then
		warn "cannot install as this user: ${missing//$'\n'/ }"
		return 77
	fi
	need_packages "$@" >&2
}

# The packages of the newest kernel: image, headers and source have to be of one version.
find_kernel()
{
	kernel_image=$(apt-cache depends "$kernel_metapackage" |
		sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1)
	[ -n "$kernel_image" ] || return 1
	kernel_version=${kernel_image#linux-image-}
	# 6.1 of 6.1.0-37-amd64, as linux-source has it
	kernel_series=$(sed -n 's/^\([0-9]*\.[0-9]*\).*/\1/p' <<<"$kernel_version")
	kernel_package=$(apt-cache policy "$kernel_image" | sed -n 's/^ *Candidate: //p')
	[ -n "$kernel_package" ]
}

install_kernel_sources()
{
	local source have headers=linux-headers-$kernel_version

	source=linux-source-$kernel_series=$kernel_package
	have=$(dpkg-query -W -f='${Version}' "${source%%=*}" 2>/dev/null || true)
	[ "$have" != "$kernel_package" ] || source=""
	have=$(dpkg-query -W -f='${Version}' "$headers" 2>/dev/null || true)
	[ "$have" != "$kernel_package" ] || headers=""
	[ -n "$source$headers" ] || return 0
	progress "installing ${source:+$source }${headers:+$headers=$kernel_package}"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends \
		-o DPkg::Lock::Timeout=300 \
		${source:+"$source"} ${headers:+"$headers=$kernel_package"} >&2
}

fetch_image()
{
	local dir=$1

	mkdir -p "$dir/deb"
	(cd "$dir/deb" && apt-get -q download "$kernel_image=$kernel_package" >&2)
	dpkg-deb -x "$dir"/deb/*.deb "$dir/image"
}

unpack_source()
{
	local dir=$1 tree=linux-source-$kernel_series

	tar -xJf "/usr/src/$tree.tar.xz" -C "$dir" "$tree/drivers/infiniband/sw/siw" \
		"$tree/scripts/extract-vmlinux"
	mv "$dir/$tree/drivers/infiniband/sw/siw" "$dir/siw"
	mv "$dir/$tree/scripts/extract-vmlinux" "$dir/extract-vmlinux"
}

# siw's settings are constants. Tests change them, so they become module parameters.
make_parameters()
{
	local dir=$1 name type

	for name in zcopy_tx try_gso mpa_crc_required mpa_crc_strict peer_to_peer mpa_version; do
		type=bool
		[ $name != mpa_version ] || type=byte
		sed -i -E "s/^const (bool $name\b)/\1/; /^(bool|u_char) $name\b.*;/a module_param($name, $type, 0444);" \
			"$dir/siw_main.c"
		sed -i -E "s/^extern const (bool $name;)/extern \1/" "$dir/siw.h"
		grep -q "^module_param($name," "$dir/siw_main.c" ||
			die "siw_main.c has no $name any more"
	done
	make_send_status "$dir"
	make_keep_listener "$dir"
}

# siw_post_send() returns -ENOTCONN while another thread ends the connection. nvme-rdma (6.1, nvme_rdma_queue_rq) takes
# any error but -EIO for an error of the disk instead of the path, and fails the I/O for good, whatever the target does.
# The parameter lost_send_status names another error, for queue pairs of the kernel; without it siw is unchanged.
make_send_status()
{
	local dir=$1 made

	sed -i '/^int siw_post_send(/,/^}/s/rv = -ENOTCONN;/rv = rdma_is_kernel_res(\&base_qp->res) ? lost_send_status : -ENOTCONN;/' \
		"$dir/siw_verbs.c"
	sed -i '/^module_param(zcopy_tx,/a int lost_send_status = -ENOTCONN;\nmodule_param(lost_send_status, int, 0444);' \
		"$dir/siw_main.c"
	sed -i '/^extern bool zcopy_tx;/a extern int lost_send_status;' "$dir/siw.h"
	made=$(cat "$dir/siw_verbs.c" "$dir/siw_main.c" "$dir/siw.h" | grep -c lost_send_status)
	[ "$made" -eq 5 ] || die "siw is not what it was: $made places with lost_send_status, not 5"
}

# A connection belongs to siw's listener until siw has accepted it. If its peer closes it earlier, siw
# (siw_cm_llp_state_change) takes that for the end of the listener: it closes the listening socket and frees an object
# that siw_destroy_listen() later removes from a list, which leads to a panic. One TCP connection that is closed at once
# is enough. With the parameter keep_listener only such connections end; without it siw is unchanged.
make_keep_listener()
{
	local dir=$1 made

	sed -i -e '/^static void siw_cm_llp_state_change(struct sock \*sk)$/,/^}/s/^\t\tif (cep->qp)$/\t\tif (keep_listener \&\& cep->state == SIW_EPSTATE_LISTENING)\n\t\t\tbreak;\n&/' \
		-e '/^static void siw_accept_newconn/,/^}/s/^\tnew_cep->state = SIW_EPSTATE_AWAIT_MPAREQ;$/&\n\tif (keep_listener \&\& new_s->sk->sk_state != TCP_ESTABLISHED)\n\t\tgoto error;/' \
		"$dir/siw_cm.c"
	sed -i '/^module_param(zcopy_tx,/a bool keep_listener;\nmodule_param(keep_listener, bool, 0444);' "$dir/siw_main.c"
	sed -i '/^extern bool zcopy_tx;/a extern bool keep_listener;' "$dir/siw.h"
	made=$(cat "$dir/siw_cm.c" "$dir/siw_main.c" "$dir/siw.h" | grep -c keep_listener)
	[ "$made" -eq 5 ] || die "siw is not what it was: $made places with keep_listener, not 5"
}

build_siw()
{
	local dir=$1

	make_parameters "$dir/siw"
	make -j"$(nproc)" -C "/usr/src/linux-headers-$kernel_version" M="$dir/siw" CONFIG_RDMA_SIW=m \
		modules >"$dir/siw.log" 2>&1 || {
		cat "$dir/siw.log" >&2
		return 1
	}
}

install_modules()
{
	local dir=$1 made=$2 name

	# In lib, or in usr/lib where these are the same.
	mv "$(find "$dir/image" -path "*/lib/modules/$kernel_version" -prune -print)" "$made/modules"
	for name in "${unwanted_modules[@]}"; do
		rm -rf "$made/modules/kernel/$name"
	done
	mkdir -p "$made/modules/updates"
	cp "$dir/siw/siw.ko" "$made/modules/updates/"
	# depmod requires the usual names above the folder.
	mkdir -p "$dir/base/lib/modules"
	ln -s "$made/modules" "$dir/base/lib/modules/$kernel_version"
	depmod -b "$dir/base" "$kernel_version"
}

# A module and what it needs, in the order of loading.
module_files()
{
	local dir=$1 name

	for name in "${initramfs_modules[@]}"; do
		modprobe -d "$dir/base" -S "$kernel_version" --show-depends "$name"
	done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++'
}

make_initramfs()
{
	local dir=$1 made=$2 root=$1/root file name

	mkdir -p "$root"/{bin,dev,proc,sys,lower,scratch,new,modules}
	cp "$(command -v busybox)" "$root/bin/busybox"
	ln -s busybox "$root/bin/sh"
	install -m 755 "$recipe_dir/initramfs-init" "$root/init"
	module_files "$dir" >"$dir/module-files"
	[ -s "$dir/module-files" ] || return 1
	while read -r file; do
		name=${file##*/}
		name=${name%.xz}
		# busybox may not know compressed ones.
		case $file in
		*.xz) xz -dc "$file" >"$root/modules/$name" ;;
		*) cp "$file" "$root/modules/" ;;
		esac
		echo "/modules/$name" >>"$root/modules/order"
	done <"$dir/module-files"
	(cd "$root" && find . | cpio --quiet -o -H newc) >"$made/initramfs"
}

# make_kernel MADE: everything of kernel_dir, in the folder MADE.
make_kernel()
{
	local made=$1 dir=$1/work

	mkdir -p "$dir"
	progress "1/4 fetching $kernel_image $kernel_package"
	fetch_image "$dir"
	progress "2/4 unpacking"
	unpack_source "$dir"
	bash "$dir/extract-vmlinux" "$dir/image/boot/vmlinuz-$kernel_version" >"$made/vmlinux"
	progress "3/4 building siw for $kernel_version"
	build_siw "$dir"
	progress "4/4 modules and initramfs"
	install_modules "$dir" "$made"
	make_initramfs "$dir" "$made"
	rm -rf "$dir"
	echo "$kernel_version $kernel_package" >"$made/complete"
}

# prepare_locked CACHE SUM
prepare_locked()
{
	local cache=$1 sum=$2 started=$SECONDS

	if ! is_debian_like; then
		warn "not a Debian-like system: no kernel packages to make the machine from"
		return 77
	fi
	progress "preparing the virtual machine's kernel in $cache (once; a minute or two)"
	install_for "make a kernel for tests" "${packages_vm[@]}" || return
	if ! can_install; then
		warn "cannot install kernel sources as this user"
		return 77
	fi
	as_root apt-get -q update >&2
	find_kernel || {
		warn "no kernel $kernel_metapackage among this system's packages"
		return 77
	}
	install_kernel_sources || return 125
	rm -rf "$cache/$sum".*
	kernel_dir=$cache/$sum.$kernel_version
	mkdir -p "$kernel_dir"
	# In a shell of its own: -e has no effect in a function whose status is tested.
	bash -euo pipefail -c '. "$1/tools/lib.sh"; . "$2/kernel.sh"; recipe_dir=$2
		kernel_image=$3 kernel_version=$4 kernel_package=$5 kernel_series=$6; make_kernel "$7"' "${0##*/}" \
		"$top" "$here" "$kernel_image" "$kernel_version" "$kernel_package" "$kernel_series" "$kernel_dir" ||
		return 125
	progress "ready after $((SECONDS - started)) s"
}

# kernel_prepare: make sure there is a kernel; sets kernel_dir.
kernel_prepare()
{
	local cache sum rc=0

	install_for "run tests in a virtual machine" "${packages_vm[@]}" "${packages_vm_tests[@]}" ||
		return
	cache=$(kernel_cache)
	sum=$(recipe_sum "$here")
	mkdir -p "$cache"
	exec {kernel_lock}>"$cache/lock"
	flock "$kernel_lock"
	kernel_dir=$(find "$cache" -maxdepth 2 -path "*/$sum.*/complete" -printf '%h\n' | sort -V | tail -n 1)
	[ -n "$kernel_dir" ] || prepare_locked "$cache" "$sum" || rc=$?
	exec {kernel_lock}>&-
	return "$rc"
}

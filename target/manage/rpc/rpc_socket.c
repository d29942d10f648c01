/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "target/bdev/inherit.h"
#include "target/manage/service/run_as.h"

#define BACKLOG    64
#define GROUPS_MAX 65536u /* supplementary groups of a process: NGROUPS_MAX of Linux */

/* Takes the lock, which is held until the daemon ends; the file stays. Returns its descriptor, or
 * -errno with the failed step in @what. */
static int take_lock(const struct rdt_control_config *cfg, const char **what)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
	int fd, err;

	snprintf(path, sizeof(path), "%s.lock", cfg->socket);
	*what = "cannot open its lock file";
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	*what = "cannot lock its lock file";
	err = -errno;
	close(fd);
	return err;
}

/* By descriptor: in another user's directory the path may name another file by now. */
static int give_to_group(const char *path, gid_t group)
{
	rd_autoclose int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
		return -EEXIST;
	return fchownat(fd, "", (uid_t)-1, group, AT_EMPTY_PATH) ? -errno : 0;
}

static int bind_socket(const struct rdt_control_config *cfg, gid_t group, int fd, const char **what)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct stat st;
	mode_t mask;
	int err;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", cfg->socket);
	*what = "exists and is not a socket";
	if (lstat(cfg->socket, &st) == 0 && !S_ISSOCK(st.st_mode))
		return -EEXIST;
	*what = "cannot remove the old one";
	if (unlink(cfg->socket) && errno != ENOENT)
		return -errno;
	*what = "cannot bind";
	/* bind() creates the socket with mode 0660. The mask does not affect files of other
	 * threads, which have mode 0600. */
	mask = umask(0117);
	err = bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
	umask(mask);
	if (err)
		return err;
	/* Before listen(), so that no client connects with the wrong group. */
	*what = "cannot set its group";
	err = group != (gid_t)-1 ? give_to_group(cfg->socket, group) : 0;
	if (err)
		return err;
	*what = "cannot listen";
	return listen(fd, BACKLOG) ? -errno : 0;
}

static int make_socket(const struct rdt_control_config *cfg, gid_t group,
		       struct rdt_rpc_socket *out, const char **what)
{
	int err;

	out->lock_fd = take_lock(cfg, what);
	if (out->lock_fd < 0)
		return out->lock_fd;
	*what = "socket";
	out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = out->fd < 0 ? -errno : 0;
	if (err)
		goto err_lock;
	err = bind_socket(cfg, group, out->fd, what);
	if (err)
		goto err_socket;
	return 0;

err_socket:
	close(out->fd);
err_lock:
	close(out->lock_fd);
	return err;
}

static const char *socket_hint(int err)
{
	return err == -ENOENT ? "; create its directory first (RuntimeDirectory= in a systemd unit)"
			      : "";
}

/* Whether @fd is the socket at the configured path, as for the previous process. */
static bool is_bound_to(int fd, const char *path)
{
	struct sockaddr_un addr = {0};
	socklen_t len = sizeof(addr);

	return getsockname(fd, (struct sockaddr *)&addr, &len) == 0 &&
	       strncmp(addr.sun_path, path, sizeof(addr.sun_path)) == 0;
}

static bool use_inherited(const struct rdt_control_config *cfg, const struct rdt_inherit *inherit,
			  struct rdt_rpc_socket *out)
{
	out->fd = rdt_inherit_open(inherit, RDT_INHERIT_CONTROL);
	if (out->fd < 0)
		return false;
	out->lock_fd = rdt_inherit_open(inherit, RDT_INHERIT_CONTROL_LOCK);
	if (out->lock_fd >= 0 && is_bound_to(out->fd, cfg->socket))
		return true;
	if (out->lock_fd >= 0)
		close(out->lock_fd);
	close(out->fd);
	return false;
}

int rdt_rpc_listen(const struct rdt_control_config *cfg, const struct rdt_inherit *inherit,
		   struct rdt_rpc_socket *out, char *text, size_t size)
{
	const char *what, *key = "group";
	char why[192];
	gid_t group;
	int err = rdt_group_id(cfg->group, &group, why, sizeof(why));

	if (!err) {
		key = "admin_group";
		err = rdt_group_id(cfg->admin_group, &out->admin_gid, why, sizeof(why));
	}
	if (err) {
		snprintf(text, size, "control.%s: %s", key, why);
		return err;
	}
	if (use_inherited(cfg, inherit, out))
		return 0;
	err = make_socket(cfg, group != (gid_t)-1 ? group : out->admin_gid, out, &what);
	if (err == -EWOULDBLOCK)
		snprintf(text, size,
			 "control.socket %s: another rdtarget uses it; each needs its own",
			 cfg->socket);
	else if (err)
		snprintf(text, size, "control.socket %s: %s: %s%s", cfg->socket, what,
			 strerror(-err), socket_hint(err));
	return err;
}

void rdt_rpc_unlisten(const struct rdt_control_config *cfg, const struct rdt_rpc_socket *sock)
{
	unlink(cfg->socket);
	close(sock->fd);
	close(sock->lock_fd);
}

static bool is_member(int fd, gid_t gid)
{
	socklen_t len = 0;
	bool found = false;
	gid_t *groups;

	/* SO_PEERGROUPS has the groups at the time of connect(). */
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) || errno != ERANGE ||
	    len > GROUPS_MAX * sizeof(*groups))
		return false;
	groups = malloc(len);
	if (groups && !getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len))
		for (size_t i = 0; i < len / sizeof(*groups) && !found; i++)
			found = groups[i] == gid;
	free(groups);
	return found;
}

int rdt_rpc_peer(int fd, gid_t admin_gid, uid_t *uid, pid_t *pid, bool *may_change)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	*uid = cred.uid;
	*pid = cred.pid;
	*may_change =
		cred.uid == 0 || cred.uid == geteuid() ||
		(admin_gid != (gid_t)-1 && (cred.gid == admin_gid || is_member(fd, admin_gid)));
	return 0;
}

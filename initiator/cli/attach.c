/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs: a namespace as a block device of this machine, attached, detached, listed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach.h"
#include "command.h"
#include "copy/copy.h"
#include "util/parse.h"

/* What the process of a device has to say to the command that started it. */
struct attach_report {
	const struct cli_options *o;
	int to_parent; /* -1: it stays in the foreground */
};

/* ---- attach ---- */

static int attach_print(const struct cli_options *o, const char *device)
{
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s}", "device", device), stdout);
	printf("%s\n", device);
	return cli_finish_output();
}

/* A process in the background keeps no folder and no terminal. */
static void leave_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), i;

	for (i = 0; null >= 0 && i <= STDERR_FILENO; i++)
		dup2(null, i);
	if (null > STDERR_FILENO)
		close(null);
	if (chdir("/"))
		return; /* the folder stays in use, no more */
}

static void attach_is_ready(void *user, const char *device)
{
	struct attach_report *r = user;

	if (r->to_parent < 0) {
		attach_print(r->o, device);
		return;
	}
	if (write(r->to_parent, device, strlen(device)) < 0)
		return; /* nobody waits any more */
	close(r->to_parent);
	leave_terminal();
}

static const char *attach_state_dir(const struct cli_options *o)
{
	return cli_given(o, CLI_ARG_STATE_DIR) ? o->arg[CLI_ARG_STATE_DIR].text
					       : RDI_ATTACH_STATE_DIR;
}

static int attach_options(const struct cli_options *o, struct rdi_attach_opts *out)
{
	*out = (struct rdi_attach_opts){
		.state_dir = attach_state_dir(o),
		.kind = (enum rdi_attach_kind)cli_num(o, CLI_ARG_DRIVER, RDI_ATTACH_AUTO),
		.read_only = cli_given(o, CLI_ARG_READ_ONLY),
		.foreground = cli_given(o, CLI_ARG_FOREGROUND),
		.queues = o->ctrl.nr_io_queues,
		.depth = (uint16_t)(o->qpair.queue_size - 1),
		.ready = attach_is_ready,
	};
	if (out->state_dir[0] != '/')
		return cli_usage_error("--state-dir: \"%s\" is not an absolute path",
				       out->state_dir);
	return CLI_OK;
}

/* Makes the device of all URIs, without any network I/O. */
static int attach_device(const struct cli_options *base, const struct rdinit_dev_opts *dev_opts,
			 struct rdinit_dev **out)
{
	struct rdinit_dev_opts opts = *dev_opts;
	struct cli_options o;
	int i, rc;

	for (i = 0; i < base->n_operands; i++) {
		if (!cli_options_uri(base, base->operands[i], &o))
			return CLI_USAGE;
		opts.ctrl = &o.ctrl;
		rc = *out ? 0 : rdinit_dev_create(&opts, out);
		if (rc)
			return cli_lib_error(),
			       rc == -EINVAL || rc == -ENOENT ? CLI_USAGE : CLI_FAILED;
		if (rdinit_dev_add_path(*out, &o.uri, NULL) < 0)
			return cli_lib_error(), CLI_USAGE;
	}
	return CLI_OK;
}

/* The process of the device. Its memory and signals are prepared before the library uses any. */
static int attach_serve_it(const struct cli_options *o, struct rdi_attach_opts *opts,
			   struct rdinit_dev_opts *dev_opts)
{
	struct rdinit_dev *dev = NULL;
	struct rdi_attach *a;
	int rc = rdi_attach_create(opts, &a) ? CLI_FAILED : CLI_OK;

	dev_opts->event_fn = rdi_attach_event;
	dev_opts->event_user = a;
	if (!rc)
		rc = attach_device(o, dev_opts, &dev);
	if (!rc)
		rc = rdi_attach_run(a, dev) ? CLI_FAILED : CLI_OK;
	else
		rdinit_dev_free(&dev);
	rdi_attach_free(a);
	return rc;
}

/* Waits for the process in the background to be ready, or to end. */
static int attach_wait(const struct cli_options *o, int from, pid_t pid)
{
	char device[RDI_ATTACH_NAME + 8];
	ssize_t n;
	int status;

	do
		n = read(from, device, sizeof(device) - 1);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		device[n] = '\0';
		return attach_print(o, device);
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return CLI_FAILED;
	}
	return WIFEXITED(status) && WEXITSTATUS(status)
		       ? WEXITSTATUS(status)
		       : cli_error("the process that serves the device exited (status %d)", status);
}

static int attach_in_background(const struct cli_options *o, struct rdi_attach_opts *opts,
				struct rdinit_dev_opts *dev_opts)
{
	struct attach_report *r = opts->user;
	int ends[2], rc;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return cli_error("pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return cli_error("fork: %s", strerror(errno));
	if (pid > 0) {
		close(ends[1]);
		rc = attach_wait(o, ends[0], pid);
		close(ends[0]);
		return rc;
	}
	/* It lives for longer than what its parent has open: locks, pipes. */
	r->to_parent = STDERR_FILENO + 1;
	if (ends[1] != r->to_parent && dup3(ends[1], r->to_parent, O_CLOEXEC) < 0)
		_exit(cli_error("dup3: %s", strerror(errno)));
	close_range((unsigned int)r->to_parent + 1, ~0u, 0);
	setsid();
	_exit(attach_serve_it(o, opts, dev_opts));
}

int cli_attach(const struct cli_options *o)
{
	struct attach_report report = {.o = o, .to_parent = -1};
	struct rdinit_dev_opts dev_opts;
	struct rdi_attach_opts opts;
	struct cli_options first;
	int rc;

	if (o->n_operands < 1 || o->n_operands > RDINIT_DEV_PATHS_MAX)
		return cli_usage_error("%d URIs: give one to %u, each a path to the same "
				       "namespace, nvme+rdma://HOST[:PORT]/SUBNQN[/NSID], or "
				       "nvme+tcp://",
				       o->n_operands, RDINIT_DEV_PATHS_MAX);
	if (!cli_options_uri(o, o->operands[0], &first))
		return CLI_USAGE;
	rc = attach_options(o, &opts);
	if (!rc)
		rc = cli_cp_ns_options(o, &dev_opts);
	if (rc)
		return rc;
	opts.user = &report;
	return opts.foreground ? attach_serve_it(o, &opts, &dev_opts)
			       : attach_in_background(o, &opts, &dev_opts);
}

/* ---- detach ---- */

int cli_detach(const struct cli_options *o)
{
	char why[RDI_ATTACH_TEXT];

	if (o->n_operands != 1)
		return cli_usage_error("detach takes one block device, such as /dev/ublkb0, not %d",
				       o->n_operands);
	if (rdi_attach_detach(attach_state_dir(o), o->operands[0], cli_given(o, CLI_ARG_FORCE),
			      why))
		return cli_error("%s", why);
	if (o->format == CLI_JSON)
		return cli_print_json(json_pack("{s:s}", "detached", o->operands[0]), stdout);
	printf("%s: detached\n", o->operands[0]);
	return cli_finish_output();
}

/* ---- list --attached ---- */

static bool attached_json(void *user, const struct rdi_attach_info *i)
{
	char device[RDI_ATTACH_NAME + 8];

	snprintf(device, sizeof(device), "/dev/%s", i->name);
	json_array_append_new(
		user, json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:s, s:I, s:I, s:b}", "DevicePath",
				device, "Driver", rdi_attach_kind_name(i->kind), "State",
				rdi_attach_state_name(i->state), "Pid", i->pid, "SubsystemNQN",
				i->subnqn, "NameSpace", (json_int_t)i->nsid, "Identifier", i->id,
				"PhysicalSize", (json_int_t)(i->blocks * i->block_size),
				"SectorSize", (json_int_t)i->block_size, "ReadOnly", i->read_only));
	return true;
}

static bool attached_line(void *user, const struct rdi_attach_info *i)
{
	char device[RDI_ATTACH_NAME + 8], size[RD_SIZE_TEXT];

	(void)user;
	snprintf(device, sizeof(device), "/dev/%s", i->name);
	printf("%-14s %-6s %-8s %-8d %-10s %-40s %s %u%s\n", device, rdi_attach_kind_name(i->kind),
	       rdi_attach_state_name(i->state), i->pid,
	       rd_format_size(i->blocks * i->block_size, size), i->id, i->subnqn, i->nsid,
	       i->read_only ? " (read-only)" : "");
	return true;
}

int cli_list_attached(const struct cli_options *o)
{
	json_t *list = o->format == CLI_JSON ? json_array() : NULL;
	char why[RDI_ATTACH_TEXT];
	int n;

	if (!list)
		printf("%-14s %-6s %-8s %-8s %-10s %-40s %s\n", "Device", "Driver", "State", "PID",
		       "Size", "Identifier", "Subsystem and namespace");
	n = rdi_attach_each(attach_state_dir(o), list ? attached_json : attached_line, list, why);
	if (n < 0) {
		json_decref(list);
		return cli_error("%s", why);
	}
	return list ? cli_print_json(json_pack("{s:o}", "Attached", list), stdout)
		    : cli_finish_output();
}

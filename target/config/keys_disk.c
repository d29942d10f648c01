/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of namespaces with backend file or block. */
#include "backends.h"
#include "config_priv.h"
#include "keys.h"

#define T    struct rdt_ns_config
#define ANEW RDT_WHEN_ANEW
#define DISK (RDT_WITH(FILE) | RDT_WITH(BLOCK))

static const struct rdt_choice engines[] = {{"auto", RDT_ENGINE_AUTO},
					    {"io_uring", RDT_ENGINE_IO_URING},
					    {"aio", RDT_ENGINE_AIO},
					    {NULL, 0}};

static const struct rdt_choice direct[] = {
	{"auto", RDT_DIRECT_AUTO}, {"on", RDT_DIRECT_ON}, {"off", RDT_DIRECT_OFF}, {NULL, 0}};

static const struct rdt_choice deallocate[] = {{"auto", RDT_DEALLOCATE_AUTO},
					       {"zero", RDT_DEALLOCATE_ZERO},
					       {"discard", RDT_DEALLOCATE_DISCARD},
					       {"off", RDT_DEALLOCATE_OFF},
					       {NULL, 0}};

const struct rdt_row rdt_disk_rows[] = {
	{"path", RDT_KEY_TEXT, ANEW, RDT_AT(T, path), .with = DISK, .needed = DISK,
	 .expected = "the path of a file or block device", .example = "/srv/disk1.img",
	 .says = "Path of the file or device, relative to the working directory of rdtarget."},
	{"create", RDT_KEY_BOOL, RDT_WHEN_AT_ONCE, RDT_AT(T, create), .with = RDT_WITH(FILE),
	 .def = "false",
	 .says = "Whether a missing file is created when it is opened; needs size."},
	{"engine", RDT_KEY_CHOICE, ANEW, RDT_AT(T, engine), .with = DISK, .choices = engines,
	 .def = "auto",
	 .says = "How I/O reaches the kernel: io_uring, or aio, threads that make ordinary system "
		 "calls; auto: io_uring where the system allows it."},
	{"direct", RDT_KEY_CHOICE, ANEW, RDT_AT(T, direct), .with = DISK, .choices = direct,
	 .def = "auto", .says = "O_DIRECT; auto: if the file system supports it."},
	{"iopoll", RDT_KEY_BOOL, ANEW, RDT_AT(T, iopoll), .with = DISK, .def = "false",
	 .says = "Whether completions of direct I/O with io_uring are polled for, where the device "
		 "supports it."},
	{"deallocate", RDT_KEY_CHOICE, ANEW, RDT_AT(T, deallocate), .with = RDT_WITH(BLOCK),
	 .choices = deallocate, .def = "auto",
	 .says = "How blocks are deallocated; auto: the first of zero and discard that the device "
		 "supports."},
	{0},
};

void rdt_config_check_disk(struct rdt_config_load *load, const struct rdt_key *key,
			   const struct rdt_ns_config *ns)
{
	struct rdt_key at;

	if (ns->engine == RDT_ENGINE_AIO) {
		at = rdt_config_child(load, key, "iopoll");
		if (at.node)
			rdt_config_problem(load, &at,
					   "is valid only with engine auto or io_uring; remove it");
	}
	if (!ns->create)
		return;
	at = rdt_config_child(load, key, "create");
	if (ns->read_only)
		rdt_config_problem(
			load, &at,
			"a file that is created cannot be read_only; remove one of them");
	at = rdt_config_child(load, key, "size");
	if (!at.node)
		rdt_config_problem(load, &at,
				   "missing, expected a size such as 10GiB with \"create: true\"");
}

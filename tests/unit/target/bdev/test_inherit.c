/* SPDX-License-Identifier: BSD-3-Clause */
/* Storage that another process has open, played by another backend of this one. */
#include "base_suites.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/bdev/backend.h"
#include "target/bdev/inherit.h"
#include "target/config/config.h"

#define SIZE (256u << 10)

static char dir[64];
static char path[128];

static void begin_inherit(void)
{
	t_dir_make(dir);
	snprintf(path, sizeof(path), "%s/disk", dir);
}

static struct rdt_bdev *open_on(const struct rdt_ns_config *cfg, int fd, int want)
{
	struct rdt_bdev *bdev = NULL;
	char err[512] = "";
	const struct rdt_bdev_from from = {.fd = fd};
	int got = rdt_bdev_open_on(NULL, cfg, &from, NULL, &bdev, err, sizeof(err));

	if (got != want)
		printf("# %d: %s\n", got, err);
	CU_ASSERT_EQUAL(got, want);
	return bdev;
}

static int run_bio(struct rdt_bdev *bdev, struct rdt_bio bio)
{
	struct rdt_chan *chan T_ENDS(rdt_chan_close) = NULL;

	CU_ASSERT_EQUAL_FATAL(rdt_chan_open(bdev, NULL, &chan), 0);
	CU_ASSERT_EQUAL(rdt_chan_submit(chan, &bio), RDT_BIO_DONE);
	return bio.result;
}

static void names_lead_to_descriptors(void)
{
	struct rdt_inherit *in T_ENDS(rdt_inherit_free) = NULL;
	int fds[2], one, two;

	CU_ASSERT_EQUAL(rdt_inherit_open(NULL, "x"), -ENOENT);
	CU_ASSERT_EQUAL_FATAL(rdt_inherit_new(&in), 0);
	CU_ASSERT_EQUAL_FATAL(pipe2(fds, O_CLOEXEC), 0);
	CU_ASSERT_EQUAL(rdt_inherit_add(in, "read end", fds[0]), 0);
	CU_ASSERT_EQUAL(rdt_inherit_add(in, "write end", fds[1]), 0);
	CU_ASSERT_EQUAL(rdt_inherit_open(in, "no end"), -ENOENT);
	/* Each time another one. */
	one = rdt_inherit_open(in, "write end");
	two = rdt_inherit_open(in, "write end");
	CU_ASSERT_TRUE(one >= 0 && two >= 0 && one != two);
	CU_ASSERT_EQUAL(fcntl(one, F_GETFD), FD_CLOEXEC);
	CU_ASSERT_EQUAL(write(one, "x", 1), 1);
	close(one);
	close(two);
}

static void what_was_told_and_found_has_a_name(void)
{
	const struct rdt_bdev_told told = {.size = SIZE, .cache = true, .deallocates = true};
	const struct rdt_bdev_found found = {.mem_align = 512, .zeroes = RDT_ZERO_PUNCH};
	struct rdt_inherit *in T_ENDS(rdt_inherit_free) = NULL;
	struct rdt_bdev_found how;
	struct rdt_bdev_told what;

	CU_ASSERT_EQUAL_FATAL(rdt_inherit_new(&in), 0);
	CU_ASSERT_EQUAL(rdt_inherit_tell(in, "export", &told), 0);
	CU_ASSERT_EQUAL(rdt_inherit_add(in, "file", open("/dev/null", O_RDWR)), 0);
	rdt_inherit_find(in, "file", &found);
	rdt_inherit_find(in, "nothing", &found);
	CU_ASSERT_TRUE(rdt_inherit_told(in, "export", &what));
	CU_ASSERT_TRUE(what.size == SIZE && what.cache && !what.stores && what.deallocates);
	CU_ASSERT_FALSE(rdt_inherit_told(in, "file", &what));
	CU_ASSERT_EQUAL(rdt_inherit_open(in, "export"), -ENOENT);
	CU_ASSERT_TRUE(rdt_inherit_found(in, "file", &how));
	CU_ASSERT_TRUE(how.mem_align == 512 && how.zeroes == RDT_ZERO_PUNCH);
	CU_ASSERT_FALSE(rdt_inherit_found(in, "export", &how));
	CU_ASSERT_FALSE(rdt_inherit_found(in, "nothing", &how));
	rdt_inherit_drop(in, "file");
	CU_ASSERT_EQUAL(rdt_inherit_open(in, "file"), -ENOENT);
	rdt_inherit_told_all(in);
	CU_ASSERT_FALSE(rdt_inherit_told(in, "export", &what));
}

static void storage_has_a_name(void)
{
	struct rdt_ns_config cfg = {.nsid = 7, .backend = RDT_BACKEND_MEMORY};
	char *name T_FREE = NULL, *other T_FREE = NULL, *file T_FREE = NULL, *none = NULL;

	CU_ASSERT_EQUAL(rdt_inherit_storage("nqn.a", &cfg, &name), 0);
	CU_ASSERT_EQUAL(rdt_inherit_storage("nqn.b", &cfg, &other), 0);
	CU_ASSERT_STRING_NOT_EQUAL(name, other);
	cfg.backend = RDT_BACKEND_FILE;
	cfg.path = path;
	CU_ASSERT_EQUAL(rdt_inherit_storage("nqn.a", &cfg, &file), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(file, path));
	cfg.backend = RDT_BACKEND_NULL;
	CU_ASSERT_EQUAL(rdt_inherit_storage("nqn.a", &cfg, &none), -EOPNOTSUPP);
	CU_ASSERT_PTR_NULL(none);
}

/* What was written is there after the first one has closed it, and what was not is not allocated.
 */
static void memory_goes_on(void)
{
	struct rdt_ns_config cfg = {
		.nsid = 1, .backend = RDT_BACKEND_MEMORY, .block_size = 512, .size_bytes = SIZE};
	struct rdt_extents *ex T_FREE = calloc(1, sizeof(*ex) + 4 * sizeof(ex->list[0]));
	struct rdt_bdev *old, *next;
	char data[512], back[512];

	memset(data, 0x5a, sizeof(data));
	old = open_on(&cfg, -1, 0);
	CU_ASSERT_EQUAL(run_bio(old, (struct rdt_bio){.op = RDT_BIO_WRITE,
						      .offset = SIZE / 2,
						      .length = sizeof(data),
						      .buf = data}),
			0);
	next = open_on(&cfg, fcntl(rdt_bdev_share(old), F_DUPFD_CLOEXEC, 0), 0);
	rdt_bdev_close(&old);
	CU_ASSERT_EQUAL(run_bio(next, (struct rdt_bio){.op = RDT_BIO_READ,
						       .offset = SIZE / 2,
						       .length = sizeof(back),
						       .buf = back}),
			0);
	CU_ASSERT_EQUAL(memcmp(data, back, sizeof(back)), 0);
	ex->room = 4;
	CU_ASSERT_EQUAL(
		run_bio(next, (struct rdt_bio){.op = RDT_BIO_EXTENTS, .length = SIZE, .buf = ex}),
		0);
	CU_ASSERT_EQUAL(ex->count, 1);
	CU_ASSERT_TRUE(ex->list[0].from <= SIZE / 2 && ex->list[0].to > SIZE / 2);
	CU_ASSERT_TRUE(ex->list[0].to - ex->list[0].from < SIZE);
	rdt_bdev_close(&next);
}

/* It is not locked twice, and at no time unlocked. */
static void a_file_stays_locked(void)
{
	struct rdt_ns_config cfg = {.nsid = 1,
				    .backend = RDT_BACKEND_FILE,
				    .path = path,
				    .block_size = 512,
				    .create = true,
				    .size_bytes = SIZE};
	struct rdt_bdev *old, *next;

	begin_inherit();
	old = open_on(&cfg, -1, 0);
	open_on(&cfg, -1, -EAGAIN);
	next = open_on(&cfg, fcntl(rdt_bdev_share(old), F_DUPFD_CLOEXEC, 0), 0);
	rdt_bdev_close(&old);
	open_on(&cfg, -1, -EAGAIN);
	rdt_bdev_close(&next);
	next = open_on(&cfg, -1, 0);
	rdt_bdev_close(&next);
	t_dir_remove(dir);
}

/* The flags are those of both. */
static void what_both_share_cannot_change(void)
{
	struct rdt_ns_config cfg = {.nsid = 1,
				    .backend = RDT_BACKEND_FILE,
				    .path = path,
				    .block_size = 4096,
				    .create = true,
				    .direct = RDT_DIRECT_OFF,
				    .size_bytes = SIZE};
	struct rdt_bdev *old, *next;
	int fd, flags;

	begin_inherit();
	old = open_on(&cfg, -1, 0);
	fd = rdt_bdev_share(old);
	flags = fcntl(fd, F_GETFL);
	cfg.direct = RDT_DIRECT_ON;
	open_on(&cfg, dup(fd), -EINVAL);
	cfg.direct = RDT_DIRECT_AUTO;
	next = open_on(&cfg, dup(fd), 0);
	CU_ASSERT_EQUAL(fcntl(fd, F_GETFL), flags);
	rdt_bdev_close(&next);
	/* One that was opened for reading is of no use for writing. */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	open_on(&cfg, fd, -EROFS);
	CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), -1);
	rdt_bdev_close(&old);
	t_dir_remove(dir);
}

static void says_what_cannot_be_shared(void)
{
	struct rdt_ns_config cfg = {
		.nsid = 1, .backend = RDT_BACKEND_NULL, .block_size = 512, .size_bytes = SIZE};
	struct rdt_bdev *bdev = open_on(&cfg, -1, 0);
	const struct rdt_bdev_ops none = {.name = "other", .close = bdev->ops->close};

	CU_ASSERT_EQUAL(rdt_bdev_share(bdev), -ENODATA);
	bdev->ops = &none;
	CU_ASSERT_EQUAL(rdt_bdev_share(bdev), -EOPNOTSUPP);
	rdt_bdev_close(&bdev);
}

const struct t_case t_inherit_cases[] = {
	{"names lead to descriptors", names_lead_to_descriptors},
	{"storage has a name", storage_has_a_name},
	{"what was told and found has a name", what_was_told_and_found_has_a_name},
	{"memory goes on", memory_goes_on},
	{"a file stays locked", a_file_stays_locked},
	{"what both share cannot change", what_both_share_cannot_change},
	{"says what cannot be shared", says_what_cannot_be_shared},
	{NULL, NULL},
};

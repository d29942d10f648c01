/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of rdt_bdev_open() for what it finds at a path. */
#include "base_suites.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target/bdev/backend.h"
#include "target/config/config.h"

static char dir[64];
static char path[128];
static char logged[1024];

static void backend_open_take_line(void *arg, enum rd_log_level level, const char *line)
{
	size_t have = strlen(logged);

	snprintf(logged + have, sizeof(logged) - have, "%s\n", line);
}

static void make_file(off_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(ftruncate(fd, size), 0);
	close(fd);
}

static struct rdt_ns_config file_config(void)
{
	return (struct rdt_ns_config){
		.nsid = 1, .backend = RDT_BACKEND_FILE, .path = path, .block_size = 4096};
}

/* Opening must fail with @rc and the text "path PATH: " and @text. */
static void check_refused(const struct rdt_ns_config *cfg, int rc, const char *text)
{
	struct rdt_bdev *bdev T_ENDS(rdt_bdev_close) = NULL;
	char err[512] = "", want[512];
	int got = rdt_bdev_open(NULL, cfg, NULL, &bdev, err, sizeof(err));

	snprintf(want, sizeof(want), "path %s: %s", cfg->path, text);
	if (got != rc || strcmp(err, want) != 0)
		printf("# %d: %s\n# wanted %d: %s\n", got, err, rc, want);
	CU_ASSERT_EQUAL(got, rc);
	CU_ASSERT_STRING_EQUAL(err, want);
	CU_ASSERT_PTR_NULL(bdev);
}

static void begin(void)
{
	t_dir_make(dir);
	snprintf(path, sizeof(path), "%s/disk", dir);
}

static void refuses_with_a_sentence(void)
{
	struct rdt_ns_config cfg = file_config();
	char deep[192];

	begin();
	check_refused(&cfg, -ENOENT,
		      "no such file; create it, or set \"create: true\" with a size");
	make_file(0);
	check_refused(&cfg, -EINVAL,
		      "is empty; set its size (truncate -s), or remove it and set \"create: true\" "
		      "with a size");
	make_file(8192 + 512);
	check_refused(&cfg, -EINVAL,
		      "its size of 8704 bytes is not a multiple of block_size 4096; resize it, or "
		      "use \"block_size: 512\" if that divides it");
	make_file(8192);
	cfg.size_bytes = 1 << 20;
	cfg.create = true;
	check_refused(&cfg, -EINVAL,
		      "is 8.0 KiB (8192 bytes), but size says 1.0 MiB (1048576 bytes); remove the "
		      "size, or resize the file");
	cfg.path = dir;
	check_refused(&cfg, -EISDIR, "is a directory, expected a regular file");
	cfg.path = "/dev/null";
	check_refused(&cfg, -EINVAL, "is not a regular file");
	snprintf(deep, sizeof(deep), "%s/none/disk", dir);
	cfg.path = deep;
	check_refused(&cfg, -ENOENT,
		      "its directory does not exist; create the directory (\"create: true\" "
		      "creates only the file)");
	snprintf(deep, sizeof(deep), "%s/disk/disk", dir);
	check_refused(&cfg, -ENOTDIR,
		      "a component of the path is not a directory; correct the path");
	cfg.backend = RDT_BACKEND_BLOCK;
	cfg.path = path;
	check_refused(&cfg, -ENOTBLK,
		      "is a regular file, expected a block device; use \"backend: file\"");
	cfg.path = "/dev/null";
	check_refused(&cfg, -ENOTBLK, "is not a block device");
	cfg.path = "/dev/no-such-disk";
	check_refused(&cfg, -ENOENT, "no such device");
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
	cfg = file_config();
	check_refused(&cfg, -EINVAL, "is not a regular file");
	t_dir_remove(dir);
}

static void permission_is_named(void)
{
	struct rdt_ns_config cfg = file_config();
	char want[256];

	begin();
	make_file(8192);
	chmod(path, 0400);
	if (geteuid() == 0) {
		/* Root passes every permission check, so another user tries. */
		CU_ASSERT_EQUAL_FATAL(chmod(dir, 0755), 0);
		CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
	}
	snprintf(want, sizeof(want),
		 "permission denied for user %u; allow reading and writing, or run rdtarget as "
		 "its owner, or set \"read_only: true\"",
		 (unsigned int)geteuid());
	check_refused(&cfg, -EACCES, want);
	if (getuid() == 0)
		CU_ASSERT_EQUAL_FATAL(seteuid(0), 0);
	t_dir_remove(dir);
}

static void creates_when_told(void)
{
	struct rdt_ns_config cfg = file_config();
	struct rdt_bdev *bdev;
	struct stat st;
	char err[512];

	begin();
	cfg.create = true;
	cfg.size_bytes = 1 << 20;
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(bdev->size, 1 << 20);
	CU_ASSERT_EQUAL(bdev->block_size, 4096);
	CU_ASSERT_TRUE(bdev->volatile_cache);
	rdt_bdev_close(&bdev);
	CU_ASSERT_PTR_NULL(bdev);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_size, 1 << 20);
	CU_ASSERT_EQUAL(st.st_mode & 0777, 0600);
	/* The file exists the second time. Testing what it supports did not make it longer. */
	CU_ASSERT_EQUAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, err, sizeof(err)), 0);
	rdt_bdev_close(&bdev);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_size, 1 << 20);
	/* Too large for the file system: no file remains. */
	unlink(path);
	cfg.size_bytes = UINT64_C(1) << 62;
	CU_ASSERT_NOT_EQUAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, err, sizeof(err)), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err, "cannot be extended to 4.0 EiB"));
	CU_ASSERT_EQUAL(access(path, F_OK), -1);
	t_dir_remove(dir);
}

static void read_only_offers_no_writes(void)
{
	struct rdt_ns_config cfg = file_config();
	struct rdt_bdev *bdev;
	char err[512];

	begin();
	make_file(8192);
	cfg.read_only = true;
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, err, sizeof(err)), 0);
	CU_ASSERT_TRUE(bdev->read_only);
	CU_ASSERT_EQUAL(bdev->ops_mask,
			1u << RDT_BIO_READ | 1u << RDT_BIO_FLUSH | 1u << RDT_BIO_EXTENTS);
	rdt_bdev_close(&bdev);
	t_dir_remove(dir);
}

static void direct_policy_is_said(void)
{
	struct rdt_ns_config cfg = file_config();
	struct rdt_bdev *bdev;
	struct rd_log *log;
	char err[512];

	begin();
	make_file(8192);
	CU_ASSERT_EQUAL_FATAL(
		rd_log_create("t", -1, RD_LOG_INFO, backend_open_take_line, NULL, &log), 0);
	cfg.direct = RDT_DIRECT_OFF;
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, log, &bdev, err, sizeof(err)), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(logged, "/disk: buffered I/O"));
	rdt_bdev_close(&bdev);
	logged[0] = '\0';
	cfg.direct = RDT_DIRECT_AUTO;
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, log, &bdev, err, sizeof(err)), 0);
	CU_ASSERT_TRUE(strstr(logged, "/disk: direct I/O") || strstr(logged, "buffered I/O: "));
	rdt_bdev_close(&bdev);
	rd_log_destroy(&log);
	t_dir_remove(dir);
}

/* Another process has the file: a writer excludes everyone, a reader excludes writers. */
static void a_file_in_use_is_refused(void)
{
	struct rdt_ns_config cfg = file_config();
	struct rdt_bdev *bdev = NULL;
	int ready[2], end[2], status;
	char text[512] = "", want[64], c;
	pid_t pid;

	for (int reader = 0; reader < 2; reader++) {
		begin();
		make_file(8192);
		CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
		CU_ASSERT_EQUAL_FATAL(pipe(end), 0);
		pid = fork();
		CU_ASSERT_TRUE_FATAL(pid >= 0);
		if (pid == 0) {
			close(end[1]);
			cfg.read_only = reader;
			c = rdt_bdev_open(NULL, &cfg, NULL, &bdev, text, sizeof(text)) ? 'n' : 'y';
			_exit(write(ready[1], &c, 1) != 1 || read(end[0], &c, 1) != 0);
		}
		CU_ASSERT_EQUAL_FATAL(read(ready[0], &c, 1), 1);
		CU_ASSERT_EQUAL(c, 'y');
		snprintf(want, sizeof(want),
			 "another program uses it (process %d); stop it first: ", (int)pid);
		snprintf(text, sizeof(text), "%stwo writers would destroy the data", want);
		cfg.read_only = false;
		check_refused(&cfg, -EBUSY, text);
		cfg.read_only = true;
		if (reader)
			CU_ASSERT_EQUAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, text, sizeof(text)),
					0);
		rdt_bdev_close(&bdev);
		close(end[0]);
		close(end[1]);
		waitpid(pid, &status, 0);
		CU_ASSERT_EQUAL(status, 0);
		/* However the process ended, its lock ended with it. */
		cfg.read_only = false;
		CU_ASSERT_EQUAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, text, sizeof(text)), 0);
		rdt_bdev_close(&bdev);
		close(ready[0]);
		close(ready[1]);
		t_dir_remove(dir);
	}
}

/* Replaces the function of the C library. */
static unsigned int sleeps;

int nanosleep(const struct timespec *pause, struct timespec *left)
{
	sleeps++;
	return clock_nanosleep(CLOCK_MONOTONIC, 0, pause, left) ? -1 : 0;
}

/*
 * Two namespaces read one file, and one of them is closed: the other one still excludes writers. No
 * process is found to hold the lock, but that is no reason to wait, because hosts may hold it.
 */
static void a_file_read_twice_stays_locked(void)
{
	struct rdt_ns_config cfg = file_config();
	struct rdt_bdev *bdev[2] = {NULL}, *writer = NULL;
	char text[512] = "";

	begin();
	make_file(8192);
	cfg.read_only = true;
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev[i], text, sizeof(text)),
				      0);
	cfg.read_only = false;
	for (int i = 0; i < 2; i++) {
		/* Our own lock, so that no other process is found to hold it. */
		CU_ASSERT_EQUAL(rdt_bdev_open(NULL, &cfg, NULL, &writer, text, sizeof(text)),
				-EAGAIN);
		CU_ASSERT_PTR_NOT_NULL(strstr(text, "another program uses it"));
		rdt_bdev_close(&bdev[i]);
	}
	CU_ASSERT_EQUAL(sleeps, 0);
	CU_ASSERT_EQUAL(rdt_bdev_open(NULL, &cfg, NULL, &writer, text, sizeof(text)), 0);
	rdt_bdev_close(&writer);
	t_dir_remove(dir);
}

static void check_resize(struct rdt_bdev *bdev, uint64_t size, int rc, const char *text,
			 uint64_t now)
{
	char err[512] = "";

	CU_ASSERT_EQUAL(t_bdev_resize(bdev, size, err, sizeof(err)), rc);
	CU_ASSERT_PTR_NOT_NULL(strstr(err, text));
	CU_ASSERT_EQUAL(bdev->size, now);
}

static void a_file_gets_the_size_it_has_now(void)
{
	struct rdt_ns_config cfg = file_config();
	struct rdt_bdev *bdev;
	char err[512];

	begin();
	make_file(8192);
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, err, sizeof(err)), 0);
	check_resize(bdev, 0, 0, "", 8192);
	CU_ASSERT_EQUAL(truncate(path, 65536), 0);
	check_resize(bdev, 8192, -EINVAL, "is 64.0 KiB (65536 bytes), but size says 8.0 KiB", 8192);
	check_resize(bdev, 0, 0, "", 65536);
	CU_ASSERT_EQUAL(truncate(path, 4096 + 512), 0);
	check_resize(bdev, 0, -EINVAL, "is not a multiple of block_size", 65536);
	CU_ASSERT_EQUAL(truncate(path, 0), 0);
	check_resize(bdev, 0, -EINVAL, "is empty", 65536);
	CU_ASSERT_EQUAL(truncate(path, 4096), 0);
	check_resize(bdev, 4096, 0, "", 4096);
	rdt_bdev_close(&bdev);
	t_dir_remove(dir);
}

static void memory_grows_into_what_it_reserved(void)
{
	struct rdt_ns_config cfg = {
		.backend = RDT_BACKEND_MEMORY, .block_size = 4096, .size_bytes = 1 << 20};
	struct rdt_bdev *bdev T_ENDS(rdt_bdev_close) = NULL;
	char err[512];

	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, err, sizeof(err)), 0);
	check_resize(bdev, 0, 0, "", 1 << 20);
	check_resize(bdev, 5 << 20, 0, "", 5 << 20);
	check_resize(bdev, 4096, 0, "", 4096);
	check_resize(bdev, UINT64_C(1) << 45, -ENOMEM, "cannot grow to 32.0 TiB", 4096);
	check_resize(bdev, 16 << 20, 0, "", 16 << 20);
}

static void check_path(const struct rdt_bdev *bdev, enum rdt_path_state want, uint64_t want_size,
		       const char *text)
{
	uint64_t size = bdev->size;
	char why[512] = "";

	CU_ASSERT_EQUAL(rdt_bdev_path_check(&bdev->path_id, path, &size, why, sizeof(why)), want);
	CU_ASSERT_EQUAL(size, want_size);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, text));
}

static void a_path_is_compared_with_what_is_open(void)
{
	struct rdt_ns_config cfg = file_config();
	char old[160], err[512];
	struct rdt_bdev *bdev;

	begin();
	make_file(8192);
	snprintf(old, sizeof(old), "%s.old", path);
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, err, sizeof(err)), 0);
	check_path(bdev, RDT_PATH_SAME, 8192, "");
	CU_ASSERT_EQUAL(truncate(path, 16384), 0);
	check_path(bdev, RDT_PATH_LARGER, 16384, "is 16.0 KiB (16384 bytes), but 8.0 KiB");
	CU_ASSERT_EQUAL(truncate(path, 4096), 0);
	check_path(bdev, RDT_PATH_SMALLER, 4096, "is 4.0 KiB (4096 bytes), but 8.0 KiB");
	CU_ASSERT_EQUAL(rename(path, old), 0);
	check_path(bdev, RDT_PATH_GONE, 0, "no longer exists");
	make_file(8192);
	check_path(bdev, RDT_PATH_REPLACED, 0, "names another file now (inode ");
	CU_ASSERT_EQUAL(rename(old, path), 0); /* it was only moved away */
	check_path(bdev, RDT_PATH_SMALLER, 4096, "");
	rdt_bdev_close(&bdev);
	t_dir_remove(dir);
}

static void a_block_device_is_more_than_its_name(void)
{
	struct rdt_path_id id = {.known = true, .block = true, .dev = makedev(1, 3)};
	uint64_t size = 4096;
	char why[512] = "";

	begin();
	make_file(4096);
	CU_ASSERT_EQUAL(rdt_bdev_path_check(&id, path, &size, why, sizeof(why)), RDT_PATH_REPLACED);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "but block device 1:3 is open"));
	id.known = false; /* a backend without a path */
	CU_ASSERT_EQUAL(rdt_bdev_path_check(&id, path, &size, why, sizeof(why)), RDT_PATH_SAME);
	t_dir_remove(dir);
}

struct in_worker {
	struct rdt_ns_config cfg;
	struct rdt_bdev *bdev;
	uint64_t found;
	char err[512];
	int rc;
};

static void *open_in_worker(void *arg)
{
	struct in_worker *w = arg;

	w->rc = rdt_bdev_open(NULL, &w->cfg, NULL, &w->bdev, w->err, sizeof(w->err));
	return NULL;
}

static void *measure_in_worker(void *arg)
{
	struct in_worker *w = arg;

	w->rc = rdt_bdev_measure(w->bdev, 0, &w->found, w->err, sizeof(w->err));
	return NULL;
}

static void *close_in_worker(void *arg)
{
	struct in_worker *w = arg;

	rdt_bdev_close(&w->bdev);
	return NULL;
}

static void in_a_thread(void *(*fn)(void *arg), struct in_worker *w)
{
	pthread_t thread;

	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, fn, w), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_join(thread, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(w->rc, 0);
}

static void watched(void *arg)
{
	++*(int *)arg;
}

static void what_may_wait_runs_on_any_thread(void)
{
	struct rdt_layer_config delay = {.type = RDT_LAYER_DELAY};
	struct in_worker w = {.cfg = file_config()};
	int calls = 0;

	begin();
	make_file(8192);
	w.cfg.layers = &delay;
	w.cfg.layers_count = 1;
	in_a_thread(open_in_worker, &w);
	rdt_bdev_watch(w.bdev, watched, &calls);
	rdt_bdev_changed(rdt_bdev_base(w.bdev));
	CU_ASSERT_EQUAL(calls, 1);
	CU_ASSERT_EQUAL(truncate(path, 4096), 0);
	in_a_thread(measure_in_worker, &w);
	CU_ASSERT_EQUAL(w.found, 4096);
	CU_ASSERT_EQUAL(w.bdev->size, 8192); /* until it is taken over */
	CU_ASSERT_EQUAL(rdt_bdev_take_size(w.bdev, w.found, w.err, sizeof(w.err)), 0);
	CU_ASSERT_EQUAL(w.bdev->size, 4096);
	rdt_bdev_detach(w.bdev);
	rdt_bdev_changed(rdt_bdev_base(w.bdev));
	CU_ASSERT_EQUAL(calls, 1);
	in_a_thread(close_in_worker, &w);
	CU_ASSERT_PTR_NULL(w.bdev);
	t_dir_remove(dir);
}

const struct t_case t_backend_open_cases[] = {
	{"a path is compared with what is open", a_path_is_compared_with_what_is_open},
	{"a block device is more than its name", a_block_device_is_more_than_its_name},
	{"what may wait runs on any thread", what_may_wait_runs_on_any_thread},
	{"what cannot be served is refused with a sentence", refuses_with_a_sentence},
	{"missing permission names the user and the ways out", permission_is_named},
	{"create makes a file once", creates_when_told},
	{"a file that another process uses is refused", a_file_in_use_is_refused},
	{"a file that two namespaces read stays locked when one goes",
	 a_file_read_twice_stays_locked},
	{"read_only offers no writes", read_only_offers_no_writes},
	{"a file gets the size that it has now", a_file_gets_the_size_it_has_now},
	{"memory grows into the addresses it has reserved", memory_grows_into_what_it_reserved},
	{"says whether I/O is direct or buffered", direct_policy_is_said},
	{NULL, NULL},
};

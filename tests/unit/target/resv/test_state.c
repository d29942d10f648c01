/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that outlive the daemon. The loop tests cover a kill in the middle of a write. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <unistd.h>

#include "base_suites.h"
#include "target/resv/state.h"

static struct rd_loop *loop;
static struct rdt_state *state;
static char dir[64];
static unsigned int done_count;

static void reopen_state(void)
{
	const struct rd_loop_opts opts = {.seed = 1};
	char path[96];

	snprintf(path, sizeof(path), "%s/state", dir);
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &loop), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_state_open(NULL, NULL, path, -1, NULL, loop, &state),
			      0); /* creates it */
}

static void open_state(void)
{
	t_dir_make(dir);
	reopen_state();
}

static void close_state(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/state", dir);
	rdt_state_close(&state);
	rd_loop_destroy(&loop);
	t_dir_remove(path);
	t_dir_remove(dir);
}

static void state_on_done(struct rdt_state_job *job)
{
	done_count++;
}

/* Without its thread the writer works from its loop. */
static int write_now(const char *name, const char *text)
{
	struct rdt_state_job job = {.done = state_on_done, .text = text ? strdup(text) : NULL};

	strcpy(job.name, name);
	job.len = text ? strlen(text) : 0;
	done_count = 0;
	rdt_state_write(state, &job);
	rd_loop_turn(rdt_state_loop(state), 0);
	CU_ASSERT_EQUAL(done_count, 0);
	rd_loop_turn(loop, 0);
	CU_ASSERT_EQUAL(done_count, 1);
	return job.err;
}

static void expect(const char *name, const char *want)
{
	char *text T_FREE = NULL;
	size_t len;
	int rc = rdt_state_read(state, name, &text, &len);

	CU_ASSERT_EQUAL(rc, want ? 0 : -ENOENT);
	if (want && !rc) {
		CU_ASSERT_EQUAL(len, strlen(want));
		CU_ASSERT_EQUAL(memcmp(text, want, len), 0);
	}
}

static void written_replaced_removed(void)
{
	open_state();
	expect("a", NULL);
	CU_ASSERT_EQUAL(write_now("a", "one"), 0);
	expect("a", "one");
	CU_ASSERT_EQUAL(write_now("a", ""), 0);
	expect("a", "");
	CU_ASSERT_EQUAL(write_now("b", "two"), 0);
	CU_ASSERT_EQUAL(write_now("a", NULL), 0);
	expect("a", NULL);
	expect("b", "two");
	CU_ASSERT_EQUAL(write_now("a", NULL), 0); /* removing a missing file succeeds */
	close_state();
}

static void a_rest_of_a_write_does_no_harm(void)
{
	char path[128];
	int fd;

	open_state();
	CU_ASSERT_EQUAL(write_now("a", "one"), 0);
	snprintf(path, sizeof(path), "%s/state/a.new", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	CU_ASSERT_EQUAL(write(fd, "torn and longer than what comes", 31), 31);
	close(fd);
	expect("a", "one");
	CU_ASSERT_EQUAL(write_now("a", "two"), 0);
	expect("a", "two");
	CU_ASSERT_EQUAL(access(path, F_OK), -1);
	close_state();
}

static void a_failed_write_leaves_the_old_text(void)
{
	char path[128];

	open_state();
	CU_ASSERT_EQUAL(write_now("a", "one"), 0);
	/* A folder at the path of the new file. */
	snprintf(path, sizeof(path), "%s/state/a.new", dir);
	CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
	CU_ASSERT_EQUAL(write_now("a", "two"), -EISDIR);
	expect("a", "one");
	CU_ASSERT_EQUAL(rmdir(path), 0);
	CU_ASSERT_EQUAL(write_now("a", "two"), 0);
	expect("a", "two");
	close_state();
}

/* Replaces the function of the C library, for the tests of all files of this program. */
int t_fsync_fails, t_fsync_calls;

int fsync(int fd)
{
	if (++t_fsync_calls == t_fsync_fails) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

/* Of the new file, then of the folder: later writes fail as well. */
static void a_failed_sync_stays(void)
{
	for (int which = 1; which <= 2; which++) {
		open_state();
		CU_ASSERT_EQUAL(write_now("a", "one"), 0);
		t_fsync_fails = t_fsync_calls + which;
		CU_ASSERT_EQUAL(write_now("a", "two"), -EIO);
		t_fsync_fails = 0;
		CU_ASSERT_EQUAL(write_now("a", "three"), -EIO);
		CU_ASSERT_EQUAL(write_now("b", "one"), -EIO);
		CU_ASSERT_EQUAL(write_now("a", NULL), -EIO);
		expect("a", which == 1 ? "one" : "two");
		expect("b", NULL);
		rdt_state_close(&state);
		rd_loop_destroy(&loop);
		reopen_state();
		CU_ASSERT_EQUAL(write_now("a", "four"), 0);
		expect("a", "four");
		close_state();
	}
}

static void one_daemon_at_a_time(void)
{
	struct rdt_state *other;
	char path[96];

	open_state();
	snprintf(path, sizeof(path), "%s/state", dir);
	CU_ASSERT_EQUAL(rdt_state_open(NULL, NULL, path, -1, NULL, loop, &other), -EBUSY);
	CU_ASSERT_PTR_NULL(other);
	rdt_state_close(&state);
	CU_ASSERT_EQUAL(rdt_state_open(NULL, NULL, path, -1, NULL, loop, &state), 0);
	close_state();
}

static void places_that_cannot_be_used(void)
{
	struct rdt_state *none;
	char path[96];

	open_state();
	snprintf(path, sizeof(path), "%s/no/state", dir);
	CU_ASSERT_EQUAL(rdt_state_open(NULL, NULL, path, -1, NULL, loop, &none), -ENOENT);
	CU_ASSERT_EQUAL(write_now("a", "one"), 0);
	snprintf(path, sizeof(path), "%s/state/a", dir);
	CU_ASSERT_EQUAL(rdt_state_open(NULL, NULL, path, -1, NULL, loop, &none), -ENOTDIR);
	close_state();
}

static void the_thread_writes_in_order(void)
{
	struct rdt_state_job jobs[20] = {0};

	open_state();
	CU_ASSERT_EQUAL_FATAL(rdt_state_start(state), 0);
	done_count = 0;
	for (unsigned int i = 0; i < 20; i++) {
		char text[8];

		snprintf(text, sizeof(text), "%u", i);
		strcpy(jobs[i].name, "a");
		jobs[i].text = strdup(text);
		jobs[i].len = strlen(text);
		jobs[i].done = state_on_done;
		rdt_state_write(state, &jobs[i]);
	}
	while (done_count < 20)
		rd_loop_turn(loop, UINT64_MAX);
	expect("a", "19");
	close_state();
}

const struct t_case t_state_cases[] = {
	{"written, replaced, removed", written_replaced_removed},
	{"the rest of a write does no harm", a_rest_of_a_write_does_no_harm},
	{"a failed write leaves the old text", a_failed_write_leaves_the_old_text},
	{"a failed sync stays", a_failed_sync_stays},
	{"one daemon at a time", one_daemon_at_a_time},
	{"places that cannot be used", places_that_cannot_be_used},
	{"the thread writes in order", the_thread_writes_in_order},
	{NULL, NULL},
};

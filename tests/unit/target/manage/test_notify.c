/* SPDX-License-Identifier: BSD-3-Clause */
/* What the service manager is told: the test is at the other end of NOTIFY_SOCKET. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/fd_bag.h"
#include "t_target.h"
#include "target/manage/service/notify.h"
#include "target/manage/change/report.h"
#include "target/manage/service/watchdog.h"

struct t_manager {
	char dir[32];
	char path[48];
	int fd;
	struct rd_log *log;
	char lines[4096]; /* of the log */
};

static void keep_manager_line(void *arg, enum rd_log_level level, const char *line)
{
	struct t_manager *m = arg;
	size_t len = strlen(m->lines);

	snprintf(m->lines + len, sizeof(m->lines) - len, "%s\n", line);
}

static void manager_open(struct t_manager *m)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	memset(m, 0, sizeof(*m));
	strcpy(m->dir, "/tmp/t_notify.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(m->dir));
	snprintf(m->path, sizeof(m->path), "%s/notify", m->dir);
	memcpy(addr.sun_path, m->path, sizeof(m->path));
	m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CU_ASSERT_EQUAL_FATAL(bind(m->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CU_ASSERT_EQUAL_FATAL(rd_log_create("test", -1, RD_LOG_INFO, keep_manager_line, m, &m->log),
			      0);
	setenv("NOTIFY_SOCKET", m->path, 1);
}

static void manager_free(struct t_manager *m)
{
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	if (m->fd >= 0)
		close(m->fd);
	unlink(m->path);
	CU_ASSERT_EQUAL(rmdir(m->dir), 0);
	rd_log_destroy(&m->log);
}

/* The next message; "": there is none. */
static const char *next_message(struct t_manager *m)
{
	static char text[2048];
	ssize_t n = recv(m->fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void messages_arrive_as_they_are(void)
{
	struct rdt_notify n;
	struct t_manager m T_ENDS(manager_free);
	char longer[1500];

	manager_open(&m);
	rdt_notify_open(&n, m.log);
	CU_ASSERT_EQUAL(n.watchdog_ns, 0);
	rdt_notify(&n, "READY=1\nSTATUS=%s", "serving");
	CU_ASSERT_STRING_EQUAL(next_message(&m), "READY=1\nSTATUS=serving");
	rdt_notify_reloading(&n, "reading");
	CU_ASSERT_EQUAL(strncmp(next_message(&m), "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	rdt_notify(&n, "STATUS=%s", longer);
	CU_ASSERT_EQUAL(strlen(next_message(&m)), 1023);
	close(m.fd); /* the manager is gone: that is one warning, and no SIGPIPE */
	m.fd = -1;
	rdt_notify(&n, "READY=1\nSTATUS=serving");
	CU_ASSERT_PTR_NOT_NULL(strstr(m.lines, "cannot tell the service manager \"READY=1\": "));
	rdt_notify_close(&n);
	rdt_notify_close(&n);
	rdt_notify(&n, "READY=1"); /* to nobody */
}

/* "@NAME" is the abstract socket NAME. The kernel chooses a free one here. */
static void an_abstract_socket_is_reached(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(addr);
	struct rdt_notify n;
	struct t_manager m T_ENDS(manager_free);
	char name[64];
	int fd;

	manager_open(&m);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&addr, sizeof(sa_family_t)), 0);
	CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	snprintf(name, sizeof(name), "@%.*s",
		 (int)(len - offsetof(struct sockaddr_un, sun_path) - 1), addr.sun_path + 1);
	setenv("NOTIFY_SOCKET", name, 1);
	rdt_notify_open(&n, m.log);
	rdt_notify(&n, "READY=1");
	CU_ASSERT_STRING_EQUAL(next_message(&m), ""); /* not to the socket with a path */
	close(m.fd);
	m.fd = fd;
	CU_ASSERT_STRING_EQUAL(next_message(&m), "READY=1");
	CU_ASSERT_STRING_EQUAL(m.lines, "");
	rdt_notify_close(&n);
}

static void without_a_usable_socket_nothing_is_told(void)
{
	static const struct {
		const char *path, *warning;
	} rows[] = {
		{NULL, ""},
		{"", ""},
		{"relative", "expected an absolute path or @NAME"},
		{"/", "expected an absolute path or @NAME"},
		{"/nowhere/notify", "cannot reach NOTIFY_SOCKET /nowhere/notify"},
		{"@rdnvme-test-nobody-listens", "cannot reach NOTIFY_SOCKET @rdnvme"},
	};
	struct t_manager m T_ENDS(manager_free);

	manager_open(&m);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdt_notify n;

		m.lines[0] = '\0';
		if (rows[i].path)
			setenv("NOTIFY_SOCKET", rows[i].path, 1);
		else
			unsetenv("NOTIFY_SOCKET");
		rdt_notify_open(&n, m.log);
		CU_ASSERT_EQUAL(n.fd, -1);
		CU_ASSERT_PTR_NOT_NULL(strstr(m.lines, rows[i].warning));
		CU_ASSERT_EQUAL(m.lines[0] == '\0', rows[i].warning[0] == '\0');
		rdt_notify(&n, "READY=1");
		CU_ASSERT_STRING_EQUAL(next_message(&m), "");
		rdt_notify_close(&n);
	}
}

/* Receives "BARRIER=1". Returns the descriptor that came with it. */
static int next_barrier(struct t_manager *m)
{
	char text[64];
	struct rd_fd_bag bag;
	int fd;

	rd_fd_bag_init(&bag, 1);
	CU_ASSERT_EQUAL_FATAL(rd_fd_bag_receive(&bag, m->fd, text, sizeof(text)), 9);
	CU_ASSERT_EQUAL(memcmp(text, "BARRIER=1", 9), 0);
	fd = rd_fd_bag_take(&bag, 0);
	rd_fd_bag_clear(&bag);
	CU_ASSERT_FATAL(fd >= 0);
	return fd;
}

static void a_barrier_hangs_up_when_it_was_handled(void)
{
	struct t_manager m T_ENDS(manager_free);
	struct rdt_notify n;
	struct pollfd p = {.events = POLLIN};
	int theirs, none;

	manager_open(&m);
	rdt_notify_open(&n, m.log);
	p.fd = rdt_notify_barrier(&n);
	CU_ASSERT_FATAL(p.fd >= 0);
	CU_ASSERT_EQUAL(poll(&p, 1, 0), 0);
	theirs = next_barrier(&m);
	CU_ASSERT_EQUAL(poll(&p, 1, 0), 0);
	close(theirs);
	CU_ASSERT_EQUAL(poll(&p, 1, 0), 1);
	CU_ASSERT_EQUAL(p.revents, POLLHUP);
	close(p.fd);
	/* A manager that reads nothing: there is no more room at some time, and nothing waits. */
	do
		none = rdt_notify_barrier(&n);
	while (none >= 0 && !close(none));
	CU_ASSERT_EQUAL(none, -EAGAIN);
	rdt_notify_close(&n);
	CU_ASSERT_EQUAL(rdt_notify_barrier(&n), -ENOTCONN);
}

static uint64_t watchdog_of(struct t_manager *m, const char *usec, const char *pid)
{
	struct rdt_notify n;
	uint64_t ns;

	setenv("WATCHDOG_USEC", usec, 1);
	if (pid)
		setenv("WATCHDOG_PID", pid, 1);
	else
		unsetenv("WATCHDOG_PID");
	rdt_notify_open(&n, m->log);
	ns = n.watchdog_ns;
	rdt_notify_close(&n);
	return ns;
}

static void the_watchdogs_time_is_for_this_process_only(void)
{
	struct t_manager m T_ENDS(manager_free);
	char pid[16];

	manager_open(&m);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	CU_ASSERT_EQUAL(watchdog_of(&m, "3000000", NULL), 3 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(watchdog_of(&m, "3000000", pid), 3 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(watchdog_of(&m, "3000000", "1"), 0);
	CU_ASSERT_EQUAL(watchdog_of(&m, "3000000", "me"), 0);
	CU_ASSERT_STRING_EQUAL(m.lines, "");
	CU_ASSERT_EQUAL(watchdog_of(&m, "soon", NULL), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(m.lines, "WATCHDOG_USEC is \"soon\", expected a number"));
}

static void the_watchdog_is_fed_while_all_reactors_answer(void)
{
	struct t_env *env = t_env_new();
	struct rdt_watchdog *w;
	struct rdt_notify n;
	struct t_manager m T_ENDS(manager_free);

	manager_open(&m);
	setenv("WATCHDOG_USEC", "3000000", 1);
	rdt_notify_open(&n, m.log);
	env->t->log = m.log;
	CU_ASSERT_EQUAL_FATAL(rdt_watchdog_start(env->t, &n, &w), 0);
	for (int i = 0; i < 3; i++) {
		t_turn(env);
		CU_ASSERT_STRING_EQUAL(next_message(&m), "WATCHDOG=1");
		CU_ASSERT_STRING_EQUAL(next_message(&m), "");
		t_advance(env, RD_NSEC_PER_SEC);
	}
	CU_ASSERT_STRING_EQUAL(next_message(&m), "WATCHDOG=1");
	env->still[1] = true;
	for (int i = 0; i < 3; i++)
		t_advance(env, RD_NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(next_message(&m), "");
	CU_ASSERT_PTR_NOT_NULL(strstr(m.lines, "reactor 1 has not answered for 1000 ms"));
	CU_ASSERT_PTR_NULL(strstr(m.lines, "reactor 0 has not"));
	env->still[1] = false;
	t_turn(env);
	CU_ASSERT_STRING_EQUAL(next_message(&m), "WATCHDOG=1");
	CU_ASSERT_PTR_NOT_NULL(strstr(m.lines, "all reactors answer again, after 2000 ms"));
	t_advance(env, RD_NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(next_message(&m), "WATCHDOG=1");
	/* It is stopped during a round. */
	env->still[1] = true;
	t_advance(env, RD_NSEC_PER_SEC);
	rdt_watchdog_stop(w);
	env->still[1] = false;
	t_advance(env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT_STRING_EQUAL(next_message(&m), "");
	env->t->log = NULL;
	t_env_free(env);
	rdt_watchdog_free(&w);
	rdt_notify_close(&n);
}

static void the_journal_is_recognized_by_its_descriptor(void)
{
	char ours[64];
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(fstat(STDERR_FILENO, &st), 0);
	unsetenv("JOURNAL_STREAM");
	CU_ASSERT_FALSE(rdt_notify_to_journal());
	snprintf(ours, sizeof(ours), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", ours, 1);
	CU_ASSERT_TRUE(rdt_notify_to_journal());
	snprintf(ours, sizeof(ours), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + 1);
	setenv("JOURNAL_STREAM", ours, 1); /* standard error was redirected */
	CU_ASSERT_FALSE(rdt_notify_to_journal());
	unsetenv("JOURNAL_STREAM");
}

static void a_report_keeps_what_its_requester_must_know(void)
{
	static struct rdt_report report; /* large */
	struct t_manager m T_ENDS(manager_free);

	manager_open(&m);
	CU_ASSERT_EQUAL_FATAL(rdt_report_init(&report, m.log), 0);
	rd_err(report.log, RD_LOG_CONFIG, "file:3: size: found \"x\"");
	rd_notice(report.log, RD_LOG_CONFIG, "read");
	CU_ASSERT_EQUAL_FATAL(report.count, 1);
	CU_ASSERT_STRING_EQUAL(report.lines[0].text, "file:3: size: found \"x\"");
	CU_ASSERT_EQUAL(report.lines[0].level, RD_LOG_ERROR);
	CU_ASSERT_PTR_NOT_NULL(strstr(m.lines, "file:3: size: found \"x\"\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(m.lines, "read\n"));
	report.parent = NULL;
	m.lines[0] = '\0';
	for (unsigned int i = 0; i < RDT_REPORT_LINES + 4; i++)
		rd_warn(report.log, RD_LOG_CONFIG, "number %u", i);
	CU_ASSERT_EQUAL(report.count, RDT_REPORT_LINES);
	CU_ASSERT_EQUAL(report.left_out, 5);
	CU_ASSERT_STRING_EQUAL(m.lines, "");
	rdt_report_clear(&report);
	CU_ASSERT_EQUAL(report.count + report.left_out, 0);
	rdt_report_fini(&report);
}

const struct t_case t_notify_cases[] = {
	{"messages arrive as they are", messages_arrive_as_they_are},
	{"an abstract socket is reached", an_abstract_socket_is_reached},
	{"without a usable socket nothing is told", without_a_usable_socket_nothing_is_told},
	{"a barrier hangs up when it was handled", a_barrier_hangs_up_when_it_was_handled},
	{"the watchdog's time is for this process only",
	 the_watchdogs_time_is_for_this_process_only},
	{"the watchdog is fed while all reactors answer",
	 the_watchdog_is_fed_while_all_reactors_answer},
	{"the journal is recognized by its descriptor",
	 the_journal_is_recognized_by_its_descriptor},
	{"a report keeps what its requester must know",
	 a_report_keeps_what_its_requester_must_know},
	{NULL, NULL},
};

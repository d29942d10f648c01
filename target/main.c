/* SPDX-License-Identifier: BSD-3-Clause */
/* rdtarget: signals, and the sequence from start to exit. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "util/stdfds.h"
#include "target/bdev/jobs.h"
#include "target/bdev/module.h"
#include "target/config/config.h"
#include "target/manage/objects/compare.h"
#include "target/manage/service/notify.h"
#include "target/manage/service/options.h"
#include "target/manage/objects/opening.h"
#include "target/manage/change/preflight.h"
#include "target/manage/change/reloader.h"
#include "target/manage/http/http.h"
#include "target/manage/change/mgmt_if.h"
#include "target/manage/objects/leave.h"
#include "target/manage/rpc/rpc.h"
#include "target/manage/upgrade/give.h"
#include "target/manage/upgrade/stored.h"
#include "target/manage/upgrade/take.h"
#include "target/manage/service/run_as.h"
#include "target/manage/service/self.h"
#include "target/manage/figures/stats.h"
#include "target/manage/service/watchdog.h"
#include "target/nvmf/req_latency.h"
#include "target/reactor/lifecycle.h"
#include "target/nvmf/target.h"

/* After drain_timeout: time for connections to close and for backends to complete I/O. */
#define GIVE_UP_AFTER (5 * RD_NSEC_PER_SEC)
/* The wait for storage that does not answer: time for other I/O, for connections to close, and for
 * other namespaces to be removed. */
#define STALLED_WAIT  (2 * RD_NSEC_PER_SEC)
#define STALLED_AGAIN (RD_NSEC_PER_SEC / 2)
#define STALLED_CLOSE (RD_NSEC_PER_SEC / 2)
#define LEAVE_WAIT    RD_NSEC_PER_SEC
/* Maximum wait of the start for storage that does not answer. */
#define OPEN_WAIT (4 * RD_NSEC_PER_SEC)
/* Maximum wait of the exit for calls that hang, in storage or in a file of the configuration. */
#define JOBS_WAIT (3 * RD_NSEC_PER_SEC)
/* Maximum wait of the exit until such storage is closed. */
#define CLOSE_WAIT (10 * RD_NSEC_PER_SEC)

struct app {
	struct rdt_options opt;
	char *config_path; /* absolute path if relative paths begin elsewhere; or NULL */
	struct rd_log *log;
	struct rd_loop *loop;
	struct rdt_config *cfg;
	struct rdt_config_texts texts; /* the texts of @cfg; freed when the reloader has them */
	struct rdt_modules *modules;
	struct rdt_target *target;
	struct rd_io signals;
	struct rdt_reloader reloader;
	struct rdt_notify notify;
	struct rdt_watchdog *watchdog;
	struct rdt_rpc_env rpc_env;
	struct rdt_rpc *rpc;
	struct rdt_sampler *sampler;
	struct rdt_http *http;
	struct rdt_env env; /* environment of the target, with what it inherits */
	struct rdt_take take;
	struct rdt_stored stored; /* what the service manager has passed */
	unsigned long files_max;  /* of open files, as the service manager sets it */
	struct rdt_self self;
	const char *next_argv[RDT_GIVE_ARGS];
	struct rdt_give_env give_env;
	struct rdt_give *give;
	struct rd_timer timer; /* draining */
	uint64_t drain_end;    /* when @drain_timeout expires */
	bool draining;
	bool given;  /* draining after a hand-over, without a signal */
	bool stores; /* which was one to the service manager's store */
	bool abandoned;
	bool serving;
	bool reload_due; /* SIGHUP arrived during the start */
	bool failed;     /* a backend has not completed its I/O */
	int start_err;   /* of what was started while the loop runs */
};

/* Set the log format before anything is logged. Returns -1 to continue, otherwise the exit code. */
static int set_log_format(struct app *app)
{
	const char *name = app->opt.log_format ? app->opt.log_format : "auto";
	enum rd_log_format format = RD_LOG_TEXT;
	bool journal = rdt_notify_to_journal();
	int err;

	if (strcmp(name, "json") == 0)
		format = RD_LOG_JSON;
	else if (strcmp(name, "auto") == 0 && journal)
		format = RD_LOG_JOURNAL;
	else if (strcmp(name, "auto") != 0 && strcmp(name, "text") != 0)
		return rdt_usage_error("--log-format takes auto, text or json, not", name);
	/* a person waits for the result of these */
	if (!app->opt.take_over && (app->opt.check || app->opt.migrate))
		return -1;
	rd_log_set_format(app->log, format, journal);
	err = rd_log_buffer(app->log);
	if (!err)
		return -1;
	rd_err(app->log, RD_LOG_MAIN, "cannot start the log's thread: %s", strerror(-err));
	return EXIT_FAILURE;
}

static int make_log(struct app *app)
{
	const char *bad;

	if (rd_log_create("rdtarget", STDERR_FILENO, RD_LOG_NOTICE, NULL, NULL, &app->log)) {
		fputs("rdtarget: out of memory\n", stderr);
		return EXIT_FAILURE;
	}
	if (app->opt.log && rd_log_parse(app->log, app->opt.log, &bad)) {
		fprintf(stderr,
			"rdtarget: --log: \"%s\" is neither a level (%s) nor COMPONENT=LEVEL "
			"(%s)\n",
			bad, rd_log_level_names(), rd_log_comp_names());
		return RDT_EXIT_USAGE;
	}
	return set_log_format(app);
}

/* Each queue is a connection and needs a descriptor: raise the limit to the maximum. */
static void raise_open_files(struct app *app)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return;
	app->files_max = lim.rlim_cur;
	if (lim.rlim_cur == lim.rlim_max)
		return;
	lim.rlim_cur = lim.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &lim))
		rd_warn(app->log, RD_LOG_MAIN, "cannot raise the limit of open files: %s",
			strerror(errno));
}

static int die_with_parent(struct rd_log *log)
{
	pid_t parent = getppid();

	if (prctl(PR_SET_PDEATHSIG, SIGTERM)) {
		rd_err(log, RD_LOG_MAIN, "--exit-with-parent: %s", strerror(errno));
		return -errno;
	}
	/* The parent may have ended before prctl(). */
	if (getppid() != parent)
		raise(SIGTERM);
	return 0;
}

/* ---- the end ---- */

static void target_drained(struct rdt_target *target)
{
	rd_loop_stop(target->loop);
}

static void leave_timed_out(struct rd_timer *timer)
{
	struct app *app = rd_container_of(timer, struct app, timer);

	app->failed = true;
	rd_loop_stop(app->loop);
}

/* The part that hangs keeps this process alive. All other resources are released for the next
 * process. */
static void exit_timed_out(struct rd_timer *timer)
{
	struct app *app = rd_container_of(timer, struct app, timer);

	rdt_leave_begin(app->target);
	app->timer.fn = leave_timed_out;
	rd_timer_start(app->loop, &app->timer, LEAVE_WAIT);
}

static void abandon(struct app *app)
{
	if (app->abandoned)
		return;
	app->abandoned = true;
	rdt_target_abandon(app->target);
	app->timer.fn = exit_timed_out;
	rd_timer_start(app->loop, &app->timer,
		       rdt_leave_stalled(app->target) ? STALLED_CLOSE : GIVE_UP_AFTER);
}

static void drain_for(struct app *app, uint64_t at_most)
{
	uint64_t now = rd_loop_now(app->loop);
	uint64_t left = app->drain_end > now ? app->drain_end - now : 0;

	rd_timer_start(app->loop, &app->timer, left < at_most ? left : at_most);
}

static void drain_timed_out(struct rd_timer *timer)
{
	struct app *app = rd_container_of(timer, struct app, timer);

	if (rdt_give_waits(app->give)) { /* the next process counts on it */
		rd_timer_start(app->loop, &app->timer, STALLED_AGAIN);
		return;
	}
	if (rd_loop_now(app->loop) >= app->drain_end) {
		rd_warn(app->log, RD_LOG_MAIN,
			"drain_timeout has expired: closing with commands unanswered");
	} else if (rdt_leave_stalled(app->target)) {
		rd_warn(app->log, RD_LOG_MAIN,
			"not waiting for storage that does not answer: closing with commands "
			"unanswered");
	} else {
		drain_for(app, STALLED_AGAIN);
		return;
	}
	abandon(app);
}

static void begin_drain(struct app *app, void (*drained)(struct rdt_target *target))
{
	app->draining = true;
	app->timer.fn = drain_timed_out;
	app->drain_end = rd_loop_now(app->loop) + app->cfg->target.drain_timeout_ns;
	drain_for(app, STALLED_WAIT);
	rdt_target_drain(app->target, drained);
}

/* Before the commit of a hand-over, the other process or the store owns the connections: end
 * without closing or flushing anything as if it were ours. */
static void leave_take(struct rdt_take *take, const char *why)
{
	rd_log_flush(take->log);
	_exit(take->stored ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void terminate(struct app *app, int signo)
{
	if (app->given) {
		app->given = false;
		rd_notice(app->log, RD_LOG_MAIN, "%s: exiting, because another process %s",
			  strsignal(signo), app->stores ? "will take over" : "has taken over");
		return;
	}
	if (app->draining) {
		rd_notice(app->log, RD_LOG_MAIN, "%s again: not waiting for I/O in flight",
			  strsignal(signo));
		abandon(app);
		return;
	}
	rd_notice(app->log, RD_LOG_MAIN, "%s: draining", strsignal(signo));
	if (app->take.state != RDT_TAKE_NONE && app->take.state < RDT_TAKE_SERVING)
		leave_take(&app->take, "it was ended");
	rdt_give_cancel(app->give, "this process was told to end");
	rdt_notify(&app->notify, "STOPPING=1\nSTATUS=draining: waiting for I/O in flight");
	begin_drain(app, target_drained);
}

static void shut_down(struct rdt_rpc_env *env)
{
	struct app *app = rd_container_of(env, struct app, rpc_env);

	if (!app->draining)
		terminate(app, SIGTERM);
}

/* ---- changes ---- */

static const char *plural(unsigned int n)
{
	return n == 1 ? "" : "s";
}

/* Sends READY=1 also after a reload, because systemd waits for it. @more: the event, or "". */
static void tell_serving(struct app *app, const char *more)
{
	struct rdt_served served = rdt_target_served(app->target);
	char unset[64] = "";

	if (served.subsystems_unset)
		snprintf(unset, sizeof(unset), "; %u subsystem%s without allow_any_host or hosts",
			 served.subsystems_unset, plural(served.subsystems_unset));
	rdt_notify(&app->notify,
		   "READY=1\nSTATUS=serving: %u listener%s, %u subsystem%s, %u namespace%s%s%s%s",
		   served.listeners, plural(served.listeners), served.subsystems,
		   plural(served.subsystems), served.namespaces, plural(served.namespaces), unset,
		   more[0] ? "; " : "", more);
}

static void reload_begins(struct rdt_reloader *reloader)
{
	struct app *app = rd_container_of(reloader, struct app, reloader);

	rdt_notify_reloading(&app->notify, "reading the configuration again");
}

static void reload_ended(struct rdt_reloader *reloader, const struct rdt_change *change)
{
	struct app *app = rd_container_of(reloader, struct app, reloader);

	if (!app->draining)
		tell_serving(app, change->summary);
}

static void reload_on_signal(struct app *app)
{
	if (app->draining)
		return;
	if (!app->serving) {
		app->reload_due = true;
		return;
	}
	rd_notice(app->log, RD_LOG_MAIN, "SIGHUP: reading %s again", app->opt.config);
	if (rdt_reloader_start(&app->reloader, NULL, false, NULL, NULL))
		rd_err(app->log, RD_LOG_MAIN, "not reloaded: out of memory; nothing was changed");
}

static void on_target_signal(struct rd_io *io, uint32_t events)
{
	struct app *app = rd_container_of(io, struct app, signals);
	struct signalfd_siginfo si;

	while (read(io->fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGUSR1)
			rdt_target_status(app->target);
		else if (si.ssi_signo == SIGHUP)
			reload_on_signal(app);
		else if (si.ssi_signo == SIGUSR2)
			rd_notice(app->log, RD_LOG_MAIN,
				  "SIGUSR2: ignored; SIGUSR1 logs the status, SIGHUP reloads the "
				  "configuration");
		else
			terminate(app, (int)si.ssi_signo);
	}
}

/* Ignore signals that would end the process unintentionally. With SIGXFSZ ignored, the write fails
 * with EFBIG, which is reported to the host. */
static void ignore_signals(void)
{
	static const int ignored[] = {SIGPIPE, SIGALRM, SIGVTALRM, SIGPROF,
				      SIGPOLL, SIGPWR,  SIGSTKFLT, SIGXFSZ};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		signal(sig, SIG_IGN);
}

/* Block the signals that are read from a descriptor once the target runs. They are blocked first,
 * so that earlier signals stay pending and all threads inherit the mask. */
static void block_signals(sigset_t *set)
{
	ignore_signals();
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGUSR1);
	sigaddset(set, SIGUSR2);
	sigaddset(set, SIGHUP);
	sigprocmask(SIG_BLOCK, set, NULL);
}

static void tell_ready(struct app *app)
{
	const struct rdt_target *t = app->target;
	const struct rdt_listener *l;
	char host[RD_ADDR_TEXT];

	if (!app->cfg->listeners_count)
		rd_notice(app->log, RD_LOG_MAIN,
			  "no listener is configured, so no host can connect; SIGHUP reloads %s",
			  app->opt.config);
	if (!app->cfg->subsystems_count)
		rd_notice(app->log, RD_LOG_MAIN,
			  "no subsystem is configured, so there is nothing to connect to; SIGHUP "
			  "reloads %s",
			  app->opt.config);
	rd_notice(app->log, RD_LOG_MAIN, "ready");
	tell_serving(app, "");
	rdt_compare_watch(app->target);
	if (app->opt.ready_fd < 0)
		return;
	TAILQ_FOREACH (l, &t->listeners, link) {
		const struct sockaddr *addr = (const struct sockaddr *)&l->addr;

		if (l->phase != RDT_LISTENER_LISTENING)
			continue;
		dprintf(app->opt.ready_fd, "%s %u\n", rd_addr_format_host(addr, host),
			rd_addr_port(addr));
	}
	close(app->opt.ready_fd);
}

/* Storage is served even if the control socket fails. */
static int start_control(struct app *app)
{
	int err = rdt_rpc_open(&app->rpc_env, &app->rpc);

	return app->rpc && app->cfg->target.start != RDT_START_ALL_OR_NOTHING ? 0 : err;
}

/* Storage is served even if the status page fails. */
static int start_http(struct app *app)
{
	char text[RDT_MGMT_TEXT];
	int err = rdt_http_new(app->target, &app->reloader, app->sampler, &app->http);

	if (err)
		return err;
	if (rdt_http_set(app->http, &app->cfg->http, text, sizeof(text)) < 0 && !app->http)
		rd_err(app->log, RD_LOG_MAIN, "%s", text);
	return 0;
}

/* ---- another process takes over ---- */

static void share_fds(struct rdt_give_env *env, struct rdt_give_fds *fds)
{
	struct app *app = rd_container_of(env, struct app, give_env);

	rdt_rpc_share(app->rpc, &fds->control, &fds->control_lock);
	fds->http = rdt_http_share(app->http);
}

static void drained_after_commit(struct rdt_target *target)
{
	struct app *app = target->drained_arg;

	rdt_give_drained(app->give);
}

static void serve_no_more(struct rdt_give_env *env, pid_t pid)
{
	struct app *app = rd_container_of(env, struct app, give_env);
	char main_pid[32] = "";

	app->stores = pid == RDT_GIVE_STORED;
	if (pid > 0) /* 0: it is in another PID namespace, so it cannot be named */
		snprintf(main_pid, sizeof(main_pid), "MAINPID=%d\n", (int)pid);
	if (app->stores)
		rdt_notify(&app->notify, "STOPPING=1\nSTATUS=connections are stored");
	else
		rdt_notify(&app->notify, "%sSTATUS=handed over to process %d", main_pid, (int)pid);
	rdt_watchdog_stop(app->watchdog);
	rdt_http_close(app->http);
	if (!app->stores) /* else the control socket ends as this process does */
		rdt_rpc_handed_over(app->rpc);
	app->target->drained_arg = app;
	app->given = true;
	begin_drain(app, drained_after_commit);
}

/* Set the options of the next process: those of this one, without actions that are already done. */
static int prepare_to_give(struct app *app)
{
	const struct rdt_options *opt = &app->opt;
	size_t n = 0;

	app->next_argv[n++] = "rdtarget";
	app->next_argv[n++] = "--config";
	app->next_argv[n++] = opt->config;
	if (opt->log) {
		app->next_argv[n++] = "--log";
		app->next_argv[n++] = opt->log;
	}
	if (opt->log_format) {
		app->next_argv[n++] = "--log-format";
		app->next_argv[n++] = opt->log_format;
	}
	app->give_env = (struct rdt_give_env){
		.target = app->target,
		.reloader = &app->reloader,
		.self = &app->self,
		.argv = app->next_argv,
		.socket = app->cfg->control.socket,
		.tied = opt->exit_with_parent,
		.never = opt->no_hand_over,
		.notify = &app->notify,
		.files_max = app->files_max,
		.fds = share_fds,
		.committed = serve_no_more,
	};
	return rdt_give_new(&app->give_env, &app->give);
}

/* ---- the start ---- */

/* Make the target visible to hosts and operators: steps that can fail and be retried. */
static int app_serve(struct app *app)
{
	int err = start_control(app);

	if (!err)
		err = start_http(app);
	if (!err)
		err = rdt_watchdog_start(app->target, &app->notify, &app->watchdog);
	if (err)
		return err;
	app->serving = true;
	tell_ready(app);
	if (app->reload_due)
		reload_on_signal(app);
	return 0;
}

static void show_taken(struct rdt_take *take)
{
	struct app *app = rd_container_of(take, struct app, take);
	int err = app->draining ? 0 : app_serve(app);

	if (err)
		rd_err(app->log, RD_LOG_MAIN, "the control socket or the status page: %s",
		       strerror(-err));
	rdt_take_serves(take);
}

static void tell_not_taken(struct app *app, const char *why)
{
	rd_warn(app->log, RD_LOG_MAIN,
		"what the service manager has stored is not taken over: %s; hosts connect again",
		why);
}

static void take_alone(struct rdt_take *take)
{
	rd_container_of(take, struct app, take)->env.inherit = NULL;
	rd_info(take->log, RD_LOG_MAIN, "process %d has ended", take->pid);
}

static void take_checked(struct rdt_take *take)
{
	printf("process %d can be taken over from\n", take->pid);
	rd_loop_stop(take->target->loop);
}

/* The target serves as if nothing had been stored. */
static void serve_without(struct rdt_take *take, const char *why)
{
	struct app *app = rd_container_of(take, struct app, take);

	tell_not_taken(app, why);
	app->env.inherit = app->rpc_env.inherit = NULL;
	app->start_err = app_serve(app);
	if (app->start_err)
		rd_loop_stop(app->loop);
}

/* What the service manager has passed is taken, or it is closed everywhere before anything is
 * opened anew: its locks are in the way. */
static void begin_to_take_stored(struct app *app)
{
	char why[RDT_CHANNEL_WHY];
	int err = 0;

	if (app->stored.strangers)
		rd_info(app->log, RD_LOG_MAIN,
			"closed %u descriptors of the service manager that are not for rdtarget",
			app->stored.strangers);
	if (!rdt_stored_any(&app->stored))
		return;
	if (app->opt.no_hand_over || app->opt.take_over) {
		err = -EPERM;
		snprintf(why, sizeof(why), "it was started with %s",
			 app->opt.take_over ? "--take-over" : "--no-hand-over");
	}
	app->take.fails = serve_without;
	app->take.notify = &app->notify;
	if (!err)
		err = rdt_take_begin_stored(&app->take, &app->stored, app->cfg, why, sizeof(why));
	if (!err)
		return;
	tell_not_taken(app, why);
	rdt_stored_refuse(&app->stored, false);
	err = rdt_store_remove_now(&app->notify);
	if (err)
		rd_warn(app->log, RD_LOG_MAIN, "the service manager's store is not emptied: %s",
			rdt_store_says(err));
}

/* Called before anything is opened. */
static int begin_to_take(struct app *app)
{
	int err;

	app->take.log = app->log;
	begin_to_take_stored(app);
	if (app->take.stored) {
		app->take.show = show_taken;
		app->take.alone = take_alone;
		app->env.inherit = app->take.inherit;
	}
	if (!app->opt.take_over)
		return 0;
	app->take.check = app->opt.check;
	app->take.force = app->opt.force;
	app->take.show = show_taken;
	app->take.fails = leave_take;
	app->take.checked = take_checked;
	app->take.alone = take_alone;
	err = rdt_take_begin(&app->take, app->opt.take_over, app->cfg);
	app->env.inherit = app->take.inherit;
	if (app->take.files_max) /* the other process has raised what this one began with */
		app->files_max = app->take.files_max;
	return err;
}

/* Start everything from the first thread to the listeners. */
static int app_start(struct app *app, int fd)
{
	struct rd_loop_opts opts = {.log = app->log};
	int err;

	raise_open_files(app);
	rdt_notify_open(&app->notify, app->log);
	rdt_preflight_hosts(app->cfg, NULL, app->log);
	err = begin_to_take(app);
	if (!err)
		err = rdt_preflight_memory(app->cfg, app->log);
	if (!err)
		err = rd_loop_create(&opts, &app->loop);
	if (!err)
		err = rd_io_add(app->loop, &app->signals, fd, EPOLLIN, on_target_signal);
	if (!err && app->opt.exit_with_parent)
		err = die_with_parent(app->log);
	if (!err)
		err = rdt_target_create(app->cfg, app->log, app->loop, &app->env, app->modules,
					&app->target);
	if (!err)
		err = rdt_target_prepare(app->target);
	if (!err) {
		rdt_opening_begin(app->target);
		err = rdt_opening_wait(app->target, OPEN_WAIT);
	}
	if (!err)
		err = rdt_target_start(app->target);
	if (!err)
		err = rdt_sampler_new(app->target, &app->reloader, &app->sampler);
	if (err)
		return err;
	app->rpc_env = (struct rdt_rpc_env){
		.target = app->target,
		.reloader = &app->reloader,
		.sampler = app->sampler,
		.config_path = app->opt.config,
		.cfg = &app->cfg->control,
		.inherit = app->env.inherit,
		.shutdown = shut_down,
	};
	app->reloader.target = app->target;
	app->reloader.path = app->opt.config;
	app->reloader.begins = reload_begins;
	app->reloader.ended = reload_ended;
	app->reloader.wanted = app->texts;
	app->texts = (struct rdt_config_texts){0};
	rdt_reloader_init(&app->reloader);
	err = prepare_to_give(app);
	app->rpc_env.give = app->give;
	if (err)
		return err;
	return app->take.state != RDT_TAKE_NONE ? rdt_take_ready(&app->take, app->target)
						: app_serve(app);
}

static void tell_stopped(struct app *app)
{
	uint64_t reads, writes;

	rdt_target_totals(app->target, &reads, &writes);
	rd_notice(app->log, RD_LOG_MAIN,
		  "stopped: %" PRIu64 " reads and %" PRIu64 " writes served%s", reads, writes,
		  app->abandoned ? "; some commands were left unanswered" : "");
	if (app->cfg->target.state_times_at_exit)
		rdt_timing_log_drained(app->target);
}

/* Stop and free what app_start() created, possibly only in part. @code: the exit code if not
 * everything can be freed. */
static void app_stop(struct app *app, int code)
{
	rdt_sampler_close(app->sampler);
	rdt_http_close(app->http);
	rdt_rpc_close(app->rpc);
	rdt_watchdog_stop(app->watchdog);
	rdt_give_free(&app->give);
	rdt_reloader_stop(&app->reloader);
	if (app->loop) {
		rd_timer_stop(app->loop, &app->timer);
		rd_io_del(app->loop, &app->signals);
	}
	rdt_self_fini(&app->self);
	if (app->target)
		rdt_compare_unwatch(app->target);
	rdt_target_stop(app->target);
	rdt_take_free(&app->take);
	rdt_stored_free(&app->stored);
	app->env.inherit = NULL;
	if (app->target) {
		if (!rdt_jobs_end(app->target->jobs, JOBS_WAIT)) {
			rd_log_flush(app->log);
			_exit(code); /* the hanging calls use our memory */
		}
		rdt_converge_fini(app->target);
	}
	rdt_target_destroy(&app->target);
	rd_loop_destroy(&app->loop);
	rdt_watchdog_free(&app->watchdog);
	rdt_http_free(&app->http);
	rdt_rpc_free(&app->rpc);
	rdt_sampler_free(&app->sampler);
	rdt_notify_close(&app->notify);
}

/* A backend still uses our buffers, so nothing can be freed. Close what other processes may use,
 * because the kernel keeps this process until the I/O ends. */
static void leave_hung(struct app *app)
{
	char text[1024];

	if (app->target->drained == drained_after_commit) { /* the next process owns the locks */
		rd_log_flush(app->log);
		_exit(EXIT_SUCCESS);
	}
	rdt_sampler_close(app->sampler);
	rdt_http_close(app->http);
	rdt_rpc_close(app->rpc);
	rdt_leave_hung(app->target, text, sizeof(text));
	rd_err(app->log, RD_LOG_MAIN, "giving up: a backend has not completed its I/O%s%s",
	       text[0] ? ": " : "", text);
	rd_log_flush(app->log);
	_exit(EXIT_FAILURE);
}

static int run_until_stopped(struct app *app, const sigset_t *set)
{
	int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	int err;

	if (fd < 0) {
		rd_err(app->log, RD_LOG_MAIN, "signalfd: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	err = app_start(app, fd);
	if (!err)
		err = rd_loop_run(app->loop);
	if (!err)
		err = app->start_err;
	if (app->failed)
		leave_hung(app);
	if (app->draining)
		tell_stopped(app);
	if (err)
		rd_err(app->log, RD_LOG_MAIN, "not serving: %s", strerror(-err));
	app_stop(app, err ? EXIT_FAILURE : EXIT_SUCCESS);
	close(fd);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The path of the configuration is relative to the current directory; the paths in it are relative
 * to --directory. */
static int enter_directory(struct app *app)
{
	rd_autofree char *cwd = app->opt.config[0] == '/' ? NULL : getcwd(NULL, 0);

	if (cwd && asprintf(&app->config_path, "%s/%s", cwd, app->opt.config) < 0)
		app->config_path = NULL;
	if (cwd && app->config_path)
		app->opt.config = app->config_path;
	if (chdir(app->opt.directory) == 0)
		return 0;
	rd_err(app->log, RD_LOG_MAIN, "--directory %s: %s", app->opt.directory, strerror(errno));
	return -errno;
}

/* Implements --migrate. Returns the exit code. */
static int migrate_config(struct app *app)
{
	int files = rdt_config_migrate(app->cfg, &app->texts, app->log);

	if (files < 0)
		return EXIT_FAILURE; /* the reason was logged */
	if (files)
		printf("%s: files changed: %d; the previous ones are kept with \"~\" at the end of "
		       "their names\n",
		       app->opt.config, files);
	else
		printf("%s: nothing to change\n", app->opt.config);
	return EXIT_SUCCESS;
}

static void exit_at_once(int signo)
{
	_exit(EXIT_SUCCESS);
}

/* Load the configuration. Nothing is open before that, so a signal to exit need not wait. Returns
 * like rdt_config_load_texts(). */
static int load_to_serve(struct app *app)
{
	sigset_t ending;
	int err;

	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	signal(SIGTERM, exit_at_once);
	signal(SIGINT, exit_at_once);
	sigprocmask(SIG_UNBLOCK, &ending, NULL);
	err = rdt_config_load_texts(app->opt.config, &app->texts, false, app->log, &app->cfg);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	return err;
}

/* Returns -1 to continue, otherwise the exit code; the reason was logged. */
static int load(struct app *app)
{
	bool serve = app->opt.take_over || (!app->opt.check && !app->opt.migrate);
	int err;

	if (serve)
		err = load_to_serve(app);
	else if (app->opt.check_machine)
		err = rdt_preflight(app->opt.config, app->modules, app->log, &app->cfg);
	else
		err = rdt_config_load_texts(app->opt.config, &app->texts, false, app->log,
					    &app->cfg);
	if (err)
		return serve ? RDT_EXIT_CONFIG : EXIT_FAILURE;
	if (app->opt.migrate)
		return migrate_config(app);
	if (serve)
		return -1;
	if (rdt_preflight_hosts(app->cfg, NULL, app->log))
		return EXIT_FAILURE;
	printf("%s: OK%s\n", app->opt.config,
	       app->opt.check_machine ? ", and this machine has what it needs" : "");
	return EXIT_SUCCESS;
}

/* Unload the modules, when all backends are closed. */
static void close_modules(struct app *app, int code)
{
	if (rdt_modules_free(&app->modules, CLOSE_WAIT))
		return;
	rd_warn(app->log, RD_LOG_MAIN,
		"storage on the network does not answer: exiting without having closed it there");
	rd_log_flush(app->log);
	_exit(code); /* threads of its libraries still run, so nothing can be freed */
}

int main(int argc, char **argv)
{
	struct app app = {.notify.fd = -1, .self.io.fd = -1, .take.channel.fd = -1};
	sigset_t set;
	int code;

	block_signals(&set);
	if (rd_stdfds_open())
		return EXIT_FAILURE; /* there is no log yet */
	code = rdt_options_parse(argc, argv, &app.opt);
	if (code >= 0)
		return code;
	rdt_stored_collect(&app.stored); /* nothing else is open */
	if (!app.opt.take_over &&
	    (app.opt.check || app.opt.migrate)) /* no descriptor will be read for signals */
		sigprocmask(SIG_UNBLOCK, &set, NULL);
	code = make_log(&app);
	if (code < 0 && rdt_self_init(&app.self))
		rd_info(app.log, RD_LOG_MAIN, "the path of this program is not known");
	if (code < 0 && app.opt.user && rdt_run_as(app.opt.user, app.log))
		code = EXIT_FAILURE; /* the reason was logged */
	if (code < 0 && app.opt.directory && enter_directory(&app))
		code = EXIT_FAILURE; /* likewise */
	if (code < 0 && rdt_modules_create(&app.modules))
		code = EXIT_FAILURE;
	if (code < 0)
		code = load(&app);
	if (code < 0)
		code = run_until_stopped(&app, &set);
	close_modules(&app, code);
	rdt_config_put(&app.cfg);
	rdt_config_texts_free(&app.texts);
	rdt_stored_free(&app.stored);
	rdt_self_fini(&app.self);
	free(app.config_path);
	rd_log_destroy(&app.log);
	return code;
}

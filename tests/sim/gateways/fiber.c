/* SPDX-License-Identifier: BSD-3-Clause */
#include "fiber.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "threads.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#define STACK_SIZE  (256u << 10)
#define WAKE_JITTER (200 * RD_NSEC_PER_USEC)
#define LOOK_AGAIN  (100 * RD_NSEC_PER_MSEC)

struct fiber {
	struct rd_sim_event event;
	struct process *process;
	ucontext_t context;
	void *stack;
	void *(*fn)(void *arg);
	void *arg;
	struct fiber_list *waits_in; /* NULL: it runs, or will */
	bool timed_out;
	bool ended;
	bool kept;          /* until fiber_join() */
	unsigned int locks; /* that it holds */
	void *tsan;
	TAILQ_ENTRY(fiber) link;
};

/*
 * The functions in whose place these are have no argument from which the simulation could be found,
 * so this is known to the whole program, which simulates in one thread.
 */
static struct {
	struct process *process;
	struct fiber *fiber; /* that runs; NULL: the main stack */
	ucontext_t main;
	const void *main_stack;
	size_t main_size;
	void *tsan;
} now;

struct process *process_now(void)
{
	return now.process;
}

struct process *process_enter(struct process *p)
{
	struct process *before = now.process;

	now.process = p;
	return before;
}

const struct fiber *fiber_now(void)
{
	return now.fiber;
}

bool process_stalled(const struct process *p)
{
	return p->stalled_until > rd_sim_now(p->sim);
}

uint64_t fault_wait(const struct rd_sim *sim, uint64_t until)
{
	uint64_t left = until - rd_sim_now(sim);

	return left < LOOK_AGAIN ? left : LOOK_AGAIN;
}

/* ---- switching ---- */

static void begin_switch(void **fake, const void *stack, size_t size, void *tsan)
{
	(void)fake, (void)stack, (void)size, (void)tsan;
#ifdef WITH_ASAN
	__sanitizer_start_switch_fiber(fake, stack, size);
#endif
#ifdef WITH_TSAN
	__tsan_switch_to_fiber(tsan, 0);
#endif
}

static void end_switch(void *fake, const void **stack, size_t *size)
{
	(void)fake, (void)stack, (void)size;
#ifdef WITH_ASAN
	__sanitizer_finish_switch_fiber(fake, stack, size);
#endif
}

static void leave_fiber(struct fiber *f)
{
	void *fake = NULL;

	begin_switch(f->ended ? NULL : &fake, now.main_stack, now.main_size, now.tsan);
	swapcontext(&f->context, &now.main);
	end_switch(fake, &now.main_stack, &now.main_size);
}

static void fiber_main(void)
{
	struct fiber *f = now.fiber;

	end_switch(NULL, &now.main_stack, &now.main_size);
	f->fn(f->arg);
	f->ended = true;
	leave_fiber(f);
}

static void free_fiber(struct fiber *f)
{
	if (!f)
		return;
#ifdef WITH_TSAN
	if (f->tsan)
		__tsan_destroy_fiber(f->tsan);
#endif
	if (f->stack)
		munmap(f->stack, STACK_SIZE);
	free(f);
}

static void enter_fiber(struct fiber *f)
{
	struct process *before = process_enter(f->process);
	struct fiber *outer = now.fiber;
	void *fake = NULL;

	now.fiber = f;
#ifdef WITH_TSAN
	now.tsan = __tsan_get_current_fiber();
#endif
	begin_switch(&fake, f->stack, STACK_SIZE, f->tsan);
	swapcontext(&now.main, &f->context);
	end_switch(fake, NULL, NULL);
	now.fiber = outer;
	process_enter(before);
	if (!f->ended)
		return;
	f->process->fibers--;
	if (!f->kept)
		free_fiber(f);
}

static void stop_waiting(struct fiber *f)
{
	if (f->waits_in)
		TAILQ_REMOVE(f->waits_in, f, link);
	f->waits_in = NULL;
}

static void fiber_due(struct rd_sim_event *event)
{
	struct fiber *f = rd_container_of(event, struct fiber, event);
	const struct process *p = f->process;

	if (process_stalled(p)) {
		rd_sim_at(p->sim, event, fault_wait(p->sim, p->stalled_until));
		return;
	}
	f->timed_out = f->waits_in != NULL;
	stop_waiting(f);
	enter_fiber(f);
}

void fiber_join(struct fiber *f)
{
	while (!f->ended) {
		rd_sim_cancel(f->process->sim, &f->event);
		f->timed_out = false;
		stop_waiting(f);
		enter_fiber(f);
	}
	free_fiber(f);
}

int fiber_start(void *(*fn)(void *arg), void *arg, struct fiber **kept)
{
	struct fiber *f = calloc(1, sizeof(*f));

	if (kept)
		*kept = f;
	if (!f)
		return -ENOMEM;
	f->stack =
		mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f->stack == MAP_FAILED) {
		f->stack = NULL;
		free_fiber(f);
		return -ENOMEM;
	}
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = STACK_SIZE;
	makecontext(&f->context, fiber_main, 0);
#ifdef WITH_TSAN
	f->tsan = __tsan_create_fiber(0);
#endif
	f->fn = fn;
	f->arg = arg;
	f->kept = kept != NULL;
	f->event.fn = fiber_due;
	f->process = now.process;
	f->process->fibers++;
	return rd_sim_at(f->process->sim, &f->event, rd_sim_below(f->process->sim, WAKE_JITTER));
}

/* ---- waiting ---- */

bool fiber_wait(struct fiber_list *list, uint64_t until)
{
	struct fiber *f = now.fiber;
	struct rd_sim *sim = now.process->sim;

	if (!f)
		abort(); /* the main stack must not wait */
	f->waits_in = list;
	TAILQ_INSERT_TAIL(list, f, link);
	if (until != UINT64_MAX)
		rd_sim_at(sim, &f->event, until > rd_sim_now(sim) ? until - rd_sim_now(sim) : 0);
	leave_fiber(f);
	return !f->timed_out;
}

void fiber_wake(struct fiber_list *list)
{
	struct fiber *f;

	while ((f = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, f, link);
		f->waits_in = NULL;
		rd_sim_at(f->process->sim, &f->event, rd_sim_below(f->process->sim, WAKE_JITTER));
	}
}

void fiber_sleep(uint64_t ns)
{
	struct fiber_list none = TAILQ_HEAD_INITIALIZER(none);

	fiber_wait(&none, rd_sim_now(now.process->sim) + ns);
}

/* ---- in the place of POSIX threads ---- */

int sim_mutex_init(struct sim_mutex *m, const void *attr)
{
	(void)attr;
	m->locked = false;
	TAILQ_INIT(&m->waiting);
	return 0;
}

int sim_mutex_destroy(struct sim_mutex *m)
{
	if (m->locked || !TAILQ_EMPTY(&m->waiting))
		abort();
	return 0;
}

static int take_mutex(struct sim_mutex *m)
{
	m->locked = true;
	if (now.fiber)
		now.fiber->locks++;
	return 0;
}

int sim_mutex_lock(struct sim_mutex *m)
{
	/* Another thread may run first, but for one that holds a lock: the main stack, which cannot
	 * wait, may need that lock. */
	if (now.fiber && !now.fiber->locks && rd_sim_chance(now.process->sim, 1, 16))
		fiber_sleep(rd_sim_below(now.process->sim, WAKE_JITTER));
	while (m->locked)
		fiber_wait(&m->waiting, UINT64_MAX);
	return take_mutex(m);
}

int sim_mutex_trylock(struct sim_mutex *m)
{
	return m->locked ? EBUSY : take_mutex(m);
}

int sim_mutex_unlock(struct sim_mutex *m)
{
	if (!m->locked)
		abort();
	m->locked = false;
	if (now.fiber)
		now.fiber->locks--;
	fiber_wake(&m->waiting);
	return 0;
}

int sim_cond_init(struct sim_cond *c, const void *attr)
{
	(void)attr;
	TAILQ_INIT(&c->waiting);
	return 0;
}

int sim_cond_destroy(struct sim_cond *c)
{
	if (!TAILQ_EMPTY(&c->waiting))
		abort();
	return 0;
}

int sim_cond_wait_until(struct sim_cond *c, struct sim_mutex *m, uint64_t until)
{
	bool woken;

	sim_mutex_unlock(m);
	woken = fiber_wait(&c->waiting, until);
	sim_mutex_lock(m);
	return woken ? 0 : ETIMEDOUT;
}

int sim_cond_wait(struct sim_cond *c, struct sim_mutex *m)
{
	return sim_cond_wait_until(c, m, UINT64_MAX);
}

int sim_cond_broadcast(struct sim_cond *c)
{
	fiber_wake(&c->waiting);
	return 0;
}

int sim_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *arg),
		      void *arg)
{
	(void)attr;
	*thread = 0; /* nobody joins it */
	return -fiber_start(fn, arg, NULL);
}

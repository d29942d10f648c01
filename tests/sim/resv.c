/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules are those of NVMe Base 2.0, 8.19, written a second time: the target's own code is what
 * is judged.
 */
#include "resv.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"

#define OPS      6u
#define CASES    4096u
#define OPEN     0xffffu /* the command has not taken effect */
#define REPORTED 0x8000u
#define ALL      ((1u << RESV_HOSTS) - 1)

/* One possible state, and the results of the commands that led to it. */
struct possible {
	struct resv_state state;
	uint8_t victims[OPS]; /* of Preempt and Abort, a set of hosts */
	uint8_t note[OPS];    /* enum resv_note, for the listener */
	uint16_t result[OPS]; /* OPEN; an NVMe status code; REPORTED and the state */
};

enum op_state {
	OP_FREE,
	OP_SENT,
	OP_LOST, /* nobody waits for it, but it may take effect */
	OP_DEAD, /* it is waited for, but cannot take effect any more */
};

/* When hosts may do something, in at least one possible state. */
struct right {
	bool now;
	uint64_t last; /* if not now */
};

/* What a host is told of, by its log page. A command notifies a host at most once. */
struct listener {
	unsigned int host; /* RESV_HOSTS: none */
	uint64_t runs;     /* since when notifications are certainly in the log */
	unsigned int possible_types, certain_types;
	uint64_t certain_since[RESV_NOTES]; /* of @certain_types */
	unsigned int possible[RESV_NOTES], certain[RESV_NOTES];
};

struct resv {
	struct listener listener;
	uint64_t begin[OPS];
	unsigned int types[OPS];   /* of notifications that the command may cause; */
	unsigned int counted[OPS]; /* those of them that are counted as possible */
	struct resv_op ops[OPS];
	enum op_state op_state[OPS];
	bool overtaken[OPS]; /* another command was answered since it began */
	unsigned int count;
	bool overflow;
	struct right can[RESV_HOSTS][2], cannot[RESV_HOSTS][2];
	bool fenced[RESV_HOSTS];
	struct right aborts; /* Preempt and Abort is in progress */
	struct possible cases[CASES];
};

/* ---- the rules ---- */

static bool of_all(unsigned int rtype)
{
	return rtype == NVME_RESERVATION_RTYPE_WEAR || rtype == NVME_RESERVATION_RTYPE_EAAR;
}

static bool holds(const struct resv_state *s, unsigned int host)
{
	return s->rtype && (of_all(s->rtype) ? s->key[host] != 0 : s->holder == host);
}

/* What a command does beside changing the state. */
struct effects {
	uint8_t victims;          /* of Preempt and Abort, a set of hosts */
	uint8_t note[RESV_HOSTS]; /* enum resv_note */
};

static void note_others(const struct resv_state *s, const struct resv_op *op, struct effects *fx,
			enum resv_note note)
{
	for (unsigned int i = 0; i < RESV_HOSTS; i++)
		if (s->key[i] && i != op->host)
			fx->note[i] = (uint8_t)note;
}

static bool of_registrants(unsigned int rtype)
{
	return rtype > NVME_RESERVATION_RTYPE_EA;
}

static void free_reservation(struct resv_state *s)
{
	s->rtype = 0;
	s->holder = RESV_HOSTS;
}

static void reserve(struct resv_state *s, unsigned int host, uint8_t rtype)
{
	s->rtype = rtype;
	s->holder = of_all(rtype) ? RESV_HOSTS : (uint8_t)host;
}

static void unregister(struct resv_state *s, unsigned int host)
{
	unsigned int registrants = 0;

	s->key[host] = 0;
	for (unsigned int i = 0; i < RESV_HOSTS; i++)
		registrants += s->key[i] != 0;
	if (s->holder == host || !registrants)
		free_reservation(s);
}

static unsigned int change_registration(struct resv_state *s, const struct resv_op *op,
					struct effects *fx)
{
	uint8_t have = s->key[op->host], before = s->rtype;

	if (op->action == RESV_REGISTER) {
		if (have && have != op->key)
			return NVME_SC_RESERVATION_CONFLICT;
		s->key[op->host] = op->key;
	} else if (!have || have != op->crkey) {
		return NVME_SC_RESERVATION_CONFLICT;
	} else if (op->action == RESV_REPLACE) {
		s->key[op->host] = op->key;
	} else {
		unregister(s, op->host);
		if (!s->rtype && of_registrants(before))
			note_others(s, op, fx, RESV_NOTE_RELEASED);
	}
	if (op->persist != RESV_KEEP)
		s->ptpl = op->persist == RESV_PERSIST;
	return 0;
}

/* Returns the set of hosts that were registered, without @but. */
static unsigned int unregister_key(struct resv_state *s, const struct resv_op *op, unsigned int but,
				   struct effects *fx)
{
	unsigned int gone = 0;

	for (unsigned int i = 0; i < RESV_HOSTS; i++)
		if (s->key[i] && i != but && (!op->key || s->key[i] == op->key)) {
			unregister(s, i);
			if (i != op->host)
				fx->note[i] = RESV_NOTE_UNREGISTERED;
			gone |= 1u << i;
		}
	return gone;
}

static unsigned int preempt(struct resv_state *s, const struct resv_op *op, struct effects *fx)
{
	unsigned int before = s->rtype;
	bool all = of_all(before);

	if (s->rtype && (all ? op->key == 0 : s->key[s->holder] == op->key)) {
		fx->victims = (uint8_t)unregister_key(s, op, op->host, fx);
		reserve(s, op->host, op->rtype);
		if (before != op->rtype)
			note_others(s, op, fx, RESV_NOTE_RELEASED);
		return 0;
	}
	if (!op->key)
		return s->rtype ? NVME_SC_INVALID_FIELD : NVME_SC_RESERVATION_CONFLICT;
	fx->victims = (uint8_t)unregister_key(s, op, RESV_HOSTS, fx);
	return fx->victims ? 0 : NVME_SC_RESERVATION_CONFLICT;
}

static unsigned int release(struct resv_state *s, const struct resv_op *op, struct effects *fx)
{
	if (!holds(s, op->host))
		return 0;
	if (s->rtype != op->rtype)
		return NVME_SC_INVALID_FIELD;
	if (of_registrants(s->rtype))
		note_others(s, op, fx, RESV_NOTE_RELEASED);
	free_reservation(s);
	return 0;
}

static unsigned int acquire(struct resv_state *s, const struct resv_op *op)
{
	if (s->rtype)
		return holds(s, op->host) && s->rtype == op->rtype ? 0
								   : NVME_SC_RESERVATION_CONFLICT;
	reserve(s, op->host, op->rtype);
	return 0;
}

/* Returns the status code. */
static unsigned int perform(struct resv_state *s, const struct resv_op *op, struct effects *fx)
{
	if (op->action <= RESV_REPLACE)
		return change_registration(s, op, fx);
	if (s->key[op->host] == 0 || s->key[op->host] != op->crkey)
		return NVME_SC_RESERVATION_CONFLICT;
	switch (op->action) {
	case RESV_ACQUIRE:
		return acquire(s, op);
	case RESV_RELEASE:
		return release(s, op, fx);
	case RESV_CLEAR:
		note_others(s, op, fx, RESV_NOTE_CLEARED);
		memset(s->key, 0, sizeof(s->key));
		free_reservation(s);
		return 0;
	default:
		return preempt(s, op, fx);
	}
}

static bool permits(const struct resv_state *s, unsigned int host, bool write)
{
	if (!s->rtype || holds(s, host))
		return true;
	switch (s->rtype) {
	case NVME_RESERVATION_RTYPE_WE:
		return !write;
	case NVME_RESERVATION_RTYPE_EA:
		return false;
	case NVME_RESERVATION_RTYPE_WERO:
	case NVME_RESERVATION_RTYPE_WEAR:
		return !write || s->key[host];
	default:
		return s->key[host];
	}
}

/* ---- the possible states ---- */

static uint16_t report_of(const struct resv_state *s)
{
	unsigned int code = s->rtype | (unsigned int)s->holder << 3 | (unsigned int)s->ptpl << 5;

	for (unsigned int i = 0; i < RESV_HOSTS; i++)
		code |= (unsigned int)s->key[i] << (6 + 2 * i);
	return (uint16_t)(REPORTED | code);
}

static void add(struct resv *r, const struct possible *p)
{
	for (unsigned int i = 0; i < r->count; i++)
		if (memcmp(&r->cases[i], p, sizeof(*p)) == 0)
			return;
	if (r->count == CASES) {
		r->overflow = true;
		return;
	}
	r->cases[r->count++] = *p;
}

/* Nobody learns what the command has answered: states do not differ by that. */
static void forget_answer(struct possible *p, unsigned int n)
{
	if (p->result[n] != OPEN)
		p->result[n] = 0;
	p->victims[n] = 0;
	p->note[n] = RESV_NOTE_NONE;
}

/* Every command that can take effect may do so now. */
static void explore(struct resv *r)
{
	for (unsigned int i = 0; i < r->count; i++)
		for (unsigned int n = 0; n < OPS; n++) {
			struct possible p = r->cases[i];
			struct effects fx = {0};

			if (p.result[n] != OPEN ||
			    (r->op_state[n] != OP_SENT && r->op_state[n] != OP_LOST))
				continue;
			if (r->ops[n].action == RESV_REPORT)
				p.result[n] = report_of(&p.state);
			else
				p.result[n] = (uint16_t)perform(&p.state, &r->ops[n], &fx);
			p.victims[n] = fx.victims;
			if (r->listener.host < RESV_HOSTS)
				p.note[n] = fx.note[r->listener.host];
			r->types[n] |= 1u << p.note[n] & RESV_NOTE_BITS;
			if (r->op_state[n] == OP_LOST)
				forget_answer(&p, n);
			add(r, &p);
		}
}

/* Commands that may cause notifications of types which are, or may be, told now. */
static void count_possible(struct resv *r)
{
	struct listener *l = &r->listener;

	for (unsigned int n = 0; n < OPS; n++)
		for (unsigned int i = 1; i < RESV_NOTES && r->op_state[n] != OP_FREE; i++)
			if (r->types[n] & ~r->counted[n] & l->possible_types & 1u << i) {
				l->possible[i]++;
				r->counted[n] |= 1u << i;
			}
}

/* The command was answered: which notifications it has caused in the states that are left. */
static void count_certain(struct resv *r, unsigned int n)
{
	struct listener *l = &r->listener;
	unsigned int types = 0;

	for (unsigned int i = 0; i < r->count; i++)
		types |= 1u << r->cases[i].note[n];
	for (unsigned int i = 1; i < RESV_NOTES; i++) {
		if (r->counted[n] & ~types & 1u << i)
			l->possible[i]--;
		if (types == 1u << i && l->certain_types & 1u << i && r->begin[n] >= l->runs &&
		    r->begin[n] >= l->certain_since[i])
			l->certain[i]++;
	}
}

/* Changes all possible states; those that become equal are one. */
static void change_cases(struct resv *r, unsigned int n,
			 void (*change)(struct possible *p, unsigned int n))
{
	unsigned int count = r->count;

	r->count = 0;
	for (unsigned int i = 0; i < count; i++) {
		struct possible p = r->cases[i];

		change(&p, n);
		add(r, &p);
	}
}

static void forget_command(struct possible *p, unsigned int n)
{
	forget_answer(p, n);
	p->result[n] = OPEN;
}

/* The command is over: its result does not distinguish states any more. */
static void forget(struct resv *r, unsigned int n)
{
	r->op_state[n] = OP_FREE;
	change_cases(r, n, forget_command);
}

static void lose_answer(struct resv *r, unsigned int n)
{
	r->op_state[n] = OP_LOST;
	change_cases(r, n, forget_answer);
}

/* Lost commands that have taken effect in every possible state. */
static void forget_lost(struct resv *r)
{
	for (unsigned int n = 0; n < OPS; n++) {
		bool everywhere = r->op_state[n] == OP_LOST;

		for (unsigned int i = 0; i < r->count && everywhere; i++)
			everywhere = r->cases[i].result[n] != OPEN;
		if (everywhere)
			forget(r, n);
	}
}

static void update(struct right *right, bool now, uint64_t at)
{
	if (right->now && !now)
		right->last = at;
	right->now = now;
}

/* After each change of the possible states. */
static void update_rights(struct resv *r, uint64_t now)
{
	bool aborts = false;

	for (unsigned int n = 0; n < OPS; n++)
		aborts |= r->op_state[n] != OP_FREE && r->ops[n].action == RESV_PREEMPT_ABORT;
	update(&r->aborts, aborts, now);
	for (unsigned int host = 0; host < RESV_HOSTS; host++)
		for (int write = 0; write < 2; write++) {
			bool can = false, cannot = false;

			for (unsigned int i = 0; i < r->count; i++) {
				bool one = permits(&r->cases[i].state, host, write);

				can |= one;
				cannot |= !one;
			}
			update(&r->can[host][write], can, now);
			update(&r->cannot[host][write], cannot, now);
			if (write && can)
				r->fenced[host] = false;
		}
}

/* ---- what happens ---- */

struct resv *resv_new(void)
{
	struct resv *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->count = 1;
	r->listener.host = RESV_HOSTS;
	r->cases[0].state.holder = RESV_HOSTS;
	for (unsigned int n = 0; n < OPS; n++)
		r->cases[0].result[n] = OPEN;
	update_rights(r, 0);
	return r;
}

void resv_free(struct resv *r)
{
	free(r);
}

int resv_begins(struct resv *r, const struct resv_op *op, uint64_t now)
{
	unsigned int n = 0;

	while (n < OPS && r->op_state[n] != OP_FREE)
		n++;
	if (n == OPS)
		return -1;
	r->ops[n] = *op;
	r->op_state[n] = OP_SENT;
	r->overtaken[n] = false;
	r->begin[n] = now;
	r->types[n] = r->counted[n] = 0;
	explore(r);
	count_possible(r);
	update_rights(r, now);
	return (int)n;
}

/*
 * No write of the @victims of Preempt and Abort @n lands any more, until they may write again. They
 * may have been allowed to already, if a command took effect after it that was answered before it.
 */
static void fence_victims(struct resv *r, unsigned int n, unsigned int status, unsigned int victims)
{
	for (unsigned int host = 0; host < RESV_HOSTS; host++)
		if (r->ops[n].action == RESV_PREEMPT_ABORT && !r->overtaken[n])
			r->fenced[host] |= victims >> host & 1;
	if (status || r->ops[n].action == RESV_REPORT)
		return; /* it has allowed nothing */
	for (unsigned int i = 0; i < OPS; i++)
		r->overtaken[i] = true;
}

bool resv_answered(struct resv *r, int number, unsigned int status, const struct resv_state *report,
		   uint64_t now)
{
	unsigned int n = (unsigned int)number, kept = 0;
	unsigned int result = report && !status ? report_of(report) : status;
	unsigned int victims = ALL;

	for (unsigned int i = 0; i < r->count; i++) {
		if (r->cases[i].result[n] != result)
			continue;
		victims &= r->cases[i].victims[n];
		r->cases[kept++] = r->cases[i];
	}
	r->count = kept;
	if (!kept)
		return r->overflow;
	fence_victims(r, n, status, victims);
	count_certain(r, n);
	forget(r, n);
	forget_lost(r);
	update_rights(r, now);
	return true;
}

void resv_lost(struct resv *r, int number, uint64_t now)
{
	unsigned int n = (unsigned int)number;

	if (r->op_state[n] == OP_DEAD || r->ops[n].action == RESV_REPORT)
		forget(r, n);
	else
		lose_answer(r, n);
	forget_lost(r);
	update_rights(r, now);
}

bool resv_unexecuted(struct resv *r, int number, uint64_t now)
{
	return resv_answered(r, number, OPEN, NULL, now);
}

void resv_settled(struct resv *r, uint64_t now)
{
	for (unsigned int n = 0; n < OPS; n++)
		if (r->op_state[n] == OP_LOST)
			forget(r, n);
	update_rights(r, now);
}

void resv_restarted(struct resv *r, uint64_t now)
{
	unsigned int count = r->count;

	r->count = 0;
	for (unsigned int i = 0; i < count; i++) {
		struct possible p = r->cases[i];

		if (!p.state.ptpl) {
			memset(p.state.key, 0, sizeof(p.state.key));
			free_reservation(&p.state);
		}
		add(r, &p);
	}
	for (unsigned int n = 0; n < OPS; n++) {
		if (r->op_state[n] == OP_LOST)
			forget(r, n);
		else if (r->op_state[n] == OP_SENT)
			r->op_state[n] = OP_DEAD;
	}
	update_rights(r, now);
}

/* ---- notifications ---- */

void resv_listener(struct resv *r, unsigned int host)
{
	r->listener.host = host;
}

void resv_log_begins(struct resv *r)
{
	struct listener *l = &r->listener;

	*l = (struct listener){
		.host = l->host, .runs = UINT64_MAX, .possible_types = RESV_NOTE_BITS};
	memset(r->counted, 0, sizeof(r->counted));
	count_possible(r);
}

void resv_log_runs(struct resv *r, uint64_t now)
{
	r->listener.runs = now;
	resv_unmasks(r, RESV_NOTE_BITS, RESV_NOTE_BITS, now);
}

void resv_unmasks(struct resv *r, unsigned int possible, unsigned int certain, uint64_t now)
{
	struct listener *l = &r->listener;

	for (unsigned int i = 1; i < RESV_NOTES; i++)
		if (certain & ~l->certain_types & 1u << i)
			l->certain_since[i] = now;
	l->certain_types = certain;
	l->possible_types = possible;
	count_possible(r);
}

unsigned int resv_notes_certain(const struct resv *r, enum resv_note note)
{
	return r->overflow ? 0 : r->listener.certain[note];
}

unsigned int resv_notes_possible(const struct resv *r, enum resv_note note)
{
	return r->overflow ? UINT_MAX : r->listener.possible[note];
}

/* ---- the judgement ---- */

bool resv_permitted(const struct resv *r, unsigned int host, bool write, uint64_t begin)
{
	const struct right *right = &r->can[host][write];

	return r->overflow || right->now || right->last >= begin;
}

bool resv_forbidden(const struct resv *r, unsigned int host, bool write, uint64_t begin)
{
	const struct right *right = &r->cannot[host][write];

	return r->overflow || right->now || right->last >= begin;
}

bool resv_may_abort(const struct resv *r, uint64_t begin)
{
	return r->aborts.now || r->aborts.last >= begin;
}

bool resv_fenced(const struct resv *r, unsigned int host)
{
	return r->fenced[host];
}

const struct resv_state *resv_guess(const struct resv *r)
{
	return &r->cases[0].state;
}

bool resv_overflowed(const struct resv *r)
{
	return r->overflow;
}

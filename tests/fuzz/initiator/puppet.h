/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target that answers as it is told. Its port 4420 is honest; what rules and changed pages say
 * concerns the ports 4421 and 4422 only.
 */
#ifndef FUZZ_PUPPET_H
#define FUZZ_PUPPET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/wire.h"
#include "scene.h"

#define PUPPET_ADDR   "192.0.2.1"
#define PUPPET_PORT   4420u /* the honest one; the hostile ones follow */
#define PUPPET_PORTS  3u
#define PUPPET_NQN    "nqn.2024-01.test:puppet"
#define PUPPET_BLOCK  512u
#define PUPPET_BLOCKS 128u
#define PUPPET_CONNS  16u
#define PUPPET_PAGE   4096u
#define PUPPET_RULES  8u
#define PUPPET_BYTES  64u /* of a message that is made by hand, at most */
#define PUPPET_PLANS  4u

/* What the target says of itself. Their bytes can be changed. */
enum puppet_page {
	PAGE_CTRL,  /* Identify Controller */
	PAGE_NS,    /* Identify Namespace */
	PAGE_NVM,   /* Identify Controller of the NVM command set */
	PAGE_DESCS, /* Namespace Identification Descriptors */
	PAGE_LIST,  /* active, or changed, namespaces */
	PAGE_ANA,
	PAGE_DISCOVERY,
	PAGE_LBA_STATUS,
	PAGE_PROPERTIES, /* by their offset */
	PUPPET_PAGES,
};

/* Which commands a rule concerns. */
enum puppet_class {
	CLASS_ANY,
	CLASS_CONNECT,
	CLASS_PROPERTY_GET,
	CLASS_PROPERTY_SET,
	CLASS_IDENTIFY,
	CLASS_LOG,
	CLASS_FEATURES,
	CLASS_KEEP_ALIVE,
	CLASS_EVENT,
	CLASS_ADMIN,
	CLASS_READ,
	CLASS_WRITE,
	CLASS_FLUSH,
	CLASS_IO,
	PUPPET_CLASSES,
};

/* What is done instead of the right thing; p is struct puppet_rule.param. */
enum puppet_how {
	HOW_STATUS,     /* p[0..1] */
	HOW_SILENT,     /* no answer */
	HOW_NO_DATA,    /* success without data */
	HOW_LESS,       /* p[0..1] bytes less */
	HOW_MORE,       /* p[0..1] bytes more */
	HOW_SHIFT,      /* the address: + p[0..1] */
	HOW_KEY,        /* the key: xor p[0..3] */
	HOW_OTHER_KEY,  /* that of an earlier command */
	HOW_CID,        /* xor p[0..1] */
	HOW_AGAIN,      /* p[0] answers more */
	HOW_RESULT,     /* p[0..7] */
	HOW_LENGTH,     /* of the answer: p[0] */
	HOW_INVALIDATE, /* xor p[0..3]; p[4] & 1: an earlier command's */
	HOW_BREAK,      /* p[0] & 1: after the answer */
	HOW_LATE,       /* p[0] tenths of a second */
	HOW_READ,       /* memory that is to be written, or the reverse */
	PUPPET_HOWS,
};

struct puppet_rule {
	enum puppet_class cls;
	enum puppet_how how;
	unsigned int skip;  /* commands that are answered well before */
	unsigned int times; /* 0: the rule is free */
	uint8_t param[8];
};

/* What is done with a connection request. */
struct puppet_plan {
	enum { PLAN_ACCEPT, PLAN_REJECT, PLAN_IGNORE, PLAN_NO_RECVS } what;
	uint8_t data[PUPPET_BYTES];
	uint8_t len;
};

void puppet_open(struct scene *s);
void puppet_turn(struct puppet *p);
/* The hostile ports and their connections are gone. */
void puppet_vanishes(struct puppet *p);
void puppet_close(struct scene *s);

void puppet_add_rule(struct puppet *p, const struct puppet_rule *rule);
void puppet_add_plan(struct puppet *p, const struct puppet_plan *plan);
/* Bytes of a page of the hostile ports. */
void puppet_write_page(struct puppet *p, enum puppet_page page, size_t off, const uint8_t *data,
		       size_t len);
void puppet_fill_page(struct puppet *p, enum puppet_page page, size_t off, uint8_t value,
		      size_t len);

/* The following concern hostile connection @n modulo their number; no-ops when there is none. */
void puppet_send(struct puppet *p, unsigned int n, const uint8_t *data, size_t len);
/* A completion for the last command of the connection, with its identifier xor @cid. */
void puppet_complete(struct puppet *p, unsigned int n, uint16_t cid, uint16_t status,
		     uint64_t result);
/* Answers the Asynchronous Event Request. */
void puppet_event(struct puppet *p, uint32_t result);
/* An answer to each Asynchronous Event Request from now on, or no longer. */
void puppet_events(struct puppet *p, bool always, uint32_t result);
void puppet_break(struct puppet *p, unsigned int n, bool polite);
/* With the key of the last command. */
void puppet_rdma(struct puppet *p, unsigned int n, bool read, uint32_t key, uint16_t off,
		 uint16_t len);
void puppet_hold(struct puppet *p, unsigned int n, bool both, uint64_t ns);

/* Whether a command for blocks of group @n (of eight) was answered with success since
 * puppet_forget(). */
bool puppet_said_success(const struct puppet *p, unsigned int n);
void puppet_forget(struct puppet *p, unsigned int n);

#endif /* FUZZ_PUPPET_H */

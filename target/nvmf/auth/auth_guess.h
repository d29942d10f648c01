/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts failed authentications for each host name at each address, and for each address. A Host
 * Identifier with which the name has authenticated counts as a name of its own. Above a limit, each
 * authentication takes longer. None is refused, because the first attempt of a host that knows the
 * secret looks like those of others that use its name and address. Failures are remembered after
 * the connection ends, in a table of fixed size; an entry that is displaced is forgotten. Any
 * thread.
 */
#ifndef RDT_AUTH_GUESS_H
#define RDT_AUTH_GUESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rdt_peer;
struct rdt_qpair;

enum { RDT_GUESS_OF_HOST, RDT_GUESS_OF_ADDRESS, RDT_GUESS_SCOPES };

struct rdt_guess_keys {
	uint64_t of[RDT_GUESS_SCOPES]; /* 0: not counted */
};

#define RDT_GUESS_SETS 1024u
#define RDT_GUESS_WAYS 4u

struct rdt_guess {
	uint64_t key;  /* a keyed hash */
	uint64_t paid; /* time when all failures are forgotten, in ns on the loops' clock */
};

struct rdt_guesses {
	pthread_mutex_t lock; /* guards @table; a leaf lock */
	uint8_t seed[32];
	struct rdt_guess (*table)[RDT_GUESS_WAYS]; /* [RDT_GUESS_SETS]; NULL: unused so far */
};

int rdt_guesses_init(struct rdt_guesses *g);  /* 0 or -EIO */
void rdt_guesses_fini(struct rdt_guesses *g); /* also valid for a zeroed one */
/* Returns whether the host of @qp has failed more often than the limit. */
bool rdt_guess_over(struct rdt_qpair *qp);
/* Count a failure: a public value was wrong, or a response is about to be checked. It is counted
 * before the check, so that responses that are checked at the same time count together.
 * rdt_guess_right() undoes it. */
void rdt_guess_count(struct rdt_qpair *qp);
void rdt_guess_right(struct rdt_qpair *qp);
void rdt_guess_succeeded(struct rdt_qpair *qp); /* forgets earlier failures of the host */

/* The same for TLS keys, whose failures are counted separately. Any thread. */
void rdt_guess_of_tls(struct rdt_guesses *g, const struct rdt_peer *peer, const char *hostnqn,
		      struct rdt_guess_keys *keys);
bool rdt_guess_keys_over(struct rdt_guesses *g, const struct rdt_guess_keys *keys, uint64_t now);
void rdt_guess_keys_count(struct rdt_guesses *g, const struct rdt_guess_keys *keys, uint64_t now);
/* undoes the last rdt_guess_keys_count(); @authenticated: also forgets earlier failures of the
 * host */
void rdt_guess_keys_right(struct rdt_guesses *g, const struct rdt_guess_keys *keys,
			  bool authenticated);

#endif /* RDT_AUTH_GUESS_H */

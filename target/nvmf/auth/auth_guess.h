/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts failed authentications, for each host name at each address, and for each address. A Host
 * Identifier with which the name has authenticated counts as a name of its own. Above a number,
 * each authentication takes longer; none is refused, because nothing distinguishes the first one of
 * a host that knows the secret from those of others that use its name and its address. Failures are
 * remembered after the connection ends, in a table of a fixed size; an entry that is displaced
 * there is forgotten. Any thread.
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
	uint64_t of[RDT_GUESS_SCOPES]; /* 0: it counts nowhere */
};

#define RDT_GUESS_SETS 1024u
#define RDT_GUESS_WAYS 4u

struct rdt_guess {
	uint64_t key;  /* a hash with a secret of the process */
	uint64_t paid; /* when all failures so far are forgotten, in ns of the loops' clock */
};

struct rdt_guesses {
	pthread_mutex_t lock; /* guards @table; a leaf lock */
	uint8_t seed[32];
	struct rdt_guess (*table)[RDT_GUESS_WAYS]; /* [RDT_GUESS_SETS]; NULL: no proof so far */
};

int rdt_guesses_init(struct rdt_guesses *g);  /* 0 or -EIO */
void rdt_guesses_fini(struct rdt_guesses *g); /* also one that is zeroed */
/* Has the host of @qp failed more often than it may? */
bool rdt_guess_over(struct rdt_qpair *qp);
/* A public value was wrong, or a proof is about to be checked: it counts as a failure from now on,
 * so that proofs that are checked at the same time count together. rdt_guess_right() takes that
 * back. */
void rdt_guess_count(struct rdt_qpair *qp);
void rdt_guess_right(struct rdt_qpair *qp);
void rdt_guess_succeeded(struct rdt_qpair *qp); /* earlier failures of the host are forgotten */

/* The same for the keys of TLS, whose failures count apart. Any thread. */
void rdt_guess_of_tls(struct rdt_guesses *g, const struct rdt_peer *peer, const char *hostnqn,
		      struct rdt_guess_keys *keys);
bool rdt_guess_keys_over(struct rdt_guesses *g, const struct rdt_guess_keys *keys, uint64_t now);
void rdt_guess_keys_count(struct rdt_guesses *g, const struct rdt_guess_keys *keys, uint64_t now);
/* takes the last rdt_guess_keys_count() back; @proven: earlier failures of the host, too */
void rdt_guess_keys_right(struct rdt_guesses *g, const struct rdt_guess_keys *keys, bool proven);

#endif /* RDT_AUTH_GUESS_H */

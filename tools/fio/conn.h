/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one fio job has of a namespace: a device of its own with one channel, and a thread that
 * keeps the device alive. Nothing of fio is known here.
 *
 * Thread rule: a connection belongs to one thread at a time. It must not be open across fork(2).
 */
#ifndef RDF_CONN_H
#define RDF_CONN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdinit_auth.h"
#include "rdinit_dev.h"

/* NULL, and 0 of nsid: not given. Strings are the caller's. The rest as struct rdinit_ctrl_opts. */
struct rdf_opts {
	const char *uri; /* nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]; or instead of it: */
	const char *traddr;
	const char *trsvcid;
	const char *subnqn;
	unsigned int nsid;
	const char *hostnqn;
	const char *secret_file; /* NULL: none, as the next */
	const char *ctrl_secret_file;
	const char *hostid;
	const char *host_traddr;
	const char *provider;
	const char *congestion;
	bool crc;
	unsigned int keep_alive_tmo_ms;
	unsigned int connect_timeout_ms;
	unsigned int io_timeout_ms;
	unsigned int ctrl_loss_tmo_ms; /* as struct rdinit_dev_opts, */
	unsigned int reconnect_delay_ms;
};

/* Zeroed: not open. */
struct rdf_conn {
	struct rdinit_ctrl *ctrl; /* of rdf_conn_probe() */
	struct rdinit_dev *dev;   /* of rdf_conn_open(), */
	struct rdinit_dev_chan *chan;
	struct rdinit_ns ns;   /* valid while one of the above is set */
	unsigned int depth;    /* commands that the channel takes at once */
	uint32_t max_transfer; /* bytes of one command */
	bool lost;             /* the device has failed: no farewell at the end */
	pthread_t keeper;      /* valid while keeper_stop is set */
	int keeper_stop;       /* eventfd + 1, which ends the keeper; 0: there is none */
	char why[512];         /* the reason in words after a call that failed */
};

/* A queue of librdinit has at most this many commands in flight. */
#define RDF_DEPTH_MAX 1023u

/*
 * Connect to the controller and look at the namespace, without a queue or a thread: for its size.
 * Returns 0 or -errno with conn->why; on failure nothing is open.
 */
int rdf_conn_probe(struct rdf_conn *conn, const struct rdf_opts *opts);

/*
 * Open for I/O with up to @depth commands in flight; conn->depth is how many of them there can be.
 * rdf_conn_probe() has succeeded with the same options. Returns as that one.
 */
int rdf_conn_open(struct rdf_conn *conn, const struct rdf_opts *opts, unsigned int depth);

/* Close what is open. Commands in flight get their callbacks. */
void rdf_conn_close(struct rdf_conn *conn);

#endif /* RDF_CONN_H */

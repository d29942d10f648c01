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
#include "rdinit_tls.h"
#include "rdinit_dev.h"

/* Connection options, by the names and of the types that fio's options have; times in ms. NULL and
 * nsid 0: not given. The caller owns the strings. Other members: see struct rdinit_ctrl_opts. */
struct rdf_opts {
	const char *uri;       /* nvme+rdma://HOST[:PORT]/SUBNQN[/NSID]; or instead of it: */
	const char *transport; /* rdma or tcp; NULL: rdma */
	const char *traddr;
	const char *trsvcid;
	const char *subnqn;
	unsigned int nsid;
	const char *hostnqn;
	const char *hostid;
	const char *dhchap_secret_file; /* this and the next member: NULL without authentication */
	const char *dhchap_ctrl_secret_file;
	const char *dhchap_hashes; /* names, with commas between; NULL: all, as the next */
	const char *dhchap_dhgroups;
	const char *tls_key_file; /* NULL: no TLS */
	const char *host_traddr;
	const char *provider;
	const char *congestion;
	unsigned int crc;
	unsigned int hdr_digest;
	unsigned int data_digest;
	unsigned int keep_alive_tmo;
	unsigned int connect_timeout;
	unsigned int io_timeout;
	/* this and the following member: see struct rdinit_dev_opts */
	unsigned int ctrl_loss_tmo;
	unsigned int reconnect_delay;
};

/* A connection. All zeroes: not open. */
struct rdf_conn {
	struct rdinit_ctrl *ctrl; /* opened by rdf_conn_probe() */
	struct rdinit_dev *dev;   /* opened by rdf_conn_open(), */
	struct rdinit_dev_chan *chan;
	struct rdinit_ns ns;   /* valid while one of the above is set */
	unsigned int depth;    /* limit of commands in flight */
	uint32_t max_transfer; /* limit of one command in bytes */
	bool lost;             /* the device has failed: close without an orderly disconnect */
	pthread_t keeper;      /* valid while keeper_stop is set */
	int keeper_stop;       /* eventfd + 1, which ends the keeper; 0: no keeper */
	char why[512];         /* the error text of the last failed call */
};

/* Limit of commands in flight on a queue of librdinit. */
#define RDF_DEPTH_MAX 1023u

/* The reason of the library's last error, without the name of its function. */
const char *rdf_lib_text(void);

/*
 * Connects to the controller and reads the namespace's size, without a queue or a thread. Returns 0
 * or -errno with conn->why; after a failure nothing is open.
 */
int rdf_conn_probe(struct rdf_conn *conn, const struct rdf_opts *opts);

/*
 * Opens for I/O with up to @depth commands in flight; sets conn->depth to the actual limit.
 * rdf_conn_probe() must have succeeded with the same options. Returns as rdf_conn_probe().
 */
int rdf_conn_open(struct rdf_conn *conn, const struct rdf_opts *opts, unsigned int depth);

/* Closes what is open. Callbacks of commands in flight are called. */
void rdf_conn_close(struct rdf_conn *conn);

#endif /* RDF_CONN_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket of a target with one host: a client sends lines, the loops are turned until an
 * answer has come. Helper threads work for it, so that the test waits for the socket of the client.
 */
#ifndef T_RPC_H
#define T_RPC_H

#include <pthread.h>
#include <sys/socket.h>

#include <jansson.h>

#include "t_target.h"
#include "target/manage/change/reloader.h"
#include "target/manage/rpc/rpc.h"
#include "target/manage/figures/stats.h"

struct t_rpc {
	struct t_pair pair;
	struct rd_log *log; /* which outlives the target */
	struct rdt_reloader reloader;
	struct rdt_control_config cfg;
	struct rdt_rpc_env env;
	struct rdt_sampler *sampler;
	struct rdt_rpc *rpc;
	char dir[32];
	char socket[48];
	char path[48]; /* of the configuration, which is not there until a test writes it */
	int fd;
	unsigned int shutdowns;
	char *answer; /* ANSWER_MAX bytes */
	size_t len;
	unsigned int reads;   /* times that the file was read */
	unsigned int reloads; /* that have ended */
	pthread_mutex_t lock; /* of what follows */
	char lines[32 << 10]; /* of the log */
	size_t lines_len;
};

/* Describes what t_env_new() makes: the order of namespaces and the values are the same. */
extern const char t_rpc_config[];

/* A target with one host, as t_pair_new(), its control socket, and a client of that. */
void t_rpc_open(struct t_rpc *r);
/* The same; its configuration was read from a file with the text t_rpc_config, as after SIGHUP. */
void t_rpc_open_file(struct t_rpc *r);
void t_rpc_free(struct t_rpc *r);
void t_rpc_write_config(struct t_rpc *r, const char *text);
/* Does the log have @text? Then @rest, unless it is NULL, becomes the rest of that line. */
bool t_rpc_logged(struct t_rpc *r, const char *text, char *rest, size_t size);
int t_rpc_connect(const struct t_rpc *r); /* another client; returns its descriptor */
/* The next line of the target, without its newline; NULL: it has closed the connection. */
const char *t_rpc_line(struct t_rpc *r);
void t_rpc_send(const struct t_rpc *r, const char *line);
/* The answer to @method with @params, JSON text. The caller frees it. */
json_t *t_rpc_call(struct t_rpc *r, const char *method, const char *params);
/* The result of a call that succeeds; belongs to *@answer. */
const json_t *t_rpc_result(struct t_rpc *r, const char *method, const char *params,
			   json_t **answer);
/* The number of entries in the array @list of the result of @method. */
size_t t_rpc_list_size(struct t_rpc *r, const char *method, const char *list);
void t_rpc_expect_error(const json_t *answer, const char *name); /* @answer is the error @name */

/* A host reads or writes one block of 512 bytes. Returns the status. */
uint16_t t_rpc_rw(struct t_conn *c, bool write, uint32_t nsid, uint64_t lba);

/* A socket of the test that listens on a port of 127.0.0.1. Returns its descriptor. */
int t_rpc_taken_port(uint16_t *port);
/* Returns 0 when something listens at @addr, which is IPv4. */
int t_rpc_reach(const struct sockaddr_storage *addr);

#endif /* T_RPC_H */

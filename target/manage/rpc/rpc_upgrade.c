/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods that hand the target over to another process. */
#include "rpc_priv.h"

#include <errno.h>
#include <unistd.h>

#include "target/manage/upgrade/channel.h"
#include "target/manage/upgrade/give.h"

static bool parameter_is_true(const struct rdt_rpc_call *call, const char *name)
{
	return json_is_true(json_object_get(call->params, name));
}

/* Only root and our own user may get storage, connections and their keys. */
static bool refuse_stranger(struct rdt_rpc_call *call)
{
	if (!call->rpc->env->give)
		rdt_rpc_error(call, RDT_RPC_REFUSED, NULL, NULL, NULL,
			      "this target cannot be handed over");
	else if (call->client && !rdt_rpc_client_owns(call->client))
		rdt_rpc_error(call, RDT_RPC_DENIED, NULL, NULL, NULL,
			      "only root and the user of the target may do this");
	else
		return false;
	return true;
}

/* ---- upgrade ---- */

static void upgrade_cancel(struct rdt_rpc_call *call)
{
	rdt_give_forget(call->rpc->env->give, call);
}

static void upgrade_ended(void *arg, int err, const char *why, json_t *result)
{
	struct rdt_rpc_call *call = arg;

	if (!err)
		rdt_rpc_result(call, result);
	else if (err == -EOWNERDEAD)
		rdt_rpc_error(call, RDT_RPC_REFUSED, NULL, NULL, NULL, "%s", why);
	else
		rdt_rpc_error(call, err == -ETIMEDOUT ? RDT_RPC_TIMEOUT : RDT_RPC_REFUSED, NULL,
			      NULL, NULL, "not handed over: %s; the target continues to run", why);
}

static void start_upgrade(struct rdt_rpc_call *call)
{
	char why[RDT_CHANNEL_WHY];
	int err;

	if (refuse_stranger(call))
		return;
	err = rdt_give_start(call->rpc->env->give, parameter_is_true(call, "check"),
			     parameter_is_true(call, "force"), upgrade_ended, call, why,
			     sizeof(why));
	if (err)
		rdt_rpc_error(call, err == -EBUSY ? RDT_RPC_BUSY : RDT_RPC_REFUSED, NULL, NULL,
			      NULL, "not handed over: %s", why);
	else
		call->cancel = upgrade_cancel;
}

/* ---- upgrade.store: into the service manager's store ---- */

static void store_upgrade(struct rdt_rpc_call *call)
{
	char why[RDT_CHANNEL_WHY];
	int err;

	if (refuse_stranger(call))
		return;
	err = rdt_give_store(call->rpc->env->give, upgrade_ended, call, why, sizeof(why));
	if (err)
		rdt_rpc_error(call, err == -EBUSY ? RDT_RPC_BUSY : RDT_RPC_REFUSED, NULL, NULL,
			      NULL, "not stored: %s", why);
	else
		call->cancel = upgrade_cancel;
}

/* ---- upgrade.take: the next process asks ---- */

static void take_upgrade(struct rdt_rpc_call *call)
{
	char why[RDT_CHANNEL_WHY];
	json_int_t format = 0;
	int fd, err;

	if (refuse_stranger(call) || !rdt_rpc_number(call, "format", 1, INT32_MAX, &format))
		return;
	if (!call->client) {
		rdt_rpc_drop(call);
		return;
	}
	fd = rdt_give_begin(call->rpc->env->give, rdt_rpc_client_pid(call->client),
			    parameter_is_true(call, "check"), parameter_is_true(call, "force"), why,
			    sizeof(why));
	if (fd < 0) {
		rdt_rpc_error(call, fd == -EBUSY ? RDT_RPC_BUSY : RDT_RPC_REFUSED, NULL, NULL, NULL,
			      "%s", why);
		return;
	}
	err = rdt_rpc_client_give(call->client, fd);
	close(fd); /* if it was not sent, this closes the channel for the other end */
	if (err)
		rdt_rpc_error(call, RDT_RPC_NO_RESOURCES, NULL, NULL, NULL,
			      "the channel cannot be sent");
	else
		rdt_rpc_result(call, json_pack("{s:i, s:s}", "format", RDT_UPGRADE_FORMAT,
					       "version", RDT_VERSION));
}

const struct rdt_rpc_method rdt_rpc_upgrade_methods[] = {
	{"upgrade",
	 "hand connections and storage over to the installed program; check: only test whether "
	 "it can take over; force: storage that does not answer refuses nothing",
	 true, "[check: boolean], [force: boolean]", start_upgrade},
	{"upgrade.store",
	 "for a restart by the service manager: leave connections and storage in its store of file "
	 "descriptors, and end",
	 true, NULL, store_upgrade},
	{"upgrade.take", "for rdtarget --take-over: open the hand-over channel", true,
	 "format: number, [version: string], [check: boolean], [force: boolean]", take_upgrade},
	{NULL, NULL, false, NULL, NULL},
};

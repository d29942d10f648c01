/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods for counters as JSON and as metrics; the sampler's thread writes both. */
#include "rpc_priv.h"

#include <stdlib.h>
#include <string.h>

#include "target/manage/figures/metrics.h"
#include "target/manage/figures/stats_json.h"

/* ---- stats.get ---- */

struct stats_call {
	struct rdt_stats_ask ask;
	struct rdt_rpc_call *call;
	struct rdt_stats_filter filter; /* owns its strings */
	char *text;                     /* the answer */
};

static void stats_call_free(struct stats_call *sc)
{
	if (!sc)
		return;
	free(sc->filter.nqn);
	free(sc->filter.hostnqn);
	free(sc->text);
	free(sc);
}

static void stats_work(struct rdt_stats_ask *ask, struct rdt_stats *stats)
{
	struct stats_call *sc = rd_container_of(ask, struct stats_call, ask);
	json_t *json = rdt_stats_json(stats, &sc->filter);

	sc->text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
}

static void stats_done(struct rdt_stats_ask *ask, const struct rdt_stats *stats)
{
	struct stats_call *sc = rd_container_of(ask, struct stats_call, ask);

	rdt_rpc_result_text(sc->call, sc->text);
	stats_call_free(sc);
}

/* The sampler has been closed. */
static void stats_cancel(struct rdt_rpc_call *call)
{
	stats_call_free(call->work);
}

static bool is_true(const struct rdt_rpc_call *call, const char *name)
{
	return json_is_true(json_object_get(call->params, name));
}

static char *text_copy(const struct rdt_rpc_call *call, const char *name, bool *good)
{
	const char *text = rdt_rpc_text(call, name);
	char *copy = text ? strdup(text) : NULL;

	*good = *good && (!text || copy);
	return copy;
}

static void stats_get(struct rdt_rpc_call *call)
{
	json_int_t nsid = 0, offset = 0, limit = RDT_STATS_LIMIT_DEFAULT;
	struct stats_call *sc;
	bool good = true;

	if (!rdt_rpc_number(call, "nsid", 1, UINT32_MAX, &nsid) ||
	    !rdt_rpc_number(call, "offset", 0, INT32_MAX, &offset) ||
	    !rdt_rpc_number(call, "limit", 1, RDT_STATS_LIMIT, &limit))
		return;
	sc = calloc(1, sizeof(*sc));
	if (sc) {
		sc->call = call;
		sc->ask.work = stats_work;
		sc->ask.done = stats_done;
		sc->filter = (struct rdt_stats_filter){
			.namespaces = is_true(call, "namespaces"),
			.hosts = is_true(call, "hosts"),
			.histograms = is_true(call, "histograms"),
			.nsid = (uint32_t)nsid,
			.offset = (unsigned int)offset,
			.limit = (unsigned int)limit,
		};
		sc->filter.nqn = text_copy(call, "nqn", &good);
		sc->filter.hostnqn = text_copy(call, "hostnqn", &good);
	}
	if (!sc || !good) {
		stats_call_free(sc);
		rdt_rpc_no_memory(call);
		return;
	}
	call->work = sc;
	call->cancel = stats_cancel;
	rdt_stats_ask(call->rpc->env->sampler, &sc->ask);
}

/* ---- metrics.get ---- */

struct metrics_call {
	struct rdt_stats_ask ask;
	struct rdt_rpc_call *call;
	enum rdt_metrics_format format;
	char *answer;
};

/* Encoded as JSON on this thread too: with many namespaces the text has megabytes. */
static void metrics_call_work(struct rdt_stats_ask *ask, struct rdt_stats *stats)
{
	struct metrics_call *mc = rd_container_of(ask, struct metrics_call, ask);
	json_t *result;
	size_t len;
	char *text;

	if (rdt_metrics_render(stats, mc->format, &text, &len))
		return;
	result = json_pack("{s:s, s:s#}", "content_type", rdt_metrics_type(mc->format), "text",
			   text, len);
	mc->answer = result ? json_dumps(result, JSON_COMPACT) : NULL;
	json_decref(result);
	free(text);
}

static void metrics_call_free(struct metrics_call *mc)
{
	free(mc->answer);
	free(mc);
}

static void metrics_answered(struct rdt_stats_ask *ask, const struct rdt_stats *stats)
{
	struct metrics_call *mc = rd_container_of(ask, struct metrics_call, ask);

	rdt_rpc_result_text(mc->call, mc->answer);
	metrics_call_free(mc);
}

static void metrics_cancel(struct rdt_rpc_call *call)
{
	metrics_call_free(call->work);
}

static void metrics_get(struct rdt_rpc_call *call)
{
	const char *format = rdt_rpc_text(call, "format");
	bool open = format && strcmp(format, "openmetrics") == 0;
	struct metrics_call *mc;

	if (format && !open && strcmp(format, "prometheus") != 0) {
		rdt_rpc_error(call, RDT_RPC_INVALID, "format", format, NULL,
			      "format: found \"%.100s\", expected prometheus or openmetrics",
			      format);
		return;
	}
	mc = calloc(1, sizeof(*mc));
	if (!mc) {
		rdt_rpc_no_memory(call);
		return;
	}
	mc->call = call;
	mc->format = open ? RDT_METRICS_OPENMETRICS : RDT_METRICS_PROMETHEUS;
	mc->ask.work = metrics_call_work;
	mc->ask.done = metrics_answered;
	call->work = mc;
	call->cancel = metrics_cancel;
	rdt_stats_ask(call->rpc->env->sampler, &mc->ask);
}

const struct rdt_rpc_method rdt_rpc_stats_methods[] = {
	{"stats.get", "counters since the start: of the target, namespaces, hosts", false,
	 "[namespaces: boolean], [hosts: boolean], [histograms: boolean], [nqn: string], "
	 "[nsid: number], [hostnqn: string], [offset: number], [limit: number]",
	 stats_get},
	{"metrics.get", "metrics in the text format of prometheus or openmetrics", false,
	 "[format: string]", metrics_get},
	{NULL, NULL, false, NULL, NULL},
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "suites.h"
#include "t_fab.h"

static const struct t_case none[] = {{NULL}};

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "wire", .cases = t_wire_cases},
		{.name = "ops", .cases = t_ops_cases},
		{.name = "connection events", .cases = t_conn_events_cases},
		{.name = "abuse", .cases = t_abuse_cases},
		{.name = "conn", .cases = t_conn_cases},
		{.name = "ends", .cases = t_ends_cases},
		{.name = "flow", .cases = t_flow_cases},
		{.name = "frames", .cases = t_frames_cases},
		{.name = "shared receive queues", .cases = t_srq_cases},
		{.name = "threads", .cases = t_threads_cases},
		{.name = "no device", .cases = t_no_device_cases},
		{.name = "sigpipe", .cases = t_sigpipe_cases},
		{.name = NULL},
	};

	/* Suites that do not check iWARP's bytes or counters. */
	const struct t_suite verbs[] = {
		{.name = "addresses", .cases = t_verbs_first_cases},
		{.name = "ops", .cases = t_ops_cases},
		{.name = "connection events", .cases = t_conn_events_cases},
		{.name = "ends", .cases = t_ends_cases},
		{.name = "verbs", .cases = t_verbs_cases},
		{.name = "poke", .cases = t_poke_cases},
		{.name = "sigpipe", .cases = t_siw_sigpipe_cases},
		{.name = "silence", .cases = getenv("RD_TEST_SILENT") ? t_silent_cases : none},
		{.name = "hotplug", .cases = getenv("RD_TEST_LINK") ? t_hotplug_cases : none},
		{.name = NULL},
	};

	return t_run(argc, argv, t_verbs() ? verbs : suites);
}

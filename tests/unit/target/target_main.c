/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_target.h"

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "connect", .cases = t_connect_cases},
		{.name = "cntlid", .cases = t_cntlid_cases},
		{.name = "property", .cases = t_property_cases},
		{.name = "admin", .cases = t_admin_cases},
		{.name = "admin_load", .cases = t_admin_load_cases},
		{.name = "log_page", .cases = t_log_page_cases},
		{.name = "lba_status", .cases = t_lba_status_cases},
		{.name = "io", .cases = t_io_cases},
		{.name = "io_commands", .cases = t_io_commands_cases},
		{.name = "fused", .cases = t_fused_cases},
		{.name = "ranges", .cases = t_range_lock_cases},
		{.name = "sgl_list", .cases = t_sgl_list_cases},
		{.name = "flow", .cases = t_flow_cases},
		{.name = "pool devices", .cases = t_pool_device_cases},
		{.name = "request pool", .cases = t_req_pool_cases},
		{.name = "I/O counters", .cases = t_io_stats_cases},
		{.name = "stalls", .cases = t_stall_cases},
		{.name = "request latency", .cases = t_req_latency_cases},
		{.name = "request state", .cases = t_req_state_cases},
		{.name = "teardown", .cases = t_teardown_cases},
		{.name = "stale write", .cases = t_stale_write_cases},
		{.name = "stale write: lost late", .cases = t_stale_lost_cases},
		{.name = "rdma", .cases = t_rdma_cases},
		{.name = "byte stream", .cases = t_stream_cases},
		{.name = "tcp turn", .cases = t_tcp_turn_cases},
		{.name = "rdma, waiting", .cases = t_rdma_waits_cases},
		{.name = "events", .cases = t_events_cases},
		{.name = "multihost", .cases = t_multihost_cases},
		{.name = "resv", .cases = t_resv_cases},
		{.name = "limits", .cases = t_limit_cases},
		{.name = "control socket", .cases = t_rpc_cases},
		{.name = "changes by calls", .cases = t_rpc_edit_cases},
		{.name = "reload", .cases = t_reload_cases},
		{.name = "desired state", .cases = t_converge_cases},
		{.name = "history", .cases = t_history_cases},
		{.name = "metrics", .cases = t_metrics_cases},
		{.name = "service manager", .cases = t_notify_cases},
		{.name = "peers", .cases = t_peers_cases},
		{.name = "authentication", .cases = t_auth_cases},
		{.name = "messages of authentication", .cases = t_auth_message_cases},
		{.name = "placement", .cases = t_placement_cases},
		{.name = "control", .cases = t_control_cases},
		{.name = "cycles", .cases = t_cycle_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"
#include "t_fake.h"

static int teardown(void)
{
	t_fake_free();
	return 0;
}

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "attach: identifier", .cases = t_attach_id_cases},
		{.name = "uri", .cases = t_uri_cases},
		{.name = "auth_key", .cases = t_auth_key_cases},
		{.name = "host", .cases = t_host_cases},
		{.name = "handle", .cases = t_handle_cases},
		{.name = "cp engine", .cases = t_cp_engine_cases},
		{.name = "cp journal", .cases = t_cp_journal_cases},
		{.name = "fields", .cases = t_fields_cases},
		{.name = "connect", .teardown = teardown, .cases = t_connect_cases},
		{.name = "data", .teardown = teardown, .cases = t_data_cases},
		{.name = "fault", .teardown = teardown, .cases = t_fault_cases},
		{.name = "admin", .teardown = teardown, .cases = t_admin_cases},
		{.name = "authentication", .teardown = teardown, .cases = t_auth_cases},
		{.name = "messages of authentication",
		 .teardown = teardown,
		 .cases = t_auth_message_cases},
		{.name = "passthru", .teardown = teardown, .cases = t_passthru_cases},
		{.name = "sync", .teardown = teardown, .cases = t_sync_cases},
		{.name = "paths", .cases = t_paths_cases},
		{.name = "sizes", .teardown = teardown, .cases = t_sizes_cases},
		{.name = "device", .teardown = teardown, .cases = t_dev_cases},
		{.name = "guards", .cases = t_dev_guard_cases},
		{.name = "extents", .teardown = teardown, .cases = t_dev_extents_cases},
		{.name = "lost paths", .teardown = teardown, .cases = t_dev_lost_cases},
		{.name = "gateways", .teardown = teardown, .cases = t_dev_gateway_cases},
		{.name = "hostile paths", .teardown = teardown, .cases = t_dev_hostile_cases},
		{.name = "paths of a device", .teardown = teardown, .cases = t_dev_path_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}

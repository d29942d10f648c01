/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "buddy", .cases = t_buddy_cases},
		{.name = "defer", .cases = t_defer_cases},
		{.name = "fd_bag", .cases = t_fd_bag_cases},
		{.name = "hash", .cases = t_hash_cases},
		{.name = "hist", .cases = t_hist_cases},
		{.name = "iomem", .cases = t_iomem_cases},
		{.name = "log", .cases = t_log_cases},
		{.name = "log_out", .cases = t_log_out_cases},
		{.name = "loop", .cases = t_loop_cases},
		{.name = "map", .cases = t_map_cases},
		{.name = "parse", .cases = t_parse_cases},
		{.name = "sockaddr", .cases = t_sockaddr_cases},
		{.name = "spin", .cases = t_spin_cases},
		{.name = "utf8", .cases = t_utf8_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}

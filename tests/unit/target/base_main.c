/* SPDX-License-Identifier: BSD-3-Clause */
#include "base_suites.h"
#include "target/bdev/backend.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* /var/tmp is on a disk more often than /tmp, and a tmpfs may not support O_DIRECT. */
void t_dir_make(char path[64])
{
	strcpy(path, "/var/tmp/rdt-test-XXXXXX");
	if (!mkdtemp(path)) {
		perror(path);
		exit(2);
	}
}

int t_bdev_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	int rc = rdt_bdev_measure(bdev, size, &size, err, err_size);

	return rc ? rc : rdt_bdev_take_size(bdev, size, err, err_size);
}

void t_dir_remove(const char *path)
{
	char file[512];
	struct dirent *entry;
	DIR *dir = opendir(path);

	while (dir && (entry = readdir(dir))) {
		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		unlink(file);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

int64_t (*t_blocking_io)(const struct rdt_bio *bio);
int64_t __real_rdt_blocking_io(const struct rdt_bio *bio);
int64_t __wrap_rdt_blocking_io(const struct rdt_bio *bio);

int64_t __wrap_rdt_blocking_io(const struct rdt_bio *bio)
{
	return t_blocking_io ? t_blocking_io(bio) : __real_rdt_blocking_io(bio);
}

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "config", .cases = t_config_cases},
		{.name = "config file", .cases = t_config_file_cases},
		{.name = "edit", .cases = t_edit_cases},
		{.name = "backend open", .cases = t_backend_open_cases},
		{.name = "backend", .cases = t_backend_cases},
		{.name = "cancel", .cases = t_cancel_cases},
		{.name = "extent map", .cases = t_extent_map_cases},
		{.name = "inherit", .cases = t_inherit_cases},
		{.name = "jobs", .cases = t_jobs_cases},
		{.name = "layers", .cases = t_layer_cases},
		{.name = "shares", .cases = t_shares_cases},
		{.name = "submit", .cases = t_submit_cases},
		{.name = "qos", .cases = t_qos_cases},
		{.name = "reservation", .cases = t_reservation_cases},
		{.name = "slots", .cases = t_slots_cases},
		{.name = "identity", .cases = t_identity_cases},
		{.name = "state", .cases = t_state_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}

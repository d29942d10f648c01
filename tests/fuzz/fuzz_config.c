/* SPDX-License-Identifier: BSD-3-Clause */
/* rdtarget's configuration file. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/config/config.h"
#include "target/config/config_json.h"
#include "fuzz.h"

static void count_line(void *arg, enum rd_log_level level, const char *line)
{
	*(int *)arg += level == RD_LOG_ERROR;
}

/* Properties of every configuration that was accepted. */
static void fuzz_config_check(const struct rdt_config *c)
{
	FUZZ_CHECK(c->target.reactors >= 1);
	FUZZ_CHECK(c->target.queue_depth >= 16 && c->target.queue_depth <= 1024);
	FUZZ_CHECK(c->target.max_data_bytes >= 4096);
	FUZZ_CHECK((c->target.max_data_bytes & (c->target.max_data_bytes - 1)) == 0);
	FUZZ_CHECK(c->target.in_capsule_bytes <= 65536 && c->target.in_capsule_bytes % 16 == 0);
	for (uint32_t i = 0; i < c->listeners_count; i++)
		FUZZ_CHECK(c->listeners[i].address);
	for (uint32_t i = 0; i < c->subsystems_count; i++) {
		const struct rdt_subsys_config *s = &c->subsystems[i];

		FUZZ_CHECK(s->nqn && strlen(s->nqn) <= 223);
		FUZZ_CHECK(s->serial && strlen(s->serial) <= 20);
		FUZZ_CHECK(s->model && strlen(s->model) <= 40);
		for (uint32_t n = 0; n < s->namespaces_count; n++) {
			const struct rdt_ns_config *ns = &s->namespaces[n];

			FUZZ_CHECK(ns->nsid >= 1 && ns->nsid != UINT32_MAX);
			FUZZ_CHECK(ns->block_size == 512 || ns->block_size == 4096);
			FUZZ_CHECK(ns->size_bytes % ns->block_size == 0);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rd_log *log;
	static char path[64];
	static int fd, errors;
	struct rdt_config *config = NULL;
	int rc;

	if (!log) {
		fd = memfd_create("config", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		FUZZ_CHECK(!rd_log_create("fuzz", -1, RD_LOG_TRACE, count_line, &errors, &log));
	}
	FUZZ_CHECK(!ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
	errors = 0;
	rc = rdt_config_load(path, log, &config);
	/* It is refused with a reason, or it is valid. */
	FUZZ_CHECK(rc <= 0 && (rc == 0) == (config != NULL));
	FUZZ_CHECK(rc == 0 || (errors > 0 && errors <= 100));
	if (config) {
		json_t *json = rdt_config_json(config);

		fuzz_config_check(config);
		FUZZ_CHECK(json != NULL);
		json_decref(json);
	}
	rdt_config_put(&config);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_PREFIX "t: error: config: "

static void config_take_line(void *arg, enum rd_log_level level, const char *line)
{
	struct said *said = arg;
	size_t len = strlen(said->text);
	const char *rest = line;

	said->lines++;
	if (strncmp(rest, LOG_PREFIX, strlen(LOG_PREFIX)) == 0)
		rest += strlen(LOG_PREFIX);
	if (strncmp(rest, said->path, strlen(said->path)) == 0) {
		rest += strlen(said->path);
		len += (size_t)snprintf(said->text + len, sizeof(said->text) - len, "FILE");
	}
	if (len >= sizeof(said->text))
		return;
	snprintf(said->text + len, sizeof(said->text) - len, "%s\n", rest);
}

int t_config_load(const char *path, struct said *said, struct rdt_config **config)
{
	struct rd_log *log;
	int rc;

	memset(said, 0, sizeof(*said));
	said->path = path;
	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_INFO, config_take_line, said, &log), 0);
	rc = rdt_config_load(path, log, config);
	rd_log_destroy(&log);
	return rc;
}

int t_config_load_text(const char *text, size_t len, struct said *said, struct rdt_config **config)
{
	char path[] = "/tmp/rdt-config-XXXXXX";
	int fd = mkstemp(path), rc;

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(write(fd, text, len), (ssize_t)len);
	close(fd);
	rc = t_config_load(path, said, config);
	unlink(path);
	return rc;
}

void t_config_check_bad(const struct bad *bad, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct rdt_config *config = (struct rdt_config *)&bad;
		struct said said;
		int rc = t_config_load_text(bad[i].text, strlen(bad[i].text), &said, &config);

		CU_ASSERT_EQUAL(rc, -EINVAL);
		CU_ASSERT_PTR_NULL(config);
		if (strcmp(said.text, bad[i].said) != 0)
			printf("# of:\n%s\n# said:\n%s# wanted:\n%s", bad[i].text, said.text,
			       bad[i].said);
		CU_ASSERT_STRING_EQUAL(said.text, bad[i].said);
		if (!rc)
			rdt_config_put(&config);
	}
}

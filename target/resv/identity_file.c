/* SPDX-License-Identifier: BSD-3-Clause */
/* The identities of volumes as JSON, one line each, so that people can read the file. */
#include "identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <uuid/uuid.h>

#include "util/cleanup.h"

#define VERSION 1
#define HEAD    "{\"version\": 1, \"volumes\": [\n"
#define TAIL    "\n]}\n"

int rdt_identity_line(struct rdt_identity *id)
{
	json_t *o = json_pack("{s:s}", "uuid", id->text);
	char *line;

	if (id->state >= RDT_IDENTITY_ENDED)
		json_object_set_new(o, "ended", json_true());
	else if (json_object_set_new(o, "nguid", json_boolean(id->nguid)) ||
		 json_object_set_new(o, "volume", json_string(id->volume)) ||
		 json_object_set_new(o, "nqn", json_string(id->nqn)) ||
		 json_object_set_new(o, "nsid", json_integer(id->nsid)))
		json_decref(o), o = NULL;
	line = o ? json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(o);
	if (!line)
		return -ENOMEM;
	free(id->line);
	id->line = line;
	return 0;
}

int rdt_identity_write(const struct rdt_identity_list *list, char **text, size_t *len)
{
	const struct rdt_identity *id;
	const char *sep = "";
	FILE *f = open_memstream(text, len);
	bool good;

	if (!f)
		return -ENOMEM;
	fputs(HEAD, f);
	TAILQ_FOREACH (id, list, link) {
		if (!id->line)
			continue;
		fputs(sep, f);
		fputs(id->line, f);
		sep = ",\n";
	}
	fputs(TAIL, f);
	good = !ferror(f);
	if (fclose(f) || !good) {
		free(*text);
		*text = NULL;
		return -ENOMEM;
	}
	return 0;
}

void rdt_identity_free(struct rdt_identity *id)
{
	if (!id)
		return;
	free(id->job.text);
	free(id->volume);
	free(id->nqn);
	free(id->line);
	free(id);
}

static int read_volume(struct rdt_identity *id, json_t *o, size_t i, char *why, size_t size)
{
	const char *text, *volume = NULL, *nqn = NULL;
	int nguid = 0, ended = 0;
	json_int_t nsid = 0;
	json_error_t err;

	if (json_unpack_ex(o, &err, JSON_STRICT, "{s:s, s?b, s?b, s?s, s?s, s?I}", "uuid", &text,
			   "ended", &ended, "nguid", &nguid, "volume", &volume, "nqn", &nqn, "nsid",
			   &nsid))
		return rdt_state_bad(why, size, "entry %zu: %s", i, err.text);
	if (uuid_parse(text, id->uuid) || uuid_is_null(id->uuid))
		return rdt_state_bad(why, size, "entry %zu: \"%.40s\" is not a UUID", i, text);
	uuid_unparse_lower(id->uuid, id->text);
	id->state = ended ? RDT_IDENTITY_ENDED : RDT_IDENTITY_KEPT;
	if (ended)
		return 0;
	if (!volume || !nqn || nsid < 1 || nsid >= UINT32_MAX)
		return rdt_state_bad(
			why, size,
			"entry %zu lacks one of \"nguid\", \"volume\", \"nqn\" and \"nsid\", or "
			"has not ended",
			i);
	id->nguid = nguid;
	id->nsid = (uint32_t)nsid;
	id->volume = strdup(volume);
	id->nqn = strdup(nqn);
	return id->volume && id->nqn ? 0 : rdt_state_bad(why, size, "out of memory");
}

void rdt_identity_free_all(struct rdt_identity_list *list)
{
	struct rdt_identity *id;

	while ((id = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, id, link);
		rdt_identity_free(id);
	}
}

static int compare_uuids(const void *a, const void *b)
{
	return memcmp(*(const uint8_t *const *)a, *(const uint8_t *const *)b, 16);
}

static int check_twice(const struct rdt_identity_list *list, size_t n, char *why, size_t size)
{
	const uint8_t **uuids = calloc(n + 1, sizeof(*uuids));
	const struct rdt_identity *id;
	char text[RDT_UUID_TEXT];
	size_t at = 0;
	int rc = 0;

	if (!uuids)
		return rdt_state_bad(why, size, "out of memory");
	TAILQ_FOREACH (id, list, link)
		uuids[at++] = id->uuid;
	qsort(uuids, n, sizeof(*uuids), compare_uuids);
	for (size_t i = 1; i < n && !rc; i++) {
		uuid_unparse_lower(uuids[i], text);
		if (memcmp(uuids[i - 1], uuids[i], 16) == 0)
			rc = rdt_state_bad(why, size, "two entries have the UUID %s", text);
	}
	free(uuids);
	return rc;
}

static int read_volumes(json_t *volumes, struct rdt_identity_list *list, char *why, size_t size)
{
	size_t n = json_array_size(volumes);
	int rc = 0;

	if (!json_is_array(volumes))
		return rdt_state_bad(why, size, "\"volumes\" is not a list");
	if (n > RDT_IDENTITIES_MAX)
		return rdt_state_bad(why, size, "%zu volumes, expected at most %u", n,
				     RDT_IDENTITIES_MAX);
	for (size_t i = 0; i < n && !rc; i++) {
		struct rdt_identity *id = calloc(1, sizeof(*id));

		if (!id)
			return rdt_state_bad(why, size, "out of memory");
		TAILQ_INSERT_TAIL(list, id, link);
		rc = read_volume(id, json_array_get(volumes, i), i, why, size);
		if (!rc && rdt_identity_line(id))
			rc = rdt_state_bad(why, size, "out of memory");
	}
	return rc ? rc : check_twice(list, n, why, size);
}

/* @root: NULL: it is not JSON, for the reason in @err. Consumes the reference. */
static int read_root(json_t *root, json_error_t *err, struct rdt_identity_list *list, char *why,
		     size_t size)
{
	struct rdt_identity_list read = TAILQ_HEAD_INITIALIZER(read);
	json_t *volumes;
	int version, rc;

	if (!root)
		return rdt_state_bad(why, size, "line %d: %s", err->line, err->text);
	if (json_unpack_ex(root, err, 0, "{s:i, s:o}", "version", &version, "volumes", &volumes))
		rc = rdt_state_bad(why, size, "%s", err->text);
	else if (version != VERSION)
		rc = rdt_state_bad(why, size, "version %d, expected %d", version, VERSION);
	else
		rc = read_volumes(volumes, &read, why, size);
	json_decref(root);
	if (rc)
		rdt_identity_free_all(&read);
	else
		TAILQ_CONCAT(list, &read, link);
	return rc;
}

int rdt_identity_read(const char *text, size_t len, struct rdt_identity_list *list, char *why,
		      size_t size)
{
	json_error_t err;

	return read_root(json_loadb(text, len, JSON_REJECT_DUPLICATES, &err), &err, list, why,
			 size);
}

int rdt_identity_check(const char *dir, char *why, size_t size)
{
	struct rdt_identity_list list = TAILQ_HEAD_INITIALIZER(list);
	rd_autofree char *path = NULL;
	FILE *f = NULL;
	json_error_t err;
	int rc = 0;

	if (asprintf(&path, "%s/" RDT_IDENTITY_FILE, dir) < 0)
		return rdt_state_bad(why, size, "out of memory");
	f = fopen(path, "re");
	if (f)
		rc = read_root(json_loadf(f, JSON_REJECT_DUPLICATES, &err), &err, &list, why, size);
	else if (errno != ENOENT)
		rc = rdt_state_bad(why, size, "%s", strerror(errno));
	if (f)
		fclose(f);
	rdt_identity_free_all(&list);
	return rc;
}

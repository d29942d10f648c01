/* SPDX-License-Identifier: BSD-3-Clause */
#include "files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/loop.h"

static struct file *find_file(struct files *files, const char *name)
{
	for (unsigned int i = 0; i < FILES_MAX; i++)
		if (strcmp(files->file[i].name, name) == 0)
			return &files->file[i];
	return NULL;
}

static void drop_file(struct file *file)
{
	free(file->text);
	memset(file, 0, sizeof(*file));
}

static int files_replace(struct rdt_state_files *ops, const char *name, const char *text,
			 size_t len)
{
	struct files *files = rd_container_of(ops, struct files, ops);
	struct file *file = find_file(files, name);
	char *copy;

	if (files->stopped)
		return -EIO;
	if (!text) {
		if (file)
			drop_file(file);
		return 0;
	}
	copy = malloc(len + 1);
	if (!file)
		file = find_file(files, "");
	if (!copy || !file || strlen(name) >= sizeof(file->name)) {
		free(copy);
		return -ENOSPC;
	}
	memcpy(copy, text, len);
	copy[len] = 0;
	drop_file(file);
	memccpy(file->name, name, 0, sizeof(file->name));
	file->text = copy;
	file->len = len;
	return 0;
}

static int files_read(struct rdt_state_files *ops, const char *name, char **text, size_t *len)
{
	struct files *files = rd_container_of(ops, struct files, ops);
	const struct file *file = find_file(files, name);

	*text = NULL;
	*len = 0;
	if (!file)
		return -ENOENT;
	*text = strdup(file->text);
	if (!*text)
		return -ENOMEM;
	*len = file->len;
	return 0;
}

void files_init(struct files *files)
{
	*files = (struct files){.ops = {.replace = files_replace, .read = files_read}};
}

void files_free(struct files *files)
{
	for (unsigned int i = 0; i < FILES_MAX; i++)
		drop_file(&files->file[i]);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records what the program does to the files of one folder, and gives every content of the folder
 * that a power failure at any moment can leave: of the changes of names since the folder was synced
 * any subset, of the text of a file since it was synced nothing, a part, zeroes or all.
 *
 * Linked with --wrap of openat, openat64, write, fsync, renameat, unlinkat and close.
 */
#ifndef T_FOLDER_H
#define T_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#define T_FOLDER_FILES  8u
#define T_FOLDER_EVENTS 512u

/* What a wrong program would do, as it is recorded. */
enum t_folder_mistake {
	T_FOLDER_NO_MISTAKE,
	T_FILE_SYNC_DROPPED,
	T_FOLDER_SYNC_DROPPED,
	T_ANSWER_EARLY, /* marks come before the sync of the folder */
	T_RENAME_EARLY, /* before the sync of the file */
};

struct t_folder_event; /* private */

struct t_folder {
	unsigned long dev, ino;
	enum t_folder_mistake mistake;
	struct t_folder_event *events;
	unsigned int count;
	unsigned int texts; /* files that were created; each is a text of its own */
};

/* Some content of the folder. */
struct t_folder_file {
	char name[96];
	const char *text;
	size_t len;
};

/* Called for a content that is possible at a moment before which @marks marks were made. */
typedef void (*t_folder_fn)(void *arg, unsigned int marks, const struct t_folder_file *files,
			    unsigned int count);

/* The folder is empty. One at a time. */
void t_folder_watch(struct t_folder *f, const char *dir);
void t_folder_end(struct t_folder *f); /* record nothing more */
void t_folder_free(struct t_folder *f);
void t_folder_mark(struct t_folder *f);
/* All contents at all moments; many occur several times. */
void t_folder_each(struct t_folder *f, t_folder_fn fn, void *arg);

#endif /* T_FOLDER_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sectors of a disk can contain after a power failure.
 *
 * The same rules describe two views of one disk, with one clock for the events of both: what the
 * kernel was told to write and to sync, and what a host was answered. A write that has begun may be
 * there. A write is gone for sure when another one, which began after its end, is on stable
 * storage. So the set of a sector's versions is exactly what can be read there after a failure at
 * this moment: any subset of the other writes may be lost, torn at any sector.
 */
#ifndef T_VERSIONS_H
#define T_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define T_SECTOR 512u

struct t_version {
	uint64_t id;      /* of the write */
	uint64_t content; /* each 8 bytes of the sector */
	uint64_t begin;
	uint64_t end; /* UINT64_MAX: not yet, or never, because it failed */
	bool durable;
	bool lost; /* a sync has failed: no later sync can make it durable */
};

struct t_versions {
	uint64_t sectors;
	struct {
		struct t_version *v;
		unsigned int count, room;
		uint64_t *replaced; /* contents of the versions that a durable one has replaced */
		unsigned int replaced_count;
	} * at; /* [sectors] */
};

void t_versions_init(struct t_versions *vs, uint64_t sectors);
void t_versions_fini(struct t_versions *vs);
/* The durable content at the beginning. */
void t_versions_base(struct t_versions *vs, uint64_t sector, uint64_t content);
void t_versions_begin(struct t_versions *vs, uint64_t sector, uint64_t id, uint64_t content,
		      uint64_t now);
void t_versions_end(struct t_versions *vs, uint64_t sector, uint64_t id, uint64_t now);
/* The write @id has never reached this sector, and will not. */
void t_versions_drop(struct t_versions *vs, uint64_t sector, uint64_t id);
void t_versions_durable(struct t_versions *vs, uint64_t sector, uint64_t id);
/* A sync that began at @begun has ended well: what had ended by then is durable. */
void t_versions_sync(struct t_versions *vs, uint64_t first, uint64_t last, uint64_t begun);
/* A sync has failed: what has ended and is not durable stays so, as the kernel has dropped it. */
void t_versions_sync_failed(struct t_versions *vs);
/* How many versions of the sector have been replaced until now, for t_versions_seen(). */
unsigned int t_versions_replaced(const struct t_versions *vs, uint64_t sector);
/* A read with FUA returned this content; @replaced is t_versions_replaced() when the read began.
 * All versions with the content are durable, or older than what is. If one of them was replaced
 * since the read began, the read may have returned that one, and nothing changes. */
void t_versions_seen(struct t_versions *vs, uint64_t sector, uint64_t content,
		     unsigned int replaced);
/* The first sector which can contain something in @possible that @allowed excludes, and that
 * content; or false. */
bool t_versions_beyond(const struct t_versions *possible, const struct t_versions *allowed,
		       uint64_t *sector, uint64_t *content);
/* For the reader of a failure. */
void t_versions_print(const struct t_versions *vs, uint64_t sector, const char *whose);

#endif /* T_VERSIONS_H */

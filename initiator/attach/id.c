/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that stay the same. */
#include <inttypes.h>
#include <string.h>
#include <uuid/uuid.h>

#include "internal.h"
#include "util/map.h"

/* Of an NQN with a character that is replaced. */
#define ID_NQN_PART 180

static bool id_bytes(char *out, const uint8_t *id, size_t len)
{
	bool any = false;
	size_t i;

	memcpy(out, "eui.", sizeof("eui."));
	for (i = 0; i < len; i++) {
		any |= id[i];
		snprintf(out + 4 + 2 * i, 3, "%02x", id[i]);
	}
	return any;
}

/* Returns whether a character was replaced. */
static bool id_replace(char *c)
{
	static const char good[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_:";
	bool any = false;

	while (*(c += strspn(c, good))) {
		*c = '_';
		any = true;
	}
	return any;
}

void rdi_attach_id(const struct rdinit_dev_info *ns, char id[RDI_ATTACH_ID])
{
	if (!uuid_is_null(ns->uuid)) {
		uuid_unparse_lower(ns->uuid, id);
		return;
	}
	if (id_bytes(id, ns->nguid, sizeof(ns->nguid)) ||
	    id_bytes(id, ns->eui64, sizeof(ns->eui64)))
		return;
	snprintf(id, RDI_ATTACH_ID, "%s", ns->subnqn);
	if (!id_replace(id)) {
		snprintf(id, RDI_ATTACH_ID, "%s-%u", ns->subnqn, ns->nsid);
		return;
	}
	/* The hash keeps NQNs apart that differ in such a character only. It has more digits than
	 * an NSID has, so that such a name is never that of another NQN. */
	id[ID_NQN_PART] = '\0';
	snprintf(id + strlen(id), RDI_ATTACH_ID - strlen(id), "-%u-%016" PRIx64, ns->nsid,
		 rd_map_hash(ns->subnqn));
}

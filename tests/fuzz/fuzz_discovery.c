/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of a discovery log page, as a target sends them. */
#include "fuzz.h"
#include "internal.h"

/* The text ends with a NUL and has no trailing spaces, whatever padding the peer used. */
static void fuzz_discovery_check_text(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	FUZZ_CHECK(n < size && (n == 0 || text[n - 1] != ' '));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nvmf_disc_log_entry *e = calloc(1, sizeof(*e));
	struct rdinit_discovery_record rec;

	FUZZ_CHECK(e);
	memcpy(e, data, size < sizeof(*e) ? size : sizeof(*e));
	rdi_discover_parse(e, &rec);
	fuzz_discovery_check_text(rec.trsvcid, sizeof(rec.trsvcid));
	fuzz_discovery_check_text(rec.subnqn, sizeof(rec.subnqn));
	fuzz_discovery_check_text(rec.traddr, sizeof(rec.traddr));
	FUZZ_CHECK(rec.trtype == e->trtype && rec.portid == le16toh(e->portid));
	free(e);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The initiator's URIs. */
#include <string.h>

#include "fuzz.h"
#include "rdinit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct rdinit_uri uri, before, again;
	char written[RDINIT_URI_SIZE];

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	rdinit_uri_init(&uri);
	before = uri;
	if (rdinit_uri_parse(text, &uri)) {
		FUZZ_CHECK(rdinit_get_error() && rdinit_get_error()[0]);
		FUZZ_CHECK(memcmp(&uri, &before, sizeof(uri)) == 0);
	} else {
		FUZZ_CHECK(uri.traddr[0] && memchr(uri.traddr, 0, sizeof(uri.traddr)));
		FUZZ_CHECK(uri.trsvcid[0] && memchr(uri.trsvcid, 0, sizeof(uri.trsvcid)));
		FUZZ_CHECK(memchr(uri.subnqn, 0, sizeof(uri.subnqn)));
		FUZZ_CHECK(uri.nsid == 0 || uri.subnqn[0]);
		rdinit_uri_init(&again);
		FUZZ_CHECK(rdinit_uri_format(&uri, written) == 0);
		FUZZ_CHECK(rdinit_uri_parse(written, &again) == 0);
		FUZZ_CHECK(memcmp(&uri, &again, sizeof(uri)) == 0);
	}
	free(text);
	return 0;
}

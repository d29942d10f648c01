/* SPDX-License-Identifier: BSD-3-Clause */
/* Every change of fuzz_records.c to every value of the records that it begins with, one at a time.
 */
#include "fuzz.h"
#include "records.h"

static void change_each(uint8_t flags, uint8_t at)
{
	for (unsigned int value = 0; value < fuzz_records_values(at); value++)
		for (unsigned int change = 0; change < fuzz_records_changes(); change++) {
			const uint8_t input[] = {flags, at, (uint8_t)value, (uint8_t)(value >> 8),
						 (uint8_t)change};

			LLVMFuzzerTestOneInput(input, sizeof(input)); /* a failure aborts */
		}
}

int main(void)
{
	unsigned int count = fuzz_records_count(), n = 0;

	printf("1..%u\n", 2 * count);
	for (unsigned int flags = 0; flags <= FUZZ_RECORDS_RDMA; flags++)
		for (unsigned int at = 0; at < count; at++) {
			change_each((uint8_t)flags, (uint8_t)at);
			printf("ok %u - record %u, queues of %s\n", ++n, at,
			       flags & FUZZ_RECORDS_RDMA ? "iwarp" : "tcp");
			fflush(stdout);
		}
	return 0;
}

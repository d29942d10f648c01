/* SPDX-License-Identifier: BSD-3-Clause */
/* What the inputs of fuzz_records.c can change, for a program that tries all of it. */
#ifndef FUZZ_RECORDS_H
#define FUZZ_RECORDS_H

#define FUZZ_RECORDS_RDMA 0x01 /* of the first byte of an input: the queues are of iwarp */

unsigned int fuzz_records_count(void);
/* The values in record @at, at any depth, and itself, which is the first one. */
unsigned int fuzz_records_values(unsigned int at);
unsigned int fuzz_records_changes(void); /* that each value can have */

#endif /* FUZZ_RECORDS_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of a backend; layers are configured for each. */
#ifndef RDT_BIO_OP_H
#define RDT_BIO_OP_H

#include <stdbool.h>

enum rdt_bio_op {
	RDT_BIO_READ,
	RDT_BIO_WRITE,
	RDT_BIO_FLUSH,
	RDT_BIO_WRITE_ZEROES,
	RDT_BIO_DEALLOCATE,
	RDT_BIO_EXTENTS, /* returns the allocated parts of a range: struct rdt_extents */
	RDT_BIO_OPS,
};

/* 1u << enum rdt_bio_op of the operations that change no block. */
#define RDT_OPS_NOT_WRITING (1u << RDT_BIO_READ | 1u << RDT_BIO_FLUSH | 1u << RDT_BIO_EXTENTS)

static inline bool rdt_bio_op_writes(enum rdt_bio_op op)
{
	return !(RDT_OPS_NOT_WRITING >> op & 1);
}

#endif /* RDT_BIO_OP_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a backend is asked to do; layers are configured for each. */
#ifndef RDT_BIO_OP_H
#define RDT_BIO_OP_H

enum rdt_bio_op {
	RDT_BIO_READ,
	RDT_BIO_WRITE,
	RDT_BIO_FLUSH,
	RDT_BIO_WRITE_ZEROES,
	RDT_BIO_DEALLOCATE,
	RDT_BIO_EXTENTS, /* which parts of a range are allocated: struct rdt_extents */
	RDT_BIO_OPS,
};

#endif /* RDT_BIO_OP_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a layer of type delay. */
#include "config_priv.h"
#include "keys.h"

#define DELAY(field, op, text)                                                                   \
	{                                                                                        \
#field, RDT_KEY_DURATION, RDT_WHEN_ANEW, RDT_AT(struct rdt_layer_config, field), \
			RDT_NUMBER_AT(struct rdt_layer_config, delay_ns[op]),                    \
			.max = UINT64_C(3600) * 1000000000, .with = 1u << RDT_LAYER_DELAY,       \
			.unset = "none", .example = "1ms", .says = text                          \
	}

const struct rdt_row rdt_delay_rows[] = {
	DELAY(read, RDT_BIO_READ, "Delay of reads."),
	DELAY(write, RDT_BIO_WRITE, "Delay of writes."),
	DELAY(flush, RDT_BIO_FLUSH,
	      "Delay of Flush, which hosts then also send to storage without a cache."),
	DELAY(write_zeroes, RDT_BIO_WRITE_ZEROES, "Delay of Write Zeroes."),
	DELAY(deallocate, RDT_BIO_DEALLOCATE, "Delay of deallocation."),
	{0},
};

void rdt_config_check_delay(struct rdt_config_load *load, const struct rdt_key *key,
			    const struct rdt_layer_config *l)
{
	if (!l->read && !l->write && !l->flush && !l->write_zeroes && !l->deallocate &&
	    rdt_config_good(load, key))
		rdt_config_problem(load, key,
				   "delays nothing, expected at least one of read, write, flush, "
				   "write_zeroes, deallocate");
}

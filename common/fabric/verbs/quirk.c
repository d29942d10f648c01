/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of quirks. */
#include "quirk.h"

#include <stddef.h>

static const struct rd_vb_quirk *const quirks[] = {
	&rd_vb_quirk_siw,
};

static const struct rd_vb_quirk none;

const struct rd_vb_quirk *rd_vb_quirk_match(const struct ibv_device *device,
					    const struct ibv_device_attr *attr)
{
	for (size_t i = 0; i < sizeof(quirks) / sizeof(quirks[0]); i++)
		if (quirks[i]->match(device, attr))
			return quirks[i];
	return &none;
}

const struct rd_vb_quirk *rd_vb_quirk_of(struct ibv_context *ctx)
{
	struct ibv_device_attr attr;

	if (!ctx || ibv_query_device(ctx, &attr))
		return &none;
	return rd_vb_quirk_match(ctx->device, &attr);
}

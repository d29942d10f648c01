/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums over the cells of a copy: for each host, listener or reactor. The order of namespaces. */
#include "stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_cells(const void *a, const void *b)
{
	const struct rdt_stats_cell *x = *(const struct rdt_stats_cell *const *)a;
	const struct rdt_stats_cell *y = *(const struct rdt_stats_cell *const *)b;

	return strcmp(x->hostnqn, y->hostnqn);
}

int rdt_stats_compare_ns(const void *a, const void *b)
{
	const struct rdt_ns_shown *x = &(*(const struct rdt_stats_ns *const *)a)->shown;
	const struct rdt_ns_shown *y = &(*(const struct rdt_stats_ns *const *)b)->shown;
	int by_name = strcmp(x->nqn, y->nqn);

	return by_name ? by_name : (x->nsid > y->nsid) - (x->nsid < y->nsid);
}

static void row_add(struct rdt_stats_row *row, const struct rdt_stats_cell *cell)
{
	row->qpairs += cell->qpairs;
	rdt_stats_add(&row->io, &cell->io);
}

/* Hosts in the order of their names. */
static int host_rows(const struct rdt_stats *stats, struct rdt_stats_row *rows, unsigned int *count)
{
	const struct rdt_stats_cell **sorted =
		calloc(stats->cells_count + 1, sizeof(struct rdt_stats_cell *));
	unsigned int n = 0;

	if (!sorted)
		return -ENOMEM;
	for (unsigned int i = 0; i < stats->cells_count; i++)
		if (stats->cells[i].hostnqn)
			sorted[n++] = &stats->cells[i];
	qsort(sorted, n, sizeof(*sorted), compare_cells);
	for (unsigned int i = 0; i < n; i++) {
		if (!*count || strcmp(rows[*count - 1].name, sorted[i]->hostnqn) != 0)
			rows[(*count)++].name = sorted[i]->hostnqn;
		row_add(&rows[*count - 1], sorted[i]);
	}
	free(sorted);
	return 0;
}

static unsigned int hosts_at_most(const struct rdt_stats *stats)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < stats->cells_count; i++)
		n += stats->cells[i].hostnqn != NULL;
	return n;
}

static void listener_rows(const struct rdt_stats *stats, struct rdt_stats_row *rows)
{
	for (unsigned int i = 0; i < stats->listeners_count; i++)
		rows[i].name = stats->listeners[i].address;
	for (unsigned int i = 0; i < stats->cells_count; i++)
		if (stats->cells[i].listener >= 0)
			row_add(&rows[stats->cells[i].listener], &stats->cells[i]);
}

static void reactor_rows(const struct rdt_stats *stats, struct rdt_stats_row *rows)
{
	for (unsigned int i = 0; i < stats->cells_count; i++)
		row_add(&rows[stats->cells[i].reactor], &stats->cells[i]);
}

int rdt_stats_rows(const struct rdt_stats *stats, enum rdt_stats_by by, struct rdt_stats_row **out,
		   unsigned int *count)
{
	unsigned int room = by == RDT_STATS_BY_HOST       ? hosts_at_most(stats)
			    : by == RDT_STATS_BY_LISTENER ? stats->listeners_count
							  : stats->reactors_count;
	struct rdt_stats_row *rows = calloc(room + 1, sizeof(*rows));
	int err = 0;

	*out = NULL;
	*count = 0;
	if (!rows)
		return -ENOMEM;
	for (unsigned int i = 0; i < room; i++)
		rows[i].index = i;
	if (by == RDT_STATS_BY_HOST) {
		err = host_rows(stats, rows, count);
	} else {
		*count = room;
		if (by == RDT_STATS_BY_LISTENER)
			listener_rows(stats, rows);
		else
			reactor_rows(stats, rows);
	}
	if (err) {
		free(rows);
		return err;
	}
	*out = rows;
	return 0;
}

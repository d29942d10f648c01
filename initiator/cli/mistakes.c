/* SPDX-License-Identifier: BSD-3-Clause */
/* What was probably meant: the nearest of several words, addresses in the wrong form. */
#include <string.h>
#include <strings.h>

#include "cli.h"

#define WORD_MAX 40

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int m = a < b ? a : b;

	return m < c ? m : c;
}

/* Letters to add, drop, change or swap with their neighbour until @a is @b. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int rows[3][WORD_MAX + 1]; /* row i is in rows[i % 3] */
	unsigned int n = (unsigned int)strlen(b), i, j;

	if (strlen(a) > WORD_MAX || n > WORD_MAX)
		return WORD_MAX;
	for (j = 0; j <= n; j++)
		rows[0][j] = j;
	for (i = 1; a[i - 1]; i++) {
		const unsigned int *two = rows[(i + 1) % 3], *up = rows[(i + 2) % 3];
		unsigned int *row = rows[i % 3];

		row[0] = i;
		for (j = 1; j <= n; j++) {
			row[j] =
				min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    two[j - 2] + 1 < row[j])
				row[j] = two[j - 2] + 1;
		}
	}
	return rows[(i + 2) % 3][n];
}

void cli_nearest(struct cli_nearest *near, const char *candidate)
{
	size_t len = strlen(near->word);
	unsigned int d = distance(near->word, candidate);

	/* What has begun right is nearer than what has other letters. */
	if (len >= 3 && strncmp(near->word, candidate, len) == 0)
		d = 1;
	if (d <= (len < 4 ? 1 : 2) && (!near->found || d < near->best)) {
		near->found = candidate;
		near->best = d;
	}
}

/* Decimal digits and nothing else. */
static bool is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

bool cli_check_traddr(const char *traddr)
{
	const char *colon = strchr(traddr, ':'), *end;

	if (strncasecmp(traddr, "nvme+", 5) == 0) {
		cli_error("--traddr: \"%s\" is a URI; give it without the option", traddr);
		return false;
	}
	if (traddr[0] == '[') {
		end = strchr(traddr, ']');
		cli_error("--traddr: \"%s\": without brackets: --traddr=%.*s%s%s", traddr,
			  (int)(end ? end - traddr - 1 : 0), traddr + 1,
			  end && end[1] == ':' ? " --trsvcid=" : "",
			  end && end[1] == ':' ? end + 2 : "");
		return false;
	}
	/* With one colon it is no IPv6 address. */
	if (colon && !strchr(colon + 1, ':') && is_number(colon + 1)) {
		cli_error("--traddr: \"%s\": the port has its own option: --traddr=%.*s "
			  "--trsvcid=%s",
			  traddr, (int)(colon - traddr), traddr, colon + 1);
		return false;
	}
	return true;
}

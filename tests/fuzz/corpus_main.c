/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a fuzz target over the files of a folder, and over truncated and damaged versions of
 * each. */
#include <dirent.h>
#include <string.h>

#include "fuzz.h"

#define MAX_BYTES 65536
#define MAX_CUTS  300 /* prefixes tried of each file */

static size_t corpus_load(const char *dir, const char *name, uint8_t *buf)
{
	char path[4096];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	if (!f) {
		perror(path);
		exit(99);
	}
	n = fread(buf, 1, MAX_BYTES, f);
	fclose(f);
	return n;
}

/* In a block of its own size, so that a sanitizer or valgrind sees reads beyond it. */
static void corpus_run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		exit(99);
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void run_variants(uint8_t *buf, size_t size)
{
	size_t step = size / MAX_CUTS + 1;

	corpus_run(buf, size);
	for (size_t n = 0; n < size; n += step)
		corpus_run(buf, n);
	for (size_t i = 0; i < size; i += step) {
		uint8_t old = buf[i];

		buf[i] = (uint8_t)~old;
		corpus_run(buf, size);
		buf[i] = old;
	}
}

static int wanted(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
	static uint8_t buf[MAX_BYTES];
	struct dirent **files;
	int n;

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 99;
	}
	n = scandir(argv[1], &files, wanted, alphasort);
	if (n <= 0) {
		fprintf(stderr, "%s: no corpus\n", argv[1]);
		return 99;
	}
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		run_variants(buf, corpus_load(argv[1], files[i]->d_name, buf));
		printf("ok %d - %s\n", i + 1, files[i]->d_name); /* a failure aborts */
		fflush(stdout);
		free(files[i]);
	}
	free(files);
	return 0;
}

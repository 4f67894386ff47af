/* Prints what realpath returns for each argument, and the first line of the file below it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	char path[PATH_MAX], file[PATH_MAX + 16], line[64];
	FILE *f;
	int i;

	for (i = 1; i < argc; i++) {
		if (!realpath(argv[i], path))
			return 1;
		snprintf(file, sizeof(file), "%s/dev", path);
		f = fopen(file, "r");
		if (!f || !fgets(line, sizeof(line), f))
			return 2;
		printf("%s %s", path, line);
		fclose(f);
	}
	return 0;
}

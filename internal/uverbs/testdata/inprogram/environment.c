/* Programs that change their arguments and environment before they open a device: environment MODE. */
#include "verbs.h"

extern char **environ;

/* moved moves the environment elsewhere, and returns where the text of arguments and environment ends. */
static char *moved(int argc, char **argv)
{
	char *end = argv[argc - 1] + strlen(argv[argc - 1]), **copy;
	int i, n;

	for (n = 0; environ[n]; n++)
		if (environ[n] == end + 1)
			end = environ[n] + strlen(environ[n]);
	CHECK((copy = calloc((size_t)n + 1, sizeof(*copy))));
	for (i = 0; i < n; i++)
		CHECK((copy[i] = strdup(environ[i])));
	environ = copy;
	return end;
}

/* title writes a title over both, as setproctitle does: redis, valkey, nginx, postgres, sshd. */
static void title(int argc, char **argv)
{
	char *end = moved(argc, argv);

	memset(argv[0], 0, (size_t)(end - argv[0]));
	strcpy(argv[0], "server: ready");
	if (argc > 1)
		argv[1] = NULL;
}

/* long_title fills them. */
static void long_title(int argc, char **argv)
{
	char *end = moved(argc, argv);

	memset(argv[0], 'x', (size_t)(end - argv[0]));
	*end = 0;
}

static void clear(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	clearenv();
}

/* empty leaves the list where it is, without entries or with gaps of an odd number. */
static void empty(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	environ[0] = NULL;
}

static void cut(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	environ[1] = NULL;
}

static void unset(int argc, char **argv)
{
	char name[200], *end;

	(void)argc;
	(void)argv;
	while (environ[0]) {
		CHECK(sscanf(environ[0], "%199[^=]", name) == 1 && (end = strchr(environ[0], '=')));
		CHECK(unsetenv(name) == 0);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(int argc, char **argv);
	} modes[] = { { "title", title }, { "long", long_title }, { "clear", clear }, { "empty", empty }, { "cut", cut }, { "unset", unset } };
	struct device d = { 0 };
	size_t i;

	for (i = 0; argv[1] && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(argv[1], modes[i].name) == 0) {
			modes[i].run(argc, argv);
			break;
		}
	CHECK(i < sizeof(modes) / sizeof(modes[0]));
	device_begin(&d);
	traffic(&d);
	printf("ok\n");
	return 0;
}

/* A program that loads the libraries, unloads them, and loads them again: reopen PLUGIN. */
#include "verbs.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
	void *plugin, *cm, *channel;
	int (*use)(int);
	void *(*create)(void);
	void (*destroy)(void *);
	int i;

	CHECK(argc == 2);
	for (i = 0; i < 10; i++) {
		CHECK(plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL));
		CHECK(cm = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL));
		CHECK(use = (int (*)(int))dlsym(plugin, "use_device"));
		CHECK(create = (void *(*)(void))dlsym(cm, "rdma_create_event_channel"));
		CHECK(destroy = (void (*)(void *))dlsym(cm, "rdma_destroy_event_channel"));
		use(100);
		CHECK(channel = create());
		destroy(channel);
		CHECK(dlclose(cm) == 0 && dlclose(plugin) == 0);
		CHECK(!dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD));
	}
	printf("ok\n");
	return 0;
}

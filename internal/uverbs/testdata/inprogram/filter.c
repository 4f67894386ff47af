/* Limits and seccomp filters that a program sets before it opens a device: filter MODE. */
#include "verbs.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static struct device d;

/* deny denies system calls, with an action of seccomp. */
static void deny(uint32_t action, const int *calls, int n)
{
	struct sock_filter f[100] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
	struct sock_fprog program = { .filter = f };
	int i, k = 1;

	for (i = 0; i < n; i++) {
		f[k++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], 0, 1);
		f[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	}
	f[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)k;
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

#define DENY(action, ...) \
	do { \
		static const int calls[] = { __VA_ARGS__ }; \
		deny(action, calls, (int)(sizeof(calls) / sizeof(calls[0]))); \
	} while (0)

/* What the filters of container runtimes deny. */
static void container(void)
{
	DENY(SECCOMP_RET_ERRNO | EPERM, SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_settime, SYS_delete_module, SYS_fanotify_init, SYS_init_module,
	     SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_kcmp, SYS_kexec_load, SYS_keyctl, SYS_mbind, SYS_mount, SYS_move_pages,
	     SYS_open_by_handle_at, SYS_perf_event_open, SYS_personality, SYS_pivot_root, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
	     SYS_quotactl, SYS_reboot, SYS_request_key, SYS_setns, SYS_swapon, SYS_umount2, SYS_unshare, SYS_userfaultfd);
	DENY(SECCOMP_RET_ERRNO | ENOSYS, SYS_clone3);
}

static void no_memfd(void) { DENY(SECCOMP_RET_ERRNO | EPERM, SYS_memfd_create); }
static void no_datagrams(void) { DENY(SECCOMP_RET_KILL_PROCESS, SYS_sendmmsg, SYS_recvmmsg, SYS_bind); }

static void addresses(void)
{
	struct rlimit l = { 1 << 30, 1 << 30 };

	CHECK(setrlimit(RLIMIT_AS, &l) == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = { { "container", container }, { "memfd", no_memfd }, { "datagrams", no_datagrams }, { "addresses", addresses } };
	size_t i;

	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (argc > 1 && strcmp(argv[1], modes[i].name) == 0)
			modes[i].run();
	device_begin(&d);
	traffic(&d);
	printf("ok\n");
	return 0;
}

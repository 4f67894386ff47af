package main

import (
	"github.com/spf13/cobra"
)

const execLong = `Runs a program of the Linux RDMA tools, or any other that uses libibverbs and
librdmacm, on an RDMA device of softrdma: unchanged, without a kernel module,
without root. The program finds one device, rxe0, on the address of -d.

The libraries are the system's own (Debian: libibverbs1, ibverbs-providers,
librdmacm1). softrdma preloads a small library into the program, which forwards
its system calls on RDMA device files to softrdma, and nothing else.

The program is given the terminal, its environment and its arguments, and
softrdma ends with its exit code, or with 128 and the number of the signal that
ended it.

Two programs on one machine need two addresses. Programs that take a GID index
find the device's only GID at index 0.`

const execExample = `  softrdma exec -- ibv_devinfo -v

  softrdma exec -d 127.0.0.1 -- ibv_rc_pingpong -g 0
  softrdma exec -d 127.0.0.2 -- ibv_rc_pingpong -g 0 127.0.0.1

  softrdma exec -d 127.0.0.1 -- ib_write_bw
  softrdma exec -d 127.0.0.2 -- ib_write_bw 127.0.0.1`

func newExecCommand() *cobra.Command {
	var device string
	var verbose bool
	cmd := &cobra.Command{
		Use: "exec [flags] -- PROGRAM [ARGS...]", Short: "Run a program that uses libibverbs, unchanged",
		Long: execLong, Example: execExample, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runExec(cmd, device, verbose, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the program's flags are the program's
	f.StringVarP(&device, "device", "d", "", "`INTERFACE` or address of the device")
	f.BoolVarP(&verbose, "verbose", "v", false, "print each call on the device that is refused, and at the end how often which reason was given")
	return cmd
}

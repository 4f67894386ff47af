// Package demo is the command that moves a file between two processes with each RDMA
// operation and with TCP, and checks what arrives.
package demo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

const long = `Starts a second process and moves a file to it with each RDMA operation: through
shared memory, then through the network stack (this machine's loopback), which is
how RDMA reaches other machines. The kernel's TCP moves it as well. Each process
has an RDMA device of its own. The SHA-256 of the file is compared after each
transfer. Both processes also add to one counter with atomics, and the sum is
checked. The table shows for each operation the rate, and the median and the 99th
percentile of the latency of 8 bytes with both ends polling. Below it is the
processor time that both ends used. The last sentence sums up the figures.

With a file of less than 2 MiB the demo is quicker: latency and atomics take a
tenth of the messages, so their figures vary more.

Without a path through memory the demo says why and shows the rest. --same-host off
leaves it out; require makes the demo fail without it.

On a terminal one line shows the progress; otherwise each operation prints a line
on standard error. --json turns both off. A machine without 127.0.0.1 runs the
demo on ::1.

The demo leaves no file, process or socket behind, only the directory in which
devices of this host find each other.`

const example = `  softrdma demo
  softrdma demo --file /boot/vmlinuz
  softrdma demo --addr ::1
  softrdma demo --protocol iwarp
  softrdma demo --pcap demo.pcapng       then open it in Wireshark`

const (
	defaultSize   = 128 << 20   // more than processors' caches hold
	captureSize   = 4 << 20     // with --pcap, which writes every packet to disk
	maxSize       = 8 << 30     // both processes hold it in memory
	fileSeed      = 4791        // of the generated file
	generatedFile = "generated" // its name in the report
)

// options holds the command's flags.
type options struct {
	file string
	size cli.ByteSize
	addr string
	json bool

	protocol cli.Protocol
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	opt := &options{}
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Move a file between two processes with each RDMA operation and with TCP",
		Long:    long,
		Example: example,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), cmd, opt) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&opt.file, "file", "", "move `FILE` (default: a file generated in memory)")
	f.Var(&opt.size, "size", "size of the generated file (default 128MiB, with --pcap 4MiB)")
	f.StringVar(&opt.addr, "addr", "", "`ADDRESS` of the first process's device, or A,B of both (default 127.0.0.1,127.0.0.2, or another free loopback address)")
	opt.protocol.AddFlag(f, "")
	f.BoolVar(&opt.json, "json", false, "print the results as one JSON object")
	cli.AddDeviceFlags(cmd)
	cmd.AddCommand(newPeerCommand())
	return cmd
}

func run(ctx context.Context, cmd *cobra.Command, opt *options) error {
	if err := cli.NotBoth(cmd, "file", "size"); err != nil {
		return err
	}
	ours, theirs, err := opt.devices()
	if err != nil {
		return err
	}
	size, err := opt.bytes(cmd)
	if err != nil {
		return err
	}
	mode := verbs.SameHost(cmp.Or(cli.FlagText(cmd, cli.SameHostFlag), string(verbs.SameHostAuto))) // OpenDevice checks it
	dev, err := openFirst(cmd, ours, mode)
	if err != nil {
		return withHint(err, opt)
	}
	defer dev.Close()
	peer, ctx, err := startSecondProcess(ctx, sameFamily(theirs, dev.Addr().Addr()), cli.IWARPFlags(cmd))
	if err != nil {
		return err
	}
	defer peer.stop()
	f := &firstProcess{cmd: cmd, opt: opt, control: peer.control, size: size, bar: newProgress(cmd.ErrOrStderr(), opt.json)}
	report, err := f.run(ctx, dev, mode, ours)
	if err != nil {
		peer.control.Fail(err)
		peer.stop()
		return withHint(peer.explain(err), opt)
	}
	return report.print(cmd.OutOrStdout(), opt.json)
}

// openFirst opens the first of the devices that is free, with or without the path through
// memory.
func openFirst(cmd *cobra.Command, names []string, mode verbs.SameHost) (cli.Device, error) {
	return cli.OpenFirst(cmd, names, verbs.Config{SameHost: mode})
}

// bytes returns the size of the file.
func (o *options) bytes(cmd *cobra.Command) (int, error) {
	if o.file != "" {
		info, err := os.Stat(o.file)
		switch {
		case err != nil:
			return 0, err
		case !info.Mode().IsRegular():
			return 0, cli.UsageErrorf("--file: %s is not a regular file", o.file)
		case info.Size() < 1 || info.Size() > maxSize:
			return 0, cli.UsageErrorf("--file: expected 1 to %d bytes, which both processes hold in memory; %s has %d", maxSize, o.file, info.Size())
		}
		return int(info.Size()), nil
	}
	if !cmd.Flags().Changed("size") {
		o.size = defaultSize
		if cli.FlagGiven(cmd, cli.PcapFlag) {
			o.size = captureSize
			fmt.Fprintln(cmd.ErrOrStderr(), "--pcap writes every packet to disk: moving 4 MiB instead of 128 MiB (--size changes it)")
		}
	}
	if o.size < 1 || o.size > maxSize {
		return 0, cli.UsageErrorf("--size: expected 1 to %d bytes, which both processes hold in memory; found %d", maxSize, int64(o.size))
	}
	return int(o.size), nil
}

func (o *options) name() string {
	if o.file != "" {
		return o.file
	}
	return generatedFile
}

// load reads or generates the file in memory.
func (o *options) load(data []byte) error {
	if o.file != "" {
		f, err := os.Open(o.file)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.ReadFull(f, data); err != nil {
			return fmt.Errorf("read %s: %w", o.file, err)
		}
	} else {
		var seed [32]byte
		seed[0], seed[1] = fileSeed>>8, fileSeed&0xff
		rand.NewChaCha8(seed).Read(data)
	}
	return nil
}

func sha256Hex(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// devices returns the devices to try for each of the two processes.
func (o *options) devices() (ours, theirs []string, err error) {
	list := strings.Split(o.addr, ",")
	for i := range list {
		if err := o.protocol.Reconcile(&list[i]); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case o.addr == "":
		if err := checkLoopback(); err != nil {
			return nil, nil, err
		}
		// A machine with IPv6 only has no 127.0.0.1.
		names := append(cli.Candidates(loopback, o.protocol), cli.Candidates(netip.IPv6Loopback(), o.protocol)...)
		return names, names, nil
	case len(list) > 2:
		return nil, nil, cli.UsageErrorf("--addr: expected one address or two, found %d", len(list))
	case len(list) == 2 && !sameProtocol(list[0], list[1]):
		return nil, nil, cli.UsageErrorf("--addr: expected two devices of one protocol, found %s", o.addr)
	case len(list) == 2:
		return list[:1], list[1:], nil
	case o.protocol.IWARP():
		return list, list, nil // any number of processes can share it
	}
	second, err := nextPort(o.addr)
	if err != nil {
		return nil, nil, cli.UsageErrorf("--addr: %w", err)
	}
	return list, []string{second}, nil
}

// sameProtocol reports whether two device names have one protocol.
func sameProtocol(a, b string) bool {
	x, _ := cli.SplitProtocol(a)
	y, _ := cli.SplitProtocol(b)
	return x == y
}

// Package demo is the command that moves a file between two processes with each RDMA
// operation and with TCP, and checks what arrives.
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
)

const long = `Starts a second process and moves a file to it over this machine's loopback, once
with each RDMA operation and once with the kernel's TCP. Each process has an RDMA
device of its own. The SHA-256 of the file is compared after each transfer. Both
processes also add to one counter with atomics, and the sum is checked. The table
shows for each operation the time, the rate, the latency of 8 bytes with both ends
polling, and the processor time that each end used per GiB. The last sentence sums
up the figures.

On a terminal one line shows the progress; otherwise each operation prints a line
on standard error. --json turns both off. A machine without 127.0.0.1 runs the
demo on ::1.

The demo leaves nothing behind: no file, no process, no socket.`

const example = `  softrdma demo
  softrdma demo --file /boot/vmlinuz
  softrdma demo --addr ::1
  softrdma demo --protocol iwarp
  softrdma demo --pcap demo.pcapng       then open it in Wireshark`

const (
	defaultSize   = 256 << 20
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
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), cmd, opt) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&opt.file, "file", "", "move `FILE` (default: a file generated in memory)")
	f.Var(&opt.size, "size", "size of the generated file (default 256MiB, with --pcap 4MiB)")
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
	dev, err := cli.OpenFirst(cmd, ours)
	if err != nil {
		return withHint(err, opt)
	}
	defer dev.Close()
	peer, ctx, err := startSecondProcess(ctx, sameFamily(theirs, dev.Addr().Addr()), cli.IWARPFlags(cmd))
	if err != nil {
		return err
	}
	defer peer.stop()
	report, err := runOperations(ctx, cmd, opt, dev, peer, size)
	if err != nil {
		peer.control.Fail(err)
		peer.stop()
		return withHint(peer.explain(err), opt)
	}
	if err := dev.Close(); err != nil {
		return err
	}
	return report.print(cmd.OutOrStdout(), opt.json)
}

// runOperations connects the devices of both processes and runs every operation.
func runOperations(ctx context.Context, cmd *cobra.Command, opt *options, dev cli.Device, peer *secondProcess, size int) (*report, error) {
	d, err := newClient(ctx, dev, peer.control, size)
	if err != nil {
		return nil, err
	}
	defer d.side.Close()
	if cli.FlagGiven(cmd, cli.PcapFlag) || cli.TLSFlags(cmd) != nil {
		d.divisor, d.repeats = slowDivisor, 1
	}
	if err := d.load(opt); err != nil {
		return nil, err
	}
	d.bar = newProgress(cmd.ErrOrStderr(), opt.json)
	report, err := d.run(ctx)
	d.bar.finish()
	if err != nil {
		return nil, err
	}
	report.File, report.Capture = opt.name(), cli.FlagText(cmd, cli.PcapFlag)
	report.Encrypted, report.Processors = cli.TLSFlags(cmd) != nil, runtime.GOMAXPROCS(0)
	return report, nil
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
			fmt.Fprintln(cmd.ErrOrStderr(), "--pcap writes every packet to disk: moving 4 MiB instead of 256 MiB (--size changes it)")
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

// load reads or generates the file in the client's memory and computes its SHA-256.
func (d *client) load(opt *options) error {
	data := d.data()
	if opt.file != "" {
		f, err := os.Open(opt.file)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.ReadFull(f, data); err != nil {
			return fmt.Errorf("read %s: %w", opt.file, err)
		}
	} else {
		var seed [32]byte
		seed[0], seed[1] = fileSeed>>8, fileSeed&0xff
		rand.NewChaCha8(seed).Read(data)
	}
	d.sum = sha256Hex(data)
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

package demo

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// A firstProcess runs a session with the second process for each path: the operations
// between two devices that were opened for it. The memory of the file is the same.
type firstProcess struct {
	cmd     *cobra.Command
	opt     *options
	control *measure.Control
	size    int
	mem     *verbs.Memory
	sum     string // SHA-256 of the file
	bar     *progress
}

// run runs a session with a device that is open. If that one went through memory, a
// second session uses the network stack.
func (f *firstProcess) run(ctx context.Context, dev cli.Device, mode verbs.SameHost, names []string) (*report, error) {
	mem, err := verbs.AllocMemory(memorySize(f.size), verbs.AllocConfig{Device: dev.Device})
	if err != nil {
		return nil, err
	}
	defer mem.Free()
	f.mem = mem
	if err := f.opt.load(mem.Bytes()[:f.size]); err != nil {
		return nil, err
	}
	f.sum = sha256Hex(mem.Bytes()[:f.size])
	r := &report{
		File: f.opt.name(), Bytes: f.size, SHA256: f.sum, Protocol: dev.Protocol().String(),
		Encrypted: cli.TLSFlags(f.cmd) != nil, Processors: runtime.GOMAXPROCS(0),
	}
	defer f.bar.finish()
	path, err := f.session(ctx, dev, mode, r)
	if err != nil || path != verbs.PathSameHost {
		return r, err
	}
	if dev, err = openFirst(f.cmd, names, verbs.SameHostOff); err != nil {
		return nil, err
	}
	defer dev.Close()
	_, err = f.session(ctx, dev, verbs.SameHostOff, r)
	return r, err
}

// session connects the device to one that the second process opens, runs the operations
// and closes the device. It returns the path of the connection.
func (f *firstProcess) session(ctx context.Context, dev cli.Device, mode verbs.SameHost, r *report) (verbs.Path, error) {
	d, err := newClient(ctx, dev, f, mode)
	if err != nil {
		return "", err
	}
	if cli.FlagGiven(f.cmd, cli.PcapFlag) || cli.TLSFlags(f.cmd) != nil {
		d.divisor, d.repeats = slowDivisor, 1
	}
	r.Client, r.Server, r.Repeats = cli.DeviceName(dev.Device), d.protocol().PeerName(d.peer), d.repeats
	if len(r.Operations) == 0 && d.path != verbs.PathSameHost {
		r.explainNetwork(d.side.QPs[0])
	}
	if dev.CaptureFile != "" {
		r.Captures = append(r.Captures, capture{Path: d.path, File: dev.CaptureFile})
	}
	err = d.run(ctx, r)
	d.side.Close()
	if err != nil {
		return "", err
	}
	return d.path, dev.Close()
}

package nvme

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/storage/block"
	"softrdma/storage/nvmeof/auth"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/fabrics"
)

const serveLong = `Serves files, block devices and memory as the namespaces of a subsystem until it is interrupted.
It needs neither root nor a kernel module. A discovery service is at the same address.

--namespace is FILE[,SIZE][,OPTION...]. With SIZE the file is made, or enlarged. FILE may be
a block device; "memory" stands for memory. The first --namespace has number 1. Options:

  ro           hosts may not write
  block=SIZE   bytes of a block, a power of two from 512 (default: 512)
  direct       bypass this system's page cache: faster to write, slower to read again

Written data is in this system's page cache, or with direct in the disk's, until the host
flushes it.

Without --host everyone who can connect can read and write. Qualified names of hosts are no
secret, so --host alone does not keep out attackers. With --dhchap-secret FILE hosts must
authenticate by DH-HMAC-CHAP. Each line of FILE is for one host, or for all others with *:

  NQN SECRET [CONTROLLER-SECRET]

Secrets are those of "nvme gen-dhchap-key". With the second the host can authenticate the
target. What is read and written is not encrypted.`

const serveExample = `  softrdma nvme serve --subsystem nqn.2024-01.org.example:disk --namespace disk.img,1G
  softrdma nvme serve -a 192.0.2.1 -n nqn.2024-01.org.example:two --namespace a.img,ro --namespace memory,64M,block=4096

  modprobe nvme-rdma                                       attach it on Linux ...
  nvme discover -t rdma -a HOST -s 4420
  nvme connect -t rdma -a HOST -s 4420 -n nqn.2024-01.org.example:disk
  nvme disconnect -n nqn.2024-01.org.example:disk          ... and detach it`

// A server is the command with its flags.
type server struct {
	cmd        *cobra.Command
	addr       string
	port       uint16
	protocol   cli.Protocol
	subsystem  string
	namespaces []string
	hosts      []string
	secrets    string
	verbose    bool
}

func newServe() *cobra.Command {
	s := &server{}
	cmd := &cobra.Command{
		Use: "serve --subsystem NQN --namespace FILE[,SIZE] [flags]", Short: "Serve files as disks",
		Long: serveLong, Example: serveExample, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	s.cmd = cmd
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&s.subsystem, "subsystem", "n", "", "qualified name `NQN` of the subsystem")
	f.StringArrayVar(&s.namespaces, "namespace", nil, "serve `FILE[,SIZE][,ro][,direct][,block=SIZE]`, or memory,SIZE; may be repeated")
	f.StringArrayVar(&s.hosts, "host", nil, "qualified name `NQN` of a host that may connect; may be repeated (default: every host)")
	f.StringVar(&s.secrets, "dhchap-secret", "", "hosts must authenticate with the secrets in `FILE`")
	f.StringVarP(&s.addr, "address", "a", "", "local `ADDR` or interface to listen on (default: every address)")
	f.Uint16VarP(&s.port, "port", "p", fabrics.Port, "`PORT` to listen on")
	s.protocol.AddFlag(f, "")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "print connections, too; refused commands are always printed")
	cli.AddDeviceFlags(cmd)
	return cmd
}

// A disk is an open namespace.
type disk struct {
	name     string
	backend  block.Backend
	readOnly bool
	close    func() error
}

// openDisk opens what --namespace names.
func openDisk(spec string) (d disk, err error) {
	fields := strings.Split(spec, ",")
	d.name = fields[0]
	direct := false
	size, length := cli.ByteSize(0), cli.ByteSize(512)
	for _, option := range fields[1:] {
		switch option {
		case "ro":
			d.readOnly = true
			continue
		case "direct":
			direct = true
			continue
		}
		into := &size
		if value, ok := strings.CutPrefix(option, "block="); ok {
			into, option = &length, value
		}
		if err := into.Set(option); err != nil {
			return d, cli.UsageErrorf("--namespace %s: expected ro, direct, block=SIZE or a size: %w", spec, err)
		}
	}
	if d.name == "memory" {
		if size == 0 {
			return d, cli.UsageErrorf("--namespace %s: expected memory,SIZE", spec)
		}
		m, err := block.NewMemory(int64(size), int(length))
		if err != nil {
			return d, cli.UsageErrorf("--namespace %s: %w", spec, err)
		}
		d.backend, d.close = m, m.Close
		return d, nil
	}
	f, err := block.OpenFile(d.name, block.FileConfig{Size: int64(size), BlockSize: int(length), ReadOnly: d.readOnly, Direct: direct})
	if err != nil {
		return d, fmt.Errorf("--namespace %s: %w%s", spec, err, diskHint(err, d, size))
	}
	d.backend, d.close = f, f.Close
	return d, nil
}

// diskHint returns what to do about a file that cannot be opened.
func diskHint(err error, d disk, size cli.ByteSize) string {
	if errors.Is(err, fs.ErrNotExist) && size == 0 && !d.readOnly {
		return fmt.Sprintf("; to make it, add its size: --namespace %s,1G", d.name)
	}
	if !errors.Is(err, fs.ErrPermission) || d.readOnly {
		return ""
	}
	f, err := os.Open(d.name)
	if err != nil {
		return ""
	}
	_ = f.Close()
	return fmt.Sprintf("; it can be read: --namespace %s,ro", d.name)
}

// readSecrets reads the file of --dhchap-secret.
func readSecrets(path string) (auth.Table, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--dhchap-secret: %w", err)
	}
	table, err := auth.ParseTable(string(b))
	if err != nil {
		return nil, cli.UsageErrorf("--dhchap-secret: %s: %w", path, err)
	}
	return table, nil
}

func (s *server) check() error {
	if s.subsystem == "" || len(s.namespaces) == 0 {
		return cli.UsageErrorf("expected --subsystem NQN and --namespace FILE[,SIZE]")
	}
	for _, nqn := range append([]string{s.subsystem}, s.hosts...) {
		if err := controller.CheckNQN(nqn); err != nil {
			return cli.UsageErrorf("%w", err)
		}
	}
	if err := cli.CheckPort(s.port); err != nil {
		return err
	}
	return s.protocol.Reconcile(&s.addr)
}

func (s *server) run(ctx context.Context) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	notes := &cli.Throttle{Print: cli.NewPrinter(s.cmd.ErrOrStderr()).Println}
	defer notes.Flush()
	t, err := target.New(target.Config{Events: func(e target.Event) {
		if s.verbose || e.Kind == target.Refused || e.Kind == target.Rejected {
			notes.Printf("%v", e)
		}
	}})
	if err != nil {
		return err
	}
	sub := &controller.Subsystem{NQN: s.subsystem, Hosts: s.hosts}
	if s.secrets != "" {
		if sub.Secrets, err = readSecrets(s.secrets); err != nil {
			return errors.Join(err, t.Close())
		}
	}
	if err := t.AddSubsystem(sub); err != nil {
		return errors.Join(err, t.Close())
	}
	var ends []func() error
	defer func() {
		// The backends are flushed when no command uses them any more.
		err = errors.Join(err, cli.IgnoreClosed(t.Close()))
		for _, end := range ends {
			err = errors.Join(err, end())
		}
	}()
	out := s.cmd.OutOrStdout()
	for i, spec := range s.namespaces {
		d, err := openDisk(spec)
		if err != nil {
			return err
		}
		ends = append(ends, d.close)
		if err := t.AddNamespace(sub, uint32(i+1), d.backend, d.readOnly); err != nil {
			return err
		}
		fmt.Fprintf(out, "namespace %d: %s, %d bytes in blocks of %d\n", i+1, d.name, d.backend.Size(), d.backend.BlockSize())
	}
	return s.serve(ctx, t)
}

// serve listens until ctx ends, and prints what was done.
func (s *server) serve(ctx context.Context, t *target.Target) (err error) {
	dev, err := cli.OpenLocal(ctx, s.cmd, s.addr, "", s.protocol)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cli.IgnoreClosed(t.Close()), cli.IgnoreClosed(dev.Close())) }()
	if err := cli.RequireDevice(s.cmd, dev, "-a ADDR"); err != nil {
		return err
	}
	name := s.addr
	if dev.Device != nil {
		name = dev.Addr().Addr().String()
	}
	at, err := t.Listen(net.JoinHostPort(name, strconv.Itoa(int(s.port))), rdmacm.ListenConfig{Device: dev.Device, Protocol: s.protocol.Verbs()})
	if err != nil {
		return cli.ListenError(err, dev, s.protocol, "-a ADDR")
	}
	out := s.cmd.OutOrStdout()
	fmt.Fprintln(out, cli.WaitingAt(at))
	<-ctx.Done()
	c := t.Counts()
	fmt.Fprintf(out, "served %s: %d bytes to hosts, %d bytes from hosts, %d refused\n", cli.Plural(int(c.Commands), "command"), c.BytesToHosts, c.BytesFromHosts, c.Refused)
	return ctx.Err()
}

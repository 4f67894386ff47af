// Package cat is the command that connects standard input and output to a peer.
package cat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmanet"
)

const long = `Connects standard input and output to a peer over RDMA, as netcat does over TCP.
Standard input is sent to the peer, and what the peer sends is written to standard
output. When the input ends, the peer reads end of file and may continue to send. The
command exits when both directions have ended. Exit code 0 means that both ended
in order; if the peer was killed or the connection was cut, it is 3.

With -l it waits for one peer, otherwise it connects to HOST. The peer is softrdma
cat, a Go program that uses package rdmanet, or any program that uses rsockets,
such as rstream or a program under librspreload.so.`

const example = `  softrdma cat -l 7000 > copy                receive a file
  softrdma cat HOST 7000 < file              send it

  tar c DIR | softrdma cat HOST 7000         send a directory ...
  softrdma cat -l 7000 | tar x               ... and receive it

  LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so nc -l 7000
  softrdma cat HOST 7000                     an unmodified netcat`

// probeInterval is the interval at which a cat whose peer has ended its direction
// checks whether the peer still accepts data.
const probeInterval = 100 * time.Millisecond

// A command is the command with its flags.
type command struct {
	cli.StreamEnd
	wait    string
	verbose bool
	host    string
	port    uint16
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	c := &command{}
	cmd := &cobra.Command{
		Use: "cat {-l [ADDR:]PORT | HOST PORT} [flags]", Short: "Connect standard input and output over RDMA, as netcat does over TCP",
		Long: long, Example: example, Args: cli.Args(0, 2, "HOST PORT, or -l [ADDR:]PORT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Cmd = cmd
			if err := c.parse(args); err != nil {
				return err
			}
			return c.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&c.wait, "listen", "l", "", "wait for a peer on `[ADDR:]PORT`, without ADDR on every address")
	f.BoolVarP(&c.verbose, "verbose", "v", false, "print connections and byte counts on standard error")
	c.AddFlags(f)
	f.DurationVar(&c.Timeout, "timeout", 10*time.Second, "give up connecting after this `DURATION`")
	cli.AddDeviceFlags(cmd)
	return cmd
}

// parse parses the arguments.
func (c *command) parse(args []string) (err error) {
	listening := c.Cmd.Flags().Changed("listen")
	switch {
	case listening && len(args) > 0:
		return cli.UsageErrorf("-l [ADDR:]PORT takes no HOST: found %q", args[0])
	case listening && c.Source != "":
		return cli.UsageErrorf("-I is for connecting to HOST; with -l the address is given before the port")
	case listening:
		prefix, rest := cli.SplitProtocol(c.wait)
		c.host, c.port, err = hostPort(rest)
		if err == nil {
			c.host = prefix + c.host
		}
	case len(args) == 1:
		c.host, c.port, err = hostPort(args[0])
	case len(args) == 2:
		c.host = args[0]
		c.port, err = portNumber(args[1])
	}
	if err != nil {
		return err
	}
	local := new(string)
	if listening {
		local = &c.host
	} else if c.host == "" {
		return cli.UsageErrorf("expected HOST PORT, or -l [ADDR:]PORT")
	}
	return c.CheckFlags(local)
}

// hostPort parses "PORT" or "HOST:PORT".
func hostPort(s string) (string, uint16, error) {
	if port, err := portNumber(s); err == nil {
		return "", port, nil
	}
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, cli.UsageErrorf("expected a port, or an address and a port such as 127.0.0.1:7000, found %q", s)
	}
	port, err := portNumber(p)
	return host, port, err
}

func portNumber(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, cli.UsageErrorf("port: expected 1 to 65535, found %q", s)
	}
	return uint16(n), nil
}

func (c *command) note(format string, args ...any) {
	if c.verbose {
		fmt.Fprintf(c.Cmd.ErrOrStderr(), format+"\n", args...)
	}
}

func (c *command) run(ctx context.Context) (err error) {
	// Without SIGPIPE a closed standard output is an error, which the peer is told about.
	signal.Ignore(syscall.SIGPIPE)
	defer func() { err = errors.Join(err, c.Close()) }()
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	c.note("connected to %v, path %s", conn.RemoteAddr(), conn.Path())
	if err = c.copy(ctx, conn); err != nil {
		conn.SetLinger(0) // the peer must not take the data for complete
	}
	if e := conn.Close(); err == nil && e != nil {
		err = c.failed("send", e)
	}
	return err
}

// connect connects to the peer, or waits for one.
func (c *command) connect(ctx context.Context) (*rdmanet.Conn, error) {
	if c.wait == "" {
		return c.Dial(ctx, c.host, c.port, "softrdma cat -l "+strconv.Itoa(int(c.port)))
	}
	l, err := c.Listen(ctx, c.host, c.port, "-l ADDR:PORT")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	c.note("%s", cli.ListeningAt(l.Addr()))
	conn, err := l.Accept()
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	return conn.(*rdmanet.Conn), nil
}

// A copyResult is the result of copying in one direction.
type copyResult struct {
	n   int64
	err error
}

// sendAll sends everything that a reader returns. A peer that accepts no more data is an error
// only if there is data left.
func sendAll(conn *rdmanet.Conn, from io.Reader) copyResult {
	in := &countingReader{r: from}
	n, err := conn.ReadFrom(in)
	if errors.Is(err, syscall.EPIPE) && n == in.n {
		if k, end := in.Read(make([]byte, 1)); k == 0 && end == io.EOF {
			return copyResult{n, nil}
		}
	}
	if err == nil {
		err = conn.CloseWrite()
	}
	return copyResult{n, err}
}

// A countingReader counts the bytes that were read.
type countingReader struct {
	r io.Reader
	n int64
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.n += int64(n)
	return n, err
}

// waitCut returns the receive error of a connection that ended and then failed to send as
// well, in either order: it says whether the peer's stream is complete. It is nil if the
// stream ended in order, or if the connection did not fail.
func waitCut(ctx context.Context, sending error, in <-chan copyResult) error {
	var op *net.OpError
	over := errors.Is(sending, syscall.ECONNRESET) || errors.Is(sending, syscall.ETIMEDOUT)
	if in == nil || !over || !errors.As(sending, &op) {
		return nil
	}
	select {
	case received := <-in:
		return received.err
	case <-ctx.Done():
		return nil
	}
}

// copy copies in both directions until both have ended.
func (c *command) copy(ctx context.Context, conn *rdmanet.Conn) error {
	start := time.Now()
	out, in := make(chan copyResult, 1), make(chan copyResult, 1)
	go func() { out <- sendAll(conn, c.Cmd.InOrStdin()) }()
	go func() {
		n, err := io.Copy(c.Cmd.OutOrStdout(), conn)
		in <- copyResult{n, err}
	}()
	var sent, received copyResult
	var probe <-chan time.Time
	refused := 0
	for out != nil || in != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case sent = <-out:
			out = nil
			if sent.err != nil {
				if cut := waitCut(ctx, sent.err, in); cut != nil {
					return c.failed("receive", cut)
				}
				return c.failed("send", sent.err)
			}
			c.note("sent %d bytes", sent.n)
		case received = <-in:
			in = nil
			if received.err != nil {
				return c.failed("receive", received.err)
			}
			c.note("received %d bytes", received.n)
			tick := time.NewTicker(probeInterval)
			defer tick.Stop()
			probe = tick.C
		case <-probe:
			// A peer that has closed needs no more input. The input may be a terminal
			// that never ends. If there is input, sending it fails in the meantime.
			_, err := conn.Write(nil)
			switch {
			case err == nil:
				continue
			case !errors.Is(err, syscall.EPIPE): // the connection has failed
				return c.failed("send", err)
			}
			refused++
			if refused > 2 {
				c.note("the peer has closed the connection")
				return nil
			}
		}
	}
	c.note("done in %.3f seconds", time.Since(start).Seconds())
	return nil
}

// failed says whether the peer or a standard stream failed.
func (c *command) failed(what string, err error) error {
	if errors.As(err, new(*net.OpError)) {
		return fmt.Errorf("%s: %w", what, cli.StreamError(err))
	}
	if what == "send" {
		return fmt.Errorf("standard input: %w", err)
	}
	return fmt.Errorf("standard output: %w", err)
}

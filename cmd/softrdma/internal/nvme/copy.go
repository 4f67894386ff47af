package nvme

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/storage/nvmeof/host"
)

// copySize is how many bytes a copy moves at once, a multiple of every block size.
const copySize = 1 << 20

// pathsText says what all commands do that use a subsystem by several addresses.
const pathsText = `

With several HOSTs it uses each as a path to the same namespace. If a connection ends,
commands continue by another path, or wait until the connection stands again.`

// A copier has the flags of the commands that copy.
type copier struct {
	client
	id     uint32
	offset cli.ByteSize
	length cli.ByteSize
	queues int
}

func (c *copier) addFlags(cmd *cobra.Command) {
	c.client.addFlags(cmd, true)
	c.client.addReconnectFlags(cmd)
	f := cmd.Flags()
	f.Uint32Var(&c.id, "namespace", 1, "`NUMBER` of the namespace")
	f.Var(&c.offset, "offset", "begin at this byte, a multiple of the block size")
	f.IntVar(&c.queues, "queues", 1, "`NUMBER` of I/O queues")
}

func newRead() *cobra.Command {
	c := &copier{}
	cmd := &cobra.Command{
		Use: "read HOST[:PORT]... --subsystem NQN", Short: "Read a namespace to standard output",
		Long:    `Reads a namespace, or a part of it, to standard output.` + pathsText,
		Example: "  softrdma nvme read 192.0.2.1 -n nqn.2024-01.org.example:disk > copy.img",
		Args:    hosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.connect(cmd.Context(), args, host.Config{Queues: c.queues}, func(s *host.Subsystem) error { return c.read(cmd.Context(), s) })
		},
	}
	c.addFlags(cmd)
	cmd.Flags().Var(&c.length, "length", "read this many bytes, a multiple of the block size (default: up to the end)")
	return cmd
}

func newWrite() *cobra.Command {
	c := &copier{}
	cmd := &cobra.Command{
		Use: "write HOST[:PORT]... --subsystem NQN", Short: "Write standard input to a namespace",
		Long: `Writes standard input to a namespace, and flushes it. A last block that the input does not
fill is filled with zeros.` + pathsText,
		Example: "  softrdma nvme write 192.0.2.1 -n nqn.2024-01.org.example:disk < disk.img",
		Args:    hosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.connect(cmd.Context(), args, host.Config{Queues: c.queues}, func(s *host.Subsystem) error { return c.write(cmd.Context(), s) })
		},
	}
	c.addFlags(cmd)
	return cmd
}

func (c *copier) read(ctx context.Context, s *host.Subsystem) error {
	n, err := s.Namespace(ctx, c.id)
	if err != nil {
		return err
	}
	at, left := int64(c.offset), int64(c.length)
	if at > n.Size() {
		return cli.UsageErrorf("--offset: the namespace has %d bytes, found %d", n.Size(), at)
	}
	if !c.cmd.Flags().Changed("length") {
		left = n.Size() - at
	}
	b := make([]byte, copySize)
	for left > 0 {
		part := b[:min(left, copySize)]
		if _, err := n.ReadContext(ctx, part, at); err != nil {
			return fmt.Errorf("read at byte %d: %w", at, err)
		}
		if _, err := c.cmd.OutOrStdout().Write(part); err != nil {
			return err
		}
		at, left = at+int64(len(part)), left-int64(len(part))
	}
	return nil
}

func (c *copier) write(ctx context.Context, s *host.Subsystem) error {
	n, err := s.Namespace(ctx, c.id)
	if err != nil {
		return err
	}
	at, written := int64(c.offset), int64(0)
	b := make([]byte, copySize)
	for {
		got, err := io.ReadFull(c.cmd.InOrStdin(), b)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		whole := (got + n.BlockSize() - 1) &^ (n.BlockSize() - 1)
		clear(b[got:whole])
		if whole > 0 {
			if _, err := n.WriteContext(ctx, b[:whole], at); err != nil {
				return fmt.Errorf("write at byte %d: %w", at, err)
			}
		}
		at, written = at+int64(whole), written+int64(got)
		if last {
			break
		}
	}
	if err := n.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	fmt.Fprintf(c.cmd.OutOrStdout(), "%d bytes written\n", written)
	return nil
}

// Package capture is the command that prints captured packets and their faults. Package
// internal/capture finds them.
package capture

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/capture"
	"softrdma/internal/capture/ladder"
)

const long = `Prints one line for each RoCE v1, RoCE v2 or InfiniBand packet in a capture file, with the
problems found in it, and a summary of the connections. The ICRC of each packet is checked.

FILE is a pcapng or pcap file of any tool: softrdma's --pcap, Wireshark, tcpdump, dumpcap, ibdump;
gzip is read too. "-" is standard input. Packets are found in VLAN tags, MPLS, PPP, and in the tunnels
of overlays and mirror ports (VXLAN, Geneve, GRE, ERSPAN, IP in IP); fragments of IPv4 are put
together. The summary names what else the file has. A line ends with [ok] or with findings:

  [note: ...]     worth knowing; the protocol allows it
  [warning: ...]  the network lost, duplicated or delayed packets
  [fault: ...]    a peer or the network violated the protocol

Findings contain names of reasons, which "softrdma explain" explains.

--ladder draws the connections that have a warning, a fault or a comment: a line for each end, an
arrow for each packet near a remark, and a star at the packet at fault. With two captures, one from
each end, it pairs their packets and shows which of them were lost on the way.`

// options holds the command's flags.
type options struct {
	ports  []uint
	json   bool
	strict bool
	ladder bool
	draw   ladder.Options
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	v := &options{}
	cmd := &cobra.Command{
		Use: "capture [flags] FILE [FILE]", Short: "Show the RDMA packets of a capture file, and what is wrong with them",
		Long: long, Args: cli.Args(1, 2, "a FILE of captured packets"),
		Example: "  softrdma capture packets.pcapng\n" +
			"  tcpdump -i any -U -w - udp port 4791 | softrdma capture -\n" +
			"  softrdma capture --json packets.pcapng | jq 'select(.findings)'\n" +
			"  softrdma capture --ladder client.pcapng server.pcapng",
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), cmd.OutOrStdout(), args) },
	}
	cmd.Flags().BoolVar(&v.json, "json", false, "print one JSON object for each packet and one for the summary")
	cmd.Flags().UintSliceVar(&v.ports, "port", nil, "also treat packets to UDP `PORT` as RoCE v2")
	cmd.Flag("port").DefValue = "" // pflag would show []
	cmd.Flags().BoolVar(&v.strict, "strict", false, "exit with code 1 if there is a fault")
	cmd.Flags().BoolVar(&v.ladder, "ladder", false, "draw connections as ladders")
	cmd.Flags().Uint32Var(&v.draw.QPN, "qp", 0, "with --ladder, draw only the connections with queue pair `NUMBER`")
	cmd.Flag("qp").DefValue = ""
	cmd.Flags().BoolVar(&v.draw.All, "all", false, "with --ladder, draw all connections and packets")
	cmd.Flags().IntVar(&v.draw.Most, "most", 10, "with --ladder, draw at most `N` connections")
	return cmd
}

// A printer prints packets and the summary.
type printer interface {
	packet(p *capture.Packet, findings []capture.Finding) error
	summary(s *capture.Summary) error
}

func (v *options) run(ctx context.Context, stdout io.Writer, names []string) error {
	switch {
	case v.ladder && v.json:
		return cli.UsageErrorf("--ladder and --json: expected one of them")
	case !v.ladder && (len(names) > 1 || v.draw.QPN != 0 || v.draw.All):
		return cli.UsageErrorf("a second FILE, --qp and --all: expected --ladder with them")
	case v.draw.Most < 1:
		return cli.UsageErrorf("--most: expected at least 1, found %d", v.draw.Most)
	}
	ports := make([]uint16, len(v.ports))
	for i, p := range v.ports {
		if p < 1 || p > 65535 {
			return cli.UsageErrorf("--port: expected 1 to 65535, found %d", p)
		}
		ports[i] = uint16(p)
	}
	out := bufio.NewWriterSize(stdout, 64<<10)
	l := ladder.New(len(names))
	faults := 0
	var err error
	for view, name := range names {
		var s printer = &textPrinter{out: out, live: name == "-"}
		switch {
		case v.ladder:
			s = &ladderPrinter{l, view}
		case v.json:
			s = newJSONPrinter(out, name == "-")
		}
		n, e := printCapture(ctx, name, ports, s)
		faults, err = faults+n, errors.Join(err, e)
	}
	if v.ladder {
		err = errors.Join(err, l.Draw(out, v.draw))
	}
	if err = errors.Join(err, out.Flush()); err == nil && v.strict && faults > 0 {
		return fmt.Errorf("%s: %s", strings.Join(names, ", "), cli.Plural(faults, "fault"))
	}
	return err
}

// printCapture prints a capture and returns the number of its faults.
func printCapture(ctx context.Context, name string, ports []uint16, s printer) (faults int, err error) {
	in, err := openCapture(ctx, name)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	r, err := capture.NewReader(in, ports...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	sum, err := capture.Read(ctx, r, s.packet)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return sum.Findings[capture.Fault], errors.Join(err, s.summary(sum))
}

// A ladderPrinter gives the packets of a capture to a ladder.
type ladderPrinter struct {
	l    *ladder.Ladder
	view int
}

func (x *ladderPrinter) packet(p *capture.Packet, findings []capture.Finding) error {
	x.l.Add(x.view, p, findings)
	return nil
}

func (x *ladderPrinter) summary(s *capture.Summary) error {
	x.l.Pair(s.Connections)
	return nil
}

// openCapture opens the file, or standard input, which then ends with ctx.
func openCapture(ctx context.Context, name string) (io.ReadCloser, error) {
	if name != "-" {
		return os.Open(name)
	}
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(w, os.Stdin)
		w.CloseWithError(err)
	}()
	return r, nil
}

// A textPrinter prints lines.
type textPrinter struct {
	out   *bufio.Writer
	live  bool // packets arrive while they are printed
	start time.Time
}

func (t *textPrinter) packet(p *capture.Packet, findings []capture.Finding) error {
	if t.start.IsZero() {
		t.start = p.Time
	}
	fmt.Fprintln(t.out, capture.Line(p, t.start, findings))
	if t.live {
		return t.out.Flush()
	}
	return nil
}

func (t *textPrinter) summary(s *capture.Summary) error {
	skipped := counts(s.Skipped, func(n int, what string) string { return fmt.Sprintf("%d %s", n, what) })
	if s.Packets == 0 {
		if len(s.Skipped) > 0 {
			skipped = ": " + skipped
		}
		_, err := fmt.Fprintf(t.out, "\nNo packet of RoCE or InfiniBand among %s%s.\n"+
			"--port adds UDP ports of RoCE v2 other than 4791. For iWARP, which runs over TCP, use Wireshark.\n",
			cli.Plural(s.Frames, "frame"), skipped)
		return err
	}
	fmt.Fprintf(t.out, "\n%s of %s in %.3f s: %s, %s, %s.\n",
		counts(s.Networks, func(n int, network string) string { return cli.Plural(n, network+" packet") }), cli.Plural(s.Frames, "captured frame"),
		s.Last.Sub(s.First).Seconds(), cli.Plural(s.Findings[capture.Fault], "fault"),
		cli.Plural(s.Findings[capture.Warning], "warning"), cli.Plural(s.Findings[capture.Note], "note"))
	if len(s.Skipped) > 0 {
		fmt.Fprintf(t.out, "Not read: %s.\n", skipped)
	}
	if len(s.Connections) > 0 {
		fmt.Fprintln(t.out)
		w := cli.NewTable("FROM", "TO", "QP", "PACKETS", "BYTES", "REPEATED", "MISSING", "RNR", "NAK", "BAD", "CE")
		for i := range s.Connections {
			c := &s.Connections[i]
			from, to := c.Endpoints()
			w.Row(from, to, fmt.Sprintf("%#06x", c.QPN), c.Packets, c.Bytes, c.Retransmitted, c.Missing, c.RNRs, c.NAKs, c.Malformed+c.BadICRC, c.Marked)
		}
		if err := w.Print(t.out); err != nil {
			return err
		}
	}
	if s.Untracked > 0 {
		fmt.Fprintf(t.out, "%s of no connection: damaged, or of more connections than are kept.\n", cli.Plural(int(s.Untracked), "packet"))
	}
	return nil
}

// counts lists numbers by name, the largest first.
func counts(of map[string]int, format func(n int, name string) string) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(of[b]-of[a], strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = format(of[name], name)
	}
	return strings.Join(names, ", ")
}

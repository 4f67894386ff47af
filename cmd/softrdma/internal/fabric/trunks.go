package fabric

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/trunk"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// plug reads the flags of trunks.
func (b *builder) plug(cmd *cobra.Command, c *live.Config) error {
	secret, err := cli.FileOf(cmd, trunkSecretFlag)
	if err != nil {
		return err
	}
	if len(b.trunks) == 0 {
		if secret != "" {
			return cli.UsageErrorf("--%s: expected --trunk with it", trunkSecretFlag)
		}
		return nil
	}
	local, err := net.ResolveUDPAddr("udp", b.listen)
	if err != nil || local.Port == 0 {
		return cli.UsageErrorf("--listen: expected an address and a UDP port such as :7700, found %q", b.listen)
	}
	c.Trunks.Listen = local.AddrPort()
	for _, text := range b.trunks {
		x, err := parseTrunk(cmd.Context(), c.Fabric, text)
		if err != nil {
			return cli.UsageErrorf("--trunk: %v", err)
		}
		c.Trunks.Cables = append(c.Trunks.Cables, x)
	}
	if secret == "" {
		return nil
	}
	c.Trunks.Secret, err = readSecret(cmd, trunkSecretFlag, secret)
	return err
}

// parseTrunk reads NODE:PORT=HOST:UDPPORT.
func parseTrunk(ctx context.Context, f *topology.Fabric, text string) (x live.Cable, err error) {
	at := strings.LastIndexByte(text, '=')
	colon := strings.LastIndexByte(text[:max(at, 0)], ':')
	if colon < 0 {
		return x, fmt.Errorf("expected NODE:PORT=HOST:UDPPORT, found %q", text)
	}
	if x.At.Node, err = f.Find(text[:colon]); err != nil {
		return x, err
	}
	if x.At.Port, err = strconv.Atoi(text[colon+1 : at]); err != nil {
		return x, fmt.Errorf("expected the number of a port behind %s, found %q", text[:colon+1], text[colon+1:at])
	}
	host, service, err := net.SplitHostPort(text[at+1:])
	if err != nil {
		return x, fmt.Errorf("expected HOST:UDPPORT, found %q", text[at+1:])
	}
	number, err := strconv.ParseUint(service, 10, 16)
	if err != nil || number == 0 {
		return x, fmt.Errorf("expected a UDP port, found %q", service)
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return x, err
	}
	peer := list[0].Unmap()
	for _, a := range list { // a name with both kinds means the same address to both ends
		if a.Unmap().Is4() {
			peer = a.Unmap()
		}
	}
	x.Peer = netip.AddrPortFrom(peer, uint16(number))
	return x, nil
}

// trunkNews prints what happens to trunks. It does not repeat itself while an end is refused
// again and again.
type trunkNews struct {
	out    io.Writer
	fabric *topology.Fabric

	mu   sync.Mutex
	last map[topology.End]string
}

func newTrunkNews(out io.Writer, f *topology.Fabric) *trunkNews {
	return &trunkNews{out: out, fabric: f, last: make(map[topology.End]string)}
}

// changed is called by the goroutine of the fabric.
func (n *trunkNews) changed(at topology.End, peer *trunk.Peer, why reason.Detail) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text, same := "", ""
	if peer != nil {
		text = fmt.Sprintf("leads to %s of fabric %s", peer.Port, peer.Fabric)
		same = text
	} else {
		text = fmt.Sprintf("is down: %v (%v)", why, why.Reason)
		same = why.Reason.String()
	}
	if n.last[at] == same {
		return
	}
	n.last[at] = same
	end := n.fabric.EndName(at)
	fmt.Fprintf(n.out, "trunk at %s %s\n", strings.Map(plain, end), text)
}

// plain replaces what moves a terminal's cursor.
func plain(r rune) rune {
	if unicode.IsControl(r) {
		return '?'
	}
	return r
}

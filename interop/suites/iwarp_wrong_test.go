//go:build interop && linux

package suites

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// iwarpWrongs are the mistakes that rawpeer makes with rping -s as its responder, with the answers of siw and softrdma.
// An empty answer of softrdma is the same as siw's.
var iwarpWrongs = []struct{ name, siw, siwAlso, softrdma, why string }{
	{name: "plain", siw: "reply 0x50 revision 2, open"},
	{name: "revision_0", siw: "reply 0x50 revision 0, open", softrdma: "no reply, closed", why: "RFC 5044 7.1.1 begins with revision 1"},
	{name: "revision_1", siw: "reply 0x40 revision 1, open"},
	{name: "revision_3", siw: "no reply, closed"},
	{name: "key", siw: "no reply, closed"},
	{name: "markers", siw: "reply 0x70 revision 2, closed", softrdma: "reply 0x50 revision 2, open", why: "siw has no markers"},
	{name: "no_crc", siw: "reply 0x10 revision 2, open", softrdma: "reply 0x50 revision 2, open", why: "softrdma asks for CRCs"},
	{name: "write_nothing", siw: "reply 0x50 revision 2, open"},
	{name: "corrupted_crc", siw: "Terminate 0x2002"},
	{name: "ddp_version", siw: "Terminate 0x1206"},
	{name: "ddp_version_tagged", siw: "Terminate 0x1104"},
	// siw swaps layer and type, and without a header the mistake is not visible.
	{name: "rdmap_version", siw: "Terminate 0x2005", softrdma: "Terminate 0x0205", why: "siw's bit fields"},
	{name: "opcode", siw: "Terminate 0x2006", softrdma: "Terminate 0x0206", why: "siw's bit fields"},
	// siw may read the header of DDP before it compares the lengths.
	{name: "short_length", siw: "Terminate 0x2003", siwAlso: "Terminate 0x1203"},
	{name: "send_msn", siw: "Terminate 0x1203"},
	{name: "send_offset", siw: "Terminate 0x1204"},
	{name: "send_queue", siw: "Terminate 0x1201"},
	{name: "send_too_long", siw: "Terminate 0x1202", softrdma: "Terminate 0x1205", why: "RFC 5041 7.2: the message is too long for the buffer that there is"},
	{name: "write_stag", siw: "Terminate 0x1100"},
	{name: "read_msn", siw: "Terminate 0x1203"},
	{name: "read_stag", siw: "Terminate 0x0100"},
	{name: "unexpected_response", siw: "Terminate 0x1000", softrdma: "Terminate 0x0206", why: "RFC 5040 7.2: an opcode that may not come"},
}

// TestIWARPWrongPeerIsAnsweredAsBySiw makes the same mistakes with siw and with softrdma.
func TestIWARPWrongPeerIsAnsweredAsBySiw(t *testing.T) {
	l := openLab(t)
	softrdma, rawpeer := program(t, l, "cmd/softrdma"), program(t, l, "interop/peers/rawpeer")
	g := l.Guests[0]
	ctx := within(t, 6*cmTimeLimit)
	port := lab.NextPort()
	peers.StartGuest(ctx, t, g, "rping", "-s", "-P", "-a", g.IWARPv4, "-p", strconv.Itoa(port))
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	ours := peers.StartHost(ctx, t, l, softrdma, "rping", "-s", "-P", "-a", "iwarp:"+lab.HostIWARPv4Second, "-p", strconv.Itoa(port))
	if err := ours.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	for _, w := range iwarpWrongs {
		t.Run(w.name, func(t *testing.T) {
			if w.softrdma == "" {
				w.softrdma = w.siw
			}
			for _, end := range []struct{ who, addr, want, also string }{{"siw", g.IWARPv4, w.siw, w.siwAlso}, {"softrdma", lab.HostIWARPv4Second, w.softrdma, ""}} {
				out, err := l.Host(ctx, rawpeer, "-a", fmt.Sprintf("%s:%d", end.addr, port), w.name).CombinedOutput()
				if said := strings.TrimSpace(string(out)); err != nil || !strings.Contains(said, end.want) && (end.also == "" || !strings.Contains(said, end.also)) {
					t.Errorf("%s: %s, %v; expected %s", end.who, said, err, end.want)
				}
			}
		})
	}
}

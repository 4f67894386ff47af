package capture

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/ip4defrag"
	"github.com/gopacket/gopacket/layers"
)

// Limits of the fragments that wait for the rest of their datagram.
const (
	maxFragmentBytes = 16 << 20
	fragmentOverhead = 512              // of memory for each fragment
	fragmentTime     = 30 * time.Second // Linux's net.ipv4.ipfrag_time
)

// fragments reassembles IPv4 datagrams. The library holds the fragments; pending is an upper
// bound of what it holds.
type fragments struct {
	list    *ip4defrag.IPv4Defragmenter
	pending map[datagramKey]pendingDatagram
	bytes   int // of all pending
	added   int
	lost    int // fragments that were dropped
}

// A datagramKey contains the fields that the fragments of a datagram share (RFC 791 2.3).
type datagramKey struct {
	src, dst netip.Addr
	id       uint16
	protocol layers.IPProtocol
}

type pendingDatagram struct {
	count, bytes int
	last         time.Time
}

// fragment returns the last header of a frame if it is that of an IPv4 fragment.
func fragment(frame []gopacket.Layer) *layers.IPv4 {
	for i := len(frame) - 1; i >= 0; i-- {
		if ip, ok := frame[i].(*layers.IPv4); ok {
			if ip.Flags&layers.IPv4MoreFragments != 0 || ip.FragOffset != 0 {
				return ip
			}
			return nil
		}
	}
	return nil
}

// add adds a fragment and returns its datagram, with an IP header, if it is complete.
func (f *fragments) add(ip *layers.IPv4, now time.Time) (datagram []byte) {
	held := *ip
	held.Contents, held.Payload = bytes.Clone(ip.Contents), bytes.Clone(ip.Payload)
	held.SrcIP, held.DstIP = held.Contents[12:16], held.Contents[16:20]
	held.Options = nil // they point into the reader's buffer
	k := datagramKey{endpoint(held.SrcIP).Addr(), endpoint(held.DstIP).Addr(), held.Id, held.Protocol}
	f.sweep(k, now)
	whole, err := f.list.DefragIPv4WithTimestamp(&held, now)
	p := f.pending[k]
	p.count++
	switch {
	case err != nil:
		f.lost += p.count
	case whole != nil:
		if datagram = rebuild(&held, whole.Payload); datagram == nil {
			f.lost += p.count
		}
	default:
		n := len(held.Contents) + len(held.Payload) + fragmentOverhead
		f.bytes += n
		p.bytes, p.last = p.bytes+n, now
		f.pending[k] = p
		return nil
	}
	f.bytes -= p.bytes
	delete(f.pending, k)
	return datagram
}

// incomplete returns the number of fragments whose datagram was not put together.
func (f *fragments) incomplete() int {
	n := f.lost
	for _, p := range f.pending {
		n += p.count
	}
	return n
}

// rebuild returns the datagram as it was before it was fragmented. The flag "don't fragment",
// which the ICRC covers, is that of the fragments.
func rebuild(last *layers.IPv4, payload []byte) []byte {
	b := append(bytes.Clone(last.Contents), payload...)
	if len(b) > ip4defrag.IPv4MaximumSize {
		return nil
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	b[6], b[7] = b[6]&(uint8(layers.IPv4DontFragment)<<5), 0
	return b
}

// sweepInterval is the number of fragments between two searches for expired ones.
const sweepInterval = 1024

// sweep drops everything if it exceeds a limit. From time to time, and for the datagram k, it
// drops expired fragments.
func (f *fragments) sweep(k datagramKey, now time.Time) {
	if f.list == nil || f.bytes > maxFragmentBytes {
		f.lost = f.incomplete()
		f.list, f.pending, f.bytes = ip4defrag.NewIPv4Defragmenter(), make(map[datagramKey]pendingDatagram), 0
	}
	before := now.Add(-fragmentTime)
	f.added++
	if p, ok := f.pending[k]; f.added%sweepInterval != 0 && !(ok && p.last.Before(before)) {
		return
	}
	f.list.DiscardOlderThan(before)
	for k, p := range f.pending {
		if p.last.Before(before) {
			f.lost += p.count
			f.bytes -= p.bytes
			delete(f.pending, k)
		}
	}
}

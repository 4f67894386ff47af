package measure

import (
	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

// sendMarkers sends one more message with other content on each queue pair after the
// measured ones have completed. The receiver's memory can then hold only the last
// message. A marker of SENDs also carries the number of messages before it.
func (f *Flow) sendMarkers() error {
	if f.set.Operation == OpAtomic {
		return nil
	}
	for i := range f.senders {
		s := &f.senders[i]
		w := s.wrs[:1]
		w[0].Flags, w[0].WRID = verbs.Signaled, markerID
		if f.set.Operation == OpRead {
			clear(f.targetBuffer(i))
		} else {
			fillPattern(f.sourceBuffer(i), ^(f.seed + uint64(i)))
		}
		if f.set.Operation == OpSend {
			w[0].Op, w[0].Imm = verbs.OpSendImm, uint32(s.done)
		}
		if f.overStream() && f.set.Operation != OpRead {
			w = f.streamMarker(w[0], i)
		}
		if err := f.side.QPs[i].PostSend(w...); err != nil {
			return err
		}
		f.pending++
	}
	return nil
}

// overStream reports whether requests complete when TCP has accepted them and not when
// they have arrived, as on iWARP.
func (f *Flow) overStream() bool { return f.side.Dev.Protocol() == verbs.IWARP }

// streamMarker returns a marker of WRITEs or SENDs for iWARP: a WRITE, with immediate
// data instead of a SEND with immediate data, which iWARP lacks, and a READ. The
// READ's completion shows that everything before it has arrived.
func (f *Flow) streamMarker(w verbs.SendWR, i int) []verbs.SendWR {
	if w.Op == verbs.OpSendImm {
		w.Op = verbs.OpWriteImm
	}
	w.Flags = 0
	back := verbs.SendWR{
		Op: verbs.OpRead, Flags: verbs.Signaled, WRID: markerID, SGL: []verbs.SGE{f.side.MR.SGE(i*f.set.stride(), 1)},
		RemoteAddr: w.RemoteAddr, RKey: w.RKey,
	}
	return []verbs.SendWR{w, back}
}

// Verify checks the memory that the peer's flow or this end's READs filled. messages is
// the number that the peer has sent.
func (f *Flow) Verify(messages int64) error {
	var sum int64
	for i := range f.side.QPs {
		seed := f.seed + uint64(i)
		switch f.set.Operation {
		case OpAtomic:
			sum += int64(*f.side.Word(f.set.Target() + i*f.set.stride()))
			continue
		case OpWrite, OpSend:
			seed = ^seed
		}
		if at := firstDifference(f.targetBuffer(i), seed); at >= 0 {
			return cli.DataErrorf("%s of %d bytes on queue pair %d: data differs from what was sent, first at byte %d", f.set.Operation, f.size, i, at)
		}
	}
	if f.set.Operation == OpAtomic && sum != messages {
		return cli.DataErrorf("fetch-and-add: the sum of the counters is %d after %d additions of 1", sum, messages)
	}
	return nil
}

package sm

import (
	"time"

	machine "softrdma/internal/management/rmpp"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
	"softrdma/internal/wire/mad/sa"
)

// Limits of the tables that leave by RMPP.
const (
	maxTable        = 16 << 20 // bytes of a table
	maxTransfers    = 64
	transferTimeout = time.Second // for an ACK
	transferRetries = 4
)

// replies are the responses on their way: packets, which wait for nothing, and tables.
type replies struct {
	waiting   []Departure
	transfers []*transfer
}

// A transfer is a table on its way to a client.
type transfer struct {
	key    transferKey
	out    Departure
	sender *machine.Sender
	ready  bool // Next of the sender may have a packet
}

// A transferKey tells transfers apart.
type transferKey struct {
	lid uint16
	qpn uint32
	tid uint64
}

func (q *query) key() transferKey { return transferKey{q.slid, q.qpn, q.header.MAD.TID} }

// departure is the response to a query without its records.
func (q *query) departure(status uint16) (out Departure) {
	out = Departure{DLID: q.slid, SL: q.sl, QPN: mad.GSIQPN, DestinationQPN: q.qpn}
	h := q.header
	h.MAD.Status, h.SMKey, h.Offset = status, 0, 0
	h.MAD.Method |= mad.ResponseBit
	if h.MAD.Method == mad.MethodSet|mad.ResponseBit { // IBTA 15.2.2: Get and Set share the response
		h.MAD.Method = mad.MethodGetResponse
	}
	h.RMPP = rmpp.Header{Version: rmpp.Version}
	h.Put(&out.MAD)
	return out
}

// acknowledgement is the ACK of a request of one segment.
func (q *query) acknowledgement() Departure {
	out := q.departure(mad.StatusOK)
	h := rmpp.Header{Version: rmpp.Version, Type: rmpp.ACK, RespTime: rmpp.NoResponseTime, Flags: rmpp.Active, Segment: 1, Second: 1}
	h.Put(&out.MAD)
	return out
}

// refuse answers a query with a status alone.
func (rs *replies) refuse(q *query, status uint16) {
	rs.waiting = append(rs.waiting, q.departure(status))
}

// answer1 answers a query with one record.
func (rs *replies) answer1(q *query, r sa.Record) {
	out := q.departure(mad.StatusOK)
	r.Put(sa.Data(&out.MAD))
	rs.waiting = append(rs.waiting, out)
}

// Lengths of the records that the administrator has tables of.
var recordLen = map[mad.AttributeID]int{
	sa.AttrNodeRecord: sa.NodeRecordLen, sa.AttrPortInfoRecord: sa.PortInfoRecordLen, sa.AttrSLtoVLRecord: sa.SLtoVLRecordLen,
	sa.AttrSwitchInfoRecord: sa.SwitchInfoRecordLen, sa.AttrLinearForwardingRecord: sa.BlockRecordLen,
	sa.AttrMulticastForwardingRecord: sa.BlockRecordLen, sa.AttrSMInfoRecord: sa.SMInfoRecordLen, sa.AttrLinkRecord: sa.LinkRecordLen,
	sa.AttrGUIDInfoRecord: sa.BlockRecordLen, sa.AttrServiceRecord: sa.ServiceRecordLen, sa.AttrPKeyTableRecord: sa.BlockRecordLen,
	sa.AttrPathRecord: sa.PathRecordLen, sa.AttrMultiPathRecord: sa.PathRecordLen, sa.AttrVLArbitrationRecord: sa.BlockRecordLen,
	sa.AttrMCMemberRecord: sa.MCMemberRecordLen, sa.AttrInformInfoRecord: sa.InformInfoRecordLen,
}

// A table collects the records of an answer.
type table struct {
	offset uint16
	data   []byte
	count  int
	first  [sa.DataLen]byte
}

func newTable(q *query) *table {
	return &table{offset: sa.OffsetFor(recordLen[q.header.MAD.Attribute])}
}

// add appends a record, and reports whether the table has room for it.
func (t *table) add(r *[sa.DataLen]byte) bool {
	if len(t.data)+8*int(t.offset) > maxTable {
		return false
	}
	if t.count == 0 {
		t.first = *r
	}
	t.count++
	t.data = append(t.data, r[:8*int(t.offset)]...)
	return true
}

// answerMatches answers with the records that match the components of the query.
func (rs *replies) answerMatches(q *query, all func(yield func(sa.Record))) {
	t, room := newTable(q), true
	all(func(r sa.Record) {
		var b [sa.DataLen]byte
		r.Put(&b)
		if sa.Match(q.header.MAD.Attribute, q.header.ComponentMask, &q.data, &b) {
			room = t.add(&b) && room
		}
	})
	if !room {
		rs.refuse(q, sa.StatusNoResources)
		return
	}
	rs.answerTable(q, t)
}

// answerTable answers with all records of a table. A Get has exactly one (IBTA 15.4.2).
func (rs *replies) answerTable(q *query, t *table) {
	out := q.departure(mad.StatusOK)
	if q.header.MAD.Method == mad.MethodGet {
		switch t.count {
		case 0:
			rs.refuse(q, sa.StatusNoRecords)
		case 1:
			*sa.Data(&out.MAD) = t.first
			rs.waiting = append(rs.waiting, out)
		default:
			rs.refuse(q, sa.StatusTooManyRecords)
		}
		return
	}
	if rs.transfer(q.key()) != nil { // the client repeated its query
		return
	}
	if len(rs.transfers) >= maxTransfers {
		rs.refuse(q, mad.StatusBusy)
		return
	}
	var h sa.Header
	h.Parse(&out.MAD)
	if t.count > 0 {
		h.Offset = t.offset
	}
	h.Put(&out.MAD)
	c := machine.Config{HeaderLen: sa.HeaderLen, Timeout: transferTimeout, Retries: transferRetries}
	rs.transfers = append(rs.transfers, &transfer{key: q.key(), out: out, sender: machine.NewSender(&c, &out.MAD, t.data), ready: true})
}

// transfer returns the transfer with a key, or nil.
func (rs *replies) transfer(k transferKey) *transfer {
	for _, t := range rs.transfers {
		if t.key == k {
			return t
		}
	}
	return nil
}

// acknowledged handles what the receiver of a transfer sends.
func (rs *replies) acknowledged(q *query) {
	if t := rs.transfer(q.key()); t != nil {
		t.sender.Receive(q.now, &q.header.RMPP)
		t.ready = true
	}
}

// sendTransfers writes the next packet of a transfer, and reports whether there is one.
func (rs *replies) sendTransfers(now time.Duration, out *Departure) bool {
	kept := rs.transfers[:0]
	sent := false
	for _, t := range rs.transfers {
		if !sent && (t.ready || now >= t.sender.Deadline()) {
			t.ready = t.sender.Next(now, &t.out.MAD)
			if t.ready {
				*out, sent = t.out, true
			}
		}
		if _, done := t.sender.Done(); !done {
			kept = append(kept, t)
		}
	}
	clear(rs.transfers[len(kept):])
	rs.transfers = kept
	return sent
}

// next writes the next packet to send, and reports whether there is one.
func (rs *replies) next(now time.Duration, out *Departure) bool {
	if len(rs.waiting) == 0 {
		return rs.sendTransfers(now, out)
	}
	*out = rs.waiting[0]
	rs.waiting = rs.waiting[1:]
	return true
}

// empty reports whether nothing is on its way.
func (rs *replies) empty() bool { return len(rs.waiting) == 0 && len(rs.transfers) == 0 }

// deadline is when there is something to send.
func (rs *replies) deadline() time.Duration {
	d := Never
	if len(rs.waiting) > 0 {
		return 0
	}
	for _, t := range rs.transfers {
		if t.ready {
			return 0
		}
		d = min(d, t.sender.Deadline())
	}
	return d
}

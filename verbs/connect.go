package verbs

import (
	"crypto/rand"
	"encoding/binary"
	"softrdma/internal/reason"
)

// An Endpoint is what a peer must know about a queue pair to connect to it. The
// two sides exchange their endpoints out of band, for example as JSON.
type Endpoint struct {
	QPN     uint32 `json:"qpn"` // 24 bits
	PSN     uint32 `json:"psn"` // PSN of the first packet that this side sends, 24 bits
	GID     GID    `json:"gid"`
	UDPPort uint16 `json:"port,omitempty"` // 0 means 4791
	LID     uint16 `json:"lid,omitempty"`  // of a port of a fabric
	MTU     int    `json:"mtu"`            // active MTU of the port, bytes
}

// Endpoint returns the queue pair's endpoint. The first call chooses an
// unpredictable PSN unless ToRTS has set one. The endpoint stays the same until
// ToReset.
func (q *QP) Endpoint() Endpoint {
	d := q.Device()
	e := Endpoint{QPN: q.Number(), PSN: q.firstPSN(), GID: d.GID(), MTU: d.drv.MTU()}
	switch p := d.Addr().Port(); {
	case d.fabric != nil:
		e.LID = d.fabric.FabricPort().LID
	case p != Port:
		e.UDPPort = p
	}
	return e
}

const psnChosen = 1 << 24 // a bit of QP.psn: the lower bits are a PSN

// firstPSN returns the PSN of the first packet of this side. It chooses one if
// there is none.
func (q *QP) firstPSN() uint32 {
	if v := q.psn.Load(); v != 0 {
		return v &^ psnChosen
	}
	var b [4]byte
	rand.Read(b[:])
	q.psn.CompareAndSwap(0, psnChosen|binary.LittleEndian.Uint32(b[:])>>8)
	return q.psn.Load() &^ psnChosen
}

// ConnectConfig tunes Connect. The zero value suits a local network. The ranges
// are those of RTRAttr and RTSAttr, except that 0 means a default: no timeout and
// no retransmission cannot be chosen here.
type ConnectConfig struct {
	Access      Access // what the peer may do; 0 means everything remote
	PathMTU     int    // bytes; 0 means the smaller active MTU of both ports
	Timeout     uint8  // 0 means 14, 67 ms
	RetryCnt    uint8  // 0 means 7
	RNRRetry    uint8  // 0 means 7: retry without end
	MinRNRTimer uint8  // 0 means 12, 640 µs
	ReadAtomic  uint8  // READs and atomics in flight each way; 0 means 16

	FlowLabel    uint32 // as in AddressVector
	HopLimit     uint8
	TrafficClass uint8
	ServiceLevel uint8
	PathBits     uint8
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Connect takes an RC, UC or XRC queue pair from RESET or INIT to RTS, connected to the
// remote endpoint. Local is the endpoint that the peer was told (see Endpoint). To
// post receives before the peer can send, call ToInit and post them first.
//
// The peer must be in RTR before packets arrive: post sends once it has said so.
// RC and XRC also retransmit until the peer is there. After an error the queue pair is in
// the state that it had reached; ToReset starts again.
func (q *QP) Connect(local, remote Endpoint, cfg ConnectConfig) error {
	if q.Device().protocol == IWARP {
		return reason.NotSupported("connect QP %#06x: iWARP needs a connection manager, package rdmacm", q.Number())
	}
	mtu := cfg.PathMTU
	if mtu == 0 {
		mtu = local.MTU
		if remote.MTU != 0 {
			mtu = min(mtu, remote.MTU)
		}
	}
	if local.QPN != q.Number() {
		return reason.BadArgument(uint64(q.Number()), uint64(local.QPN), "connect QP %#06x: the local endpoint is of QP %#06x", q.Number(), local.QPN)
	}
	av := AddressVector{
		DGID: remote.GID, UDPPort: remote.UDPPort, FlowLabel: cfg.FlowLabel, HopLimit: cfg.HopLimit, TrafficClass: cfg.TrafficClass,
		DLID: remote.LID, ServiceLevel: cfg.ServiceLevel, PathBits: cfg.PathBits,
	}
	if q.Device().fabric != nil {
		av.DGID = GID{} // LIDs lead to each port of a subnet, without a GRH
		if remote.LID == 0 {
			return reason.BadArgument(1, 0, "connect QP %#06x: the remote endpoint has no LID: expected one that a subnet manager has set", q.Number())
		}
	}
	reads := or(cfg.ReadAtomic, 16)
	err := q.ToInit(InitAttr{Access: or(cfg.Access, RemoteWrite|RemoteRead|RemoteAtomic|FlushGlobal)})
	if err != nil {
		return err
	}
	err = q.ToRTR(RTRAttr{
		PathMTU: mtu, DestQPN: remote.QPN, RQPSN: remote.PSN, MaxDestRdAtomic: reads, MinRNRTimer: or(cfg.MinRNRTimer, 12),
		AV: av,
	})
	if err != nil {
		return err
	}
	return q.ToRTS(RTSAttr{
		SQPSN: local.PSN, Timeout: or(cfg.Timeout, 14), RetryCnt: or(cfg.RetryCnt, 7), RNRRetry: or(cfg.RNRRetry, 7), MaxRdAtomic: reads,
	})
}

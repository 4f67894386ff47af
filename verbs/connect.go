package verbs

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
)

// An Endpoint is what a peer must know of a connected queue pair; the two
// sides exchange them out of band, as JSON for example.
type Endpoint struct {
	QPN     uint32 `json:"qpn"` // 24 bits
	PSN     uint32 `json:"psn"` // of the first packet that this side sends, 24 bits
	GID     GID    `json:"gid"`
	UDPPort uint16 `json:"port,omitempty"` // 0 means 4791
	MTU     int    `json:"mtu"`            // active MTU of the port, bytes
}

// Endpoint is the queue pair's endpoint. It stays the same until ToReset: the
// first call chooses an unpredictable PSN, unless ToRTS has set one, and later
// calls repeat it.
func (q *QP) Endpoint() Endpoint {
	d := q.Device()
	e := Endpoint{QPN: q.Number(), PSN: q.firstPSN(), GID: d.GID(), MTU: d.drv.MTU()}
	if p := d.Addr().Port(); p != Port {
		e.UDPPort = p
	}
	return e
}

const psnChosen = 1 << 24 // in QP.psn: the other bits are a PSN

// firstPSN is the PSN of the first packet that this side sends, or will.
func (q *QP) firstPSN() uint32 {
	if v := q.psn.Load(); v != 0 {
		return v &^ psnChosen
	}
	var b [4]byte
	rand.Read(b[:])
	q.psn.CompareAndSwap(0, psnChosen|binary.LittleEndian.Uint32(b[:])>>8)
	return q.psn.Load() &^ psnChosen
}

// ConnectConfig tunes Connect; the zero value suits a local network. Ranges are
// those of RTRAttr and RTSAttr; what 0 means there (no timeout, no repetition)
// cannot be asked for here.
type ConnectConfig struct {
	Access      Access // what the peer may do; 0 means everything remote
	PathMTU     int    // 0 takes the smaller of both ports' MTUs
	Timeout     uint8  // 0 means 14, 67 ms
	RetryCnt    uint8  // 0 means 7
	RNRRetry    uint8  // 0 means 7, without end
	MinRNRTimer uint8  // 0 means 12, 640 µs
	ReadAtomic  uint8  // READs and atomics in flight each way; 0 means 16

	FlowLabel    uint32 // as in AddressVector
	HopLimit     uint8
	TrafficClass uint8
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Connect takes an RC or UC queue pair from RESET, or from INIT where receives
// were posted before, to RTS, connected to the remote endpoint; local is what the peer was told (see Endpoint). The peer
// must be in RTR before it gets packets: post sends once it has said so, or let
// the repetition of RC find it. On an error the queue pair stays in the state
// that it had reached: ToReset it.
func (q *QP) Connect(local, remote Endpoint, cfg ConnectConfig) error {
	if q.Device().protocol == IWARP {
		return fmt.Errorf("connect QP %#06x: iWARP wants a connection manager, package rdmacm: %w", q.Number(), errors.ErrUnsupported)
	}
	mtu := cfg.PathMTU
	if mtu == 0 {
		mtu = local.MTU
		if remote.MTU != 0 {
			mtu = min(mtu, remote.MTU)
		}
	}
	if local.QPN != q.Number() {
		return fmt.Errorf("connect QP %#06x: the local endpoint is QP %#06x's", q.Number(), local.QPN)
	}
	reads := or(cfg.ReadAtomic, 16)
	err := q.ToInit(InitAttr{Access: or(cfg.Access, RemoteWrite|RemoteRead|RemoteAtomic)})
	if err != nil {
		return err
	}
	err = q.ToRTR(RTRAttr{
		PathMTU: mtu, DestQPN: remote.QPN, RQPSN: remote.PSN, MaxDestRdAtomic: reads, MinRNRTimer: or(cfg.MinRNRTimer, 12),
		AV: AddressVector{DGID: remote.GID, UDPPort: remote.UDPPort, FlowLabel: cfg.FlowLabel, HopLimit: cfg.HopLimit, TrafficClass: cfg.TrafficClass},
	})
	if err != nil {
		return err
	}
	return q.ToRTS(RTSAttr{
		SQPSN: local.PSN, Timeout: or(cfg.Timeout, 14), RetryCnt: or(cfg.RetryCnt, 7), RNRRetry: or(cfg.RNRRetry, 7), MaxRdAtomic: reads,
	})
}

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"softrdma/interop/peers/exerciser"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// The defaults of an end, used where its scenario sets no value.
const (
	defaultBuffer   = 65536
	qkey            = 0x11111111
	defaultTimeout  = 18
	defaultRetry    = 7
	defaultRNRRetry = 7
	defaultRNRTimer = 12
	readAtomic      = 4
	maxInline       = 64
)

// end is one end of one scenario: its objects and its results.
type end struct {
	peer     *peer
	wire     *wire
	scenario *exerciser.Scenario
	me       *exerciser.End

	buffer []byte
	mr     *verbs.MR
	mw     *verbs.MW
	ah     *verbs.AH
	cqs    map[string]*verbs.CQ
	qp     *verbs.QP // nil when a step has destroyed it
	psn    uint32
	cm     *rdmacm.ID // set if the connection manager made the connection

	other    exerciser.Hello
	barriers int
	mwKey    uint32
	otherKey uint32 // the other end's window key, as of the last barrier
	found    map[string][]exerciser.Completion
	refused  []exerciser.Refusal
	missing  []string
}

func (p *peer) openEnd(w *wire, s *exerciser.Scenario) (*end, error) {
	e := &end{
		peer: p, wire: w, scenario: s, me: s.End(p.role),
		cqs:   map[string]*verbs.CQ{},
		found: map[string][]exerciser.Completion{"send": {}, "recv": {}},
		psn:   rand.Uint32N(1 << 24),
	}
	if s.PSN != nil {
		e.psn = *s.PSN
	}
	size := e.me.Buffer
	if size == 0 {
		size = defaultBuffer
	}
	e.buffer = exerciser.Pattern(p.role, size)
	access := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind
	if e.me.Access != nil {
		access = accessOf(e.me.Access)
	}
	var err error
	if e.mr, err = p.pd.RegisterMemory(e.buffer, access); err != nil {
		return nil, err
	}
	for _, name := range []string{"send", "recv"} {
		if e.cqs[name], err = p.device.CreateCQ(verbs.CQConfig{Depth: 256}); err != nil {
			return nil, err
		}
	}
	e.qp, err = p.pd.CreateQP(verbs.QPConfig{
		Type: map[string]verbs.QPType{"RC": verbs.RC, "UC": verbs.UC, "UD": verbs.UD}[s.QP], SendCQ: e.cqs["send"], RecvCQ: e.cqs["recv"],
		MaxSend: 128, MaxRecv: 128, MaxSendSGE: 8, MaxRecvSGE: 8, MaxInline: maxInline,
	})
	return e, err
}

func (e *end) hello() exerciser.Hello {
	mtu := e.scenario.MTU
	if mtu == 0 {
		mtu = e.peer.mtu
	}
	cm := ""
	if e.peer.cm != nil {
		cm = e.peer.device.Addr().Addr().String()
	}
	return exerciser.Hello{
		CM: cm, Scenario: e.scenario.Name, QPN: e.qp.Number(), PSN: e.psn, GID: e.peer.device.GID().String(), MTU: mtu, QKey: qkey,
		Addr: e.mr.Addr(), RKey: e.mr.RKey(), Len: len(e.buffer),
	}
}

// run exchanges the hellos, runs the steps and returns the result.
func (e *end) run(other *exerciser.Hello) (exerciser.Result, error) {
	var none exerciser.Result
	if err := e.wire.send(e.hello()); err != nil {
		return none, err
	}
	if other != nil {
		e.other = *other
	} else if err := e.wire.receive(&e.other); err != nil {
		return none, err
	}
	if e.other.Error != "" {
		return none, errors.New("the peer says: " + e.other.Error)
	}
	if err := e.connect(); err != nil {
		return none, err
	}
	for i := range e.me.Steps {
		err := e.step(&e.me.Steps[i])
		if refusal := (*refusedError)(nil); errors.As(err, &refusal) {
			e.refused = append(e.refused, exerciser.Refusal{Step: i, Error: refusal.Error()})
		} else if err != nil {
			return none, fmt.Errorf("step %d, %s: %w", i, e.me.Steps[i].Do, err)
		}
	}
	if err := e.barrier(); err != nil {
		return none, err
	}
	e.settle()
	result := e.result()
	if e.peer.cm != nil {
		return result, e.barrier() // disconnecting one side also ends the other's connection
	}
	return result, nil
}

// settle waits for WRITEs of the other end. Over iWARP a WRITE completes when TCP accepted it,
// which is before the data is placed.
func (e *end) settle() {
	other := e.scenario.End(map[string]string{exerciser.Client: exerciser.Server, exerciser.Server: exerciser.Client}[e.peer.role])
	if e.peer.cm != nil && slices.ContainsFunc(other.Steps, func(s exerciser.Step) bool { return s.Op == "RDMA_WRITE" }) {
		time.Sleep(300 * time.Millisecond)
	}
}

func (e *end) result() exerciser.Result {
	hash := sha256.Sum256(e.buffer[e.me.HashFrom:])
	r := exerciser.Result{
		Scenario: e.scenario.Name, Role: e.peer.role, Send: e.found["send"], Recv: e.found["recv"],
		Refused: e.refused, Missing: e.missing, SHA256: hex.EncodeToString(hash[:]), State: "DESTROYED",
	}
	if e.qp != nil {
		r.State = stateName[e.qp.State()]
	}
	if e.me.HashFrom == 40 {
		r.GRH = hex.EncodeToString(e.buffer[:40])
	}
	return r
}

// connect takes the queue pair to RTS.
func (e *end) connect() error {
	dgid, err := verbs.ParseGID(e.other.GID)
	if err != nil {
		return err
	}
	way := verbs.AddressVector{DGID: dgid, HopLimit: 64}
	access := verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	if e.me.QPAccess != nil {
		access = accessOf(e.me.QPAccess)
	}
	var rtr verbs.RTRAttr
	rts := verbs.RTSAttr{SQPSN: e.psn}
	if e.scenario.QP == "UD" {
		access = 0
		if e.ah, err = e.peer.pd.CreateAH(way); err != nil {
			return err
		}
	} else {
		rtr = verbs.RTRAttr{PathMTU: min(e.hello().MTU, e.other.MTU), DestQPN: e.other.QPN, RQPSN: e.other.PSN, AV: way}
	}
	if e.scenario.QP == "RC" {
		rtr.MaxDestRdAtomic, rtr.MinRNRTimer = readAtomic, or(e.me.RNRTimer, defaultRNRTimer)
		rts.Timeout, rts.RetryCnt = or(e.me.Timeout, defaultTimeout), or(e.me.RetryCount, defaultRetry)
		rts.RNRRetry, rts.MaxRdAtomic = or(e.me.RNRRetry, defaultRNRRetry), readAtomic
	}
	init := verbs.InitAttr{Access: access}
	if e.scenario.QP == "UD" {
		init.QKey = qkey
	}
	if err := e.qp.ToInit(init); err != nil {
		return err
	}
	if e.peer.cm != nil {
		e.cm, err = e.peer.cm.connect(e.qp, cmp.Or(e.peer.cmVia, e.other.CM))
		return err
	}
	if err := e.qp.ToRTR(rtr); err != nil {
		return err
	}
	return e.qp.ToRTS(rts)
}

// or returns the value of an optional field, or the default.
func or(field *int, otherwise uint8) uint8 {
	if field == nil {
		return otherwise
	}
	return uint8(*field)
}

func (e *end) close() error {
	var errs []error
	if e.mw != nil {
		errs = append(errs, e.mw.Dealloc())
	}
	if e.cm != nil {
		errs = append(errs, disconnect(e.cm))
	}
	if e.qp != nil {
		errs = append(errs, e.qp.Destroy())
	}
	if e.ah != nil {
		errs = append(errs, e.ah.Destroy())
	}
	errs = append(errs, e.mr.Deregister())
	for _, cq := range e.cqs {
		errs = append(errs, cq.Destroy())
	}
	return errors.Join(errs...)
}

package target

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/verbs"
)

const (
	// acceptTime bounds how long a host may take to confirm a connection.
	acceptTime = 30 * time.Second
	// peerTimeout is how long a host may be silent. It ends the connections of hosts that have vanished
	// and use no keep-alive timer, as those of the discovery service.
	peerTimeout = time.Minute
)

// providers are the codes of protocols in the discovery log.
var providers = map[verbs.Protocol]uint8{
	verbs.RoCE: logpage.ProviderRoCEv2, verbs.RoCEv1: logpage.ProviderRoCE, verbs.IWARP: logpage.ProviderIWARP, verbs.InfiniBand: logpage.ProviderInfiniBand,
}

// accept accepts or rejects a host's request, and serves its queue until it ends.
func (t *Target) accept(r *rdmacm.Request) {
	peer := r.RemoteAddr()
	reject := func(status fabrics.Reject, err error) {
		t.rejected.Add(1)
		if err == nil {
			err = errors.New(status.String() + ": " + status.Text())
		}
		t.cfg.Events(Event{Kind: Rejected, Peer: peer, Err: errors.Join(err, r.Reject(status.Append(nil)))})
	}
	asked, status := t.subs.CheckRequest(r.PrivateData())
	if status != 0 {
		reject(status, nil)
		return
	}
	if r.Param().InitiatorDepth == 0 && r.Device().Protocol() != verbs.IWARP {
		reject(fabrics.RejectReads, nil) // the target could not READ the data of writes
		return
	}
	var q *queue
	err := t.enter(peer.Addr())
	if err == nil {
		defer func() { t.leave(peer.Addr(), q == nil || !q.admitted.Load()) }()
		err = t.pathLost(r.Device())
	}
	if err != nil {
		reject(fabrics.RejectResources, err)
		return
	}
	q, err = t.newQueue(r, asked)
	if err != nil {
		reject(fabrics.RejectResources, err)
		return
	}
	err = q.serve(r)
	ended := q.machine.Close()
	event := q.event(Ended, err)
	t.endAll(ended, errors.New("the host's admin queue has ended"))
	if err := q.close(); err != nil {
		event.Err = errors.Join(event.Err, err)
	}
	t.mu.Lock()
	delete(t.queues, q.machine)
	t.mu.Unlock()
	t.cfg.Events(event)
}

// enter counts a connection of a host, and returns an error if there are as many as there may be.
// Discovery needs no authentication, so until the host uses the connection for a disk it is one of those
// of which each host has a share.
func (t *Target) enter(host netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.accepted >= t.cfg.Connections {
		return fmt.Errorf("connections: expected at most %d, found one more", t.cfg.Connections)
	}
	if !t.guests.Enter(host) {
		return fmt.Errorf("connections of the host without a disk: expected at most %d, found one more", t.guests.PerHost())
	}
	t.accepted++
	return nil
}

func (t *Target) leave(host netip.Addr, guest bool) {
	if guest {
		t.guests.Leave(host)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.accepted--
}

// newQueue makes the queue pair of a request with its receives.
func (t *Target) newQueue(r *rdmacm.Request, asked fabrics.Request) (_ *queue, err error) {
	dev := r.Device()
	a, err := t.adapterOf(dev)
	if err != nil {
		return nil, err
	}
	q := &queue{t: t, dev: dev, adapter: a, peer: r.RemoteAddr(), ended: make(chan struct{}), entries: int(asked.HostSends) + 1, since: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.close())
		}
	}()
	if q.capsule = capsule.CommandLen; asked.Queue != 0 {
		q.capsule += t.subs.Limits().CapsuleData
	}
	if q.receives, err = a.pd.RegisterMemory(make([]byte, q.entries*q.capsule), verbs.LocalWrite); err != nil {
		return nil, err
	}
	// A task has at most two requests in the send queue: the move of its data, and its response.
	sends := 2*q.maxTasks() + extraSends
	if q.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: sends + q.entries}); err != nil {
		return nil, err
	}
	q.qp, err = r.CreateQP(a.pd, verbs.QPConfig{
		Type: verbs.RC, SendCQ: q.cq, MaxSend: sends, MaxRecv: q.entries, MaxSendSGE: maxPieces, MaxRecvSGE: 1, MaxInline: capsule.CompletionLen,
		PeerTimeout: peerTimeout,
	})
	if err != nil {
		return nil, err
	}
	for slot := range q.entries {
		q.recvs = append(q.recvs, verbs.RecvWR{WRID: uint64(workReceive | slot), SGL: []verbs.SGE{q.receives.SGE(slot*q.capsule, q.capsule)}})
	}
	if err := q.qp.PostRecv(q.recvs...); err != nil {
		return nil, err
	}
	origin := controller.Origin{Address: r.LocalAddr(), Provider: providers[dev.Protocol()]}
	q.machine = t.subs.NewQueue(asked, origin, q.held)
	t.mu.Lock()
	t.queues[q.machine] = q
	t.mu.Unlock()
	return q, nil
}

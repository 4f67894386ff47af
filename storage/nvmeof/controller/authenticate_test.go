package controller

import (
	"testing"
	"time"

	"softrdma/storage/nvmeof/auth"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/dhchap"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
)

func secret(t *testing.T) auth.Secret {
	t.Helper()
	s, err := auth.ParseSecret("DHHC-1:01:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// authenticate authenticates the host on a queue.
func (e *end) authenticate(host string, s auth.Secrets) error {
	return auth.Authenticate(auth.Names{Host: host, Subsystem: nqn}, s, func(cmd capsule.Command, data []byte) error {
		done, _, _ := e.run(cmd, data)
		if done.Status != status.Success {
			return &status.Error{Status: done.Status}
		}
		return nil
	})
}

func TestHostMustAuthenticateOnEachQueue(t *testing.T) {
	r := newRig(t)
	r.sub.Secrets = auth.Table{host: {Host: secret(t), Controller: secret(t)}}
	connect := fabrics.Connect{QueueSize: 15}.Command()
	r.queue(0).expect("host without a secret", connect, connectData(fabrics.AnyController, nqn, "nqn.stranger"), status.ConnectHost, HostNotAllowed)
	enable := fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration)}.Command(true)
	a := r.queue(0)
	result, _ := a.must(connect, connectData(fabrics.AnyController, nqn, host))
	if result&fabrics.ConnectAuthRequired == 0 || a.Ready() {
		t.Errorf("result %#x, ready %v", result, a.Ready())
	}
	a.expect("a property before", enable, nil, status.AuthenticationRequired, NotAuthenticated)
	a.expect("a keep-alive before", capsule.Command{Opcode: capsule.AdminKeepAlive}, nil, status.AuthenticationRequired, NotAuthenticated)
	if err := a.authenticate(host, auth.Secrets{Host: secret(t), Controller: secret(t)}); err != nil || !a.Ready() {
		t.Fatal(err)
	}
	a.must(enable, nil)
	q := r.queue(1)
	q.must(fabrics.Connect{Queue: 1, QueueSize: 15}.Command(), connectData(uint16(result), nqn, host))
	q.expect("a read before", blocks(capsule.Read, 1, 0, 1), make([]byte, 512), status.AuthenticationRequired, NotAuthenticated)
	if err := q.authenticate(host, auth.Secrets{Host: secret(t)}); err != nil {
		t.Fatal(err)
	}
	q.must(blocks(capsule.Read, 1, 0, 1), make([]byte, 512))
	// A host that fails later is not authenticated any more.
	q.must(dhchap.Command(true, 6), []byte{1, 2, 0, 0, 0, 0})
	_, _, c := q.run(dhchap.Command(false, 64), make([]byte, 64))
	if c.Refusal != nil || c.Failed == nil || c.Failed.Why != AuthenticationFailed {
		t.Errorf("the failure: %+v", c)
	}
	q.expect("a read after a failure", blocks(capsule.Read, 1, 0, 1), make([]byte, 512), status.AuthenticationRequired, NotAuthenticated)
}

// TestUnauthenticatedPeersTakeNoPlaceOfAQueue: names and identifiers of hosts are no secrets, so that others can connect
// to their controllers.
func TestUnauthenticatedPeersTakeNoPlaceOfAQueue(t *testing.T) {
	r := newRig(t)
	r.sub.Secrets = auth.Table{host: {Host: secret(t)}}
	a := r.queue(0)
	id, _ := a.must(fabrics.Connect{QueueSize: 15, KeepAlive: 5000}.Command(), connectData(fabrics.AnyController, nqn, host))
	if err := a.authenticate(host, auth.Secrets{Host: secret(t)}); err != nil {
		t.Fatal(err)
	}
	a.must(fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration)}.Command(true), nil)
	connect := func() *end {
		q := r.queue(1)
		q.must(fabrics.Connect{Queue: 1, QueueSize: 15}.Command(), connectData(uint16(id), nqn, host))
		return q
	}
	peer := connect()
	q := connect()
	if err := q.authenticate(host, auth.Secrets{Host: secret(t)}); err != nil {
		t.Fatal(err)
	}
	q.must(blocks(capsule.Read, 1, 0, 1), make([]byte, 512))
	r.queue(1).expect("a third", fabrics.Connect{Queue: 1, QueueSize: 15}.Command(), connectData(uint16(id), nqn, host), status.SequenceError, QueueInUse)
	// The host does not get a second queue of the number, either.
	if err := peer.authenticate(host, auth.Secrets{Host: secret(t)}); err == nil || peer.Ready() {
		t.Errorf("found two queues of one number: %v", err)
	}
	logged := len(a.controller.errors)
	peer.expect("a read", blocks(capsule.Read, 1, 0, 1), make([]byte, 512), status.AuthenticationRequired, NotAuthenticated)
	if n := len(a.controller.errors); n != logged {
		t.Errorf("the error log of the host has grown by %d entries", n-logged)
	}
	// The other peer's commands do not keep the host's controller.
	r.now = r.now.Add(4 * time.Second)
	peer.expect("another read", blocks(capsule.Read, 1, 0, 1), make([]byte, 512), status.AuthenticationRequired, NotAuthenticated)
	r.now = r.now.Add(4 * time.Second)
	if n := len(r.subs.Expire(r.now)); n != 3 {
		t.Errorf("expected the end of the host's queues and the other peer's, found %d", n)
	}
	peer.expect("after the end", blocks(capsule.Read, 1, 0, 1), make([]byte, 512), status.AuthenticationRequired, NotAuthenticated)
}

func TestAuthenticationCommandsAreChecked(t *testing.T) {
	r := newRig(t)
	plain, _ := r.admin(nqn)
	plain.expect("not required", dhchap.Command(true, 64), make([]byte, 64), status.InvalidOpcode, OpcodeUnknown)
	r.sub.Secrets = auth.Table{auth.AnyHost: {Host: secret(t)}}
	a := r.queue(0)
	a.must(fabrics.Connect{QueueSize: 15}.Command(), connectData(fabrics.AnyController, nqn, "nqn.any"))
	foreign := dhchap.Command(true, 64)
	foreign.CDW10 = 1 << 24
	a.expect("another security protocol", foreign, make([]byte, 64), status.InvalidField, FieldValue)
	a.expect("too long", dhchap.Command(true, dhchap.MaxLen+1), make([]byte, dhchap.MaxLen+1), status.InvalidField, FieldValue)
	a.expect("too short", dhchap.Command(false, 4), make([]byte, 4), status.InvalidField, FieldValue)
	a.expect("no message", dhchap.Command(false, 64), make([]byte, 64), status.InvalidField, FieldValue)
	a.expect("another length", dhchap.Command(true, 64), make([]byte, 65), status.SGLDataLength, SGLLength)
	d, _ := r.admin(logpage.DiscoveryNQN) // needs no authentication
	d.must(capsule.Command{Opcode: capsule.AdminKeepAlive}, nil)
}

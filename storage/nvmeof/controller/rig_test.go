package controller

import (
	"testing"
	"time"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/status"
)

const (
	nqn  = "nqn.2024-01.example:disk"
	host = "nqn.2024-01.example:host"
)

var start = time.Unix(1000, 0)

// A rig is a target with one subsystem of two namespaces.
type rig struct {
	t    *testing.T
	subs *Subsystems
	sub  *Subsystem
	now  time.Time
}

func newRig(t *testing.T, hosts ...string) *rig {
	t.Helper()
	subs, err := New(Limits{Queues: 4, QueueSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, subs: subs, sub: &Subsystem{NQN: nqn, Hosts: hosts}, now: start}
	if err := subs.Add(r.sub); err != nil {
		t.Fatal(err)
	}
	for _, n := range []Namespace{{ID: 1, Size: 1 << 20, Block: 512}, {ID: 3, Size: 1 << 20, Block: 4096, ReadOnly: true, Group: 2}} {
		if err := subs.AddNamespace(r.sub, &n); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// An end is a host's end of a queue.
type end struct {
	*rig
	*Queue
	held []capsule.Completion
	id   uint16
}

func (r *rig) queue(number uint16) *end {
	e := &end{rig: r}
	req := fabrics.Request{Queue: number, HostReceives: 16, HostSends: 15}
	if private, reject := r.subs.CheckRequest(req.Append(nil)); reject != 0 || private != req {
		r.t.Fatal(private, reject)
	}
	e.Queue = r.subs.NewQueue(req, Origin{}, func(c capsule.Completion) { e.held = append(e.held, c) })
	return e
}

// run runs a command with the data of the host, and returns the completion and what was returned.
func (e *end) run(cmd capsule.Command, data []byte) (capsule.Completion, []byte, *Command) {
	e.t.Helper()
	e.id++
	cmd.ID = e.id
	cmd.Flags |= capsule.FlagSGL
	if cmd.SGL == (capsule.SGL{}) {
		cmd.SGL = capsule.KeyedSGL(0x1000, 7, uint32(len(data)), false)
	}
	c := new(Command)
	if err := e.Begin(e.now, c, cmd.Append(nil)); err != nil {
		e.t.Fatal(err)
	}
	return e.go1(c, data)
}

// go1 executes a command that has begun.
func (e *end) go1(c *Command, data []byte) (capsule.Completion, []byte, *Command) {
	if c.State == Begun {
		e.Execute(e.now, c, data)
	}
	if c.State == Held {
		return capsule.Completion{}, nil, c
	}
	return e.Complete(c, nil), data, c
}

// must runs a command that succeeds and returns its result.
func (e *end) must(cmd capsule.Command, data []byte) (uint64, []byte) {
	e.t.Helper()
	done, data, c := e.run(cmd, data)
	if done.Status != status.Success {
		e.t.Fatalf("%s: %v, %v", cmd.Opcode.Name(e.number == 0), done.Status, c.Refusal)
	}
	return done.Result, data
}

func connectData(controller uint16, subsystem, host string) []byte {
	d := fabrics.ConnectData{HostID: [16]byte{1}, Controller: controller, Subsystem: subsystem, Host: host}
	return d.Append(nil)
}

// admin connects an admin queue and enables the controller.
func (r *rig) admin(subsystem string) (e *end, id uint16) {
	r.t.Helper()
	e = r.queue(0)
	result, _ := e.must(fabrics.Connect{QueueSize: 15, KeepAlive: 5000}.Command(), connectData(fabrics.AnyController, subsystem, host))
	e.must(fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration)}.Command(true), nil)
	return e, uint16(result)
}

// io connects an I/O queue.
func (r *rig) io(id, number uint16) *end {
	r.t.Helper()
	e := r.queue(number)
	e.must(fabrics.Connect{Queue: number, QueueSize: 15}.Command(), connectData(id, nqn, host))
	return e
}

func identifyCommand(cns identify.CNS, nsid uint32) capsule.Command {
	return capsule.Command{Opcode: capsule.AdminIdentify, CDW10: uint32(cns), NSID: nsid}
}

func blocks(o capsule.Opcode, nsid uint32, lba uint64, n uint32) capsule.Command {
	c := capsule.Command{Opcode: o, NSID: nsid, CDW12: n - 1}
	c.SetLBA(lba)
	return c
}

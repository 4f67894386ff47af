package target

import (
	"errors"
	"fmt"
	"time"

	"softrdma/faults"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

// errFault is why connections end that a rule of faults ends.
var errFault = errors.New("fault")

// inject does what rules of faults of the device say about a command that has begun. It reports whether
// they decide what happens with it.
func (q *queue) inject(t *task) (taken bool) {
	c := &t.command
	e := q.dev.Faults().Command(q.facts(c))
	why := fmt.Errorf("%w: %s", errFault, e.Where())
	switch e.Action {
	case faults.FailCommand:
		r := &controller.Refusal{Why: controller.FaultInjected, Status: status.Status(e.NVMeStatus), Detail: e.Where()}
		if r.Status == 0 {
			r.Status = status.WriteFault
			if c.ToHost() || c.Opcode == capsule.Compare {
				r.Status = status.ReadError
			}
		}
		q.machine.Fail(c, r)
	case faults.DelayCommand:
		q.work.Go(func() {
			wait := time.NewTimer(e.Time)
			defer wait.Stop()
			select {
			case <-wait.C:
				q.begin(t)
			case <-q.ended:
			}
		})
		return true
	case faults.LoseCompletion:
		t.lost = true
	case faults.ResetController:
		q.t.endAll(q.machine.End(), why)
		return true
	case faults.LosePath:
		q.t.losePath(q.dev, time.Now().Add(e.Time))
		q.t.endAll(q.machine.End(), why)
		return true
	}
	return false
}

// facts returns what rules select a command by.
func (q *queue) facts(c *controller.Command) faults.CommandFacts {
	name := q.machine.Name()
	f := faults.CommandFacts{
		Peer: q.peer.Addr(), QPN: q.qp.Number(), Command: c.Name(name.Queue == 0), Subsystem: name.Subsystem, Size: int(c.Length),
	}
	if c.Opcode != capsule.OpFabrics { // whose field is the type of the command
		f.Namespace = c.NSID
	}
	if c.Namespace != nil {
		switch c.Opcode {
		case capsule.Read, capsule.Write, capsule.Compare, capsule.WriteZeroes:
			f.LBA, f.Blocks = c.LBA(), uint64(c.Blocks())
		}
	}
	return f
}

// losePath rejects the hosts that connect to a device, until a time.
func (t *Target) losePath(dev *verbs.Device, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost[dev] = until
}

// pathLost returns an error while a rule of faults loses the path to a device.
func (t *Target) pathLost(dev *verbs.Device) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, ok := t.lost[dev]
	switch {
	case !ok:
		return nil
	case time.Now().Before(until):
		return fmt.Errorf("%w: the path is lost", errFault)
	}
	delete(t.lost, dev)
	return nil
}

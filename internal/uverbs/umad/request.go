//go:build linux

package umad

import (
	"container/heap"
	"time"

	"softrdma/internal/wire/uapi"
)

// A request is a datagram that waits for its response. A datagram that is a response itself
// may wait as well: for nothing but its time-out.
type request struct {
	agent   *agent
	header  uapi.MADHeader // the program's
	mad     MAD
	key     duplicate
	answers bool // is a response itself
	timeout time.Duration
	retries uint32 // that are left
	due     time.Duration
	index   int       // in requests; -1 when it has ended
	out     *outbound // while it is sent in a transfer
	held    int64     // of the user's memory, while it waits
}

// A duplicate is what two datagrams of a file that wait must not have in common.
type duplicate struct {
	transaction
	answers bool
	peer    [16]byte // of responses: GID or LID
	global  bool
}

// begin makes a request wait. The caller holds agents.mu.
func (a *agents) begin(r *request) {
	heap.Push(&a.requests, r)
	r.agent.waiting[r] = struct{}{}
	r.agent.file.waiting[r.key]++
	r.agent.file.count++
	if !r.answers {
		r.agent.requests[r.key.transaction] = r
	}
}

// end ends the wait of a request. The caller holds agents.mu.
func (a *agents) end(r *request) {
	if r.index < 0 {
		return
	}
	heap.Remove(&a.requests, r.index)
	if r.out != nil {
		a.forgetOutbound(r.out)
	}
	f := r.agent.file
	f.memory.Return(r.held)
	if f.waiting[r.key]--; f.waiting[r.key] == 0 {
		delete(f.waiting, r.key)
	}
	f.count--
	delete(r.agent.waiting, r)
	if g := r.agent; g.requests[r.key.transaction] == r {
		delete(g.requests, r.key.transaction)
	}
}

// requests are those of a port, the earliest deadline first (heap.Interface).
type requests []*request

func (q requests) Len() int           { return len(q) }
func (q requests) Less(i, j int) bool { return q[i].due < q[j].due }

func (q requests) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *requests) Push(x any) {
	r := x.(*request)
	r.index = len(*q)
	*q = append(*q, r)
}

func (q *requests) Pop() any {
	old := *q
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	r.index = -1
	return r
}

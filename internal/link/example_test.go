package link_test

import (
	"fmt"
	"time"

	"softrdma/internal/link"
)

// A pipe is a link of packets to one peer in the same process. The peer's queue serves as the
// wire, and drops packets when it is full.
type pipe struct {
	queue chan link.Rx
	wake  chan struct{}
	peer  *pipe
}

func (p *pipe) Send(tx *link.Tx) error {
	rx := link.Rx{Size: tx.Size}
	for _, piece := range tx.Pieces { // the caller may reuse them when Send returns
		rx.Data = append(rx.Data, piece...)
	}
	select {
	case p.peer.queue <- rx:
		p.peer.Wake()
	default: // lost
	}
	return nil
}

func (p *pipe) Receive(rx *link.Rx) (bool, error) {
	select {
	case *rx = <-p.queue:
		return true, nil
	default:
		return false, nil
	}
}

func (p *pipe) Wait(d time.Duration) error {
	var timeout <-chan time.Time
	if d >= 0 {
		timeout = time.After(d)
	}
	select {
	case <-p.wake:
	case <-timeout:
	}
	return nil
}

func (p *pipe) Wake() {
	select {
	case p.wake <- struct{}{}:
	default: // one token is enough
	}
}

func (p *pipe) Close() error { return nil }

func (p *pipe) Capabilities() link.Capabilities {
	return link.Capabilities{Packets: link.MaxPackets, Bytes: link.MaxBatch, ReceiveBuffer: cap(p.queue) * link.MaxBatch}
}

// A link in memory: each of two ends is the other's peer.
func ExamplePackets() {
	a := &pipe{queue: make(chan link.Rx, 4), wake: make(chan struct{}, 1)}
	b := &pipe{queue: make(chan link.Rx, 4), wake: make(chan struct{}, 1), peer: a}
	a.peer = b
	var from, to link.Packets = a, b

	// Two packets of four bytes and one of two, as one batch.
	batch := link.Tx{Pieces: [][]byte{[]byte("ping"), []byte("pong!!")}, Bytes: 10, Size: 4}
	if err := from.Send(&batch); err != nil {
		fmt.Println(err)
	}
	var rx link.Rx
	if err := to.Wait(-1); err != nil {
		fmt.Println(err)
	}
	for ok, _ := to.Receive(&rx); ok; ok, _ = to.Receive(&rx) {
		fmt.Printf("%d bytes in packets of %d: %s\n", len(rx.Data), rx.Size, rx.Data)
	}
	// Output: 10 bytes in packets of 4: pingpong!!
}

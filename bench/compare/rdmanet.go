package compare

import (
	"context"
	"time"

	"softrdma/bench/loop"
)

// RDMANetName is the name of RDMANet.
const RDMANetName = "rdmanet"

// RDMANet measures package rdmanet in the loops in which Kernel measures TCP.
type RDMANet struct {
	Path string // of this program
}

// Name returns RDMANetName.
func (RDMANet) Name() string { return RDMANetName }

// Check returns nil: rdmanet is always available.
func (RDMANet) Check() error { return nil }

// Run implements Tool.
func (t RDMANet) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	w.Op = loop.OpRDMANet
	return Kernel(t).Run(ctx, p, w, d)
}

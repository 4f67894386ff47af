package ucx

// features are the features that the program enables.
type features uint64

const (
	featureTag features = 1 << iota
	featureRMA
	featureAtomic32
	featureAtomic64
	featureWakeup
	featureStream
	featureAM
)

// UcpParams are the parameters of a context.
type UcpParams struct {
	name     string
	features features
	shared   bool
}

// SetTagSenderMask sets the bits of tags that name the sender. It is a hint, and has no effect.
func (p *UcpParams) SetTagSenderMask(tagSenderMask uint64) *UcpParams { return p }

// SetEstimatedNumEPS says how many endpoints there will be. It is a hint, and has no effect.
func (p *UcpParams) SetEstimatedNumEPS(estimatedNumEPS uint64) *UcpParams { return p }

// SetEstimatedNumPPN says how many processes this host has. It is a hint, and has no effect.
func (p *UcpParams) SetEstimatedNumPPN(estimatedNumPPN uint64) *UcpParams { return p }

// SetName sets the context's name, which UcpContext.Query returns.
func (p *UcpParams) SetName(name string) *UcpParams {
	p.name = name
	return p
}

// EnableSharedWorkers says that goroutines use different workers concurrently. This is always
// permitted.
func (p *UcpParams) EnableSharedWorkers() *UcpParams {
	p.shared = true
	return p
}

// EnableTag enables tagged messages.
func (p *UcpParams) EnableTag() *UcpParams { return p.enable(featureTag) }

// EnableRMA enables remote memory, for which UCX's binding has no operations.
func (p *UcpParams) EnableRMA() *UcpParams { return p.enable(featureRMA) }

// EnableAtomic32Bit enables atomic operations of 32 bits, for which UCX's binding has no operations.
func (p *UcpParams) EnableAtomic32Bit() *UcpParams { return p.enable(featureAtomic32) }

// EnableAtomic64Bit enables atomic operations of 64 bits, for which UCX's binding has no operations.
func (p *UcpParams) EnableAtomic64Bit() *UcpParams { return p.enable(featureAtomic64) }

// EnableWakeup enables UcpWorker.Wait, Arm, Signal and GetEfd.
func (p *UcpParams) EnableWakeup() *UcpParams { return p.enable(featureWakeup) }

// EnableStream enables streams, for which UCX's binding has no operations.
func (p *UcpParams) EnableStream() *UcpParams { return p.enable(featureStream) }

// EnableAM enables active messages.
func (p *UcpParams) EnableAM() *UcpParams { return p.enable(featureAM) }

func (p *UcpParams) enable(f features) *UcpParams {
	p.features |= f
	return p
}

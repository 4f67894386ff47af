//go:build interop && linux

package lab

// A Processor is what QEMU emulates for the guests.
type Processor struct {
	model   string
	modules []string // that want it
}

var (
	// TestProcessor is all that QEMU can emulate: tests take the ways that programs and the kernel take on real ones.
	TestProcessor = Processor{"max", []string{"crc32-pclmul"}}

	// BenchProcessor lacks what QEMU emulates at more expense than what programs and the kernel do in its place: a string
	// instruction goes byte by byte with ERMS, and a product of polynomials bit by bit. On a real processor copies and
	// checksums cost little beside logic; so they do here more than with them, for everybody in the guest.
	BenchProcessor = Processor{"max,-erms,-pclmulqdq", nil}
)

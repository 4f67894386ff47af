//go:build interop && linux

package lab

// A Processor is what QEMU emulates for the guests.
type Processor struct {
	model   string
	modules []string // that want it
	count   string
}

// processors is how many CPUs a guest has. With one, receiving and programs delay each other so much that an
// acknowledge takes longer than the 67 ms that pingpongs wait.
const processors = "2"

var (
	// TestProcessor has all that QEMU can emulate, so that programs and the kernel use the same code as on real ones.
	TestProcessor = Processor{"max", []string{"crc32-pclmul"}, processors}

	// ManyProcessors are twice as many, for drivers that make a queue for each.
	ManyProcessors = Processor{"max", []string{"crc32-pclmul"}, "4"}

	// BenchProcessor lacks two features that QEMU emulates more slowly than the code that replaces them: with ERMS string
	// instructions go byte by byte, and PCLMULQDQ multiplies bit by bit. On a real processor copies and checksums cost
	// little compared to a protocol's logic. Without the two features that is more true here, for all programs.
	BenchProcessor = Processor{"max,-erms,-pclmulqdq", nil, processors}
)

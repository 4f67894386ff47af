package iwarp

import (
	"fmt"

	"softrdma/internal/reason"
)

func init() {
	reason.Name(reason.NumRDMAPOpcode, func(n uint64) string {
		if n >= uint64(Opcodes) {
			return fmt.Sprintf("%#x", n)
		}
		return fmt.Sprintf("%v (%#x)", Opcode(n), n)
	})
	reason.Name(reason.NumTerminate, func(n uint64) string { return fmt.Sprintf("%#04x (%v)", n, Term(n)) })
}

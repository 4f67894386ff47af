package cli

import (
	"bytes"
	"os"
	"testing"
)

// A pipe to the command instead of standard output would hide the terminal from the program,
// and end the program if the command is killed.
func TestProgramsWriteToTheCommandsOwnOutput(t *testing.T) {
	if w := ForProgram(Stdout()); w != os.Stdout {
		t.Errorf("%T, expected the file of standard output", w)
	}
	var b bytes.Buffer
	if w := ForProgram(&b); w != &b {
		t.Errorf("%T, expected the writer itself", w)
	}
}

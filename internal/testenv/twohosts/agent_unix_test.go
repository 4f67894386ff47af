//go:build unix

package twohosts

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestAgentRunsCommandsOnTheHostThatIsNamed(t *testing.T) {
	agent := filepath.Join(t.TempDir(), "agent")
	if err := WriteAgent(agent, "10.0.0.1", []string{"env", "PLACE=other"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"10.0.0.1", "echo", "at", "$PLACE"}, "at own\n"},
		{[]string{"10.0.0.2", "echo", "at", "$PLACE"}, "at other\n"},
		{[]string{"-x", "-q", "10.0.0.2", "echo at $PLACE; echo", "-n"}, "at other\n"},
	} {
		cmd := exec.Command(agent, c.args...)
		cmd.Env = append(cmd.Environ(), "PLACE=own")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("%q: expected %q, found %q, %v", c.args, c.want, out, err)
		}
	}
}

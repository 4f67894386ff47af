package main

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

func TestWrongCommandLinePrintsOneLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		word string
	}{
		{[]string{"devces"}, "did you mean devices?"},
		{[]string{"zzz"}, `unknown command "zzz"`},
		{[]string{"--nonsense"}, "--nonsense"},
		{[]string{"perf", "write", "bw", "--same-host-allow", "root,no-such-user"}, `--same-host-allow: user "no-such-user"`},
		{[]string{"pingpong", "-d", clitest.LoopbackDevice(t), "--same-host", "sometimes"}, `--same-host: same-host mode "sometimes"`},
		{[]string{"help", "pingpnog"}, `unknown command "pingpnog": did you mean pingpong?`},
		{[]string{"help", "pingpong", "x"}, `unknown command "x" for "softrdma pingpong"`},
		{[]string{"help", "fabric", "up", "x"}, `unknown command "x" for "softrdma fabric up"`},
		{[]string{"completion", "tcsh"}, `unknown command "tcsh" for "softrdma completion"`},
		{[]string{"completion", "bash", "x"}, `expected no argument, found "x"`},
		{[]string{"pingpong", "-Z"}, "see: softrdma pingpong --help"},
		{[]string{"pingpong", "a", "b"}, "expected the HOST of the server"},
		{[]string{"pingpong", "-s", "12Q"}, "64K"},
		{[]string{"pingpong", "-t", "xrc"}, "rc, uc, ud or srq"},
		{[]string{"pingpong", "-n", "0"}, "-n"},
		{[]string{"pingpong", "-m", "1500"}, "1024"},
		{[]string{"pingpong", "-l", "8"}, "0 to 7"},
		{[]string{"pingpong", "-r", "0"}, "-r"},
		{[]string{"pingpong", "-q", "3"}, "-t srq"},
		{[]string{"pingpong", "-t", "srq", "-q", "8", "-r", "7"}, "8 queue pairs"},
		{[]string{"pingpong", "-t", "ud", "-m", "512"}, "-m"},
		{[]string{"pingpong", "--timeout", "0s"}, "positive"},
		{[]string{"pingpong", "-d", clitest.LoopbackDevice(t), "-g", "7"}, "-g 7"},
		{[]string{"pingpong", "-p", "70000"}, `--port: expected 0 to 65535, found "70000"`},
		{[]string{"pingpong", "-p", "0"}, "-p: expected 1 to 65535"},
		{[]string{"perf", "write", "bw", "-D", "x"}, `--duration: expected a number, found "x"`},
		{[]string{"exec", "--devise", "lo", "true"}, "unknown flag: --devise: did you mean --device?"},
		{[]string{"fabric", "up", "--topolgy", "x"}, "did you mean --topology?"},
		{[]string{"fabric", "stauts"}, "did you mean status?"},
		{[]string{"devices", "extra"}, "extra"},
		{[]string{"devices", "--pcap", "x"}, "unknown flag: --pcap"},
		{[]string{"explain", "--pcap", "x", "RNR"}, "unknown flag: --pcap"},
		{[]string{"capture"}, "expected a FILE of captured packets; found none"},
		{[]string{"version", "extra"}, `expected no argument, found "extra"`},
		{[]string{"run"}, "expected a PROGRAM"},
		{[]string{"exec", "-v"}, "expected a PROGRAM"},
		{[]string{"capture", "--port", "70000", "x"}, "65535"},
	} {
		p := clitest.Start(t, c.args...)
		p.Fails(cli.ExitUsage, c.word)
		if out := p.Stdout.String(); out != "" {
			t.Errorf("%v printed %q", c.args, out)
		}
	}
}

func TestHelpShowsExamplesAndExitCodes(t *testing.T) {
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{nil, []string{"Examples:", "softrdma devices", "pingpong", "4791"}},
		{[]string{"--version"}, []string{"softrdma ", "go1."}},
		{[]string{"help", "environment"}, []string{"SOFTRDMA_FABRIC_DIR ", "SOFTRDMA_SAME_HOST ", "NO_COLOR", "/run/softrdma.", "softrdma/fabric/NAME"}},
		{[]string{"help", "exit-codes"}, []string{"0   success", "2   the command line", "3   the peer", "4   data", "130   interrupted"}},
		{[]string{"help", "fabric", "up"}, []string{"softrdma fabric up [FILE]", "--topology"}},
		{[]string{"completion"}, []string{"bash", "powershell"}},
		{[]string{"pingpong", "--help"}, []string{"ibv_rc_pingpong", "--rx-depth", "--pcap FILE"}},
	} {
		out := clitest.Run(t, c.args...)
		for _, w := range c.words {
			if !strings.Contains(out, w) {
				t.Errorf("softrdma %v: expected %q, found\n%s", c.args, w, out)
			}
		}
	}
}

func TestEveryCommandHasExamples(t *testing.T) {
	for _, c := range newRootCommand().Commands() {
		if c.Runnable() && (c.Short == "" || c.Long == "" || c.Example == "") && !c.Hidden {
			t.Errorf("%s lacks a short text, a long text or an example", c.Name())
		}
	}
}

// operands returns the words for arguments in the usage line of a command.
func operands(c *cobra.Command) []string {
	_, rest, _ := strings.Cut(strings.ReplaceAll(c.Use, "[flags]", ""), " ")
	return strings.FieldsFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) })
}

func TestWrongNumberOfArgumentsIsRefusedInTheWordsOfTheCommand(t *testing.T) {
	refused := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			check(sub)
		}
		if c.HasAvailableSubCommands() || !c.Runnable() {
			return // an argument is an unknown command
		}
		names := append(operands(c), "no argument")
		for _, args := range [][]string{nil, {"x"}, {"x", "x"}, {"x", "x", "x"}, {"x", "x", "x", "x"}} {
			err := c.ValidateArgs(args)
			if err == nil {
				continue
			}
			refused++
			named := slices.ContainsFunc(names, func(name string) bool { return strings.Contains(err.Error(), name) })
			if !named || cli.ExitCode(err) != cli.ExitUsage {
				t.Errorf("%s with %d arguments: expected a usage error that names one of %q, found %q", c.CommandPath(), len(args), names, err)
			}
		}
	}
	check(newRootCommand())
	if refused < 20 {
		t.Errorf("expected commands that refuse numbers of arguments, found %d refusals", refused)
	}
}

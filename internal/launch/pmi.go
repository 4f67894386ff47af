package launch

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// ErrPMI is matched by errors about a launcher that does not speak version 1 of PMI.
var ErrPMI = errors.New("launcher does not speak PMI-1")

// A pmi is a connection to a launcher that speaks PMI-1, such as MPICH's: lines of words of
// the form key=value, the first of which is cmd.
type pmi struct {
	rw         io.ReadWriter
	r          *bufio.Reader
	name       string // of the job's key-value space
	rank, size int
}

// maxPMILine is the length of the longest line of a launcher in bytes.
const maxPMILine = 4096

// connectPMI prepares an exchange through the launcher at the other end of a descriptor.
func (j *Job) connectPMI(text string) error {
	fd, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return fmt.Errorf("launch: PMI_FD is %q, expected a descriptor", text)
	}
	f := os.NewFile(uintptr(fd), "PMI")
	p, err := newPMI(f, j.Rank, j.Size)
	if err != nil {
		return err
	}
	j.ID, j.board = p.name, p
	return nil
}

func newPMI(rw io.ReadWriter, rank, size int) (*pmi, error) {
	p := &pmi{rw: rw, r: bufio.NewReaderSize(rw, maxPMILine), rank: rank, size: size}
	if _, err := p.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"); err != nil {
		return nil, err
	}
	answer, err := p.ask("cmd=get_my_kvsname", "my_kvsname")
	p.name = answer["kvsname"]
	return p, err
}

// share puts a value and gets those of all ranks.
func (p *pmi) share(_ context.Context, key string, value []byte) ([][]byte, error) {
	name := func(rank int) string { return fmt.Sprintf("kvsname=%s key=softrdma-%s-%d", p.name, key, rank) }
	if _, err := p.ask(fmt.Sprintf("cmd=put %s value=%x", name(p.rank), value), "put_result"); err != nil {
		return nil, err
	}
	if _, err := p.ask("cmd=barrier_in", "barrier_out"); err != nil {
		return nil, err
	}
	values := make([][]byte, p.size)
	for r := range values {
		answer, err := p.ask("cmd=get "+name(r), "get_result")
		if err != nil {
			return nil, err
		}
		if values[r], err = hex.DecodeString(answer["value"]); err != nil {
			return nil, fmt.Errorf("%w: value %q of rank %d", ErrPMI, answer["value"], r)
		}
	}
	return values, nil
}

// leave makes the launcher judge this program's end only by its exit code.
func (p *pmi) leave() error {
	_, err := p.ask("cmd=finalize", "finalize_ack")
	return err
}

func (p *pmi) close() {
	if c, ok := p.rw.(io.Closer); ok {
		_ = c.Close()
	}
}

// ask sends a command and returns the words of the answer.
func (p *pmi) ask(command, expected string) (map[string]string, error) {
	if _, err := io.WriteString(p.rw, command+"\n"); err != nil {
		return nil, err
	}
	line, err := p.r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPMI, err)
	}
	return parsePMI(string(line), expected)
}

// parsePMI parses the words of an answer, which must match the command that was sent and
// report success.
func parsePMI(line, expected string) (map[string]string, error) {
	words := map[string]string{}
	for _, w := range strings.Fields(line) {
		if key, value, ok := strings.Cut(w, "="); ok {
			words[key] = value
		}
	}
	if rc, given := words["rc"]; words["cmd"] != expected || given && rc != "0" {
		return nil, fmt.Errorf("%w: expected %s, found %q", ErrPMI, expected, strings.TrimSpace(line))
	}
	return words, nil
}

package file

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"softrdma/faults"
)

var update = flag.Bool("update", false, "write schema.json")

func TestParseReadsRules(t *testing.T) {
	const text = `# a comment
seed: 7
rules:
  - name: lost
    select: {direction: sent, opcode: write, psn: [0x10, 3], probability: 0.25}
    action: drop
  - action: delay
    time: 20ms
`
	want := faults.Rules{Seed: 7, Rules: []faults.Rule{
		{Name: "lost", Action: faults.Drop, Select: faults.Selector{
			Direction: faults.Sent, Opcode: []string{"write"}, PSN: []uint32{16, 3}, Probability: 0.25,
		}},
		{Action: faults.Delay, Time: faults.Duration(20 * time.Millisecond)},
	}}
	got, err := Parse("faults.yaml", []byte(text))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	b, err := JSON(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, parse := range []func([]byte) (faults.Rules, error){
		faults.Parse, func(b []byte) (faults.Rules, error) { return Parse("x", b) },
	} {
		if again, err := parse(b); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("JSON %s became %+v, %v", b, again, err)
		}
	}
}

func TestParseNamesLineAndColumn(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"rules:\n  - action: dorp\n", `f.yaml:2:13: action "dorp": expected one of drop, `},
		{"rules:\n  - action: drop\n    selct: {}\n", `f.yaml:3:5: field "selct": expected one of name, select, action`},
		{"rules:\n  - action: drop\n    select: {opcode: [send, writing]}\n", `f.yaml:3:29: opcode "writing": expected one of`},
		{"rules:\n  - action: drop\n  - action: delay\n    time: soon\n", `f.yaml:4:11: time "soon": expected a time with its unit`},
		{"rules:\n  - action: drop\n  - action: delay\n", `f.yaml:3:13: action "delay": expected time beside it`},
		{"rules:\n  - {action: drop, behind: many}\n", `f.yaml:2:28: behind "many": expected a whole number`},
		{"rules:\n  - {action: drop, behind: 3}\n", `f.yaml:2:28: behind "3": expected no behind of action drop`},
		{"rules:\n  - {name: x}\n", `f.yaml:2:5: action "": expected one of`},
		{"rules:\n  - {action: drop, action: drop}\n", `f.yaml:2:20: field "action": expected once`},
		{"rules:\n  - drop\n", `f.yaml:2:5: expected fields, one of name`},
		{"rules: {action: [drop]}\n", `f.yaml:1:17: action: expected one value, found a list`},
		{"a: &x 1\nrules: *x\n", `f.yaml:1:1: field "a": expected one of seed, rules`},
		{"rules: [\n", `f.yaml:`},
		{"", `f.yaml:1:1: expected rules, found an empty file`},
	} {
		if _, err := Parse("f.yaml", []byte(x.text)); err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%q: %v, expected %s", x.text, err, x.want)
		}
	}
}

func TestSchemaIsOfTheTypes(t *testing.T) {
	want, err := makeSchema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Schema(), want) {
		t.Error("schema.json is not that of the types; go test ./faults/file -update writes it")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("seed: 1\nrules: [{action: drop, select: {psn: 1}}]"))
	f.Add([]byte("rules: [{action: fail-command, select: {lba: 1-2, command: read}, nvme_status: 0x281}]"))
	f.Add([]byte("a: &a [*a]\nrules: *a"))
	f.Add([]byte(`{"rules":[{"action":"delay","time":"1ms"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse("f", b)
		if err != nil {
			return
		}
		if _, err := faults.New(r, "rdma0"); err != nil {
			t.Fatalf("rules that a file may have were refused: %v", err)
		}
		j, err := JSON(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := faults.Parse(j); err != nil {
			t.Fatalf("%s: %v", j, err)
		}
	})
}

// A rule that a device cannot follow is refused at its place in the file, unless it is for another device.
func TestReadForNamesLineAndColumn(t *testing.T) {
	for _, x := range []struct {
		text  string
		iwarp bool
		want  string
	}{
		{"rules:\n  - action: event\n    event: PORT_ERR\n  - action: end-stream\n", false, `:4:13: action "end-stream": expected no end of a stream`},
		{"rules:\n  - action: end-stream\n", true, ""},
		{"rules:\n  - action: drop\n", false, ""},
		{"rules:\n  - action: drop\n", true, `:2:13: action "drop": expected an action that iWARP has: TCP repeats`},
		{"rules:\n  - {action: drop, select: {device: rdma9}}\n", true, ""},
		{"rules:\n  - {action: duplicate}\n", true, `:2:14: action "duplicate": expected an action that iWARP has: TCP delivers each byte once`},
		{"rules:\n  - {action: reorder}\n", true, `:2:14: action "reorder": expected an action that iWARP has: TCP delivers bytes in`},
		{"rules:\n  - {action: delay, time: 1ms, select: {psn: 7}}\n", true, `:2:46: psn "7": expected no PSN`},
		{"rules:\n  - {action: rate, rate: 1000, queue: 10}\n", true, `:2:39: queue "10": expected no queue`},
	} {
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, locate, err := ReadFor(path)
		if err != nil {
			t.Fatal(err)
		}
		err = locate(r.CheckFor("rdma0", x.iwarp))
		if x.want == "" && err == nil {
			continue
		}
		if err == nil || x.want == "" || !strings.HasPrefix(err.Error(), path+x.want) {
			t.Errorf("%q: %v, expected %s", x.text, err, x.want)
		}
	}
}

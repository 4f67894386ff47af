// Package file reads rules of faults from YAML, of which JSON is a part. What is wrong in a file is named by
// line and column. Schema is the JSON schema of such files, for editors.
package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"softrdma/faults"
	"softrdma/internal/strictyaml"
)

// Read reads a file of rules.
func Read(path string) (faults.Rules, error) {
	r, _, err := ReadFor(path)
	return r, err
}

// ReadFor reads a file of rules for devices. locate gives an error about one of the rules, with which a device
// has refused them, the form of Parse's. It returns others unchanged.
func ReadFor(path string) (r faults.Rules, locate func(error) error, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return r, nil, err
	}
	r, p, err := parse(path, b)
	return r, func(err error) error {
		if e := (*faults.Error)(nil); errors.As(err, &e) {
			return p.error(e)
		}
		return err
	}, err
}

// JSON returns the rules in the form that faults.Parse reads.
func JSON(r faults.Rules) ([]byte, error) { return json.Marshal(r) }

// Parse reads rules. Errors begin with the name, line and column.
func Parse(name string, b []byte) (faults.Rules, error) {
	r, _, err := parse(name, b)
	return r, err
}

// parse also returns what knows the places of the file's values.
func parse(name string, b []byte) (r faults.Rules, p *places, err error) {
	p = &places{of: make(map[string]*yaml.Node)}
	if p.file, err = strictyaml.Parse(name, "rules", b, &r, p.add); err != nil {
		return faults.Rules{}, p, err
	}
	if e := (*faults.Error)(nil); errors.As(r.Check(), &e) {
		return faults.Rules{}, p, p.error(e)
	}
	return r, p, nil
}

// places are where the values of a file are.
type places struct {
	file *strictyaml.File
	rule int                   // that is being read
	of   map[string]*yaml.Node // by rule, field and text
}

func (p *places) add(v strictyaml.Place) {
	var i int
	if n, _ := fmt.Sscanf(v.Path, "rules[%d]", &i); n == 1 {
		if p.rule = i; v.Path == fmt.Sprintf("rules[%d]", i) {
			p.of[key(i, "", "")] = v.Node
			return
		}
	}
	if v.Node.Kind == yaml.ScalarNode {
		p.of[key(p.rule, v.Field, v.Text)], p.of[key(p.rule, v.Field, "")] = v.Node, v.Node
	}
}

// error returns an error about a rule with its place.
func (p *places) error(e *faults.Error) error {
	for _, k := range []string{key(e.Rule, e.Field, e.Found), key(e.Rule, e.Field, ""), key(e.Rule, "", "")} {
		if n := p.of[k]; n != nil {
			return p.file.Errorf(n, "%s", e.Text())
		}
	}
	return p.file.Errorf(p.file.Top(), "%s", e.Text())
}

func key(rule int, field, text string) string { return fmt.Sprint(rule, " ", field, " ", text) }

// jsonName is a field's name in a file.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Package file reads rules of faults from YAML, of which JSON is a part. What is wrong in a file is named by
// line and column. Schema is the JSON schema of such files, for editors.
package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"softrdma/faults"
)

// maxSize bounds a file, in bytes.
const maxSize = 1 << 20

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
	r, d, top, err := parse(path, b)
	return r, func(err error) error {
		if e := (*faults.Error)(nil); errors.As(err, &e) {
			return d.errorf(d.place(e, top), "%s", e.Text())
		}
		return err
	}, err
}

// JSON returns the rules in the form that faults.Parse reads.
func JSON(r faults.Rules) ([]byte, error) { return json.Marshal(r) }

// Parse reads rules. Errors begin with the name, line and column.
func Parse(name string, b []byte) (faults.Rules, error) {
	r, _, _, err := parse(name, b)
	return r, err
}

// parse also returns what knows the places of the file's values.
func parse(name string, b []byte) (r faults.Rules, d *decoder, top *yaml.Node, err error) {
	d = &decoder{name: name, places: make(map[string]*yaml.Node)}
	if len(b) > maxSize {
		return r, d, nil, fmt.Errorf("%s: expected at most %d bytes, found %d", name, maxSize, len(b))
	}
	var root yaml.Node
	if err := yaml.Unmarshal(b, &root); err != nil {
		return r, d, nil, d.syntax(err)
	}
	if len(root.Content) == 0 {
		return r, d, nil, fmt.Errorf("%s:1:1: expected rules, found an empty file", name)
	}
	top = root.Content[0]
	if err := d.value(top, "", reflect.ValueOf(&r).Elem()); err != nil {
		return faults.Rules{}, d, top, err
	}
	if e := (*faults.Error)(nil); errors.As(r.Check(), &e) {
		return faults.Rules{}, d, top, d.errorf(d.place(e, top), "%s", e.Text())
	}
	return r, d, top, nil
}

// A decoder sets Go values from the nodes of a file, by the names of their JSON form.
type decoder struct {
	name   string
	rule   int                   // that is being read
	places map[string]*yaml.Node // of values, by rule, field and text
}

func (d *decoder) errorf(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %s", d.name, n.Line, n.Column, fmt.Sprintf(format, args...))
}

var syntaxLine = regexp.MustCompile(`^yaml: line (\d+): `)

// syntax gives an error of the library the form of the others. The library knows no column.
func (d *decoder) syntax(err error) error {
	text := err.Error()
	if m := syntaxLine.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s:%s:1: %s", d.name, m[1], strings.TrimPrefix(text, m[0]))
	}
	return fmt.Errorf("%s:1:1: %s", d.name, strings.TrimPrefix(text, "yaml: "))
}

// place returns the node that an error is about.
func (d *decoder) place(e *faults.Error, root *yaml.Node) *yaml.Node {
	for _, k := range []string{key(e.Rule, e.Field, e.Found), key(e.Rule, e.Field, ""), key(e.Rule, "", "")} {
		if n := d.places[k]; n != nil {
			return n
		}
	}
	return root
}

func key(rule int, field, text string) string { return fmt.Sprint(rule, " ", field, " ", text) }

func (d *decoder) value(n *yaml.Node, field string, v reflect.Value) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return d.errorf(n, "expected a value, found the alias *%s", n.Value)
	case v.Kind() == reflect.Struct:
		return d.structure(n, v)
	case v.Kind() == reflect.Slice:
		return d.list(n, field, v)
	case n.Kind != yaml.ScalarNode:
		return d.errorf(n, "%s: expected one value, found a %s", field, kinds[n.Kind])
	}
	d.places[key(d.rule, field, n.Value)], d.places[key(d.rule, field, "")] = n, n
	if err := scalar(n.Value, v); err != nil {
		return d.errorf(n, "%s %q: %v", field, n.Value, err)
	}
	return nil
}

var kinds = map[yaml.Kind]string{yaml.MappingNode: "mapping", yaml.SequenceNode: "list", yaml.ScalarNode: "value"}

func (d *decoder) structure(n *yaml.Node, v reflect.Value) error {
	if n.Kind != yaml.MappingNode {
		return d.errorf(n, "expected fields, one of %s, found a %s", strings.Join(names(v.Type()), ", "), kinds[n.Kind])
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, x := n.Content[i], n.Content[i+1]
		at := index(v.Type(), k.Value)
		if at < 0 {
			return d.errorf(k, "field %q: expected one of %s", k.Value, strings.Join(names(v.Type()), ", "))
		}
		if seen[k.Value] {
			return d.errorf(k, "field %q: expected once, found twice", k.Value)
		}
		seen[k.Value] = true
		if err := d.value(x, k.Value, v.Field(at)); err != nil {
			return err
		}
	}
	return nil
}

// list sets a list. One value is a list of one.
func (d *decoder) list(n *yaml.Node, field string, v reflect.Value) error {
	all := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		all = n.Content
	}
	v.Set(reflect.MakeSlice(v.Type(), len(all), len(all)))
	for i, x := range all {
		if v.Type().Elem() == reflect.TypeFor[faults.Rule]() {
			d.rule = i
			d.places[key(i, "", "")] = x
		}
		if err := d.value(x, field, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// scalar sets a value from its text.
func scalar(text string, v reflect.Value) error {
	if t, ok := v.Addr().Interface().(interface{ UnmarshalText(b []byte) error }); ok {
		return t.UnmarshalText([]byte(text))
	}
	bits := v.Type().Bits
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(text, 0, bits())
		if err != nil {
			return errors.New("expected a whole number")
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, bits())
		if err != nil {
			return errors.New("expected a number")
		}
		v.SetFloat(f)
	default:
		u, err := strconv.ParseUint(text, 0, bits())
		if err != nil {
			return fmt.Errorf("expected a whole number from 0 to %d", uint64(1)<<(bits()-1)*2-1)
		}
		v.SetUint(u)
	}
	return nil
}

// jsonName is a field's name in a file.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func names(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		all = append(all, jsonName(t.Field(i)))
	}
	return all
}

func index(t reflect.Type, name string) int {
	for i := range t.NumField() {
		if jsonName(t.Field(i)) == name {
			return i
		}
	}
	return -1
}

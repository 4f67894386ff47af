// Package strictyaml reads files of YAML, of which JSON is a part, into Go values. A field that the
// values do not have is an error, and errors name line and column, what was expected and what was
// found. Fields have the names of their JSON form. Aliases are refused.
package strictyaml

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSize bounds a file, in bytes.
const maxSize = 1 << 20

// A Place is where a value is in a file.
type Place struct {
	Path  string // of the value, as in rules[2].select.psn[0]
	Field string // that it belongs to: psn
	Text  string // of a scalar
	Node  *yaml.Node
}

// A File is a file that has been read.
type File struct {
	name   string
	top    *yaml.Node
	places map[string]*yaml.Node // by path
	each   func(Place)
}

// Parse reads a file into the value that into points to. what is what the file has, for the error
// about an empty one. Each, if it is not nil, is called for each value but the whole.
func Parse(name, what string, b []byte, into any, each func(Place)) (*File, error) {
	f := &File{name: name, places: make(map[string]*yaml.Node), each: each}
	if len(b) > maxSize {
		return f, fmt.Errorf("%s: expected at most %d bytes, found %d", name, maxSize, len(b))
	}
	var root, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return f, f.syntax(err)
	}
	switch err := d.Decode(&more); {
	case err == nil:
		return f, f.Errorf(more.Content[0], "expected one document, found another one")
	case !errors.Is(err, io.EOF):
		return f, f.syntax(err)
	}
	if len(root.Content) == 0 {
		return f, fmt.Errorf("%s:1:1: expected %s, found an empty file", name, what)
	}
	f.top = root.Content[0]
	return f, f.value(f.top, "", "", reflect.ValueOf(into).Elem())
}

// Top returns the whole.
func (f *File) Top() *yaml.Node { return f.top }

// Errorf returns an error about a part of the file.
func (f *File) Errorf(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %s", f.name, n.Line, n.Column, fmt.Sprintf(format, args...))
}

// ErrorAt returns an error about the value of a path, or about the nearest one around it that the
// file has.
func (f *File) ErrorAt(path, format string, args ...any) error {
	for path != "" {
		if n := f.places[path]; n != nil {
			return f.Errorf(n, format, args...)
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return f.Errorf(f.top, format, args...)
}

// Decode reads the value of a path, if the file has one, into the value that into points to. What
// the file does not name there keeps its value.
func (f *File) Decode(path string, into any) error {
	n := f.places[path]
	if n == nil {
		return nil
	}
	return (&File{name: f.name, places: make(map[string]*yaml.Node)}).value(n, "", path, reflect.ValueOf(into).Elem())
}

// Has reports whether the file has a value of a path.
func (f *File) Has(path string) bool { return f.places[path] != nil }

var syntaxLine = regexp.MustCompile(`^yaml: line (\d+): `)

// syntax gives an error of the library the form of the others. The library knows no column.
func (f *File) syntax(err error) error {
	text := err.Error()
	if m := syntaxLine.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s:%s:1: %s", f.name, m[1], strings.TrimPrefix(text, m[0]))
	}
	return fmt.Errorf("%s:1:1: %s", f.name, strings.TrimPrefix(text, "yaml: "))
}

func (f *File) value(n *yaml.Node, path, field string, v reflect.Value) error {
	if n.Kind == yaml.AliasNode {
		return f.Errorf(n, "expected a value, found the alias *%s", n.Value)
	}
	if path != "" {
		f.places[path] = n
		if f.each != nil {
			f.each(Place{path, field, n.Value, n})
		}
	}
	_, text := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case text && n.Kind == yaml.ScalarNode:
	case v.Kind() == reflect.Struct && !text:
		return f.structure(n, path, v)
	case v.Kind() == reflect.Slice && !text:
		return f.list(n, path, field, v)
	case n.Kind != yaml.ScalarNode:
		return f.Errorf(n, "%s: expected one value, found a %s", field, kinds[n.Kind])
	}
	if err := scalar(n.Value, v); err != nil {
		return f.Errorf(n, "%s %q: %v", field, n.Value, err)
	}
	return nil
}

var kinds = map[yaml.Kind]string{yaml.MappingNode: "mapping", yaml.SequenceNode: "list", yaml.ScalarNode: "value"}

func (f *File) structure(n *yaml.Node, path string, v reflect.Value) error {
	if n.Kind != yaml.MappingNode {
		return f.Errorf(n, "expected fields, one of %s, found a %s", strings.Join(names(v.Type()), ", "), kinds[n.Kind])
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, x := n.Content[i], n.Content[i+1]
		at := index(v.Type(), k.Value)
		if at < 0 {
			return f.Errorf(k, "field %q: expected one of %s", k.Value, strings.Join(names(v.Type()), ", "))
		}
		if seen[k.Value] {
			return f.Errorf(k, "field %q: expected once, found twice", k.Value)
		}
		seen[k.Value] = true
		if err := f.value(x, strings.TrimPrefix(path+"."+k.Value, "."), k.Value, v.Field(at)); err != nil {
			return err
		}
	}
	return nil
}

// list sets a list. One value is a list of one.
func (f *File) list(n *yaml.Node, path, field string, v reflect.Value) error {
	all := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		all = n.Content
	}
	v.Set(reflect.MakeSlice(v.Type(), len(all), len(all)))
	for i, x := range all {
		if err := f.value(x, fmt.Sprintf("%s[%d]", path, i), field, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// scalar sets a value from its text.
func scalar(text string, v reflect.Value) error {
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return t.UnmarshalText([]byte(text))
	}
	bits := v.Type().Bits
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return errors.New("expected true or false")
		}
		v.SetBool(text == "true")
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

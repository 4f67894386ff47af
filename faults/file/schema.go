package file

import (
	"encoding/json"
	"reflect"
	"strings"

	_ "embed"

	"softrdma/faults"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema of files of rules.
func Schema() []byte { return schema }

// makeSchema makes the schema from the Go types. A test holds schema.json equal.
func makeSchema() ([]byte, error) {
	s := schemaOf(reflect.TypeFor[faults.Rules](), "")
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "softrdma: rules of faults"
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

func schemaOf(t reflect.Type, field string) map[string]any {
	switch {
	case t == reflect.TypeFor[faults.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}
	case t.Kind() == reflect.Struct:
		return structSchema(t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), field)}
	case t.Kind() == reflect.Slice:
		one := schemaOf(t.Elem(), field)
		return map[string]any{"anyOf": []any{one, map[string]any{"type": "array", "items": one}}}
	case t.Kind() == reflect.String:
		s := map[string]any{"type": "string"}
		if v := faults.Values(field); v != nil {
			s["enum"] = v
		}
		return s
	case t.Kind() == reflect.Float64:
		return map[string]any{"type": "number", "minimum": 0}
	}
	return map[string]any{"type": "integer", "minimum": 0}
}

func structSchema(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		s := schemaOf(f.Type, jsonName(f))
		s["description"] = f.Tag.Get("doc")
		properties[jsonName(f)] = s
		if !strings.Contains(f.Tag.Get("json"), ",omit") {
			required = append(required, jsonName(f))
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

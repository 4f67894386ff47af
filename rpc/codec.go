package rpc

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
)

// A Codec turns values into bodies. Client and server of a method must have the codec of the same
// name. Package rpc/protobuf has one for messages of protocol buffers.
type Codec interface {
	// Name names the format, as "json".
	Name() string
	// Append appends the encoding of v to b.
	Append(b []byte, v any) ([]byte, error)
	// Decode stores the value of a body in v, a pointer. It must not keep b.
	Decode(b []byte, v any) error
}

// The codecs of the package.
var (
	Raw  Codec = rawCodec{}  // []byte, *[]byte and *Buffer as they are
	JSON Codec = jsonCodec{} // encoding/json
	Gob  Codec = gobCodec{}  // encoding/gob; each body describes its types
)

type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Append(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return append(b, v...), nil
	case *[]byte:
		return append(b, *v...), nil
	case nil:
		return b, nil
	}
	return nil, fmt.Errorf("the raw codec takes []byte, found %T", v)
}

func (rawCodec) Decode(b []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = append((*v)[:0], b...)
		return nil
	case nil:
		return nil
	}
	return fmt.Errorf("the raw codec takes *[]byte, found %T", v)
}

type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Append(b []byte, v any) ([]byte, error) {
	w := appender{b}
	err := json.NewEncoder(&w).Encode(v)
	return w.b, err
}

func (jsonCodec) Decode(b []byte, v any) error {
	if v == nil {
		return nil
	}
	return json.Unmarshal(b, v)
}

type gobCodec struct{}

func (gobCodec) Name() string { return "gob" }

func (gobCodec) Append(b []byte, v any) ([]byte, error) {
	if v == nil {
		return b, nil
	}
	w := appender{b}
	err := gob.NewEncoder(&w).Encode(v)
	return w.b, err
}

func (gobCodec) Decode(b []byte, v any) error {
	if v == nil {
		return nil
	}
	r := bytes.NewReader(b)
	if err := gob.NewDecoder(r).Decode(v); err != nil {
		return err
	}
	if r.Len() > 0 {
		return fmt.Errorf("%d bytes follow the value", r.Len())
	}
	return nil
}

// An appender is an io.Writer that appends.
type appender struct{ b []byte }

var _ io.Writer = (*appender)(nil)

func (a *appender) Write(b []byte) (int, error) {
	a.b = append(a.b, b...)
	return len(b), nil
}

// Package protobuf encodes the bodies of package rpc as messages of protocol buffers. The plug-in
// protoc-gen-softrdma generates clients and servers of the services in a .proto file:
//
//	protoc --go_out=. --softrdma_out=. greet.proto
//
// It is a module of its own, so that programs which do not use protocol buffers do not depend on
// them.
package protobuf

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"softrdma/rpc"
)

// Codec encodes messages.
var Codec rpc.Codec = codec{}

type codec struct{}

// Name implements rpc.Codec.
func (codec) Name() string { return "proto" }

// Append implements rpc.Codec.
func (codec) Append(b []byte, v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("expected a message of protocol buffers, found %T", v)
	}
	return proto.MarshalOptions{}.MarshalAppend(b, m)
}

// Decode implements rpc.Codec.
func (codec) Decode(b []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("expected a message of protocol buffers, found %T", v)
	}
	return proto.Unmarshal(b, m)
}

// Protoc-gen-softrdma is a plug-in of protoc that generates clients and servers of package
// softrdma/rpc. Install it with
//
//	go install softrdma/rpc/protobuf/protoc-gen-softrdma
//
// and run protoc with --go_out and --softrdma_out.
package main

import (
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	protogen.Options{}.Run(func(p *protogen.Plugin) error {
		p.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		for _, f := range p.Files {
			if f.Generate {
				generate(p, f)
			}
		}
		return nil
	})
}

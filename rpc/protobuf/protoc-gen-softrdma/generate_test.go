package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

var update = flag.Bool("update", false, "write the generated files of the example")

const example = "../internal/greet"

// greet is what protoc makes of greet.proto.
func greet() *descriptorpb.FileDescriptorProto {
	text := func(message, field string) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &message, Field: []*descriptorpb.FieldDescriptorProto{{
			Name: &field, JsonName: &field, Number: proto.Int32(1),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}}}
	}
	method := func(name string, streams *bool) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: proto.String(".greet.Request"), OutputType: proto.String(".greet.Reply"),
			ClientStreaming: streams, ServerStreaming: streams}
	}
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("greet.proto"), Package: proto.String("greet"), Syntax: proto.String("proto3"),
		Options:     &descriptorpb.FileOptions{GoPackage: proto.String("softrdma/rpc/protobuf/internal/greet")},
		MessageType: []*descriptorpb.DescriptorProto{text("Request", "name"), text("Reply", "text")},
		Service:     []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Greeter"), Method: []*descriptorpb.MethodDescriptorProto{method("Hello", nil), method("Chat", proto.Bool(true))}}},
	}
}

// The files of the example are what the plug-ins make of greet.proto. The plug-ins run as protoc runs
// them.
func TestExampleIsWhatThePluginsGenerate(t *testing.T) {
	files := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{greet()}}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{"greet.proto"}, Parameter: proto.String("paths=source_relative"), ProtoFile: files.File}
	in, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	for _, plugin := range []string{".", "google.golang.org/protobuf/cmd/protoc-gen-go"} {
		cmd := exec.Command("go", "run", plugin)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var response pluginpb.CodeGeneratorResponse
		if err := proto.Unmarshal(out, &response); err != nil || response.GetError() != "" || len(response.File) != 1 {
			t.Fatalf("%s: %v, %d files, %v", plugin, response.GetError(), len(response.File), err)
		}
		f := response.File[0]
		path := filepath.Join(example, f.GetName())
		if *update {
			if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != f.GetContent() {
			t.Errorf("%s differs from what %s generates (-update writes it), %v", path, plugin, err)
		}
	}
}

func TestFilesWithoutServicesGenerateNothing(t *testing.T) {
	f := greet()
	f.Service = nil
	in, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{FileToGenerate: []string{"greet.proto"}, ProtoFile: []*descriptorpb.FileDescriptorProto{f}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", ".")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil || len(response.File) != 0 {
		t.Errorf("%d files, %v", len(response.File), err)
	}
}

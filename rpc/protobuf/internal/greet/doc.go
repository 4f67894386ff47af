// Package greet is the example of package protobuf, generated from greet.proto.
package greet

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// components returns a program's list of components in CycloneDX's format: the modules
// recorded in the program, and Go's standard library.
func (d *distribution) components(program string, s system) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	self := cdx.Component{
		BOMRef: "pkg:golang/" + info.Main.Path + "@" + d.version, Type: cdx.ComponentTypeApplication, Name: info.Main.Path, Version: d.version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@" + d.version + "?goos=" + s.os + "&goarch=" + s.arch,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: &[]cdx.Property{{Name: "softrdma:commit", Value: d.commit}},
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	list := []cdx.Component{library("std", goVersion, "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, library(m.Path, m.Version, m.Sum))
	}
	refs := make([]string, len(list))
	for i := range list {
		refs[i] = list[i].BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &self}
	bom.Components = &list
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	var b bytes.Buffer
	err = cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return b.Bytes(), err
}

// library returns the component of a module. Its hash from go.sum is a property, because
// it is not the hash of a file.
func library(path, version, sum string) cdx.Component {
	at := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: at, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: at, Scope: cdx.ScopeRequired}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}

package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
)

// mode returns the file's mode in archives, which does not depend on this machine.
func (f *file) mode() int64 {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// writeTar writes files into a folder of an archive. All times are 1970, so that archives
// are reproducible.
func writeTar(name, folder string, files []file) error {
	return write(name, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		t := tar.NewWriter(z)
		for _, f := range files {
			data, err := os.ReadFile(f.source)
			if err != nil {
				return err
			}
			h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(folder, f.path), Mode: f.mode(), Size: int64(len(data)), Format: tar.FormatUSTAR}
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			if _, err := t.Write(data); err != nil {
				return err
			}
		}
		return errors.Join(t.Close(), z.Close())
	})
}

// writeZip is like writeTar, for Windows.
func writeZip(name, folder string, files []file) error {
	return write(name, func(w io.Writer) error {
		z := zip.NewWriter(w)
		for _, f := range files {
			data, err := os.ReadFile(f.source)
			if err != nil {
				return err
			}
			entry, err := z.CreateHeader(&zip.FileHeader{Name: path.Join(folder, f.path), Method: zip.Deflate})
			if err != nil {
				return err
			}
			if _, err := entry.Write(data); err != nil {
				return err
			}
		}
		return z.Close()
	})
}

func write(name string, content func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}

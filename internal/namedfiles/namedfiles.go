// Package namedfiles finds files that are part of the program by their names without the extension.
package namedfiles

import (
	"io/fs"
	"strings"
)

// A Dir is the files of one extension in a directory.
type Dir struct {
	files     fs.FS
	extension string
}

// New returns the files with an extension, such as ".yaml", of the directory at the root of a file
// system that can be read, as embedded ones can.
func New(files fs.FS, extension string) Dir { return Dir{files, extension} }

// Names returns the names of the files in order.
func (d Dir) Names() (names []string) {
	list, _ := fs.ReadDir(d.files, ".") // is sorted
	for _, f := range list {
		if name, ok := strings.CutSuffix(f.Name(), d.extension); ok {
			names = append(names, name)
		}
	}
	return names
}

// Text returns a file, and false if there is none of that name.
func (d Dir) Text(name string) ([]byte, bool) {
	b, err := fs.ReadFile(d.files, name+d.extension)
	return b, err == nil
}

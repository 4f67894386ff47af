//go:build linux

package program

import (
	"bufio"
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"softrdma/internal/sanitize"
)

// symbols resolves addresses in this process by the symbols and the debugging information of its files.
// It is used by one thread at a time, for findings only.
type symbols struct{ modules map[string]*module }

// A module is the program or a library.
type module struct {
	file  *elf.File // nil if it cannot be read
	debug *dwarf.Data
	names []elf.Symbol
}

// softrdmaNames are the libraries whose frames are left out.
var softrdmaNames = []string{"preload", "engine"}

// frames returns the frames of return addresses, without those of softrdma, up to main.
func (s *symbols) frames(addresses []uintptr) (list []sanitize.Frame) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	for _, a := range addresses {
		path, offset, ok := mapped(maps, uint64(a)-1) // within the call
		if !ok || ownLibrary(path) {
			continue
		}
		for _, f := range s.module(path).frames(offset) {
			f.Module, f.Offset = path, offset
			list = append(list, f)
		}
		if list[len(list)-1].Function == "main" {
			break
		}
	}
	return withoutLibrary(list)
}

// withoutLibrary leaves out what is inside of a call of libibverbs.
func withoutLibrary(list []sanitize.Frame) []sanitize.Frame {
	inLibrary := func(f sanitize.Frame) bool { return strings.Contains(f.Module, "/libibverbs") }
	for len(list) > 1 && inLibrary(list[0]) && (inLibrary(list[1]) || list[0].Function == "") {
		list = list[1:]
	}
	return list
}

func ownLibrary(path string) bool {
	name := filepath.Base(path)
	for _, n := range softrdmaNames {
		if strings.HasPrefix(name, n) && strings.Contains(path, "softrdma") {
			return true
		}
	}
	return false
}

// mapped returns the file that an address is mapped from, and the offset in it.
func mapped(maps []byte, a uint64) (path string, offset uint64, ok bool) {
	lines := bufio.NewScanner(bytes.NewReader(maps))
	for lines.Scan() {
		var from, to, at, inode uint64
		var rights, device string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d", &from, &to, &rights, &at, &device, &inode); n == 6 && a >= from && a < to {
			_, path, _ = strings.Cut(lines.Text(), "/")
			return "/" + path, a - from + at, path != ""
		}
	}
	return "", 0, false
}

// module returns the module of a file.
func (s *symbols) module(path string) *module {
	if m := s.modules[path]; m != nil {
		return m
	}
	m := &module{}
	if f, err := elf.Open(path); err == nil {
		m.file = f
		m.names, _ = f.Symbols()
		dynamic, _ := f.DynamicSymbols()
		m.names = append(m.names, dynamic...)
		m.debug, _ = f.DWARF()
	}
	if s.modules == nil {
		s.modules = make(map[string]*module)
	}
	s.modules[path] = m
	return m
}

// frames returns what is known about an offset in the module's file: functions that the compiler has
// inlined there, and the function that has them.
func (m *module) frames(offset uint64) []sanitize.Frame {
	if m.file == nil {
		return []sanitize.Frame{{}}
	}
	for _, p := range m.file.Progs {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset < p.Off+p.Filesz {
			return m.at(offset - p.Off + p.Vaddr)
		}
	}
	return []sanitize.Frame{{}}
}

func (m *module) at(at uint64) []sanitize.Frame {
	list := []sanitize.Frame{{Function: m.function(at)}}
	if m.debug == nil {
		return list
	}
	unit, err := m.debug.Reader().SeekPC(at)
	if err != nil {
		return list
	}
	lines, err := m.debug.LineReader(unit)
	if err != nil || lines == nil {
		return list
	}
	var e dwarf.LineEntry
	if lines.SeekPC(at, &e) != nil || e.File == nil {
		return list
	}
	for _, f := range m.inlined(unit, at, lines.Files()) { // the outermost first
		list[0].File, list[0].Line = f.File, f.Line
		list = append([]sanitize.Frame{{Function: f.Function}}, list...)
	}
	list[0].File, list[0].Line = e.File.Name, e.Line
	return list
}

func (m *module) function(at uint64) string {
	for _, x := range m.names {
		if elf.ST_TYPE(x.Info) == elf.STT_FUNC && x.Section != elf.SHN_UNDEF && at >= x.Value && at < x.Value+x.Size {
			return x.Name
		}
	}
	return ""
}

// inlined returns the functions that are inlined at an address, the outermost first, each with the place
// that it is called from.
func (m *module) inlined(unit *dwarf.Entry, at uint64, files []*dwarf.LineFile) (list []sanitize.Frame) {
	r := m.debug.Reader()
	r.Seek(unit.Offset)
	_, _ = r.Next()
	for depth := 1; depth > 0; {
		e, err := r.Next()
		switch {
		case err != nil || e == nil:
			return list
		case e.Tag == 0: // the end of a list of children
			depth--
			continue
		case !m.contains(e, at):
			r.SkipChildren()
			continue
		case e.Tag == dwarf.TagInlinedSubroutine:
			list = append(list, m.call(e, files))
		}
		if e.Children {
			depth++
		}
	}
	return list
}

func (m *module) contains(e *dwarf.Entry, at uint64) bool {
	ranges, err := m.debug.Ranges(e)
	return err == nil && slices.ContainsFunc(ranges, func(x [2]uint64) bool { return at >= x[0] && at < x[1] })
}

// call returns the name of an inlined function, and the place that it is called from.
func (m *module) call(e *dwarf.Entry, files []*dwarf.LineFile) (f sanitize.Frame) {
	if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
		r := m.debug.Reader()
		r.Seek(origin)
		if x, err := r.Next(); err == nil && x != nil {
			f.Function, _ = x.Val(dwarf.AttrName).(string)
		}
	}
	i, _ := e.Val(dwarf.AttrCallFile).(int64)
	line, _ := e.Val(dwarf.AttrCallLine).(int64)
	if i > 0 && i < int64(len(files)) && files[i] != nil {
		f.File, f.Line = files[i].Name, int(line)
	}
	return f
}

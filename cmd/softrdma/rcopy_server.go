package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"softrdma/rdmanet"
)

// serve is the server: it takes files until ctx ends, or of one client.
func (r *rcopy) serve(ctx context.Context) (err error) {
	into, err := openInbox(r.dir)
	if err != nil {
		return err
	}
	defer into.close()
	defer func() { err = errors.Join(err, r.close()) }()
	l, err := r.listen(ctx, r.addr, r.port, "-a ADDR")
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	fmt.Fprintf(r.out, "%s, files go below %s\n", listening(l.Addr()), into.dir)
	var printing sync.Mutex
	failures := &throttle{print: func(line string) {
		printing.Lock()
		defer printing.Unlock()
		fmt.Fprintln(r.out, line)
	}}
	defer failures.end()
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		s := &rcopyServer{rcopyStream: newRcopyStream(conn.(*rdmanet.Conn), r.timeout), into: into}
		s.note = func(format string, args ...any) {
			printing.Lock()
			defer printing.Unlock()
			fmt.Fprintf(r.out, "client %v: %s\n", conn.RemoteAddr(), fmt.Sprintf(format, args...))
		}
		if r.once {
			l.Close()
			return s.run(ctx)
		}
		clients.Go(func() {
			if err := s.run(ctx); err != nil && ctx.Err() == nil {
				failures.line("client %v: %s", conn.RemoteAddr(), oneLine(err))
			}
		})
	}
}

// An inbox is where clients may write.
type inbox struct {
	dir  string // absolute
	root *os.Root
}

func openInbox(dir string) (*inbox, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	return &inbox{abs, root}, nil
}

func (in *inbox) close() { in.root.Close() }

// create opens the file that a client names, empty. A name that leads out of the
// directory, be it by a symbolic link, is refused with fs.ErrPermission.
func (in *inbox) create(name string, perm fs.FileMode) (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_TRUNC
	asked := name
	name = filepath.FromSlash(name)
	everywhere := filepath.Dir(in.dir) == in.dir
	if filepath.IsAbs(name) && !everywhere {
		rel, err := filepath.Rel(in.dir, name)
		if err != nil {
			return nil, fmt.Errorf("%s is outside of %s: %w", asked, in.dir, fs.ErrPermission)
		}
		name = rel
	}
	var f *os.File
	var err error
	switch {
	case name == "":
		return nil, fmt.Errorf("a name of no characters: %w", syscall.EINVAL)
	case everywhere:
		f, err = os.OpenFile(filepath.Join(in.dir, name), flags, perm)
	case !filepath.IsLocal(name):
		return nil, fmt.Errorf("%s is outside of %s: %w", asked, in.dir, fs.ErrPermission)
	default:
		f, err = in.root.OpenFile(name, flags, perm)
		if err != nil && strings.Contains(err.Error(), "escapes") {
			err = fmt.Errorf("%s leads out of %s: %w", asked, in.dir, fs.ErrPermission)
		}
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s: expected a regular file: %w", asked, syscall.EINVAL))
	}
	return f, nil
}

// An rcopyServer is the end that gets files, of one client.
type rcopyServer struct {
	rcopyStream
	into *inbox
	file *os.File // that is open
	size int64    // of it so far
	took time.Duration
	note func(format string, args ...any)
}

// run serves the client until it ends.
func (s *rcopyServer) run(ctx context.Context) (err error) {
	defer s.conn.Close()
	defer context.AfterFunc(ctx, func() { s.conn.SetLinger(0); s.conn.Close() })()
	defer func() {
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
	}()
	for {
		h, err := s.header()
		if errors.Is(err, io.EOF) && s.file == nil {
			return nil
		}
		if err == nil {
			err = s.command(h)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = errRcopyEnd
		}
		if err != nil && s.file != nil {
			err = fmt.Errorf("%s is incomplete, it has %d bytes: %w", s.file.Name(), s.size, err)
		}
		if err != nil {
			return s.failed(err)
		}
	}
}

// command carries a command out and answers it. An error ends the client.
func (s *rcopyServer) command(h rcopyHeader) error {
	var err error
	switch h.command {
	case rcopyOpen:
		err = s.open(h)
	case rcopyWrite:
		err = s.write(h)
	case rcopyClose:
		err = s.finish()
	default:
		err = fmt.Errorf("expected a command of rcopy, found %#02x: %w", h.command, syscall.EINVAL)
	}
	var number uint32
	if err != nil {
		number = rcopyNumber(err)
	}
	reply := rcopyHeader{command: h.command | rcopyReply, length: rcopyHeaderLen, data: number, id: h.id}
	_, sent := s.Write(reply.append(nil))
	if err == nil {
		err = sent
	}
	return err
}

func (s *rcopyServer) open(h rcopyHeader) error {
	name := make([]byte, h.length-rcopyHeaderLen)
	if _, err := io.ReadFull(s, name); err != nil {
		return err
	}
	if s.file != nil {
		return fmt.Errorf("cannot open a second file: %w", errRcopyBusy)
	}
	path, _, _ := strings.Cut(string(name), "\x00")
	f, err := s.into.create(path, fs.FileMode(h.data).Perm())
	if err != nil {
		return err
	}
	s.file, s.size, s.took = f, 0, 0
	return nil
}

// write takes the file's bytes.
func (s *rcopyServer) write(h rcopyHeader) error {
	if h.length != rcopyWriteLen {
		return fmt.Errorf("expected %d bytes to tell of a file's length, found %d: %w", rcopyWriteLen, h.length, syscall.EINVAL)
	}
	var b [8]byte
	if _, err := io.ReadFull(s, b[:]); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint64(b[:])
	switch {
	case s.file == nil:
		return fmt.Errorf("no file is open: %w", syscall.EINVAL)
	case size > 1<<62:
		return fmt.Errorf("a file of %d bytes: %w", size, syscall.EFBIG)
	}
	start := time.Now()
	n, err := io.CopyBuffer(struct{ io.Writer }{s.file}, io.LimitReader(s, int64(size)), make([]byte, 256<<10))
	s.size += n
	s.took += time.Since(start)
	if err == nil && uint64(n) < size {
		err = io.EOF
	}
	return err
}

// finish closes the file.
func (s *rcopyServer) finish() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	if err := f.Close(); err != nil {
		return err
	}
	s.note("wrote %s, %s", f.Name(), copied(s.size, s.took))
	return nil
}

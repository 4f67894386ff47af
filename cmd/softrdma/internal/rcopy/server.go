package rcopy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmanet"
)

// serve receives files until ctx ends, or with --once from one client.
func (r *command) serve(ctx context.Context) (err error) {
	into, err := openDirectory(r.dir)
	if err != nil {
		return err
	}
	defer into.close()
	defer func() { err = errors.Join(err, r.Close()) }()
	l, err := r.Listen(ctx, r.addr, r.port, "-a ADDR")
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	out := cli.NewPrinter(r.out)
	out.Printf("%s, writing files below %s", cli.ListeningAt(l.Addr()), into.path)
	failures := &cli.Throttle{Print: out.Println}
	defer failures.Flush()
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		s := &server{stream: newStream(conn.(*rdmanet.Conn), r.Timeout), dir: into}
		s.note = func(format string, args ...any) {
			out.Printf("client %v: %s", conn.RemoteAddr(), fmt.Sprintf(format, args...))
		}
		if r.once {
			l.Close()
			return s.run(ctx)
		}
		clients.Go(func() {
			if err := s.run(ctx); err != nil && ctx.Err() == nil {
				failures.Printf("client %v: %s", conn.RemoteAddr(), cli.OneLine(err))
			}
		})
	}
}

// A server is the end that receives files from one client.
type server struct {
	stream
	dir  *directory
	file *upload // being received
	took time.Duration
	note func(format string, args ...any)
}

// run serves the client until it ends.
func (s *server) run(ctx context.Context) (err error) {
	defer s.conn.Close()
	defer context.AfterFunc(ctx, func() { s.conn.SetLinger(0); s.conn.Close() })()
	defer func() {
		if s.file != nil {
			err = errors.Join(err, s.file.abandon())
		}
	}()
	for {
		h, err := s.header()
		if err == io.EOF && s.file == nil {
			return nil
		}
		if err == nil {
			err = s.command(h)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == io.EOF, err == io.ErrUnexpectedEOF: // errors other than these name the cause
			err = errTruncated
		}
		if err != nil && s.file != nil {
			err = fmt.Errorf("%s is incomplete, it has %d bytes: %w", s.file.path(), s.file.size, err)
		}
		if err != nil {
			return s.failed(err)
		}
	}
}

// command executes a command and answers it. An error ends the connection.
func (s *server) command(h header) error {
	var err error
	id := h.id
	switch h.command {
	case opOpen:
		if err = s.open(h); err == nil {
			id += uint64(s.file.from)
		}
	case opWrite:
		err = s.write(h)
	case opCheck:
		err = s.check(h)
	case opClose:
		err = s.finish()
	default:
		err = fmt.Errorf("expected a command of rcopy, found %#02x: %w", h.command, syscall.EINVAL)
	}
	var number uint32
	if err != nil {
		number = errnoOf(err)
	}
	reply := header{command: h.command | replyFlag, length: headerLen, data: number, id: id}
	_, sent := s.Write(reply.append(nil))
	if err == nil {
		err = sent
	}
	return err
}

func (s *server) open(h header) error {
	name := make([]byte, h.length-headerLen)
	if _, err := io.ReadFull(s, name); err != nil {
		return err
	}
	if s.file != nil {
		return fmt.Errorf("cannot open a second file: %w", errBusy)
	}
	path, _, _ := strings.Cut(string(name), "\x00")
	f, err := s.dir.open(path, fs.FileMode(h.data).Perm(), h.id)
	if err != nil {
		return err
	}
	s.file, s.took = f, 0
	return nil
}

// write receives the content of the file.
func (s *server) write(h header) error {
	if h.length != writeLen {
		return fmt.Errorf("expected a message of %d bytes with the file's length, found %d: %w", writeLen, h.length, syscall.EINVAL)
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
	err := s.file.receive(s, int64(size))
	s.took += time.Since(start)
	return err
}

// finish gives the file its final name.
func (s *server) finish() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	if err := f.finish(); err != nil {
		return err
	}
	s.note("wrote %s, %s", f.path(), summaryLine(f.size-f.from, s.took))
	return nil
}

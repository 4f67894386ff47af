package files

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/storage/ninep"
)

const ninepLong = `Serves a directory by 9P2000.L over RDMA until it is interrupted. Linux mounts it with the
options of the example; root is needed there, and not here.

Nothing outside of DIR can be reached, neither by ".." nor by symbolic links. Files are
accessed as the user who runs the server, not as that of the client. Every host that can
connect can read and, without --read-only, write: serve trusted networks only. Device files,
extended attributes and locks between clients are not supported.`

const ninepExample = `  softrdma serve-9p /srv/files                 serve a directory ...
  softrdma serve-9p -r -a 192.0.2.1 DIR        ... or read-only

  mount -t 9p -o trans=rdma,port=5640,version=9p2000.L HOST /mnt
                                               mount it on Linux; HOST is an address`

// New9PCommand returns the command that serves a directory by 9P.
func New9PCommand() *cobra.Command {
	s := &server{}
	return newCommand(s, "serve-9p", "Serve a directory by 9P over RDMA, for Linux to mount", ninepLong, ninepExample, 5640, s.ninep)
}

func (s *server) ninep(ctx context.Context) (err error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return s.serve(ctx, func(ctx context.Context, l *rdmacm.Listener, _ string) error {
		connected, disconnected, flush := s.notes(ctx)
		defer flush()
		server := &ninep.Server{Root: root, ReadOnly: s.readOnly, Connected: connected, Disconnected: disconnected}
		s.println("%s", cli.WaitingAt(l.Addr()))
		err := server.Serve(ctx, l)
		clients, messages := server.Counts()
		s.println("served %s of %s", cli.Plural(int(messages), "request"), cli.Plural(int(clients), "client"))
		return err
	})
}

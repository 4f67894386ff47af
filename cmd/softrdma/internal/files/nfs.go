package files

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/storage/nfs"
	"softrdma/storage/rpcrdma"
)

const nfsLong = `Serves a directory by NFS version 3 over RDMA until it is interrupted. Linux mounts it with
the options of the example; root is needed there, and not here. MOUNT, which tells clients
where the directory begins, is served over TCP on --mount-port.

Nothing outside of DIR can be reached, neither by ".." nor by symbolic links. Files are
accessed as the user who runs the server, not as that of the client. Every host that can
connect can read and, without --read-only, write: serve trusted networks only.

Written data is on disk when the client has called COMMIT, as fsync does. Names are not
synchronized, as with "async" exports of Linux. Device files and locks are not supported:
mount with nolock.`

const nfsExample = `  softrdma serve-nfs /srv/files                serve a directory ...
  softrdma serve-nfs -r -a 192.0.2.1 DIR       ... or read-only

  mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=20048,nolock HOST:/ /mnt
                                               mount it on Linux`

// DefaultMountPort is the port that is registered for MOUNT.
const defaultMountPort = 20048

// NewNFSCommand returns the command that serves a directory by NFS.
func NewNFSCommand() *cobra.Command {
	s := &server{}
	mountPort := uint16(defaultMountPort)
	cmd := newCommand(s, "serve-nfs", "Serve a directory by NFS over RDMA, for Linux to mount", nfsLong, nfsExample, 20049,
		func(ctx context.Context) error { return s.nfs(ctx, mountPort) })
	cmd.Flags().Uint16Var(&mountPort, "mount-port", defaultMountPort, "TCP `PORT` of MOUNT")
	return cmd
}

func (s *server) nfs(ctx context.Context, mountPort uint16) (err error) {
	service, err := nfs.Open(s.dir, s.readOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	return s.serve(ctx, func(ctx context.Context, l *rdmacm.Listener, host string) error {
		var lc net.ListenConfig
		mounts, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(mountPort))))
		if err != nil {
			return err
		}
		connected, disconnected, flush := s.notes(ctx)
		defer flush()
		transport := &rpcrdma.Server{Service: service, Connected: connected, Disconnected: disconnected}
		s.println("%s, MOUNT on TCP port %d", cli.WaitingAt(l.Addr()), mounts.Addr().(*net.TCPAddr).Port)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var both sync.WaitGroup
		both.Go(func() { cancel(service.ServeMount(ctx, mounts)) })
		both.Go(func() { cancel(transport.Serve(ctx, l)) })
		both.Wait()
		c := transport.Counters()
		s.println("served %s of %s: %d bytes read from clients' memory, %d written to it, %d refused",
			cli.Plural(int(c.Calls), "call"), cli.Plural(int(c.Clients), "client"), c.BytesIn, c.BytesOut, c.Refused)
		return context.Cause(ctx)
	})
}

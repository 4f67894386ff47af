// Package host reads and writes namespaces of NVMe over Fabrics targets on the RDMA transport, as
// Linux's nvme-rdma does:
//
//	c, err := host.Dial(ctx, "192.0.2.1:4420", host.Config{Subsystem: "nqn.2024-01.org.example:disk"})
//	ns, err := c.Namespace(ctx, 1)
//	_, err = ns.ReadAt(buf, 0)
//
// A Namespace is an io.ReaderAt and an io.WriterAt, whose offsets and lengths are multiples of its
// block size. Discover lists the subsystems of a target.
//
// The package stands on the public packages rdmacm and verbs only. It copies the caller's data to and
// from registered memory of its own.
package host

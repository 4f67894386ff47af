// Package host reads and writes namespaces of NVMe over Fabrics targets on the RDMA transport, as
// Linux's nvme-rdma does:
//
//	c, err := host.Dial(ctx, "192.0.2.1:4420", host.Config{Subsystem: "nqn.2024-01.org.example:disk"})
//	ns, err := c.Namespace(ctx, 1)
//	_, err = ns.ReadAt(buf, 0)
//
// A Namespace is an io.ReaderAt and an io.WriterAt, whose offsets and lengths are multiples of its
// block size. Submit starts reads and writes without waiting, and Alloc returns registered memory,
// whose data is not copied. Discover lists the subsystems of a target.
//
// With Config.LossTimeout a controller is connected again when its connection has ended. Commands that
// are in flight then are repeated, and others wait, until the controller is given up. Connect uses
// several controllers of a subsystem as paths to its namespaces: optimized ones in turn, and another
// one when a path fails. A command whose connection has ended may have been executed, and may even be
// executed later than its repetition if the target still runs, as with Linux.
//
// Who makes an object closes it. Controller.Close and Subsystem.Close end the commands of their namespaces,
// which need no Close of their own then. Memory of Alloc outlives connections and controllers: the program
// frees it. A program that opens many namespaces one after the other closes each.
//
// The package stands on the public packages rdmacm and verbs only. It has these parts:
//
//   - a command, which is sent once or several times until it ends;
//   - a queue, one connection with slots for commands, whose goroutine handles completions;
//   - a link, the queues of a controller from one connect command to their end;
//   - a Controller, which has one link after the other;
//   - a Namespace, which chooses the link of each command.
package host

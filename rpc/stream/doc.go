// Package stream sends bodies of any length through calls of package rpc, in chunks that the
// receiver reads from the sender's memory while the next ones are on their way.
//
// A handler has a Conn, from which it reads what the client writes, and to which it writes what the
// client reads:
//
//	err := stream.Register(server, "files", "copy", func(ctx context.Context, c *stream.Conn) error {
//		_, err := io.Copy(c, c)
//		return err
//	})
//
// A client opens a stream and has the other end:
//
//	c, err := stream.Open(ctx, client, "files", "copy", stream.Config{})
//	_, err = io.Copy(c, file)
//	err = c.CloseWrite()
//	_, err = io.Copy(out, c) // ends with io.EOF, or with the handler's error
//	err = c.Close()
//
// Both directions are independent. Because each chunk is a call, a stream survives broken connections
// as calls do: no byte is lost or repeated while the server keeps the session. A stream belongs to
// one server: if that drains or redirects, the stream fails with rpc.NotFound.
//
// # Bounds
//
// A stream keeps Config.Window chunks of at most Config.Chunk bytes on their way in each direction, and
// gathers what is written meanwhile, up to a chunk. A writer waits until the reader has taken what is
// before. The chunks are calls of the client: they count against its limits.
package stream

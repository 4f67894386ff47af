// Package nfs serves a directory by NFS version 3 (RFC 1813) over RDMA, as Linux mounts it. The calls are
// carried by package rpcrdma.
//
// A [Service] is the directory. It is a rpcrdma.Service, and it also serves the MOUNT protocol over
// TCP, because Linux asks for the root's file handle there.
//
// # Files
//
// File handles name the device, the number and the time of birth of a file. So they remain valid when
// files are renamed and when the server is started again, and no handle of a deleted file names
// another, where the file system keeps times of birth. A tree of the names that clients have seen says
// where the file of a handle is. A call opens what is there, compares it with the handle, and acts on what
// it has opened: another file that gets the name meanwhile is not touched.
//
// Nothing outside of the directory can be reached. Paths are opened through an os.Root, so neither
// ".." nor a symbolic link leaves it, and entries by one name in a directory that is open. Files are
// accessed as the user who runs the server, and not as the user that a client names. Devices, FIFOs and
// sockets are not opened.
//
// # Calls
//
// Data is written to the page cache, and is on disk after COMMIT or a synchronous WRITE. Names are
// not synchronized. Calls that change something are executed once, although a client repeats them
// after it has connected again: their last replies are kept, as long as the server runs.
package nfs

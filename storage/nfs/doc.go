// Package nfs serves a directory by NFS version 3 over RDMA, as Linux mounts it. The protocol is
// executed by github.com/willscott/go-nfs, and carried by package rpcrdma.
//
// A [Service] is the directory. It is a rpcrdma.Service, and it also serves the MOUNT protocol over
// TCP, because Linux asks for the root's file handle there.
//
// Nothing outside of the directory can be reached: every access goes through an os.Root, so neither
// ".." nor a symbolic link leaves it. Files are accessed as the user who runs the server, and
// not as the user that a client names. Devices, FIFOs and sockets are not opened.
//
// File handles name the device, the number and the time of birth of a file. So they remain valid when
// files are renamed and when the server is started again, and no handle of a deleted file names
// another, where the file system keeps times of birth.
//
// Hard links and device files cannot be made. Replies to writes say that the data is stable, though
// it is in the page cache of the host, as with "async" exports of Linux: it survives the end of the
// server, and not that of the host.
package nfs

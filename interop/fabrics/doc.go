// Package fabrics tests fabrics in software with Debian's InfiniBand programs under softrdma
// exec: opensm, infiniband-diags, ibutils, ibacm, programs of libibverbs, and perftest. They
// need no virtual machine, as no kernel takes part.
package fabrics

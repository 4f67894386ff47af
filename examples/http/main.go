// Http serves and fetches a page over RDMA: net/http runs unchanged on connections of
// package rdmanet.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	"softrdma/rdmanet"
)

func main() {
	l := must(rdmanet.Listen("rdma", "127.0.0.1:0"))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello over RDMA, you sent %d bytes", must(io.Copy(io.Discard, r.Body)))
	})}
	go server.Serve(l)
	defer server.Close()

	client := &http.Client{Transport: &http.Transport{DialContext: rdmanet.DialContext}}
	url := "http://" + l.Addr().String()
	for range 3 { // the client reuses the connection
		r := must(client.Post(url, "text/plain", strings.NewReader(strings.Repeat("x", 1<<20))))
		page := string(must(io.ReadAll(r.Body)))
		r.Body.Close()
		if page != "hello over RDMA, you sent 1048576 bytes" {
			log.Fatalf("found %q", page)
		}
		fmt.Printf("%s: %s: %s\n", url, r.Status, page)
	}
	client.CloseIdleConnections()
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

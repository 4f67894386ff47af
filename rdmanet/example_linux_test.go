package rdmanet_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"softrdma/rdmanet"
	"softrdma/verbs"
)

// An encrypted stream over iWARP between ends that share a secret. Both ends are in
// this process, so one configuration serves both.
func ExampleDialer_secret() {
	secret, err := verbs.SharedSecret([]byte("32 random bytes of a file, rather"))
	if err != nil {
		log.Fatal(err)
	}
	lc := rdmanet.ListenConfig{Protocol: verbs.IWARP, TLS: secret}
	l, err := lc.Listen(context.Background(), "rdma", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "no eavesdropper reads this")
	}()
	d := rdmanet.Dialer{Protocol: verbs.IWARP, TLS: secret}
	c, err := d.Dial("rdma", l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
	// Output: no eavesdropper reads this
}

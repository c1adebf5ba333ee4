package apikey_test

import (
	"bytes"
	"fmt"

	"github.com/headgate/headgate/policy/apikey"
)

func ExampleGenerate() {
	// Outside examples the source is crypto/rand.Reader.
	secret, kid, err := apikey.Generate(apikey.Live, bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("log:", secret, "kid:", kid)
	fmt.Println("store:", apikey.Digest(secret.Reveal())[:14]+"…")
	fmt.Println("accept:", apikey.Equal(apikey.Digest(secret.Reveal()), secret.Reveal()))
	// Output:
	// log: hg_live_777777777777_… kid: 777777777777
	// store: sha256:b2efb2d…
	// accept: true
}

func ExampleParse() {
	parsed, err := apikey.Parse("hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJp")
	fmt.Println(parsed.Environment, parsed.KID, err)
	_, err = apikey.Parse("hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJq")
	fmt.Println(err)
	// Output:
	// live 0123456789AB <nil>
	// malformed API key
}

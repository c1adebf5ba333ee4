// Package static holds the console's style sheet, scripts and icon, embedded in
// the binary. Each file has one address that contains the hash of its content,
// so that browsers may keep it for ever and never see a stale one.
//
// It imports nothing of this module.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed app.css console.js htmx.min.js favicon.svg
var files embed.FS

// Prefix is where Handler is mounted.
const Prefix = "/static/"

type asset struct {
	address     string // under Prefix: app.0123456789ab.css
	contentType string
	plain, gzip []byte
}

// assets reads and compresses the embedded files once.
//
//nolint:gochecknoglobals // made once from what is compiled in, and never changed
var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(fmt.Sprintf("read embedded files: %v", err)) // cannot happen: they are compiled in
	}
	for _, e := range entries {
		body, err := files.ReadFile(e.Name())
		if err != nil {
			panic(fmt.Sprintf("read embedded file %s: %v", e.Name(), err))
		}
		all[e.Name()] = newAsset(e.Name(), body)
	}
	return all
})

func newAsset(name string, body []byte) asset {
	sum := sha256.Sum256(body)
	ext := path.Ext(name)
	types := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	a := asset{
		address:     strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext,
		contentType: types[ext],
		plain:       body,
	}
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return a
	}
	if _, err := zw.Write(body); err != nil {
		return a
	}
	if err := zw.Close(); err == nil && buf.Len() < len(body) {
		a.gzip = buf.Bytes()
	}
	return a
}

// URL is the address of a file. An unknown name gives an address that answers
// 404; a test holds that every name used in the views exists.
func URL(name string) string {
	if a, ok := assets()[name]; ok {
		return Prefix + a.address
	}
	return Prefix + "unknown/" + name
}

// Handler serves the files under Prefix with a year of immutable caching and, to
// those who accept it, compressed. Anything else answers 404.
func Handler() http.Handler {
	byAddress := map[string]asset{}
	for _, a := range assets() {
		byAddress[Prefix+a.address] = a
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := byAddress[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", a.contentType)
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Vary", "Accept-Encoding")
		body := a.plain
		if a.gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body = a.gzip
		}
		h.Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(body) // the client went away
		}
	})
}

package static_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/static"
)

func get(t *testing.T, method, path, encoding string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, http.NoBody)
	if encoding != "" {
		r.Header.Set("Accept-Encoding", encoding)
	}
	w := httptest.NewRecorder()
	static.Handler().ServeHTTP(w, r)
	res := w.Result()
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestURL_NamesEveryFileByItsContent(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"app.css": "text/css", "console.js": "text/javascript", "htmx.min.js": "text/javascript", "favicon.svg": "image/svg+xml"} {
		url := static.URL(name)
		if !strings.HasPrefix(url, static.Prefix) || strings.HasSuffix(url, "/"+name) || url != static.URL(name) {
			t.Errorf("%s has the address %s", name, url)
		}
		res := get(t, http.MethodGet, url, "")
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || len(body) == 0 || res.ContentLength != int64(len(body)) {
			t.Errorf("%s: %d, %d bytes of %d, %v", url, res.StatusCode, len(body), res.ContentLength, err)
		}
		if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, kind) {
			t.Errorf("%s is %q", name, got)
		}
		if got := res.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
			t.Errorf("%s has Cache-Control %q", name, got)
		}
	}
}

func TestHandler_CompressesForThoseWhoAskAndSaysSo(t *testing.T) {
	t.Parallel()
	plain, err := io.ReadAll(get(t, http.MethodGet, static.URL("app.css"), "").Body)
	if err != nil {
		t.Fatal(err)
	}
	res := get(t, http.MethodGet, static.URL("app.css"), "br, gzip")
	if res.Header.Get("Content-Encoding") != "gzip" || res.Header.Get("Vary") != "Accept-Encoding" || res.ContentLength >= int64(len(plain)) {
		t.Fatalf("%v, %d of %d bytes", res.Header, res.ContentLength, len(plain))
	}
	zr, err := gzip.NewReader(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(zr)
	if err != nil || string(unpacked) != string(plain) {
		t.Errorf("the compressed file differs: %v", err)
	}
	if body, _ := io.ReadAll(get(t, http.MethodHead, static.URL("app.css"), "").Body); len(body) != 0 {
		t.Errorf("HEAD has a body of %d bytes", len(body))
	}
}

func TestHandler_AnythingElseIs404(t *testing.T) {
	t.Parallel()
	for _, path := range []string{static.URL("nothing.css"), "/static/", "/static/app.css", "/static/../static.go", "/static/static.go", "/static/app.000000000000.css", "/static/htmx.LICENSE"} {
		if res := get(t, http.MethodGet, path, ""); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

func TestFiles_HoldNothingThatThePolicyForbids(t *testing.T) {
	t.Parallel()
	for name, words := range map[string][]string{
		"app.css":    {"@import", "http:", "https:", "url("},
		"console.js": {"innerHTML", "outerHTML", "eval(", "insertAdjacentHTML", "document.write", "http:", "https:", "new Function"},
	} {
		body, err := io.ReadAll(get(t, http.MethodGet, static.URL(name), "").Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if strings.Contains(string(body), w) {
				t.Errorf("%s has %q", name, w)
			}
		}
	}
}

package views_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a-h/templ"
	"golang.org/x/net/html"
)

// rendered is a page as a tree. With HEADGATE_PAGES_DIR set, pages are also
// written there, to be looked at.
func rendered(t *testing.T, name string, c templ.Component) *html.Node {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatalf("render %s: %v", name, err)
	}
	if dir := os.Getenv("HEADGATE_PAGES_DIR"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".html"), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := html.Parse(&b)
	if err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
	return root
}

func each(n *html.Node, f func(*html.Node)) {
	if n.Type == html.ElementNode {
		f(n)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		each(c, f)
	}
}

func attr(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func text(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(n)
	return strings.TrimSpace(b.String())
}

func forEachPage(t *testing.T, check func(t *testing.T, root *html.Node)) {
	for name, c := range pages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, rendered(t, name, c))
		})
	}
}

func TestPages_HostileTextStaysText(t *testing.T) {
	t.Parallel()
	forEachPage(t, func(t *testing.T, root *html.Node) {
		each(root, func(n *html.Node) {
			src, hasSrc := attr(n, "src")
			if n.Data == "img" || n.Data == "script" && (!hasSrc || !strings.HasPrefix(src, "/static/")) {
				t.Errorf("a <%s> that no page writes: %v", n.Data, n.Attr)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
					t.Errorf("<%s> has %s=%q, which the policy of the page forbids", n.Data, a.Key, a.Val)
				}
				if (a.Key == "href" || a.Key == "action" || strings.HasPrefix(a.Key, "hx-get")) && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "?") {
					t.Errorf("<%s> leads to %q, not to a page of ours", n.Data, a.Val)
				}
			}
		})
	})
}

func TestPages_HostileTextIsShown(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"overview-broken", "tenants-full", "tenant-suspended", "tenant-audit", "keys-full", "rotation", "gateways-full", "secret", "fault", "usage-broken", "usage-standing", "usage-periods", "usage-reconcile"} {
		if !strings.Contains(text(rendered(t, name, pages()[name])), hostile) {
			t.Errorf("%s does not show the text as it was written", name)
		}
	}
}

func TestPages_TablesHaveCaptionsAndScopes(t *testing.T) {
	t.Parallel()
	forEachPage(t, func(t *testing.T, root *html.Node) {
		each(root, func(n *html.Node) {
			switch n.Data {
			case "table":
				first := n.FirstChild
				for first != nil && first.Type != html.ElementNode {
					first = first.NextSibling
				}
				if first == nil || first.Data != "caption" || text(first) == "" {
					t.Error("a table without a caption")
				}
			case "th":
				if s, _ := attr(n, "scope"); s != "col" && s != "row" {
					t.Errorf("a head cell %q without scope", text(n))
				}
			}
		})
	})
}

func TestPages_InputsHaveLabelsAndIDsAreUnique(t *testing.T) {
	t.Parallel()
	forEachPage(t, func(t *testing.T, root *html.Node) {
		labels, ids := map[string]bool{}, map[string]int{}
		each(root, func(n *html.Node) {
			if v, ok := attr(n, "for"); ok {
				labels[v] = true
			}
			if v, ok := attr(n, "id"); ok {
				ids[v]++
			}
		})
		for id, n := range ids {
			if n > 1 {
				t.Errorf("id %q stands %d times", id, n)
			}
		}
		each(root, func(n *html.Node) {
			if kind, _ := attr(n, "type"); n.Data == "input" && kind != "hidden" || n.Data == "select" || n.Data == "textarea" {
				if id, _ := attr(n, "id"); !labels[id] {
					t.Errorf("<%s id=%q> has no label", n.Data, id)
				}
			}
			if v, ok := attr(n, "aria-describedby"); ok {
				for _, id := range strings.Fields(v) {
					if ids[id] == 0 {
						t.Errorf("aria-describedby names %q, which is not there", id)
					}
				}
			}
		})
	})
}

func TestPages_HaveOneHeadingOneMainAndASkipLink(t *testing.T) {
	t.Parallel()
	forEachPage(t, func(t *testing.T, root *html.Node) {
		n := map[string]int{}
		skip := false
		each(root, func(e *html.Node) {
			if e.Namespace == "" { // a title inside a drawing is another thing
				n[e.Data]++
			}
			if href, _ := attr(e, "href"); e.Data == "a" && href == "#main" {
				skip = true
			}
		})
		if n["h1"] != 1 || n["main"] != 1 || n["title"] != 1 || !skip {
			t.Errorf("h1 %d, main %d, title %d, skip link %v", n["h1"], n["main"], n["title"], skip)
		}
	})
}

func TestPages_EveryFormWorksWithoutScripts(t *testing.T) {
	t.Parallel()
	forEachPage(t, func(t *testing.T, root *html.Node) {
		each(root, func(n *html.Node) {
			if n.Data != "form" {
				return
			}
			action, _ := attr(n, "action")
			button := false
			each(n, func(c *html.Node) {
				kind, has := attr(c, "type")
				button = button || c.Data == "button" && (!has || kind == "submit")
			})
			if action == "" || !button {
				t.Errorf("form to %q: button %v", action, button)
			}
		})
	})
}

func TestSecret_StandsOnItsOwnPageAlone(t *testing.T) {
	t.Parallel()
	const secret = "abcdefghijklmnopqrstuvwxyz012345"
	for name, c := range pages() {
		shown := strings.Contains(text(rendered(t, name, c)), secret)
		if shown != (strings.HasPrefix(name, "secret")) {
			t.Errorf("%s: secret shown is %v", name, shown)
		}
	}
}

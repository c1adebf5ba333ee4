package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

var (
	wholeKey  = regexp.MustCompile(`hg_(live|test)_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}`)
	formToken = regexp.MustCompile(`name="token" value="([^"]+)"`)
	linkIn    = regexp.MustCompile(`href="(/[^"#]*)`)
)

// TestSecrets_A16_R065_AreNowhereAfterwards makes keys in every way there is, calls
// gateways with them in every place of a request, also after they were revoked and
// with nonsense around them, reports them as leaked, and lets everything log what it
// can. Afterwards no half of any secret, plain, in hex, in base64 or percent-encoded,
// is in a log, a metric, a page, a table, Redis, a command line or a state folder.
func TestSecrets_A16_R065_AreNowhereAfterwards(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	debugging(t, d)
	b := newBrowsing(t, d)
	s := &secrets{t: t, d: d, b: b, hidden: map[string][]byte{}}
	s.hide("the operator's password", d.Operator["password"])
	s.hideKey("the operator's API token", d.APIToken)
	tenant, credential := d.NewTenant("Canary Ltd", "free")
	s.hideKey("issued by the API", tenant.Key)
	s.makeKeys(tenant, credential)
	s.selfService(tenant)
	s.callEverywhere()
	s.leak(tenant)
	s.callEverywhere() // revoked now
	eventually(t, time.Minute, "the last use is known", func() error {
		d.Hit(0, tenant.Key, "/v1/anything") // a use within the second of the revocation is none after it
		if a := d.API(http.MethodGet, "/api/v1/audit?action=key.used-revoked", nil); !strings.Contains(string(a.Body), `"key.used-revoked"`) {
			return fmt.Errorf("%d: %s", a.Status, a.Body)
		}
		return nil
	})
	s.lookEverywhere()
}

// debugging starts console and gateways again, at the level that logs most.
func debugging(t *testing.T, d *Demo) {
	t.Helper()
	for _, p := range append([]*Process{d.Processes.Console}, d.Processes.Gateways...) {
		d.Kill(p)
		if p.Env == nil {
			p.Env = map[string]string{}
		}
		p.Env["HEADGATE_LOG_LEVEL"] = "debug"
		d.Restart(p)
	}
	eventually(t, time.Minute, "the console is back", func() error {
		if a := d.API(http.MethodGet, "/api/v1/policy", nil); a.Status != http.StatusOK {
			return fmt.Errorf("status %d: %s", a.Status, a.Body)
		}
		return nil
	})
	for i := range d.Gateways {
		d.WaitGateway(i)
	}
}

// browsing is a browser's cookies without a browser.
type browsing struct {
	t *testing.T
	d *Demo
	c *http.Client
}

func newBrowsing(t *testing.T, d *Demo) *browsing {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browsing{t: t, d: d, c: &http.Client{Jar: jar, Timeout: 45 * time.Second}}
	b.post("/signin", url.Values{"email": {d.Operator["email"]}, "password": {d.Operator["password"]}})
	return b
}

func (b *browsing) do(method, path, body string) Answer {
	b.t.Helper()
	header := http.Header{"Origin": {b.d.Console}, "Sec-Fetch-Site": {"same-origin"}}
	if method == http.MethodPost {
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return fetch(b.t.Context(), b.c, method, b.d.Console+path, body, header)
}

// post sends a form; only success is right.
func (b *browsing) post(path string, form url.Values) string {
	b.t.Helper()
	a := b.do(http.MethodPost, path, form.Encode())
	if a.Status != http.StatusOK && a.Status != http.StatusCreated {
		b.t.Fatalf("POST %s: %d %s", path, a.Status, a.Body)
	}
	return string(a.Body)
}

// submit opens a page that has a form, and sends that with the token that stands in it.
func (b *browsing) submit(page, action string, form url.Values) string {
	b.t.Helper()
	a := b.do(http.MethodGet, page, "")
	token := formToken.FindSubmatch(a.Body)
	if a.Status != http.StatusOK || token == nil {
		b.t.Fatalf("GET %s: %d, no form in it", page, a.Status)
	}
	form.Set("token", html.UnescapeString(string(token[1])))
	return b.post(action, form)
}

// crawl opens a page and all that it links to, at most so many of each shape, and
// returns what they say.
func (b *browsing) crawl(most int, from ...string) (pages map[string]string) {
	b.t.Helper()
	pages = map[string]string{}
	for len(from) > 0 && len(pages) < most {
		path := from[0]
		from = from[1:]
		if _, been := pages[path]; been || strings.HasPrefix(path, "/static/") || strings.Contains(path, "signout") {
			continue
		}
		a := b.do(http.MethodGet, path, "")
		pages[path] = fmt.Sprint(a.Header) + string(a.Body)
		for _, m := range linkIn.FindAllSubmatch(a.Body, -1) {
			from = append(from, html.UnescapeString(string(m[1])))
		}
	}
	return pages
}

// secrets is what must be nowhere, and where it came from.
type secrets struct {
	t      *testing.T
	d      *Demo
	b      *browsing
	keys   []string
	hidden map[string][]byte // form → what it is of
}

// hideKey adds a key that works, or worked.
func (s *secrets) hideKey(what, key string) {
	s.t.Helper()
	if len(key) < 55 {
		s.t.Fatalf("%s: no key", what)
	}
	secret := key[strings.LastIndexByte(key, '_')+1:]
	s.hide(what+", first half", secret[:19])
	s.hide(what+", second half", secret[19:])
	if what != "the operator's API token" {
		s.keys = append(s.keys, key)
	}
}

// hide adds a text in the forms that it could be kept in.
func (s *secrets) hide(what, text string) {
	for name, form := range formsOf(text) {
		s.hidden[what+" ("+name+")"] = []byte(form)
	}
}

// formsOf is a text plain, in hex, percent-encoded and as it stands in base64,
// whatever comes before it.
func formsOf(text string) map[string]string {
	var percent strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&percent, "%%%02X", text[i])
	}
	forms := map[string]string{
		"plain": text, "hex": hex.EncodeToString([]byte(text)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(text))),
		"percent": percent.String(), "percent, small": strings.ToLower(percent.String()),
	}
	for shift := range 3 {
		whole := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + text))
		forms[fmt.Sprintf("base64 %d", shift)] = whole[[3]int{0, 2, 3}[shift] : len(whole)-2]
	}
	return forms
}

// absent fails when a place has a secret.
func (s *secrets) absent(place string, content []byte) {
	s.t.Helper()
	for what, form := range s.hidden {
		if at := bytes.Index(content, form); at >= 0 {
			s.t.Errorf("%s has the secret %s: …%.120q", place, what, content[max(0, at-80):at])
		}
	}
}

// key is the one key that a page shows.
func (s *secrets) key(what, page string) string {
	s.t.Helper()
	key := wholeKey.FindString(page)
	if key == "" {
		s.t.Fatalf("%s: the page shows no key", what)
	}
	s.hideKey(what, key)
	return key
}

// makeKeys issues a key by the form, and rotates by API and form.
func (s *secrets) makeKeys(tenant Tenant, credential string) {
	s.t.Helper()
	body := map[string]any{"overlap": "24h", "reason": "test"}
	s.hideKey("rotated by the API", str(s.d.MustAPI(http.StatusCreated, http.MethodPost, "/api/v1/credentials/"+credential+"/rotations", body), "key"))
	keys := "/tenants/" + tenant.ID + "/keys"
	s.key("issued by a form", s.b.submit(keys+"/new", keys, url.Values{"name": {"form"}, "environment": {"live"}}))
	var form string
	for _, c := range s.credentials(tenant) {
		if c != credential {
			form = c
		}
	}
	rotate := "/credentials/" + form + "/rotate"
	s.key("rotated by a form", s.b.submit(rotate, rotate, url.Values{"overlap": {"24h"}, "reason": {"test"}}))
}

func (s *secrets) credentials(tenant Tenant) (ids []string) {
	s.t.Helper()
	a := s.d.API(http.MethodGet, "/api/v1/tenants/"+tenant.ID+"/credentials", nil)
	for _, id := range regexp.MustCompile(`crd_[a-z0-9]+`).FindAllString(string(a.Body), -1) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		s.t.Fatalf("no credentials: %d %s", a.Status, a.Body)
	}
	return ids
}

// selfService lets a tenant's member issue and rotate a key.
func (s *secrets) selfService(tenant Tenant) {
	s.t.Helper()
	made := s.d.MustAPI(http.StatusCreated, http.MethodPost, "/api/v1/tenants/"+tenant.ID+"/sign-in-links", map[string]any{"external_user": "kim", "role": "tenant-admin"})
	link, err := url.Parse(str(made, "url"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.hide("a sign-in link", link.Path[strings.LastIndexByte(link.Path, '/')+1:])
	s.b.post(link.Path, url.Values{})
	before := s.credentials(tenant)
	s.key("issued by a member", s.b.submit("/t/keys/new", "/t/keys", url.Values{"name": {"own"}, "environment": {"live"}}))
	for _, c := range s.credentials(tenant) {
		if !slices.Contains(before, c) {
			rotate := "/t/credentials/" + c + "/rotate"
			s.key("rotated by a member", s.b.submit(rotate, rotate, url.Values{"overlap": {"24h"}, "reason": {"yearly"}}))
		}
	}
}

// callEverywhere calls gateways with each key, in each place that a caller may put it.
func (s *secrets) callEverywhere() {
	s.t.Helper()
	for _, key := range s.keys {
		last := key[:len(key)-1] + "!"
		b64 := base64.StdEncoding.EncodeToString([]byte(key + ":"))
		for i, gateway := range s.d.Gateways {
			for _, h := range []http.Header{
				{"Authorization": {"Bearer " + key}, "User-Agent": {key}, "Referer": {"https://x/?k=" + key}},
				{"X-Api-Key": {key}, "Cookie": {"key=" + key}}, {"Authorization": {"Bearer " + last}}, {"Authorization": {"Basic " + b64}},
				{"Authorization": {"Bearer " + key}, "X-Api-Key": {s.keys[0]}}, {"X-Request-Id": {key}, "X-Tenant-Id": {key}},
			} {
				fetch(s.t.Context(), s.d.client, http.MethodGet, gateway+"/v1/x?api_key="+key+"&again="+formsOf(key)["percent"], "", h)
			}
			decide := s.d.GatewayDecide[i]
			fetch(s.t.Context(), s.d.client, http.MethodGet, decide+"/v1/check", "", http.Header{"X-Forwarded-Uri": {"/v1/x?api_key=" + key}, "X-Forwarded-Method": {"GET"}, "Authorization": {"Bearer " + key}})
			s.d.Do(http.MethodPost, decide+"/v1/decide", "", map[string]any{"key": key, "method": "GET", "host": "x", "path": "/v1/x?k=" + key})
			s.d.Do(http.MethodPost, decide+"/v1/decide", "", key)
		}
		s.d.Do(http.MethodGet, s.d.Console+"/api/v1/tenants", key, nil) // to the wrong door
	}
}

// leak finds, reports and contains keys by page and API.
func (s *secrets) leak(tenant Tenant) {
	s.t.Helper()
	text := "keys: " + strings.Join(s.keys, ", ")
	if page := s.b.post("/leaks/find", url.Values{"text": {text}}); wholeKey.MatchString(page) || !strings.Contains(page, tenant.Name) {
		s.t.Errorf("the leak box shows %q, or not whose", wholeKey.FindString(page))
	}
	s.d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/leaks/find", map[string]any{"text": text})
	var reports []map[string]any
	for _, key := range s.keys {
		reports = append(reports, map[string]any{"token": key, "type": key, "url": "https://example.com/?k=" + key})
	}
	if a := s.d.API(http.MethodPost, "/api/v1/leaks", map[string]any{"source": "scanner", "reports": reports}); a.Status >= 300 || !strings.Contains(string(a.Body), `"opened"`) {
		s.t.Fatalf("intake: %d %s", a.Status, a.Body)
	}
	alone := str(s.d.MustAPI(http.StatusCreated, http.MethodPost, "/api/v1/tenants/"+tenant.ID+"/credentials", map[string]any{"name": "alone", "environment": "live"}), "key")
	s.hideKey("issued to be leaked", alone)
	for _, key := range slices.Clone(s.keys) {
		kid := strings.Split(key, "_")[2]
		form := url.Values{"kid": {kid}, "how": {"revoke"}, "note": {"it says " + key}, "url": {"https://example.com/" + key}}
		if key == alone {
			form.Set("how", "replace")
			s.key("issued after a leak", s.b.post("/leaks/contain", form))
			continue
		}
		s.b.post("/leaks/contain", form)
	}
}

// lookEverywhere looks for the secrets where something is kept, shown or told, and
// that what it looked through is what it should be.
func (s *secrets) lookEverywhere() {
	s.t.Helper()
	pages := s.b.crawl(150, "/overview", "/leaks", "/keys", "/rotations", "/audit", "/tenants", "/t", "/t/keys", "/t/members")
	kid := strings.Split(s.keys[0], "_")[2]
	if page := pages["/keys"]; !strings.Contains(page, kid) {
		s.t.Errorf("the list of keys among %d pages has no %s", len(pages), kid)
	}
	s.t.Logf("%d pages", len(pages))
	for path, page := range pages {
		s.absent("page "+path, []byte(path+page))
	}
	for i := range s.d.Gateways {
		metrics := s.d.Do(http.MethodGet, s.d.GatewayAdmin[i]+"/metrics", "", nil)
		if metrics.Status != http.StatusOK {
			s.t.Errorf("metrics: %d", metrics.Status)
		}
		s.absent("metrics", metrics.Body)
	}
	tables, dump := s.database()
	if !strings.Contains(dump, kid) {
		s.t.Error("the database's dump is none")
	}
	s.t.Logf("%d tables, %d bytes", tables, len(dump))
	s.absent("the database", []byte(dump))
	held := s.redis()
	if !strings.Contains(held, kid) {
		s.t.Error("Redis' dump is none")
	}
	s.absent("Redis", []byte(held))
	s.processes()
	s.files()
}

// database is every row of every table as text, bytes in hex.
func (s *secrets) database() (tables int, dump string) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.d.Postgres)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(s.t.Context()) }()
	list := func(sql string) []string {
		rows, err := conn.Query(s.t.Context(), sql)
		if err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
		out, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
		return out
	}
	names := list(`SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	var out strings.Builder
	for _, name := range names {
		for _, line := range list(`SELECT x::text FROM ` + name + ` x`) {
			out.WriteString(line + "\n")
		}
	}
	return len(names), out.String()
}

// redis is every key of Redis with what it holds.
func (s *secrets) redis() string {
	s.t.Helper()
	c, ctx := s.d.RedisClient(), s.t.Context()
	var out strings.Builder
	all := c.Scan(ctx, 0, "*", 1000).Iterator()
	for all.Next(ctx) {
		key := all.Val()
		var v any
		var err error
		switch kind := c.Type(ctx, key).Val(); kind {
		case "string":
			v, err = c.Get(ctx, key).Result()
		case "hash":
			v, err = c.HGetAll(ctx, key).Result()
		case "zset":
			v, err = c.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "set":
			v, err = c.SMembers(ctx, key).Result()
		case "list":
			v, err = c.LRange(ctx, key, 0, -1).Result()
		case "stream":
			v, err = c.XRange(ctx, key, "-", "+").Result()
		case "none": // it has expired meanwhile
		default:
			s.t.Errorf("%s is a %s, which this test cannot read", key, kind)
		}
		if err != nil && err != redis.Nil { //nolint:errorlint // as go-redis returns it
			s.t.Errorf("%s: %v", key, err)
		}
		fmt.Fprintln(&out, key, v)
	}
	if err := all.Err(); err != nil {
		s.t.Fatal(err)
	}
	return out.String()
}

// processes looks at the command lines of all parts, which everybody on a machine can read.
func (s *secrets) processes() {
	s.t.Helper()
	for _, p := range append([]*Process{s.d.Processes.Console, s.d.Processes.Redis, s.d.Processes.Postgres}, s.d.Processes.Gateways...) {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err != nil || len(raw) == 0 {
			continue // not Linux
		}
		s.absent(p.Argv[0], raw)
	}
}

// files looks at logs and at what gateways keep on disk.
func (s *secrets) files() {
	s.t.Helper()
	logs, _ := filepath.Glob(filepath.Join(s.d.Logs, "*.log"))
	debug := 0
	for _, file := range logs {
		raw, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		s.absent(filepath.Base(file), raw)
		debug += bytes.Count(raw, []byte(`"level":"DEBUG"`))
	}
	states, _ := filepath.Glob(filepath.Join(s.d.Dir, "gateway-*"))
	kept := 0
	for _, dir := range states {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil //nolint:nilerr // gateways replace files meanwhile
			}
			if raw, err := os.ReadFile(path); err == nil && filepath.Base(path) != "gateway-token" {
				kept++
				s.absent(path, raw)
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	s.t.Logf("%d logs with %d lines for debugging, %d files of state", len(logs), debug, kept)
	if len(logs) < 4 || kept == 0 || debug == 0 {
		s.t.Error("that is not all there should be")
	}
}

// TestSecrets_A16_FormsAreFound: what looks for secrets would find one, wherever in
// a text it began.
func TestSecrets_A16_FormsAreFound(t *testing.T) {
	t.Parallel()
	const secret = "3fZq9LmT0aXbC7dE2kW"
	for before := range 7 {
		text := []byte(strings.Repeat("ab", before)[:before] + secret + "tail")
		for name, hay := range map[string]string{
			"plain": string(text), "hex": hex.EncodeToString(text), "base64": base64.StdEncoding.EncodeToString(text), "url base64": base64.URLEncoding.EncodeToString(text),
		} {
			if !slices.ContainsFunc(slices.Collect(maps.Values(formsOf(secret))), func(form string) bool { return strings.Contains(hay, form) }) {
				t.Errorf("%s after %d characters is not found", name, before)
			}
		}
	}
	if percent := "%33%66%5A%71%39%4C%6D%54%30%61%58%62%43%37%64%45%32%6B%57"; formsOf(secret)["percent"] != percent {
		t.Errorf("%s", formsOf(secret)["percent"])
	}
}

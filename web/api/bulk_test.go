package api_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

const bulkCSV = "name,plan,external_id\nAcme,free,crm-1\n=Beta,free,crm-2\nBad,gold,crm-3\n"

// post makes a request with a body of its own type and an idempotency key.
func post(c *webtest.Client, path, kind, key, body string) webtest.Answer {
	c.Header.Set("Idempotency-Key", key)
	defer c.Header.Del("Idempotency-Key")
	return c.Do("POST", path, kind, strings.NewReader(body))
}

// until asks for a job until it is in a state.
func until(t *testing.T, c *webtest.Client, id, state string) map[string]any {
	t.Helper()
	var got map[string]any
	wait(t, func() bool {
		got = obj(t, c.Get("/api/v1/bulk/"+id), 200)
		return got["state"] == state
	})
	return got
}

func TestAPI_BulkImportFromTheFileToTheLastRow(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	path := "/api/v1/bulk?kind=import-tenants&name=crm.csv&reason=moving+in"
	made := obj(t, post(owner, path, "text/csv; charset=utf-8", "k1", bulkCSV), 201)
	id := made["id"].(string)
	job := until(t, owner, id, "ready")
	if job["would_do"] != 2.0 || job["bad"] != 1.0 || job["name"] != "crm.csv" || job["loaded"] != true {
		t.Errorf("got %v", job)
	}
	if again := obj(t, post(owner, path, "text/csv", "k1", bulkCSV), 201); again["id"] != id {
		t.Errorf("the repeat made %v", again["id"])
	}
	obj(t, post(owner, path, "text/csv", "k1", bulkCSV+"More,free,x\n"), 422)
	rows := obj(t, owner.Get("/api/v1/bulk/"+id+"/rows?outcome=bad"), 200)["items"].([]any)
	if len(rows) != 1 || at(rows[0], "line") != 4.0 || !strings.Contains(at(rows[0], "message").(string), "no such plan") {
		t.Errorf("got %v", rows)
	}
	obj(t, owner.JSON("POST", "/api/v1/bulk/"+id+"/start", ""), 200)
	if job = until(t, owner, id, "done"); job["done"] != 2.0 {
		t.Errorf("got %v", job)
	}
	obj(t, owner.JSON("POST", "/api/v1/bulk/"+id+"/start", ""), 409)
	obj(t, owner.JSON("POST", "/api/v1/bulk/"+id+"/cancel", ""), 409)
	if list := obj(t, owner.Get("/api/v1/bulk?kind=import-tenants&state=done"), 200)["items"].([]any); len(list) != 1 {
		t.Errorf("got %v", list)
	}
	obj(t, owner.Get("/api/v1/bulk/blk_aaaaaaaaaaaaaaaa"), 404)

	a := owner.Get("/api/v1/tenants.csv?plan=free")
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(a.Header.Get("Content-Disposition"), `attachment; filename="headgate-tenants-`) ||
		a.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
	if !strings.Contains(a.Text, ",'=Beta,crm-2,free,UTC,active,") {
		t.Errorf("got %s", a.Text)
	}
}

func TestAPI_BulkFormAndJSONLinesAndSelections(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	_ = form.WriteField("kind", "import-tenants")
	_ = form.WriteField("reason", "moving in")
	part, err := form.CreateFormFile("file", "in.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(part, `{"name": "Acme", "plan": "free"}`)
	_ = form.Close()
	made := obj(t, owner.Do("POST", "/api/v1/bulk", form.FormDataContentType(), &b), 201)
	if job := until(t, owner, made["id"].(string), "ready"); job["would_do"] != 1.0 || job["name"] != "in.ndjson" {
		t.Errorf("got %v", job)
	}
	made = obj(t, post(owner, "/api/v1/bulk?kind=import-tenants&reason=x", "application/x-ndjson", "", `{"name": "Beta", "plan": "free"}`), 201)
	until(t, owner, made["id"].(string), "ready")

	made = obj(t, owner.JSON("POST", "/api/v1/bulk", `{"kind": "change-plan", "reason": "upgrade", "selection": {"tenants": ["`+tenant+`"], "to_plan": "free"}}`), 201)
	job := until(t, owner, made["id"].(string), "ready")
	if job["would_skip"] != 1.0 || at(job, "selection", "to_plan") != "free" {
		t.Errorf("got %v", job)
	}
	if moves := obj(t, owner.Get("/api/v1/bulk/"+made["id"].(string)+"/plans"), 200); len(moves["items"].([]any)) != 0 {
		t.Errorf("got %v", moves)
	}
	obj(t, owner.JSON("POST", "/api/v1/bulk/"+made["id"].(string)+"/check", ""), 200)
}

func TestAPI_B8_BulkRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	_, owner, _ := published(t)
	in := "/api/v1/bulk?kind=import-keys&reason=x"
	for _, c := range []struct {
		name, path, kind, body string
		status                 int
		says                   string
	}{
		{"no type", in, "", "x", 415, "text/csv"},
		{"other type", in, "application/zip", "x", 415, "text/csv"},
		{"columns", in, "text/csv", "tenant,kid\n", 422, "the column name is missing"},
		{"empty", in, "text/csv", "", 422, "is empty"},
		{"no rows", in, "text/csv", "tenant,name,environment,kid,digest\n", 422, "no rows"},
		{"open quote", in, "text/csv", "tenant,name,environment,kid,digest\n\"a,b\n", 422, "Line 2"},
		{"no reason", "/api/v1/bulk?kind=import-keys", "text/csv", "x", 422, "reason"},
		{"no kind", "/api/v1/bulk?reason=x", "text/csv", "x", 422, "kind"},
		{"unknown kind", "/api/v1/bulk?kind=delete-all&reason=x", "text/csv", "x", 422, "kind"},
		{"a selection as a file", "/api/v1/bulk?kind=change-plan&reason=x", "text/csv", "x", 422, "selection"},
		{"a file as a selection", "/api/v1/bulk", "application/json", `{"kind":"import-keys","reason":"x","selection":{}}`, 422, "file"},
		{"duplicate", "/api/v1/bulk", "application/json", `{"kind":"change-plan","kind":"set-expiry"}`, 400, "kind"},
		{"unknown field", "/api/v1/bulk", "application/json", `{"kind":"change-plan","colour":"red"}`, 422, "colour"},
		{"wrong type", "/api/v1/bulk", "application/json", `{"kind":"change-plan","selection":{"tenants":"all"}}`, 422, "selection.tenants"},
		{"no time", "/api/v1/bulk", "application/json", `{"kind":"set-expiry","reason":"x","selection":{"expires_at":"soon"}}`, 422, "expires_at"},
		{"past", "/api/v1/bulk", "application/json", `{"kind":"set-expiry","reason":"x","selection":{"expires_at":"2020-01-01T00:00:00Z"}}`, 422, "future"},
		{"no days", "/api/v1/bulk", "application/json", `{"kind":"revoke-unused","reason":"x","selection":{}}`, 422, "unused_days"},
		{"keys for a plan", "/api/v1/bulk", "application/json", `{"kind":"change-plan","reason":"x","selection":{"to_plan":"pro","kids":["K00000000001"]}}`, 422, "not about keys"},
		{"a key as a kid", "/api/v1/bulk", "application/json", `{"kind":"set-expiry","reason":"x","selection":{"expires_at":"2099-01-01T00:00:00Z","kids":["hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJp"]}}`, 422, "kids"},
		{"cut", "/api/v1/bulk", "application/json", `{"kind":`, 400, "JSON"},
		{"large", "/api/v1/bulk", "application/json", `{"kind":"` + strings.Repeat("x", 200<<10) + `"}`, 413, "KiB"},
		{"no file", "/api/v1/bulk", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"kind\"\r\n\r\nimport-keys\r\n--x--\r\n", 422, "file"},
		{"other part", "/api/v1/bulk", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"role\"\r\n\r\nowner\r\n--x--\r\n", 422, "field"},
		{"no form", "/api/v1/bulk", "multipart/form-data; boundary=x", "hello", 422, "file"},
	} {
		a := owner.Do("POST", c.path, c.kind, strings.NewReader(c.body))
		if a.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.name, a.StatusCode, a.Text)
			continue
		}
		v := obj(t, a, c.status)
		if text := fmt.Sprint(v); !strings.Contains(text, c.says) || strings.Contains(text, "abcdefghijklmnop") {
			t.Errorf("%s: %v does not say %q", c.name, v, c.says)
		}
	}
}

func TestAPI_I19_BulkAsksForTheRoleOfItsKind(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	id := obj(t, post(owner, "/api/v1/bulk?kind=import-tenants&reason=x", "text/csv", "", bulkCSV), 201)["id"].(string)
	until(t, owner, id, "ready")
	may := []console.Role{console.RoleKeyAdmin, console.RoleOwner}
	export := append(may, console.RoleAuditor)
	for _, role := range console.Roles() {
		c := w.API(t, role)
		for _, call := range []struct {
			method, path, kind, body string
			may                      []console.Role
		}{
			{"POST", "/api/v1/bulk?kind=import-tenants&reason=x", "text/csv", "nothing", may},
			{"POST", "/api/v1/bulk?kind=import-keys&reason=x", "text/csv", "nothing", may},
			{"POST", "/api/v1/bulk", "application/json", `{"kind":"revoke-unused","reason":"x","selection":{}}`, may},
			{"POST", "/api/v1/bulk/" + id + "/check", "", "", may},
			{"GET", "/api/v1/tenants.csv", "", "", export},
			{"GET", "/api/v1/keys.csv", "", "", export},
			{"GET", "/api/v1/bulk/" + id + "/rows", "", "", console.Roles()},
		} {
			a := c.Do(call.method, call.path, call.kind, strings.NewReader(call.body))
			if got, want := a.StatusCode != 403, strings.Contains(fmt.Sprint(call.may), string(role)); got != want {
				t.Errorf("%s %s as %s: %d", call.method, call.path, role, a.StatusCode)
			}
		}
	}
}

// endless is a file that never ends, and counts what was read of it.
type endless struct {
	row  []byte
	left int64
	read int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, e.row[e.read%int64(len(e.row)):])
	e.read, e.left = e.read+int64(n), e.left-int64(n)
	return n, nil
}

// An upload that is too large is refused when it says so, and cut when it does not.
func TestAPI_A10_BulkBoundsItsFile(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	r := httptest.NewRequest(http.MethodPost, webtest.Origin+"/api/v1/bulk?kind=import-tenants&reason=x", &endless{row: []byte("x"), left: 1 << 40})
	r.ContentLength = 1 << 40
	r.Header.Set("Authorization", "Bearer "+owner.Token)
	r.Header.Set("Content-Type", "text/csv")
	rec := httptest.NewRecorder()
	w.Handler.ServeHTTP(rec, r)
	if rec.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d", rec.Code)
	}
	// A row that never ends is cut long before the file is.
	e := &endless{row: []byte("x"), left: 1 << 40}
	r = httptest.NewRequest(http.MethodPost, webtest.Origin+"/api/v1/bulk?kind=import-tenants&reason=x", e)
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer "+owner.Token)
	r.Header.Set("Content-Type", "text/csv")
	rec = httptest.NewRecorder()
	w.Handler.ServeHTTP(rec, r)
	if rec.Code != http.StatusUnprocessableEntity || e.read > 1<<20 {
		t.Errorf("got %d after %d bytes", rec.Code, e.read)
	}
}

// A client that goes away in the middle leaves a job that says so, and does nothing.
func TestAPI_C07_AnUploadThatBreaksOffIsToldAndUsedForNothing(t *testing.T) {
	t.Parallel()
	w, owner, _ := published(t)
	r := httptest.NewRequest(http.MethodPost, webtest.Origin+"/api/v1/bulk?kind=import-tenants&reason=x", io.MultiReader(strings.NewReader(bulkCSV), brokenReader{}))
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer "+owner.Token)
	r.Header.Set("Content-Type", "text/csv")
	r.Header.Set("Idempotency-Key", "again")
	rec := httptest.NewRecorder()
	w.Handler.ServeHTTP(rec, r)
	if rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	list := obj(t, owner.Get("/api/v1/bulk?state=failed"), 200)["items"].([]any)
	if len(list) != 1 || at(list[0], "problem") != "The upload broke off." {
		t.Errorf("got %v", list)
	}
	obj(t, post(owner, "/api/v1/bulk?kind=import-tenants&reason=x", "text/csv", "again", bulkCSV), 201)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestAPI_KeysAreExportedWithoutDigests(t *testing.T) {
	t.Parallel()
	_, owner, tenant := published(t)
	issued := obj(t, owner.JSON("POST", "/api/v1/tenants/"+tenant+"/credentials", `{"name":"main","environment":"live","scopes":["read","write"]}`), 201)
	a := owner.Get("/api/v1/keys.csv?environment=live")
	kid := at(issued, "key_version", "kid").(string)
	if a.StatusCode != 200 || !strings.Contains(a.Text, kid+","+tenant+",") || !strings.Contains(a.Text, ",read write,active,") {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
	if strings.Contains(a.Text, "sha256") || strings.Contains(a.Text, issued["key"].(string)) {
		t.Errorf("the file says too much: %s", a.Text)
	}
	events := obj(t, owner.Get("/api/v1/audit?limit=5"), 200)["items"].([]any)
	if at(events[0], "action") != "keys.export" || at(events[0], "after", "filter") != "environment live" {
		t.Errorf("got %v", events[0])
	}
	if _, err := time.Parse(time.RFC3339, at(events[0], "at").(string)); err != nil {
		t.Error(err)
	}
}

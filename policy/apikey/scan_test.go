package apikey

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// scannerPattern is what docs/keys.md gives to scanners of secrets.
var scannerPattern = regexp.MustCompile(`hg_(?:live|test|ops)_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}`)

// plant puts a key into texts of many kinds.
func plant(key string) []string {
	quoted, _ := json.Marshal(map[string]string{"token": key})
	return []string{
		key, "key=" + key + "\n", `"` + key + `",`, "x" + key + "y", "https://example.com/?api_key=" + key + "&b=1", string(quoted),
		"Authorization: Bearer " + key + "\r\n", "hg_live_" + key, key + key, "hg_hg_hg_" + key + "_", strings.Repeat("é", 7) + key + "é",
	}
}

func TestScan_A16_FindsEachOfAThousandPlantedKeysAndNothingElse(t *testing.T) {
	t.Parallel()
	envs := []string{Live, Test, Ops}
	var text strings.Builder
	want := map[string]bool{}
	for i := range 1000 {
		secret, _, err := Generate(envs[i%3], rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key := secret.Reveal()
		want[key] = true
		texts := plant(key)
		text.WriteString(texts[i%len(texts)])
		text.WriteString(" hg_live_0123456789AB_ hg_test_ " + key[:len(key)-1] + "\n") // shapes that are none
	}
	got := map[string]bool{}
	for _, f := range Scan(text.String(), 10_000) {
		got[text.String()[f.Start:f.End]] = true
	}
	for key := range want {
		if !got[key] {
			t.Errorf("%s was planted and not found", Mask(key))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d keys found, %d planted", len(got), len(want))
	}
	for key := range got {
		if !scannerPattern.MatchString(key) {
			t.Errorf("the documented pattern does not match %s", Mask(key))
		}
	}
}

// unlessGone is nil for a file that is not there any more: somebody builds beside us.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// TestScan_A16_FindsNothingInTheRepository holds that scanners which follow the
// documentation raise no alarm about the repository itself, apart from the
// vectors of the format, which are no keys of anybody.
func TestScan_A16_FindsNothingInTheRepository(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	vectors := map[string]bool{vectorTest: true, vectorLive: true}
	files := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return unlessGone(err)
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return unlessGone(err)
		}
		if info.Size() > 4<<20 {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return unlessGone(err)
		}
		files++
		for _, f := range Scan(string(b), 1000) {
			if key := string(b[f.Start:f.End]); !vectors[key] {
				t.Errorf("%s holds the key %s", path, Mask(key))
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files were read (%v)", files, err)
	}
}

func TestScan_StopsAtTheBoundAndSurvivesShortTexts(t *testing.T) {
	t.Parallel()
	if got := Scan(strings.Repeat(vectorLive+" ", 50), 7); len(got) != 7 {
		t.Errorf("%d found, want 7", len(got))
	}
	for i := range len(vectorLive) {
		if got := Scan(vectorLive[:i], 10); len(got) != 0 {
			t.Errorf("a key cut to %d characters was found", i)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add(vectorLive + "hg_ops_" + vectorTest)
	f.Add("hg_hg_live_" + strings.Repeat("0", 60))
	f.Fuzz(func(t *testing.T, text string) {
		at := 0
		for _, found := range Scan(text, 100) {
			if found.Start < at || found.End > len(text) || found.End <= found.Start {
				t.Fatalf("found %+v after %d in %d bytes", found, at, len(text))
			}
			if got, err := Parse(text[found.Start:found.End]); err != nil || got != found.Parsed {
				t.Fatalf("found what does not parse: %v", err)
			}
			at = found.End
		}
	})
}

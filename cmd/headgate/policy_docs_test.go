package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/internal/testkit"
)

func cliPage(t *testing.T) string {
	t.Helper()
	root, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return read(t, filepath.Join(root, "docs", "cli.md"))
}

// policyNode is the command line's policy commands.
func policyNode(t *testing.T) (*kong.Kong, *kong.Node) {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.DefaultEnvars("HEADGATE"), kong.Vars{"version": ""}, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == "policy" })
	return parser, parser.Model.Children[i]
}

func TestPolicyDocs_CommandsAndFlagsOfThePageExist(t *testing.T) {
	t.Parallel()
	_, node := policyNode(t)
	page, _, _ := strings.Cut(cliPage(t), shellHeading)
	flags := map[string]bool{"help": true}
	for _, command := range node.Children {
		if !strings.Contains(page, "| `"+command.Name) {
			t.Errorf("the page does not list %s", command.Name)
		}
		for _, n := range append([]*kong.Node{command}, command.Children...) {
			for _, f := range n.Flags {
				flags[f.Name] = true
			}
		}
	}
	for _, m := range regexp.MustCompile("(?:^|[ `(])--([a-z][a-z-]+)").FindAllStringSubmatch(page, -1) {
		if !flags[m[1]] {
			t.Errorf("the page names --%s, which no policy command has", m[1])
		}
	}
}

func TestPolicyDocs_WorkflowIsYAMLAndItsCommandsCanBeUnderstood(t *testing.T) {
	t.Parallel()
	_, after, _ := strings.Cut(cliPage(t), "```yaml\n")
	text, _, _ := strings.Cut(after, "```")
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Run string `yaml:"run"`
			} `yaml:"steps"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(text), &workflow); err != nil || len(workflow.Jobs) != 2 {
		t.Fatalf("%v, %d jobs", err, len(workflow.Jobs))
	}
	understood := 0
	for name, job := range workflow.Jobs {
		for _, step := range job.Steps {
			args, ours := strings.CutPrefix(step.Run, "headgate ")
			if !ours {
				continue
			}
			parser, _ := policyNode(t)
			if _, err := parser.Parse(strings.Fields(strings.ReplaceAll(args, `"`, ""))); err != nil {
				t.Errorf("%s: %s: %v", name, step.Run, err)
			}
			understood++
		}
	}
	if understood < 5 {
		t.Errorf("only %d commands", understood)
	}
}

func TestPolicyFlags_EachHasItsVariableAndHelp(t *testing.T) {
	t.Parallel()
	_, node := policyNode(t)
	for _, command := range node.Children {
		for _, n := range append([]*kong.Node{command}, command.Children...) {
			for _, f := range n.Flags {
				if f.Help == "" || len(f.Envs) == 0 && f.Name != "help" {
					t.Errorf("policy %s --%s: no help, or no variable", n.Name, f.Name)
				}
			}
			for _, p := range n.Positional {
				if p.Help == "" {
					t.Errorf("policy %s %s has no help", n.Name, p.Name)
				}
			}
		}
	}
}

//go:build deploy

package packages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnlog/turnlog/internal/testing/golden"
)

// What the files are for, in releases that the Go module proxy has.
const (
	helm       = "helm.sh/helm/v4/cmd/helm@v4.3.2"
	compose    = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
	goreleaser = "github.com/goreleaser/goreleaser/v2@v2.15.1"
	kubernetes = "k8s.io/kubernetes@v1.37.2"           // has its API as a schema
	keda       = "github.com/kedacore/keda/v2@v2.21.0" // has the definition of ScaledObject
)

// tool installs a program and returns its path.
func tool(t *testing.T, program string) string {
	t.Helper()
	dir, err := filepath.Abs("../../bin/deploy")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "install", program)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install %s: %v\n%s", program, err, out)
	}
	path, _, _ := strings.Cut(program, "@")
	return filepath.Join(dir, filepath.Base(strings.TrimSuffix(path, "/v2")))
}

// source returns the folder of a module.
func source(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var found struct{ Dir string }
	if err = errors.Join(err, json.Unmarshal(out, &found)); err != nil {
		t.Fatalf("download %s: %v\n%s", module, err, out)
	}
	return found.Dir
}

func shell(t *testing.T, name string, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, errs.String())
	}
	return string(out)
}

// TestTheManifestsAreThoseOfTheChart also holds that what the chart renders fits the schemas of Kubernetes and KEDA.
func TestTheManifestsAreThoseOfTheChart(t *testing.T) {
	t.Parallel()
	const chart = "../../docs/deploy/chart"
	helm := tool(t, helm)
	render := func(args ...string) string {
		return shell(t, helm, append([]string{"template", "turnlog", chart, "--namespace", "turnlog"}, args...)...)
	}
	shell(t, helm, "lint", "--strict", chart)
	scaled := "workers.default.autoscaling.enabled=true"
	golden.Check(t, *update, manifestFile, render())
	golden.Check(t, *update, kedaFile, render("--set", scaled, "--show-only", "templates/scaledobject.yaml"))

	schemas := schemasOf(t)
	for _, manifests := range []string{
		render(),
		render("--set", scaled+",policy=rules: [],secrets.people=people,gateway.hosts[0]=turnlog.example.com,nats.storageClass=fast",
			"--set", "networkPolicy.clients[0].podSelector.matchLabels.app=proxy,workers.default.egress[0].ports[0].port=443,node.args[0]=--capacity=10"),
		render("--set", scaled+",nats.enabled=false,nats.url=nats://nats:4222,nats.monitor=nats:8222"),
	} {
		for _, problem := range schemas.check(t, manifests) {
			t.Error(problem)
		}
	}
	for right, wrong := range map[string]string{
		"terminationGracePeriodSeconds:": "terminationGraceSeconds:", "containerPort: 8410": "containerPort: http", "maxUnavailable: 1": "maxUnavailable: true",
		"kind: StatefulSet": "kind: StatefulSets", "minReplicaCount: 2": "minReplicaCount: two",
	} {
		changed := strings.Replace(render("--set", scaled), right, wrong, 1)
		if len(schemas.check(t, changed)) == 0 {
			t.Errorf("the schemas take %q", wrong)
		}
	}
}

// schemas are those of kinds, by API version and kind.
type schemas map[string]*jsonschema.Schema

// schemasOf returns the schemas of Kubernetes and of ScaledObject. They refuse what they do not know.
func schemasOf(t *testing.T) schemas {
	t.Helper()
	all, c := make(schemas), jsonschema.NewCompiler()
	resource := func(url string, text []byte) any {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		strict(document)
		if err := c.AddResource(url, document); err != nil {
			t.Fatal(err)
		}
		return document
	}
	add := func(kind, url string) {
		s, err := c.Compile(url)
		if err != nil {
			t.Fatal(err)
		}
		all[kind] = s
	}
	const api, scaler = "file:///kubernetes.json", "file:///keda.json"
	document := resource(api, read(t, filepath.Join(source(t, kubernetes), "api/openapi-spec/swagger.json")))
	for name, d := range document.(map[string]any)["definitions"].(map[string]any) {
		kinds, _ := d.(map[string]any)["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			of := k.(map[string]any)
			version := strings.TrimPrefix(fmt.Sprintf("%s/%s", of["group"], of["version"]), "/")
			if strings.HasPrefix(name, "io.k8s.api.") {
				add(version+" "+of["kind"].(string), api+"#/definitions/"+name)
			}
		}
	}
	text, err := yaml.YAMLToJSON(read(t, filepath.Join(source(t, keda), "config/crd/bases/keda.sh_scaledobjects.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	resource(scaler, text)
	add("keda.sh/v1alpha1 ScaledObject", scaler+"#/spec/versions/0/schema/openAPIV3Schema")
	return all
}

// strict makes a schema refuse properties that it does not name, and take numbers where Kubernetes does.
func strict(schema any) {
	switch s := schema.(type) {
	case []any:
		for _, one := range s {
			strict(one)
		}
	case map[string]any:
		if _, ok := s["properties"].(map[string]any); ok && s["additionalProperties"] == nil && s["type"] == "object" && s["x-kubernetes-preserve-unknown-fields"] == nil {
			s["additionalProperties"] = false
		}
		if s["format"] == "int-or-string" {
			s["type"] = []any{"string", "integer"}
		}
		for _, one := range s {
			strict(one)
		}
	}
}

// check returns what is wrong with manifests.
func (s schemas) check(t *testing.T, manifests string) (problems []error) {
	t.Helper()
	n := 0
	for d := yaml.NewDecoder(strings.NewReader(manifests)); ; n++ {
		var o map[string]any
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		kind := fmt.Sprintf("%s %s", o["apiVersion"], o["kind"])
		if s[kind] == nil {
			problems = append(problems, fmt.Errorf("there is no %s", kind))
		} else if err := s[kind].Validate(value); err != nil {
			problems = append(problems, err)
		}
	}
	if n < 10 {
		t.Errorf("%d objects", n)
	}
	return problems
}

func TestComposeReadsItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "compose.yaml")
	write(t, file, string(variable.ReplaceAll(read(t, composeFile), []byte(password))))
	if model := shell(t, tool(t, compose), file); !strings.Contains(model, "driver-node") {
		t.Errorf("compose understands: %s", model)
	}
}

func TestTheReleaseIsValid(t *testing.T) {
	t.Parallel()
	shell(t, tool(t, goreleaser), "check", "../../.goreleaser.yaml")
}

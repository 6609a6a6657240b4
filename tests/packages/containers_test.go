package packages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// container is how a file starts a program.
type container struct {
	name  string
	argv  []string          // the program and its arguments
	env   map[string]string // "": of a secret
	ports []string          // that others reach
	sees  []string          // Secrets, whole or in part
	grace time.Duration     // until it is killed
}

// flag returns the value of a flag, written as one word or as two.
func (c container) flag(name string) string {
	for i, arg := range c.argv {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
		if arg == "--"+name && i+1 < len(c.argv) {
			return c.argv[i+1]
		}
	}
	return ""
}

const (
	composeFile  = "../../docs/deploy/compose.yaml"
	manifestFile = "../../docs/deploy/kubernetes.yaml"
	kedaFile     = "../../docs/deploy/keda.yaml"
)

// variable is one of the environment that compose must have.
var variable = regexp.MustCompile(`\$\{[A-Z_]+:\?\}`)

// composed returns the containers of compose.yaml by name.
func composed(t *testing.T) map[string]container {
	t.Helper()
	var file struct {
		Services map[string]struct {
			Entrypoint, Command, Ports []string
			Environment                map[string]string
			Grace                      string `yaml:"stop_grace_period"`
		}
	}
	if err := yaml.Unmarshal(variable.ReplaceAll(read(t, composeFile), nil), &file); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]container)
	for name, s := range file.Services {
		c := container{name: name, argv: append(s.Entrypoint, s.Command...), env: s.Environment}
		if s.Grace != "" {
			c.grace = duration(t, s.Grace)
		}
		for _, p := range s.Ports {
			c.ports = append(c.ports, p[strings.LastIndex(p, ":")+1:])
		}
		all[name] = c
	}
	return all
}

// object is one of Kubernetes.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template struct{ Spec podSpec }
		Ports    []servicePort // of a Service
		Triggers []struct{ Metadata map[string]string }

		MinReplicaCount int `yaml:"minReplicaCount"`
		Ingress, Egress []struct{ Ports []struct{ Port int } }
	}
}

type servicePort struct {
	Port       int
	TargetPort string `yaml:"targetPort"`
}

type podSpec struct {
	Grace      int `yaml:"terminationGracePeriodSeconds"`
	Containers []struct {
		Command, Args []string
		EnvFrom       []struct {
			SecretRef struct{ Name string } `yaml:"secretRef"`
		} `yaml:"envFrom"`
		Env []struct {
			Name, Value string
			ValueFrom   struct {
				SecretKeyRef struct{ Name string } `yaml:"secretKeyRef"`
			} `yaml:"valueFrom"`
		}
		Ports     []containerPort
		Startup   probe `yaml:"startupProbe"`
		Liveness  probe `yaml:"livenessProbe"`
		Readiness probe `yaml:"readinessProbe"`
	}
}

type containerPort struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// manifests returns the objects of a file of manifests.
func manifests(t *testing.T, text []byte) (all []object) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

// pods returns the containers of manifests, by the names of their workloads.
func pods(all []object) map[string]container {
	found := make(map[string]container)
	for _, o := range all {
		for _, c := range o.Spec.Template.Spec.Containers {
			one := container{
				name: o.Metadata.Name, argv: append(slices.Clone(c.Command), c.Args...), env: make(map[string]string),
				grace: time.Duration(o.Spec.Template.Spec.Grace) * time.Second,
			}
			for _, e := range c.Env {
				one.env[e.Name] = e.Value
				if name := e.ValueFrom.SecretKeyRef.Name; name != "" {
					one.sees = append(one.sees, name)
				}
			}
			for _, e := range c.EnvFrom {
				one.sees = append(one.sees, e.SecretRef.Name)
			}
			for _, p := range c.Ports {
				one.ports = append(one.ports, strconv.Itoa(p.ContainerPort))
			}
			found[one.name] = one
		}
	}
	return found
}

// all returns the containers of both files, with the file in their names.
func allContainers(t *testing.T) (all []container) {
	t.Helper()
	for file, of := range map[string]map[string]container{"compose": composed(t), "kubernetes": pods(manifests(t, read(t, manifestFile)))} {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			c := of[name]
			c.name = fmt.Sprintf("%s: %s", file, name)
			all = append(all, c)
		}
	}
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

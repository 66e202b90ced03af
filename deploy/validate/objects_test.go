// Package validate_test holds the manifests and the compose file against the types
// that clusters and engines read them with, and against what the project promises of
// its deployments. It is a module of its own, since those types are many.
package validate_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlays are what can be applied as it is.
var overlays = []string{"dev", "prod", "tools"}

// combined are overlays with components that can be added to them.
var combined = []string{
	"dev+hpa", "dev+keda", "dev+pool-tools", "dev+prometheus+workspaces+callbacks", "tools+prometheus+workspaces+callbacks",
	"prod+jaeger", "prod+prometheus", "prod+workspaces", "prod+callbacks", "prod+pool-tools+tls", "prod+pool-tools+tls+workspaces",
}

// applied names all that is held against what the project promises: overlays, those with
// components, and those that the documentation shows.
func applied(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(builds(t)))
}

// decoder reads objects and refuses fields that their types don't have, or have twice.
func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(v1alpha1.AddToScheme(scheme), monitoringv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
}

// render gives an overlay as kubectl apply -k builds it.
func render(t *testing.T, overlay string) []byte {
	t.Helper()
	text, there := builds(t)[overlay]
	if !there {
		t.Fatalf("there is no overlay %s", overlay)
	}
	return text
}

func builds(t *testing.T) map[string][]byte {
	t.Helper()
	built, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// rendered builds everything that can be applied, by its name. Overlays that the
// documentation shows are called shown-1 and so on, and stand beside the others.
var rendered = sync.OnceValues(func() (map[string][]byte, error) {
	files, err := manifests()
	if err != nil {
		return nil, err
	}
	shown, err := shownOverlays()
	if err != nil {
		return nil, err
	}
	written := map[string]string{}
	for i, text := range shown {
		written[fmt.Sprint("shown-", i+1)] = text
	}
	for _, name := range combined {
		parts := strings.Split(name, "+")
		written[name] = "namespace: coppice\nresources: [../" + parts[0] + "]\ncomponents:\n  - ../../components/" + strings.Join(parts[1:], "\n  - ../../components/") + "\n"
	}
	for name, text := range written {
		if err := files.WriteFile(path.Join(directory(name), "kustomization.yaml"), []byte(text)); err != nil {
			return nil, err
		}
	}
	built := map[string][]byte{}
	for _, name := range slices.Concat(overlays, slices.Collect(maps.Keys(written))) {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, directory(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if built[name], err = resources.AsYaml(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return built, nil
})

// directory is where an overlay is; not every file system has a + in names.
func directory(overlay string) string {
	return path.Join("/k8s/overlays", strings.ReplaceAll(overlay, "+", "-"))
}

// manifests gives what is in deploy/k8s, below /k8s of a file system that is written to
// without touching it.
func manifests() (filesys.FileSystem, error) {
	files := filesys.MakeFsInMemory()
	return files, fs.WalkDir(os.DirFS(".."), "k8s", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			return err
		}
		return files.WriteFile("/"+name, text)
	})
}

// shownOverlays gives the kustomizations that the documentation shows.
func shownOverlays() ([]string, error) {
	text, err := os.ReadFile("../../docs/kubernetes.md")
	var shown []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(# kustomization\\.yaml.*?)```").FindAllSubmatch(text, -1) {
		shown = append(shown, string(block[1]))
	}
	if err == nil && len(shown) == 0 {
		err = errors.New("docs/kubernetes.md shows no overlay")
	}
	return shown, err
}

// objects gives all objects of an overlay.
func objects(t *testing.T, overlay string) []runtime.Object {
	t.Helper()
	d := decoder(t)
	var all []runtime.Object
	for i, doc := range bytes.Split(render(t, overlay), []byte("\n---\n")) {
		object, kind, err := d.Decode(doc, nil, nil)
		if err != nil {
			t.Errorf("%s, object %d, %v: %v", overlay, i+1, kind, err)
			continue
		}
		all = append(all, object)
	}
	return all
}

// of gives the objects of a type.
func of[T any](all []runtime.Object) []*T {
	var found []*T
	for _, o := range all {
		if typed, ok := o.(any).(*T); ok {
			found = append(found, typed)
		}
	}
	return found
}

func deployment(t *testing.T, all []runtime.Object, name string) *appsv1.Deployment {
	t.Helper()
	for _, d := range of[appsv1.Deployment](all) {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("there is no Deployment %s", name)
	return nil
}

// TestOverlaysAreWhatTheTypesSay decodes every object strictly.
func TestOverlaysAreWhatTheTypesSay(t *testing.T) {
	t.Parallel()
	for _, overlay := range applied(t) {
		kinds := map[string]int{}
		for _, o := range objects(t, overlay) {
			kinds[o.GetObjectKind().GroupVersionKind().Kind]++
		}
		t.Logf("%s: %v", overlay, kinds)
		if kinds["Deployment"] < 2 || kinds["NetworkPolicy"] < 5 || kinds["PodDisruptionBudget"] != 1 {
			t.Errorf("%s has only %v", overlay, kinds)
		}
	}
}

// TestTyposAreFound: the decoder does refuse what it should.
func TestTyposAreFound(t *testing.T) {
	t.Parallel()
	text := string(render(t, "prod+prometheus"))
	d := decoder(t)
	for _, c := range []struct{ kind, right, wrong string }{
		{"Deployment", "readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true"},
		{"Deployment", "terminationGracePeriodSeconds: 25", "terminationGracePeriod: 25"},
		{"Deployment", "replicas: 3", "replicas: three"},
		{"Deployment", "replicas: 3", "replicas: 3\n  replicas: 2"},
		{"NetworkPolicy", "policyTypes:", "policyType:"},
		{"ScaledObject", "minReplicaCount: 2", "minReplicas: 2"},
		{"PodDisruptionBudget", "maxUnavailable: 1", "maxUnavailble: 1"},
		{"PodMonitor", "podMetricsEndpoints:", "podMetricEndpoints:"},
	} {
		found := false
		for _, doc := range strings.Split(text, "\n---\n") {
			if !strings.Contains(doc, "\nkind: "+c.kind+"\n") || !strings.Contains(doc, c.right) {
				continue
			}
			found = true
			if _, _, err := d.Decode([]byte(strings.Replace(doc, c.right, c.wrong, 1)), nil, nil); err == nil {
				t.Errorf("%s: %q is taken", c.kind, c.wrong)
			}
		}
		if !found {
			t.Error(fmt.Sprintf("no %s has %q", c.kind, c.right))
		}
	}
}

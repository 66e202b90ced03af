// Package validate_test holds the manifests and the compose file against the types
// that clusters and engines read them with, and against what the project promises of
// its deployments. It is a module of its own, since those types are many.
package validate_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlays are what can be applied.
var overlays = []string{"dev", "prod", "tools"}

// decoder reads objects and refuses fields that their types don't have, or have twice.
func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
}

// render builds an overlay as kubectl apply -k does.
func render(t *testing.T, overlay string) []byte {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("../k8s/overlays", overlay))
	if err != nil {
		t.Fatalf("%s: %v", overlay, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return text
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
	for _, overlay := range overlays {
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
	text := string(render(t, "prod"))
	d := decoder(t)
	for _, c := range []struct{ kind, right, wrong string }{
		{"Deployment", "readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true"},
		{"Deployment", "terminationGracePeriodSeconds: 20", "terminationGracePeriod: 20"},
		{"Deployment", "replicas: 3", "replicas: three"},
		{"Deployment", "replicas: 3", "replicas: 3\n  replicas: 2"},
		{"NetworkPolicy", "policyTypes:", "policyType:"},
		{"ScaledObject", "minReplicaCount: 2", "minReplicas: 2"},
		{"PodDisruptionBudget", "maxUnavailable: 1", "maxUnavailble: 1"},
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

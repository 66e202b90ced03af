package validate_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// secured reports whether the orchestrators of an overlay have TLS.
func secured(t *testing.T, all []runtime.Object) bool {
	t.Helper()
	return slices.ContainsFunc(deployment(t, all, "orchestrator").Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool {
		return e.Name == "COPPICE_TLS_CERT"
	})
}

// TestProdTrustsNobody: nothing of the overlay for production is open, whichever
// components it has, and the workers of all its pools are let in.
func TestProdTrustsNobody(t *testing.T) {
	t.Parallel()
	if !secured(t, objects(t, "prod")) {
		t.Error("prod is open")
	}
	workers := map[string]bool{}
	for _, overlay := range applied(t) {
		all := objects(t, overlay)
		if !secured(t, all) {
			continue
		}
		for _, d := range of[appsv1.Deployment](all) {
			switch d.Labels["app.kubernetes.io/name"] {
			case "orchestrator":
				checkTold(t, overlay, d, "COPPICE_TLS_CERT", "COPPICE_TLS_KEY", "COPPICE_TOKENS")
			case "worker":
				workers[d.Name] = true
				checkTold(t, overlay, d, "COPPICE_TLS_CA", "COPPICE_TOKEN_FILE")
			}
		}
	}
	if !workers["worker"] || !workers["worker-tools"] {
		t.Errorf("only %v were looked at", workers)
	}
}

// checkTold checks that a Deployment is told files that are mounted, and nothing insecure.
func checkTold(t *testing.T, overlay string, d *appsv1.Deployment, names ...string) {
	t.Helper()
	c := d.Spec.Template.Spec.Containers[0]
	told := map[string]string{}
	for _, e := range c.Env {
		told[e.Name] = e.Value
	}
	for _, name := range names {
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return strings.HasPrefix(told[name], m.MountPath+"/") && m.SubPath == ""
		})
		if !mounted {
			t.Errorf("%s: %s is told %s=%q, where nothing is mounted", overlay, d.Name, name, told[name])
		}
	}
	if _, insecure := told["COPPICE_INSECURE"]; insecure {
		t.Errorf("%s: %s is told to be insecure", overlay, d.Name)
	}
}

// TestPortsSayWhatTheySpeak: a gateway takes a Service at its word, so one with TLS does not
// say that it has none.
func TestPortsSayWhatTheySpeak(t *testing.T) {
	t.Parallel()
	for _, overlay := range applied(t) {
		all := objects(t, overlay)
		want := "kubernetes.io/h2c"
		if secured(t, all) {
			want = "https"
		}
		served := labels.Set(deployment(t, all, "orchestrator").Spec.Template.Labels)
		for _, s := range of[corev1.Service](all) {
			if labels.SelectorFromSet(s.Spec.Selector).Matches(served) && (s.Spec.Ports[0].AppProtocol == nil || *s.Spec.Ports[0].AppProtocol != want) {
				t.Errorf("%s: %s speaks %v", overlay, s.Name, s.Spec.Ports[0].AppProtocol)
			}
		}
	}
}

// TestTheCertificateNamesTheServices: by every name under which the manifests and the
// documentation reach orchestrators, and by those that a cluster gives them.
func TestTheCertificateNamesTheServices(t *testing.T) {
	t.Parallel()
	called := map[string]bool{}
	for _, service := range []string{"orchestrator", "coppice"} {
		called[service], called[service+".coppice"], called[service+".coppice.svc"] = true, true, true
	}
	guide, overlay := read(t, "../../docs/kubernetes.md"), read(t, "../k8s/overlays/prod/kustomization.yaml")
	for _, text := range []string{guide, string(render(t, "prod"))} {
		for _, name := range regexp.MustCompile(`([a-z.]+):7070\b`).FindAllStringSubmatch(text, -1) {
			called[name[1]] = true
		}
	}
	row := regexp.MustCompile("(?m)^\\| `orchestrator-tls` .*$").FindString(guide)
	comment := regexp.MustCompile(`(?m)^#   Secret orchestrator-tls .*(\n# {10,}.*)*$`).FindString(overlay)
	for name := range called {
		if !strings.Contains(row, "`"+name+"`") {
			t.Errorf("docs/kubernetes.md does not say that the certificate is for %s", name)
		}
		if !regexp.MustCompile(`(?m)\s` + regexp.QuoteMeta(name) + `(,|$)`).MatchString(comment) {
			t.Errorf("the overlay does not say that the certificate is for %s", name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

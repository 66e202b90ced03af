// Package cluster_test applies the manifests to a real control plane of Kubernetes,
// whose nodes are simulated.
package cluster_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long anything may take; it only guards against hanging.
const patience = 5 * time.Minute

// plane is a control plane: etcd, API server, controllers, scheduler, and kwok,
// which plays kubelets.
type plane struct {
	t          *testing.T
	bin, dir   string
	kubeconfig string
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (p *plane) file(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// start runs a program until the test ends.
func (p *plane) start(name string, args ...string) {
	p.t.Helper()
	log, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed, and says so
		log.Close()
		if p.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			p.t.Logf("the end of what %s said:\n%s", name, text[max(0, len(text)-3000):])
		}
	})
}

func startPlane(t *testing.T) *plane {
	t.Helper()
	bin, err := filepath.Abs("../../bin/k8s")
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{t: t, bin: bin, dir: t.TempDir()}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signing := p.file("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	tokens := p.file("tokens.csv", "secret,admin,1,system:masters\n")
	etcd, peers, secure := freePort(t), freePort(t), freePort(t)
	at := func(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
	p.start("server", "--data-dir", filepath.Join(p.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", at(etcd), "--advertise-client-urls", at(etcd),
		"--listen-peer-urls", at(peers), "--initial-advertise-peer-urls", at(peers), "--initial-cluster", "default="+at(peers))
	p.start("kube-apiserver", "--etcd-servers", at(etcd), "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(secure),
		"--cert-dir", filepath.Join(p.dir, "certs"), "--token-auth-file", tokens, "--authorization-mode", "RBAC",
		"--service-account-key-file", signing, "--service-account-signing-key-file", signing,
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-cluster-ip-range", "10.0.0.0/16")
	p.kubeconfig = p.file("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: coppice}}]
current-context: x
`, secure))
	p.until("the API server is ready", func() bool { _, err := p.try("", "get", "--raw", "/readyz"); return err == nil })
	p.start("kube-controller-manager", "--kubeconfig", p.kubeconfig, "--leader-elect=false", "--service-account-private-key-file", signing, "--secure-port", "0")
	p.start("kube-scheduler", "--kubeconfig", p.kubeconfig, "--leader-elect=false", "--secure-port", "0")
	kwok := []string{"--kubeconfig", p.kubeconfig, "--manage-all-nodes=true"}
	for _, stages := range []string{"node/fast", "node/heartbeat", "pod/fast"} {
		found, err := filepath.Glob(filepath.Join(moduleDir(t, ".", "sigs.k8s.io/kwok"), "kustomize/stage", stages, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			if filepath.Base(file) != "kustomization.yaml" {
				kwok = append(kwok, "--config", file)
			}
		}
	}
	p.start("kwok", kwok...)
	return p
}

// moduleDir is where the files of a module are, as another one in dir needs it.
func moduleDir(t *testing.T, dir, module string) string {
	t.Helper()
	out, err := exec.Command("go", "-C", dir, "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// try runs kubectl.
func (p *plane) try(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig)
	cmd.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	return strings.TrimSpace(said.String()), err
}

func (p *plane) kubectl(input string, args ...string) string {
	p.t.Helper()
	said, err := p.try(input, args...)
	if err != nil {
		p.t.Fatalf("kubectl %v: %v\n%s", args, err, said)
	}
	return said
}

// until waits for something that a cluster does in its own time.
func (p *plane) until(what string, done func() bool) {
	p.t.Helper()
	limit := time.Now().Add(patience)
	for !done() {
		if time.Now().After(limit) {
			said, _ := p.try("", "get", "pods,deployments,events", "-o", "wide")
			p.t.Fatalf("it never came to pass that %s\n%s", what, said)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// ready waits until a Deployment has so many pods that are ready, and no others.
func (p *plane) ready(deployment string, n int) {
	p.t.Helper()
	want := fmt.Sprintf("%d %d %d", n, n, n)
	p.until(fmt.Sprintf("%d pods of %s are ready", n, deployment), func() bool {
		got, err := p.try("", "get", "deployment", deployment, "-o", "jsonpath={.status.replicas} {.status.readyReplicas} {.status.updatedReplicas}")
		return err == nil && (got == want || n == 0 && strings.TrimSpace(got) == "")
	})
}

const nodes = `
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {kubernetes.io/hostname: NAME, topology.kubernetes.io/zone: NAME}, annotations: {kwok.x-k8s.io/node: fake}}
status:
  allocatable: {cpu: "64", memory: 256Gi, pods: "200"}
  capacity: {cpu: "64", memory: 256Gi, pods: "200"}
`

// TestOverlaysOnARealControlPlane has the API server of Kubernetes look at every
// overlay, and then runs the one for development on simulated nodes.
func TestOverlaysOnARealControlPlane(t *testing.T) {
	p := startPlane(t)
	p.kubectl("", "apply", "--server-side", "-f", filepath.Join(moduleDir(t, "../validate", "github.com/kedacore/keda/v2"), "config/crd/bases"))
	p.kubectl("", "wait", "--for=condition=Established", "crd", "--all")
	p.kubectl("", "create", "namespace", "coppice")
	total := 0
	for _, overlay := range []string{"dev", "prod", "tools"} {
		said := p.kubectl(p.kubectl("", "kustomize", "../k8s/overlays/"+overlay), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-")
		n := strings.Count(said, "(server dry run)")
		if strings.Contains(said, "Warning") || n < 15 {
			t.Errorf("%s: %s", overlay, said)
		}
		t.Logf("%s: the API server takes all %d objects", overlay, n)
		total += n
	}
	bad := strings.Replace(p.kubectl("", "kustomize", "../k8s/overlays/prod"), "maxUnavailable: 1\n", "maxUnavailable: -1\n", 1)
	if said, err := p.try(bad, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"); err == nil {
		t.Errorf("it takes nonsense too: %s", said)
	}

	for _, name := range []string{"one", "two"} {
		p.kubectl(strings.ReplaceAll(nodes, "NAME", name), "apply", "-f", "-")
	}
	p.kubectl("", "apply", "-k", "../k8s/overlays/dev")
	for name, n := range map[string]int{"orchestrator": 2, "worker": 2, "postgres": 1, "redis": 1} {
		p.ready(name, n) // which the standard "restricted" lets in
	}
	spread := p.kubectl("", "get", "pods", "-l", "app.kubernetes.io/name=orchestrator", "-o", "jsonpath={.items[*].spec.nodeName}")
	if spread != "one two" && spread != "two one" {
		t.Errorf("orchestrators are on %s", spread)
	}
	p.until("one orchestrator may be taken away", func() bool {
		return p.kubectl("", "get", "pdb", "orchestrator", "-o", "jsonpath={.status.disruptionsAllowed}") == "1"
	})
	for _, n := range []int{12, 1, 3} {
		p.kubectl("", "scale", "deployment/worker", fmt.Sprintf("--replicas=%d", n)) // as autoscalers do
		p.ready("worker", n)
	}
	p.kubectl("", "apply", "-k", "../k8s/overlays/tools")
	p.ready("worker", 0)
	p.ready("worker-tools", 1)
	p.until("the autoscaler has found the pool", func() bool {
		return p.kubectl("", "get", "hpa", "worker-tools", "-o", "jsonpath={.status.currentReplicas}") == "1"
	})
	t.Logf("k8s: %d objects in 3 overlays taken by a real API server, nonsense refused; pods let in by the namespace's standard; "+
		"orchestrators spread over 2 simulated nodes, one may be taken away; workers scaled 2, 12, 1, 3, then 0 and 1 with tools", total)
}

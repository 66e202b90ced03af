package validate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/prometheus/prometheus/promql/parser"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// stops is how long a program may take to stop when it is asked to, in seconds; the
// campaigns of faults hold it against that.
var stops = map[string]int64{"orchestrator": 10, "worker": 5, "worker-tools": 5}

// TestPodsAreConfined checks what every pod of the project has to have.
func TestPodsAreConfined(t *testing.T) {
	t.Parallel()
	for _, overlay := range overlays {
		all := objects(t, overlay)
		for _, d := range of[appsv1.Deployment](all) {
			pod := d.Spec.Template.Spec
			say := func(format string, args ...any) {
				t.Helper()
				t.Errorf(overlay+", "+d.Name+": "+format, args...)
			}
			if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 || s.SeccompProfile == nil ||
				s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault && (d.Name != "worker-tools" || pod.HostUsers == nil || *pod.HostUsers) {
				say("security context %+v", s)
			}
			if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.HostNetwork || pod.HostPID || pod.HostIPC {
				say("it gets more of the cluster or the node than it needs")
			}
			for _, v := range pod.Volumes {
				if v.HostPath != nil {
					say("volume %s is of the node", v.Name)
				}
			}
			for _, c := range append(slices.Clone(pod.Containers), pod.InitContainers...) {
				s := c.SecurityContext
				if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
					s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 || s.Privileged != nil {
					say("container %s: %+v", c.Name, s)
				}
				if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
					say("container %s asks for %+v", c.Name, c.Resources)
				}
				if c.ReadinessProbe == nil {
					say("container %s has no probe", c.Name)
				}
				for _, e := range c.Env {
					if regexp.MustCompile(`(?i)(password|token$|key$|url$)`).MatchString(e.Name) && e.Value != "" && e.Name != "COPPICE_TLS_KEY" {
						say("%s is not from a Secret", e.Name)
					}
				}
			}
			if !labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) {
				say("it does not select its own pods")
			}
			bound, ours := stops[d.Name]
			if !ours {
				continue
			}
			c := pod.Containers[0]
			if c.StartupProbe == nil || c.LivenessProbe == nil || c.ReadinessProbe.GRPC == nil || c.LivenessProbe.GRPC == nil {
				say("probes %+v, %+v, %+v", c.StartupProbe, c.LivenessProbe, c.ReadinessProbe)
			}
			if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
				bound += c.Lifecycle.PreStop.Sleep.Seconds
			}
			if grace := *pod.TerminationGracePeriodSeconds; grace <= bound {
				say("it is killed after %d s, and may take %d", grace, bound)
			}
		}
	}
}

// migrates is how long an orchestrator may take to bring a database up to date before it
// answers, in seconds. One that is stopped meanwhile has done nothing.
const migrates = 3600

// TestAMigrationMayTakeLong: nobody stops an orchestrator that migrates the database, or
// waits for another that does.
func TestAMigrationMayTakeLong(t *testing.T) {
	t.Parallel()
	for _, overlay := range overlays {
		d := deployment(t, objects(t, overlay), "orchestrator")
		p := d.Spec.Template.Spec.Containers[0].StartupProbe
		if p == nil || p.InitialDelaySeconds+p.PeriodSeconds*p.FailureThreshold < migrates {
			t.Errorf("%s: a migration may take %d s, and the probe is %+v", overlay, migrates, p)
		}
	}
}

// TestReferencesHold: what objects refer to by name and label is there.
func TestReferencesHold(t *testing.T) {
	t.Parallel()
	documented := []string{"coppice-database", "coppice-redis", "coppice-tokens", "coppice-worker", "orchestrator-tls"}
	for _, overlay := range overlays {
		all := objects(t, overlay)
		known := map[string]bool{}
		for _, s := range of[corev1.Secret](all) {
			known["secret "+s.Name] = true
		}
		for _, m := range of[corev1.ConfigMap](all) {
			known["map "+m.Name] = true
		}
		if overlay == "prod" {
			for _, name := range documented {
				known["secret "+name] = true
			}
		}
		for _, d := range of[appsv1.Deployment](all) {
			for _, name := range referred(d) {
				if !known[name] {
					t.Errorf("%s, %s: there is no %s", overlay, d.Name, name)
				}
			}
		}
		for _, s := range of[corev1.Service](all) {
			serves := false
			for _, d := range of[appsv1.Deployment](all) {
				if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) {
					for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
						serves = serves || p.Name == s.Spec.Ports[0].TargetPort.String()
					}
				}
			}
			if !serves {
				t.Errorf("%s: no pod serves %s", overlay, s.Name)
			}
		}
	}
}

// referred names the secrets and maps that a pod can't start without.
func referred(d *appsv1.Deployment) []string {
	var names []string
	for _, v := range d.Spec.Template.Spec.Volumes {
		switch {
		case v.Secret != nil:
			names = append(names, "secret "+v.Secret.SecretName)
		case v.ConfigMap != nil:
			names = append(names, "map "+v.ConfigMap.Name)
		}
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				names = append(names, "secret "+e.ValueFrom.SecretKeyRef.Name)
			}
		}
		for _, e := range c.EnvFrom {
			switch {
			case e.ConfigMapRef != nil:
				names = append(names, "map "+e.ConfigMapRef.Name)
			case e.SecretRef != nil && (e.SecretRef.Optional == nil || !*e.SecretRef.Optional):
				names = append(names, "secret "+e.SecretRef.Name)
			}
		}
	}
	return names
}

// The ports at which workers are reached: for their metrics, and by orchestrators that
// ask whether they live.
const (
	metricsPort = 9464
	alivePort   = 7072
)

// TestNetworkIsClosed: everything is denied, and workers reach no database.
func TestNetworkIsClosed(t *testing.T) {
	t.Parallel()
	for _, overlay := range overlays {
		all := objects(t, overlay)
		closed, asks := false, false
		worker := labels.Set(deployment(t, all, "worker").Spec.Template.Labels)
		for _, p := range of[networkingv1.NetworkPolicy](all) {
			everybody := len(p.Spec.PodSelector.MatchLabels)+len(p.Spec.PodSelector.MatchExpressions) == 0
			closed = closed || everybody && len(p.Spec.PolicyTypes) == 2 && p.Spec.Ingress == nil && p.Spec.Egress == nil
			selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
			if err != nil {
				t.Fatal(err)
			}
			if !selector.Matches(worker) {
				continue
			}
			for _, i := range p.Spec.Ingress {
				if len(i.Ports) != 1 || len(i.From) == 0 {
					t.Errorf("%s, %s: %+v reaches workers", overlay, p.Name, i)
					continue
				}
				port := i.Ports[0].Port.IntValue()
				asks = asks || port == alivePort
				if port != metricsPort && (port != alivePort || !onlyOrchestrators(i.From)) {
					t.Errorf("%s, %s: %+v reaches port %d of workers", overlay, p.Name, i.From, port)
				}
			}
			for _, e := range p.Spec.Egress {
				for _, port := range e.Ports {
					if port.Port == nil || !slices.Contains([]int{53, 443, 4317, 6379, 7070}, port.Port.IntValue()) {
						t.Errorf("%s, %s: workers reach port %v", overlay, p.Name, port.Port)
					}
				}
				if len(e.To) == 0 || len(e.Ports) == 0 {
					t.Errorf("%s, %s: workers reach everything", overlay, p.Name)
				}
			}
		}
		if !closed {
			t.Errorf("%s: nothing denies what is not allowed", overlay)
		}
		if !asks {
			t.Errorf("%s: nobody can ask workers whether they live", overlay)
		}
	}
}

// onlyOrchestrators reports whether nothing but orchestrators of the namespace is meant.
func onlyOrchestrators(from []networkingv1.NetworkPolicyPeer) bool {
	for _, p := range from {
		if p.PodSelector == nil || p.NamespaceSelector != nil || p.IPBlock != nil || p.PodSelector.MatchLabels["app.kubernetes.io/name"] != "orchestrator" {
			return false
		}
	}
	return len(from) > 0
}

// TestWorkersAnswerWhereTheySay: pods of workers have the ports open that they are told to
// answer at, and orchestrators have a way to the one that is theirs.
func TestWorkersAnswerWhereTheySay(t *testing.T) {
	t.Parallel()
	for _, overlay := range overlays {
		all := objects(t, overlay)
		for _, d := range of[appsv1.Deployment](all) {
			if d.Spec.Template.Labels["app.kubernetes.io/name"] != "worker" {
				continue
			}
			c := d.Spec.Template.Spec.Containers[0]
			for variable, port := range map[string]int32{"COPPICE_ALIVE_LISTEN": alivePort, "COPPICE_METRICS_LISTEN": metricsPort} {
				told := slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == variable && e.Value == fmt.Sprint(":", port) })
				open := slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == port })
				if !told || !open {
					t.Errorf("%s, %s: it is told to answer at port %d: %t; that is open: %t", overlay, d.Name, port, told, open)
				}
			}
		}
		ways := false
		orchestrator := labels.Set(deployment(t, all, "orchestrator").Spec.Template.Labels)
		for _, p := range of[networkingv1.NetworkPolicy](all) {
			selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range p.Spec.Egress {
				ways = ways || selector.Matches(orchestrator) && slices.ContainsFunc(e.Ports, func(p networkingv1.NetworkPolicyPort) bool {
					return p.Port.IntValue() == alivePort
				})
			}
		}
		if !ways {
			t.Errorf("%s: orchestrators don't reach port %d", overlay, alivePort)
		}
	}
}

// ofAPool are the variables that differ between pools.
var ofAPool = []string{"COPPICE_POOL", "COPPICE_SLOTS", "COPPICE_SANDBOX"}

// TestPoolsDifferInTheirWorkOnly: what a worker is told, is asked and answers does not
// depend on whether it has a shell.
func TestPoolsDifferInTheirWorkOnly(t *testing.T) {
	t.Parallel()
	all := objects(t, "tools")
	shared := func(name string) string {
		pod := deployment(t, all, name).Spec.Template.Spec
		c := pod.Containers[0]
		env := slices.DeleteFunc(slices.Clone(c.Env), func(e corev1.EnvVar) bool { return slices.Contains(ofAPool, e.Name) })
		text, err := yaml.Marshal(map[string]any{
			"account": pod.ServiceAccountName, "mounted": pod.AutomountServiceAccountToken, "links": pod.EnableServiceLinks, "grace": pod.TerminationGracePeriodSeconds,
			"ports": c.Ports, "env": env, "envFrom": c.EnvFrom, "mounts": c.VolumeMounts, "lifecycle": c.Lifecycle,
			"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe,
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if plain, tools := shared("worker"), shared("worker-tools"); plain != tools {
		t.Errorf("worker has\n%s\nand worker-tools\n%s", plain, tools)
	}
}

// TestScalingFitsTheProgram: the stream and the metric are those of the pool that is
// scaled, and a busy pool does not vanish.
func TestScalingFitsTheProgram(t *testing.T) {
	t.Parallel()
	prod := objects(t, "prod")
	scaled := of[v1alpha1.ScaledObject](prod)
	if len(scaled) != 1 {
		t.Fatalf("%d ScaledObjects", len(scaled))
	}
	s := scaled[0].Spec
	deployment(t, prod, s.ScaleTargetRef.Name)
	if s.MinReplicaCount == nil || *s.MinReplicaCount < 1 {
		t.Error("a busy pool whose stream is empty would vanish")
	}
	installation := settings(t, prod)["COPPICE_INSTALLATION"]
	for _, trigger := range s.Triggers {
		switch trigger.Type {
		case "redis-streams":
			if m := trigger.Metadata; m["stream"] != "coppice:{"+installation+"}:ready:default" || m["consumerGroup"] != "workers" || m["lagCount"] == "" {
				t.Errorf("the lag of %v", m)
			}
		case "prometheus":
			if q := trigger.Metadata["query"]; !strings.Contains(q, `coppice_work{pool="default", state=~"running|ready"}`) {
				t.Errorf("asks for %s", q)
			}
		default:
			t.Errorf("scaled by %s", trigger.Type)
		}
	}
	if err := v1alpha1.ValidateTriggers(s.Triggers); err != nil {
		t.Error(err)
	}
	tools := objects(t, "tools")
	hpa := of[autoscalingv2.HorizontalPodAutoscaler](tools)
	if len(hpa) != 1 {
		t.Fatalf("%d autoscalers", len(hpa))
	}
	target := deployment(t, tools, hpa[0].Spec.ScaleTargetRef.Name)
	pool := settings(t, tools)["COPPICE_POOL"]
	metric := hpa[0].Spec.Metrics[0].External.Metric
	if metric.Name != "coppice_work" || metric.Selector.MatchLabels["pool"] != pool || target.Spec.Template.Labels["coppice.run/pool"] != pool || *hpa[0].Spec.MinReplicas < 1 {
		t.Errorf("pool %s is scaled by %+v", pool, hpa[0].Spec)
	}
	if states := metric.Selector.MatchExpressions[0].Values; !slices.Contains(states, "running") || !slices.Contains(states, "ready") {
		t.Errorf("of the work %v counts", states)
	}
	if target.Spec.Replicas != nil {
		t.Error("who applies the manifests again resets what the autoscaler has chosen")
	}
}

// TestWorkIsCountedOnce: each orchestrator says how much work the whole installation has,
// so autoscalers go by the largest of what they say.
func TestWorkIsCountedOnce(t *testing.T) {
	t.Parallel()
	queries := map[string]string{"prometheus-adapter": adapterQuery(t)}
	for _, s := range of[v1alpha1.ScaledObject](objects(t, "prod")) {
		for _, trigger := range s.Spec.Triggers {
			if trigger.Type == "prometheus" {
				queries["KEDA"] = trigger.Metadata["query"]
			}
		}
	}
	if len(queries) != 2 {
		t.Errorf("the queries are %v", queries)
	}
	for who, query := range queries {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %s: %v", who, query, err)
			continue
		}
		checkQuery(t, who, expr, nil, measured(t), map[string]bool{})
		counted := 0
		parser.Inspect(expr, func(n parser.Node, above []parser.Node) error {
			if series, ok := n.(*parser.VectorSelector); !ok || series.Name != "coppice_work" {
				return nil
			}
			counted++
			if len(above) > 0 {
				by, ok := above[len(above)-1].(*parser.AggregateExpr)
				if ok && by.Op == parser.MAX && !by.Without && slices.Equal(slices.Sorted(slices.Values(by.Grouping)), []string{"pool", "state"}) {
					return nil
				}
			}
			t.Errorf("%s: %s counts the work once for each orchestrator", who, query)
			return nil
		})
		if counted != 1 {
			t.Errorf("%s: %s asks for the work %d times", who, query, counted)
		}
	}
}

// adapterQuery gives the query by which the rule beside the HorizontalPodAutoscaler answers
// it, which the documentation shows too.
func adapterQuery(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../k8s/components/hpa/prometheus-adapter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, rule, _ := strings.Cut(string(text), "\nexternalRules:"); rule == "" || !strings.Contains(string(shown), "```yaml\nexternalRules:"+rule+"```") {
		t.Error("the documentation shows another rule")
	}
	var config struct {
		ExternalRules []struct {
			SeriesQuery, MetricsQuery string
			Resources                 struct {
				Overrides map[string]struct{ Resource string }
			}
		}
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.ExternalRules) != 1 || config.ExternalRules[0].SeriesQuery != "coppice_work" {
		t.Fatalf("the rules are %+v", config.ExternalRules)
	}
	// As the adapter fills it in for the autoscaler of the overlay tools.
	return strings.NewReplacer("<<.Series>>", "coppice_work", "<<.LabelMatchers>>", `pool="tools",state=~"running|ready"`).
		Replace(config.ExternalRules[0].MetricsQuery)
}

// settings gives what the ConfigMap of the programs says.
func settings(t *testing.T, all []runtime.Object) map[string]string {
	t.Helper()
	for _, m := range of[corev1.ConfigMap](all) {
		if strings.HasPrefix(m.Name, "coppice-") && m.Data["COPPICE_INSTALLATION"] != "" {
			return m.Data
		}
	}
	t.Fatal("there are no settings")
	return nil
}

// TestProdTrustsNobody: nothing of the overlay for production is open.
func TestProdTrustsNobody(t *testing.T) {
	t.Parallel()
	for _, d := range of[appsv1.Deployment](objects(t, "prod")) {
		said := map[string]bool{}
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			said[e.Name] = true
		}
		need := []string{"COPPICE_TLS_CERT", "COPPICE_TLS_KEY", "COPPICE_TOKENS"}
		if d.Name == "worker" {
			need = []string{"COPPICE_TLS_CA", "COPPICE_TOKEN_FILE"}
		}
		for _, name := range need {
			if !said[name] {
				t.Errorf("%s is not told %s", d.Name, name)
			}
		}
		if said["COPPICE_INSECURE"] {
			t.Errorf("%s is told to be insecure", d.Name)
		}
	}
}

// variable is one of ours, as it is said or read somewhere.
var variable = regexp.MustCompile(`\bCOPPICE_[A-Z_]+\b`)

// TestVariablesAreRead: no file sets a variable that the programs don't know.
func TestVariablesAreRead(t *testing.T) {
	t.Parallel()
	known := map[string]bool{
		// These are the compose file's own.
		"COPPICE_ORCHESTRATOR_IMAGE": true, "COPPICE_WORKER_IMAGE": true, "COPPICE_TOKENS_FILE": true, "COPPICE_WORKER_TOKEN": true,
	}
	for _, dir := range []string{"../../cmd", "../../internal"} {
		walk(t, dir, func(path, text string) {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				for _, name := range variable.FindAllString(text, -1) {
					known[name] = true
				}
			}
		})
	}
	check := func(path, text string) {
		for _, name := range variable.FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s: no program reads %s", path, name)
			}
		}
	}
	walk(t, "../k8s", check)
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	check("compose.yaml", string(text))
}

func walk(t *testing.T, dir string, each func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		each(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

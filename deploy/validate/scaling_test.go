package validate_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestKEDAFitsTheProgram: the stream and the metric are those of the pool that is scaled, in
// the namespace that it is in, and a busy pool does not vanish.
func TestKEDAFitsTheProgram(t *testing.T) {
	t.Parallel()
	pools := map[string]bool{}
	for _, overlay := range applied(t) {
		all := objects(t, overlay)
		for _, scaled := range of[v1alpha1.ScaledObject](all) {
			target := deployment(t, all, scaled.Spec.ScaleTargetRef.Name)
			pool := target.Spec.Template.Labels["coppice.run/pool"]
			pools[pool] = true
			if target.Spec.Replicas != nil && overlay != "dev+keda" {
				t.Errorf("%s: who applies the manifests again resets what KEDA has chosen", overlay)
			}
			if n := scaled.Spec.MinReplicaCount; n == nil || *n < 1 {
				t.Errorf("%s: a busy pool whose stream is empty would vanish", overlay)
			}
			// Any other but static keeps the most that there ever were for as long as a
			// trigger does not answer.
			if f := scaled.Spec.Fallback; f == nil || f.Behavior != v1alpha1.FallbackBehaviorStatic || f.Replicas < 1 {
				t.Errorf("%s: without its metrics there are %+v", overlay, f)
			}
			for _, trigger := range scaled.Spec.Triggers {
				checkTrigger(t, overlay, trigger, scaled.Namespace, settings(t, all)["COPPICE_INSTALLATION"], pool)
			}
			if err := v1alpha1.ValidateTriggers(scaled.Spec.Triggers); err != nil {
				t.Errorf("%s: %v", overlay, err)
			}
		}
	}
	if !pools["default"] || !pools["tools"] {
		t.Errorf("only %v are scaled", pools)
	}
}

func checkTrigger(t *testing.T, overlay string, trigger v1alpha1.ScaleTriggers, namespace, installation, pool string) {
	t.Helper()
	m := trigger.Metadata
	switch trigger.Type {
	case "redis-streams":
		if m["stream"] != "coppice:{"+installation+"}:ready:"+pool || m["consumerGroup"] != "workers" || m["lagCount"] == "" || m["enableTLS"] == "" {
			t.Errorf("%s: the lag of %v", overlay, m)
		}
	case "prometheus":
		if !strings.Contains(m["query"], `coppice_work{namespace="`+namespace+`", pool="`+pool+`", state=~"running|ready"}`) {
			t.Errorf("%s: in %s and for %s it asks for %s", overlay, namespace, pool, m["query"])
		}
		if m["ignoreNullValues"] != "false" {
			t.Errorf("%s: when nobody can say what work there is, it counts as none", overlay)
		}
	default:
		t.Errorf("%s: scaled by %s", overlay, trigger.Type)
	}
}

// TestTheHPAFitsTheProgram: it scales a pool by that pool's work.
func TestTheHPAFitsTheProgram(t *testing.T) {
	t.Parallel()
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
		checkInstallation(t, who, expr)
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

// TestPrometheusFindsAllPods: those of all pools, at a port that they have open under that
// name and that policies let it reach.
func TestPrometheusFindsAllPods(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, overlay := range applied(t) {
		all := objects(t, overlay)
		for _, m := range of[monitoringv1.PodMonitor](all) {
			selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range of[appsv1.Deployment](all) {
				if _, ours := stops[d.Name]; selector.Matches(labels.Set(d.Spec.Template.Labels)) != ours {
					t.Errorf("%s: the metrics of %s are collected: %t", overlay, d.Name, !ours)
				} else if !ours {
					continue
				}
				found[d.Name] = true
				open := slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
					return len(m.Spec.PodMetricsEndpoints) == 1 && p.Name == *m.Spec.PodMetricsEndpoints[0].Port && p.ContainerPort == metricsPort
				})
				if !open || m.Namespace != d.Namespace {
					t.Errorf("%s: the metrics of %s are asked for at %+v", overlay, d.Name, m.Spec.PodMetricsEndpoints)
				}
			}
		}
	}
	for name := range stops {
		if !found[name] {
			t.Errorf("nobody collects the metrics of %s", name)
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
	return strings.NewReplacer("<<.Series>>", "coppice_work", "<<.LabelMatchers>>", `namespace="coppice",pool="tools",state=~"running|ready"`).
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

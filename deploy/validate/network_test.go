package validate_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The ports at which workers are reached: for their metrics, and by orchestrators that
// ask whether they live.
const (
	metricsPort = 9464
	alivePort   = 7072
)

// TestNetworkIsClosed: everything is denied, and workers reach no database.
func TestNetworkIsClosed(t *testing.T) {
	t.Parallel()
	for _, overlay := range applied(t) {
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
					if port.Port == nil || !slices.Contains([]int{53, 443, 3128, 4317, 6379, 7070}, port.Port.IntValue()) {
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
	for _, overlay := range applied(t) {
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

// TestAProxyIsForProvidersOnly: who tells workers of a proxy, as the documentation shows, has
// them reach orchestrators without it, and lets them reach it.
func TestAProxyIsForProvidersOnly(t *testing.T) {
	t.Parallel()
	proxied := 0
	for _, overlay := range applied(t) {
		all := objects(t, overlay)
		for _, d := range of[appsv1.Deployment](all) {
			told := map[string]string{}
			for _, e := range d.Spec.Template.Spec.Containers[0].Env {
				told[e.Name] = e.Value
			}
			proxy, err := url.Parse(told["HTTPS_PROXY"])
			if err != nil || proxy.Host == "" {
				continue
			}
			proxied++
			host, _, _ := strings.Cut(strings.TrimPrefix(told["COPPICE_ORCHESTRATOR"], "dns:///"), ":")
			if !slices.Contains(strings.Split(told["NO_PROXY"], ","), host) {
				t.Errorf("%s, %s: it looks for %s through the proxy, past which are %s", overlay, d.Name, host, told["NO_PROXY"])
			}
			for _, p := range of[networkingv1.NetworkPolicy](all) {
				if e := p.Spec.Egress; p.Name == "worker-providers" && (e[0].To[0].IPBlock.CIDR != proxy.Hostname()+"/32" || e[0].Ports[0].Port.String() != proxy.Port()) {
					t.Errorf("%s: the proxy is at %s, and workers reach %+v", overlay, proxy.Host, e)
				}
			}
		}
	}
	if proxied == 0 {
		t.Error("the documentation shows no proxy")
	}
}

// reach gives the ports to which policies let pods with these labels, at addresses of the
// internet.
func reach(t *testing.T, policies []*networkingv1.NetworkPolicy, pod labels.Set) (ports []int) {
	t.Helper()
	for _, p := range policies {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Spec.Egress {
			public := slices.ContainsFunc(e.To, func(to networkingv1.NetworkPolicyPeer) bool {
				return to.IPBlock != nil && to.IPBlock.CIDR == "0.0.0.0/0"
			})
			for _, port := range e.Ports {
				if public && selector.Matches(pod) {
					ports = append(ports, port.Port.IntValue())
				}
			}
		}
	}
	return ports
}

// TestCallbacksGetOut: orchestrators call nobody outside, and HTTPS alone with the
// component that is for it.
func TestCallbacksGetOut(t *testing.T) {
	t.Parallel()
	for overlay, want := range map[string][]int{"prod": nil, "prod+callbacks": {443}} {
		all := objects(t, overlay)
		orchestrator := deployment(t, all, "orchestrator").Spec.Template
		if ports := reach(t, of[networkingv1.NetworkPolicy](all), orchestrator.Labels); !slices.Equal(ports, want) {
			t.Errorf("%s: orchestrators reach ports %v of the internet, and should reach %v", overlay, ports, want)
		}
		signs := slices.ContainsFunc(orchestrator.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "COPPICE_CALLBACK_SECRET" })
		if signs != (want != nil) {
			t.Errorf("%s: calls are signed: %t", overlay, signs)
		}
	}
}

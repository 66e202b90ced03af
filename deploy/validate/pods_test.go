package validate_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// stops is how long a program may take to stop when it is asked to, in seconds; the
// campaigns of faults hold it against that.
var stops = map[string]int64{"orchestrator": 10, "worker": 5, "worker-tools": 5}

// TestPodsAreConfined checks what every pod of the project has to have.
func TestPodsAreConfined(t *testing.T) {
	t.Parallel()
	for _, overlay := range applied(t) {
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
	for _, overlay := range applied(t) {
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
	documented := []string{
		"secret coppice-database", "secret coppice-redis", "secret coppice-tokens", "secret coppice-worker", "secret orchestrator-tls",
		"map authorities",
	}
	for _, overlay := range applied(t) {
		all := objects(t, overlay)
		known := map[string]bool{}
		for _, s := range of[corev1.Secret](all) {
			known["secret "+s.Name] = true
		}
		for _, m := range of[corev1.ConfigMap](all) {
			known["map "+m.Name] = true
		}
		for _, c := range of[corev1.PersistentVolumeClaim](all) {
			known["claim "+c.Name] = true
		}
		if secured(t, all) {
			for _, name := range documented {
				known[name] = true
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
		case v.PersistentVolumeClaim != nil:
			names = append(names, "claim "+v.PersistentVolumeClaim.ClaimName)
		}
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
				continue
			}
			if optional := e.ValueFrom.SecretKeyRef.Optional; optional == nil || !*optional {
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

// registry is where images of ours are, and their version.
var registry = regexp.MustCompile(`^([a-z0-9.-]+\.[a-z]+/[a-z0-9/-]+/)(coppice-[a-z-]+):([a-z0-9.]+)$`)

// TestImagesSayWhichTheyAre: an image has a registry and a version, and those of ours the
// same ones, whichever components brought them.
func TestImagesSayWhichTheyAre(t *testing.T) {
	t.Parallel()
	want := map[string]string{"orchestrator": "coppice-orchestrator", "worker": "coppice-worker", "worker-tools": "coppice-worker-tools"}
	for _, overlay := range applied(t) {
		from, versions := map[string]bool{}, map[string]bool{}
		for _, d := range of[appsv1.Deployment](objects(t, overlay)) {
			image := d.Spec.Template.Spec.Containers[0].Image
			name, ours := want[d.Name]
			if !ours {
				if !strings.HasPrefix(image, "docker.io/") || !strings.Contains(image, ":") || strings.HasSuffix(image, ":latest") {
					t.Errorf("%s: %s runs %s", overlay, d.Name, image)
				}
				continue
			}
			parts := registry.FindStringSubmatch(image)
			if parts == nil || parts[2] != name || parts[3] == "latest" {
				t.Errorf("%s: %s runs %s", overlay, d.Name, image)
				continue
			}
			from[parts[1]], versions[parts[3]] = true, true
		}
		// Who adds a pool to prod says which version it is of, as the documentation shows.
		if len(from) != 1 || len(versions) != 1 && !strings.HasPrefix(overlay, "prod+pool-tools") {
			t.Errorf("%s: images of %v from %v", overlay, versions, from)
		}
	}
}

// TestSessionsHaveDirectories: tenants share workers, so each session works in a directory
// of its own, below a volume; of all pods with the component that is for it.
func TestSessionsHaveDirectories(t *testing.T) {
	t.Parallel()
	for _, overlay := range applied(t) {
		all := objects(t, overlay)
		claims := of[corev1.PersistentVolumeClaim](all)
		for _, c := range claims {
			if !slices.Equal(c.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}) {
				t.Errorf("%s: of %s pods on other nodes have nothing: %v", overlay, c.Name, c.Spec.AccessModes)
			}
		}
		for _, d := range of[appsv1.Deployment](all) {
			if d.Labels["app.kubernetes.io/name"] != "worker" {
				continue
			}
			volume := workspaces(d)
			if volume == nil {
				t.Errorf("%s: %s has no directory for each session", overlay, d.Name)
				continue
			}
			if mine, shared := volume.EmptyDir != nil, volume.PersistentVolumeClaim != nil; mine == shared || shared != (len(claims) > 0) {
				t.Errorf("%s: the files of %s are in %+v", overlay, d.Name, volume)
			}
		}
	}
}

// workspaces gives the volume below which a worker makes the directories of sessions.
func workspaces(d *appsv1.Deployment) *corev1.Volume {
	c := d.Spec.Template.Spec.Containers[0]
	told := map[string]string{}
	for _, e := range c.Env {
		told[e.Name] = e.Value
	}
	if _, one := told["COPPICE_WORKSPACE"]; one { // it would not start with both
		return nil
	}
	for _, m := range c.VolumeMounts {
		for _, v := range d.Spec.Template.Spec.Volumes {
			if m.MountPath == told["COPPICE_WORKSPACES"] && m.Name == v.Name {
				return &v
			}
		}
	}
	return nil
}

// ofAPool are the variables that differ between pools.
var ofAPool = []string{"COPPICE_POOL", "COPPICE_SLOTS", "COPPICE_SANDBOX"}

// TestPoolsDifferInTheirWorkOnly: what a worker is told, is asked and answers, and how it is
// replaced, does not depend on whether it has a shell.
func TestPoolsDifferInTheirWorkOnly(t *testing.T) {
	t.Parallel()
	all := objects(t, "tools")
	shared := func(name string) string {
		d := deployment(t, all, name)
		pod := d.Spec.Template.Spec
		c := pod.Containers[0]
		spreads := slices.Clone(pod.TopologySpreadConstraints)
		for i, spread := range spreads {
			if !labels.SelectorFromSet(spread.LabelSelector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) {
				t.Errorf("%s is spread by the pods of others", name)
			}
			spreads[i].LabelSelector = nil
		}
		env := slices.DeleteFunc(slices.Clone(c.Env), func(e corev1.EnvVar) bool { return slices.Contains(ofAPool, e.Name) })
		text, err := yaml.Marshal(map[string]any{
			"rollout": d.Spec.Strategy, "spread": spreads,
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

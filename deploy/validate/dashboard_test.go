package validate_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// dashboard is what is looked at of the dashboard.
type dashboard struct {
	Panels     []panel
	Templating struct {
		List []struct{ Name, Type, Definition, AllValue string }
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               source
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID, Expr, LegendFormat string
		Datasource                source
	}
}

type source struct{ Type, UID string }

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../grafana/coppice.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// measured gives the metrics that there are with their labels, by the tables of the
// documentation, which a test holds against the page of a process.
func measured(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `coppice_") && !strings.HasPrefix(cells[1], " `gen_ai_") {
			continue
		}
		names := []string{}
		for _, l := range quoted.FindAllStringSubmatch(cells[2], -1) {
			names = append(names, l[1])
		}
		all[quoted.FindStringSubmatch(cells[1])[1]] = names
	}
	if len(all) == 0 {
		t.Fatal("no metric is documented")
	}
	return all
}

// TestThePanelsAreInOrder: each has an id, a title, a unit, a description and queries of
// its own, and a place that no other has.
func TestThePanelsAreInOrder(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	ids, places := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if before, twice := ids[p.ID]; twice || p.ID == 0 {
			t.Errorf("%q has the id %d, as %q has", p.Title, p.ID, before)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if before, taken := places[[2]int{x, y}]; taken || x >= 24 {
					t.Fatalf("%q is at %d, %d, where %q is", p.Title, x, y, before)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
		switch {
		case p.Title == "" || p.GridPos.W*p.GridPos.H == 0:
			t.Errorf("panel %d has no title or no place", p.ID)
		case p.Type == "row":
		case p.FieldConfig.Defaults.Unit == "" || p.Description == "" || len(p.Targets) == 0:
			t.Errorf("%q has no unit, no description or no queries", p.Title)
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] || q.RefID == "" || q.LegendFormat == "" || q.Datasource != (source{"prometheus", "${datasource}"}) {
				t.Errorf("%q: the query %q of %+v", p.Title, q.RefID, q.Datasource)
			}
			refs[q.RefID] = true
		}
	}
}

// TestQueriesAskForWhatIsMeasured: each query is one that Prometheus understands, and
// asks for metrics and labels that there are; each metric is asked for.
func TestQueriesAskForWhatIsMeasured(t *testing.T) {
	t.Parallel()
	d, metrics := readDashboard(t), measured(t)
	asked := map[string]bool{}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$pool", ".*", "$namespace", ".*")
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(q.Expr))
			if err != nil {
				t.Errorf("%s: %s: %v", p.Title, q.Expr, err)
				continue
			}
			checkQuery(t, p.Title, expr, nil, metrics, asked)
			checkInstallation(t, p.Title, expr)
			checkReplicas(t, p.Title, expr)
			checkLegend(t, p.Title, q.LegendFormat, expr)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if !asked[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
	want := [][2]string{{"datasource", ""}, {"namespace", "label_values(coppice_work, namespace)"}, {"pool", `label_values(coppice_work{namespace=~"$namespace"}, pool)`}}
	if len(d.Templating.List) != len(want) {
		t.Fatalf("the variables are %+v", d.Templating.List)
	}
	for i, v := range d.Templating.List {
		// ".*" is also for series that a Prometheus has not given a namespace.
		if v.Name != want[i][0] || v.Definition != want[i][1] || v.Definition != "" && v.AllValue != ".*" {
			t.Errorf("a variable is %+v", v)
		}
	}
}

// labelNamespace is what Prometheus gives a series to say whose it is.
const labelNamespace = "namespace"

// checkInstallation checks that only series of the chosen namespaces are asked for.
func checkInstallation(t *testing.T, title string, e parser.Expr) {
	t.Helper()
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		series, ok := n.(*parser.VectorSelector)
		if ok && !slices.ContainsFunc(series.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == labelNamespace }) {
			t.Errorf("%s: %s counts installations of all namespaces", title, series)
		}
		return nil
	})
}

// wholeInstallation are the numbers that each orchestrator reports of its whole installation.
var wholeInstallation = []string{"coppice_work", "coppice_worker_slots", "coppice_approvals_open"}

// checkReplicas checks that of such a number the largest of an installation counts, and not the
// largest of all installations.
func checkReplicas(t *testing.T, title string, e parser.Expr) {
	t.Helper()
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		series, ok := n.(*parser.VectorSelector)
		if !ok || !slices.Contains(wholeInstallation, series.Name) {
			return nil
		}
		of, ok := path[len(path)-1].(*parser.AggregateExpr)
		if !ok || of.Op != parser.MAX || !slices.Contains(of.Grouping, labelNamespace) {
			t.Errorf("%s: %s is not reduced to the largest of each installation", title, series)
		}
		return nil
	})
}

// checkQuery checks an expression and all below it. by are the labels that what is above
// it goes by.
func checkQuery(t *testing.T, title string, e parser.Node, by []string, metrics map[string][]string, asked map[string]bool) {
	t.Helper()
	switch e := e.(type) {
	case *parser.AggregateExpr:
		by = append(slices.Clone(by), e.Grouping...)
	case *parser.VectorSelector:
		name, isPart := strings.CutSuffix(e.Name, "_bucket")
		if _, whole := metrics[e.Name]; !isPart && !whole {
			name = strings.TrimSuffix(strings.TrimSuffix(e.Name, "_count"), "_sum")
		}
		has, there := metrics[name]
		if !there {
			t.Errorf("%s: there is no metric %s", title, e.Name)
			return
		}
		asked[name] = true
		for _, m := range e.LabelMatchers {
			if m.Name != labels.MetricName {
				by = append(slices.Clone(by), m.Name)
			}
		}
		for _, label := range by {
			if !slices.Contains(has, label) && !(label == labels.BucketLabel && isPart) && label != labelNamespace {
				t.Errorf("%s: %s has no label %s, it has %v", title, name, label, has)
			}
		}
	}
	for child := range parser.ChildrenIter(e) {
		checkQuery(t, title, child, by, metrics, asked)
	}
}

// checkLegend checks that what a legend shows is what the query goes by.
func checkLegend(t *testing.T, title, legend string, e parser.Expr) {
	t.Helper()
	var by []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if sum, ok := n.(*parser.AggregateExpr); ok {
			by = append(by, sum.Grouping...)
		}
		return nil
	})
	for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(legend, -1) {
		if !slices.Contains(by, label[1]) {
			t.Errorf("%s: the legend shows %s, and the query goes by %v", title, label[1], by)
		}
	}
}

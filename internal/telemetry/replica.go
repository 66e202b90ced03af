package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/coppice-run/coppice/internal/tree"
)

// Replica measures an orchestrator.
type Replica struct {
	*Runs
	batch   metric.Int64Histogram
	took    metric.Float64Histogram
	refused metric.Int64Counter
	lag     metric.Float64Histogram
	cost    metric.Float64Counter
	spawned metric.Int64Counter
	barred  metric.Int64Counter
	seized  metric.Int64Counter
	resumed metric.Int64Counter
	dead    metric.Int64Counter

	reasons  *sets[string]
	models   *sets[string]
	children *sets[tree.Kind]
	refusals *sets[tree.SpawnOutcome]
}

// State is what a replica looks like at a moment. What it says of work is of the whole
// installation: all replicas say the same.
type State struct {
	Ready, Held, Running int
	Oldest               time.Duration // how long the run has waited for a worker that has waited longest
	Asked                int           // approvals that are open
	Unanswered           time.Duration // how long the oldest of them has been
	Slots                int           // of all workers
	Streams              int           // of workers, on this replica
	Watchers             int           // of sessions, on this replica
	Silent               time.Duration // of the run with a worker on this replica of which nothing was heard for longest
}

// statePatience is how long it may take to say what work there is.
const statePatience = 2 * time.Second

// Replica makes what measures an orchestrator; state is asked whenever metrics are
// collected, also when the replica has ended. Its error says that nothing is known of
// work and approvals; the rest counts.
func (t *Telemetry) Replica(pool string, state func(context.Context) (State, error)) (*Replica, error) {
	runs, err := t.Runs(pool)
	if err != nil {
		return nil, err
	}
	m := t.instruments()
	r := &Replica{
		Runs:    runs,
		batch:   m.sizes("coppice.commit.commands", "{command}", "Commands in one transaction."),
		took:    m.histogram("coppice.commit.duration", "How long a transaction took, from its beginning until it was stored."),
		refused: m.counter("coppice.command.refused", "{command}", "Commands that were refused, by reason."),
		lag:     m.histogram("coppice.watch.lag", "From when an event happened until it was given to a watcher that had seen all before it."),
		cost:    m.amount("coppice.cost.usd", "{USD}", "What the answers of models have cost that were recorded, in US dollars, as far as there are prices."),
		spawned: m.counter("coppice.spawn.started", "{task}", "Children that agents and clients have started."),
		barred:  m.counter("coppice.spawn.refused", "{task}", "Children that agents and clients were refused, by reason."),
		seized:  m.counter("coppice.attempt.taken_over", "{attempt}", "Attempts that this replica has taken back from replicas that are gone."),
		resumed: m.counter("coppice.attempt.reattached", "{attempt}", "Attempts that have gone on over another stream than they began on."),
		dead:    m.counter("coppice.worker.dead", "{worker}", "Workers that were found dead after their streams broke, so that their runs did not wait for them."),
	}
	r.prepare(labelPool.String(pool))
	return r, errors.Join(m.err, r.observe(m, state))
}

// prepare makes the labels ready. A counter that may long stay without an event begins
// with 0, so that the first one is seen to be one more.
func (r *Replica) prepare(pool attribute.KeyValue) {
	r.reasons = newSets(func(reason string) []attribute.KeyValue {
		return []attribute.KeyValue{labelReason.String(reason)}
	})
	r.models = newSets(func(model string) []attribute.KeyValue {
		return []attribute.KeyValue{pool, labelModel.String(model)}
	})
	r.children = newSets(func(kind tree.Kind) []attribute.KeyValue {
		return []attribute.KeyValue{pool, labelKind.String(name(kind))}
	})
	r.refusals = newSets(func(v tree.SpawnOutcome) []attribute.KeyValue {
		return []attribute.KeyValue{pool, labelKind.String(name(v.Kind)), labelReason.String(v.Refused)}
	})
	ctx := context.Background()
	for _, kind := range []tree.Kind{tree.KindAgent, tree.KindShell} {
		r.spawned.Add(ctx, 0, r.children.get(kind).add...)
	}
	r.seized.Add(ctx, 0, r.inPool.add...)
	r.resumed.Add(ctx, 0, r.inPool.add...)
	r.dead.Add(ctx, 0, r.inPool.add...)
}

// observe makes the gauges.
func (r *Replica) observe(m *instruments, state func(context.Context) (State, error)) error {
	work := m.gauge("coppice.work", "{run}", "Runs that wait for a worker, runs that wait for others to end, and runs that have a worker.")
	oldest := m.seconds("coppice.work.oldest", "How long the run has waited for a worker that has waited longest.")
	silent := m.seconds("coppice.run.silent.oldest", "For how long nothing was heard of the run of an agent of which nothing was heard for longest, of those whose workers are on this replica.")
	asked := m.gauge("coppice.approvals.open", "{approval}", "Approvals that nobody has decided.")
	unanswered := m.seconds("coppice.approvals.oldest", "How long the approval has been open that has been longest.")
	slots := m.gauge("coppice.worker.slots", "{run}", "How many runs all workers can carry.")
	streams := m.gauge("coppice.worker.streams", "{stream}", "Streams of workers on this replica.")
	watchers := m.gauge("coppice.watchers", "{watcher}", "Watchers of sessions on this replica.")
	if m.err != nil {
		return m.err
	}
	pool := labelPool.String(r.pool)
	with := func(attrs ...attribute.KeyValue) metric.ObserveOption {
		return metric.WithAttributes(append(attrs, pool)...)
	}
	_, err := r.Meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, statePatience)
		defer cancel()
		now, err := state(ctx)
		if err == nil { // an error would take all other metrics along
			o.ObserveInt64(work, int64(now.Ready), with(labelState.String("ready")))
			o.ObserveInt64(work, int64(now.Held), with(labelState.String("held")))
			o.ObserveInt64(work, int64(now.Running), with(labelState.String("running")))
			o.ObserveFloat64(oldest, now.Oldest.Seconds(), with())
			o.ObserveInt64(asked, int64(now.Asked), with())
			o.ObserveFloat64(unanswered, now.Unanswered.Seconds(), with())
		}
		o.ObserveInt64(slots, int64(now.Slots), with())
		o.ObserveInt64(streams, int64(now.Streams), with())
		o.ObserveInt64(watchers, int64(now.Watchers))
		o.ObserveFloat64(silent, now.Silent.Seconds(), with())
		return nil
	}, work, oldest, silent, asked, unanswered, slots, streams, watchers)
	return err
}

// Committed counts a transaction.
func (r *Replica) Committed(commands int, refused []string, took time.Duration) {
	ctx := context.Background()
	r.batch.Record(ctx, int64(commands))
	r.took.Record(ctx, took.Seconds())
	for _, reason := range refused {
		r.refused.Add(ctx, 1, r.reasons.get(reason).add...)
	}
}

// Judged counts what became of a wish for a child.
func (r *Replica) Judged(v tree.SpawnOutcome) {
	if v.Refused == "" {
		r.spawned.Add(context.Background(), 1, r.children.get(v.Kind).add...)
		return
	}
	r.barred.Add(context.Background(), 1, r.refusals.get(v).add...)
}

// Spent counts what an answer of a model has cost, in millionths of a US dollar.
func (r *Replica) Spent(model string, micros int64) {
	r.cost.Add(context.Background(), float64(micros)/1e6, r.models.get(r.names.learn(model)).add...)
}

// TakenOver counts an attempt that was taken back from a replica that is gone.
func (r *Replica) TakenOver() { r.seized.Add(context.Background(), 1, r.inPool.add...) }

// Reattached counts an attempt that goes on over another stream.
func (r *Replica) Reattached() { r.resumed.Add(context.Background(), 1, r.inPool.add...) }

// WorkerDied counts a worker whose process was found to be dead.
func (r *Replica) WorkerDied() { r.dead.Add(context.Background(), 1, r.inPool.add...) }

// Watched notes how long ago an event happened that a watcher is given.
func (r *Replica) Watched(ago time.Duration) { r.lag.Record(context.Background(), ago.Seconds()) }

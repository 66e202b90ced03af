package assembly_test

import (
	"fmt"
	"testing"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/redistest"
)

// TestWorkGoesOnWithoutRedis: slots that can't read hints stand by with an orchestrator that is
// alone, whether Redis is away from the start or later, before any of them has had a run. Then
// it comes back, and is away again.
func TestWorkGoesOnWithoutRedis(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 3} {
		for when, late := range map[string]bool{"from the start": false, "later": true} {
			t.Run(fmt.Sprintf("%s, %d slots", when, slots), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				if !late {
					server.Kill()
				}
				c := setup(t, awayTree, func(d *assembly.Dev) { d.RedisURL, d.Slots = server.URL(), slots })
				if late {
					server.Kill()
				}
				grow := func() {
					t.Helper()
					var all []string
					for range 3 {
						all = append(all, c.create("go").GetId())
					}
					for _, session := range all {
						if got := c.wait(session, ""); got.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
							t.Errorf("the root has ended %s: %s", got.GetState(), got.GetDetail())
						}
					}
				}
				grow()
				server.Restart()
				grow()
				server.Kill()
				grow()
				c.sound()
			})
		}
	}
}

const awayTree = `
steps:
  - when: {depth: 0, turn: 1}
    calls: [{tool: task, for_each: numbers 6, input: {description: 'child {{.Item}}', prompt: 'part {{.Item}}', subagent_type: explore}}]
  - {text: done}
`

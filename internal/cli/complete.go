package cli

import (
	"context"
	"strings"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Completion is bounded in time and size, because a person waits for it and reads it.
const (
	completeTimeout = 2 * time.Second
	maxCompletions  = 100
)

// target returns the connection flags of a command that embeds remote.
func (r remote) target() remote { return r }

func (r *runCommand) target() remote { return remote{r.Orchestrator, r.ClientFlags} }

// complete returns values for an argument or a flag of a command, as an orchestrator knows them. If
// none can be reached, it returns no values and prints nothing.
func complete(ctx context.Context, of any, argument string, given []string) (values []string, known bool) {
	if values, known = fixedValues[argument]; known {
		return values, true
	}
	at, remote := of.(interface{ target() remote })
	offer := completers[argument]
	if _, deletes := of.(*deleteAgentCommand); deletes && argument == "name" {
		offer = completeStoredAgents
	}
	if !remote || offer == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	_ = at.target().with(func(c *client) (err error) {
		values, err = offer(ctx, c, given)
		return err
	})
	return values, true
}

// fixedValues are the values of flags that no orchestrator has to be asked for. A number or an id
// of a message has none: a file would not fit either.
var fixedValues = map[string][]string{"--from": nil}

// completers return the values of arguments and flags, by their names.
var completers = map[string]func(ctx context.Context, c *client, given []string) ([]string, error){
	"session": completeSessions, "task": completeTasks, "id": completeApprovals, "name": completeAgents, "worker": completeWorkers,
	"--all": completeSessions, "--task": completeTasks, "--parent": completeTasks, "--agent": completeAgents,
}

// completion formats a value with a short description.
func completion(value string, about ...string) string {
	return safeLine(value) + "\t" + safeLine(strings.Join(about, " "))
}

func completeSessions(ctx context.Context, c *client, _ []string) ([]string, error) {
	page, err := c.sessions.ListSessions(ctx, &pb.ListSessionsRequest{PageSize: maxCompletions})
	var values []string
	for _, s := range page.GetSessions() {
		values = append(values, completion(s.GetId(), stateText(s.GetState())+":", s.GetTitle()))
	}
	if len(values) > 0 {
		values = append(values, completion(last, "the newest"))
	}
	return values, err
}

func completeTasks(ctx context.Context, c *client, given []string) ([]string, error) {
	if len(given) == 0 {
		return nil, nil // the session is not named yet
	}
	session, err := c.session(ctx, given[0])
	if err != nil {
		return nil, err
	}
	page, err := c.tasks.ListTasks(ctx, &pb.ListTasksRequest{SessionId: session, PageSize: maxCompletions})
	var values []string
	for _, t := range page.GetTasks() {
		values = append(values, completion(t.GetId(), stateText(t.GetState())+":", t.GetAgent(), t.GetDescription()))
	}
	return values, err
}

func completeApprovals(ctx context.Context, c *client, _ []string) ([]string, error) {
	page, err := c.approvals.ListApprovals(ctx, &pb.ListApprovalsRequest{PageSize: maxCompletions})
	var values []string
	for _, p := range page.GetApprovals() {
		values = append(values, completion(p.GetId())+callText(p))
	}
	return values, err
}

func completeAgents(ctx context.Context, c *client, _ []string) ([]string, error) {
	resp, err := c.agents.ListAgents(ctx, &pb.ListAgentsRequest{})
	var values []string
	for _, agent := range resp.GetAgents() {
		values = append(values, completion(agent.GetName(), agent.GetDescription()))
	}
	return values, err
}

// completeStoredAgents returns the agents that can be deleted.
func completeStoredAgents(ctx context.Context, c *client, _ []string) ([]string, error) {
	resp, err := c.agents.ListAgents(ctx, &pb.ListAgentsRequest{})
	var values []string
	for _, agent := range resp.GetAgents() {
		if agent.GetSource() == "api" {
			values = append(values, completion(agent.GetName(), agent.GetDescription()))
		}
	}
	return values, err
}

func completeWorkers(ctx context.Context, c *client, _ []string) ([]string, error) {
	resp, err := c.admin.ListWorkers(ctx, &pb.ListWorkersRequest{})
	var values []string
	for _, w := range resp.GetWorkers() {
		values = append(values, completion(w.GetId(), "in pool", w.GetPool()))
	}
	return values, err
}

-- +goose Up

-- There is nothing to do: a task's last run gets no row of its own, and those that are there stay.

-- +goose Down
INSERT INTO runs (session, task, run, state, reason, detail, answer,
  input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_micros, priced_tokens,
  tool_uses, iterations, accepted_at, started_at, ended_at)
SELECT session, id, run, state, reason, detail, coalesce(answer, 0),
  coalesce(run_input_tokens, 0), coalesce(run_output_tokens, 0), run_cache_read_tokens, run_cache_write_tokens, run_cost_micros, run_priced_tokens,
  run_tools, coalesce(iterations, 0), accepted_at, started_at, ended_at
FROM tasks WHERE state >= 5
ON CONFLICT DO NOTHING;

package tickwheel

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// Queues returns all queues that the token may see.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	answer, err := call[struct {
		Queues []Queue `json:"queues"`
	}](ctx, c, request{method: "GET", path: "/v1/queues"})
	return answer.Queues, err
}

// Queue returns a queue.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	return call[Queue](ctx, c, request{method: "GET", path: path("v1", "queues", name)})
}

// PutSettings replaces all settings of a queue. It creates the queue if there is none.
func (c *Client) PutSettings(ctx context.Context, queue string, settings QueueSettings) (Queue, error) {
	return call[Queue](ctx, c, request{method: "PUT", path: path("v1", "queues", queue, "settings"), body: settings})
}

// PatchSettings changes the settings that are given. It creates the queue if there is none.
func (c *Client) PatchSettings(ctx context.Context, queue string, settings QueueSettings) (Queue, error) {
	return call[Queue](ctx, c, request{method: "PATCH", path: path("v1", "queues", queue, "settings"), body: settings})
}

// PauseQueue stops deliveries of a queue.
func (c *Client) PauseQueue(ctx context.Context, name string) (Queue, error) {
	return call[Queue](ctx, c, request{method: "POST", path: path("v1", "queues", name, "pause")})
}

// ResumeQueue resumes deliveries of a queue.
func (c *Client) ResumeQueue(ctx context.Context, name string) (Queue, error) {
	return call[Queue](ctx, c, request{method: "POST", path: path("v1", "queues", name, "resume")})
}

type count struct {
	Count int64 `json:"count"`
}

func (c *Client) count(ctx context.Context, r request) (int64, error) {
	answer, err := call[count](ctx, c, r)
	return answer.Count, err
}

// KickQueue brings up to limit dead jobs of a queue back, all with limit 0, and returns how many.
func (c *Client) KickQueue(ctx context.Context, queue string, limit int) (int64, error) {
	body := struct {
		Limit int `json:"limit,omitempty"`
	}{limit}
	return c.count(ctx, request{method: "POST", path: path("v1", "queues", queue, "kick"), body: body})
}

// PurgeQueue removes finished jobs in the state Dead, Done or Cancelled that finished longer ago
// than olderThan, and returns how many.
func (c *Client) PurgeQueue(ctx context.Context, queue string, state State, olderThan time.Duration) (int64, error) {
	body := struct {
		State     State  `json:"state"`
		OlderThan millis `json:"older_than,omitempty"`
	}{state, millis(olderThan)}
	return c.count(ctx, request{method: "POST", path: path("v1", "queues", queue, "remove-finished"), body: body})
}

// DrainQueue cancels the waiting jobs of a queue, and returns how many.
func (c *Client) DrainQueue(ctx context.Context, queue string) (int64, error) {
	return c.count(ctx, request{method: "POST", path: path("v1", "queues", queue, "cancel-waiting")})
}

// RemoveQueue removes a queue, and returns how many jobs it had. A queue that has jobs is removed
// only with force.
func (c *Client) RemoveQueue(ctx context.Context, queue string, force bool) (int64, error) {
	query := url.Values{}
	if force {
		query.Set("force", "true")
	}
	return c.count(ctx, request{method: "DELETE", path: path("v1", "queues", queue), query: query})
}

// Groups returns a page of the groups of a queue that have live jobs or settings, by name.
func (c *Client) Groups(ctx context.Context, queue string, options GroupOptions) (GroupPage, error) {
	query := url.Values{}
	if options.Prefix != "" {
		query.Set("prefix", options.Prefix)
	}
	if options.Limit != 0 {
		query.Set("limit", strconv.Itoa(options.Limit))
	}
	if options.Page != "" {
		query.Set("page", options.Page)
	}
	return call[GroupPage](ctx, c, request{method: "GET", path: path("v1", "queues", queue, "groups"), query: query})
}

func (c *Client) patchGroup(ctx context.Context, queue, group string, patch any) (Group, error) {
	return call[Group](ctx, c, request{method: "PATCH", path: path("v1", "queues", queue, "groups", group), body: patch})
}

// PauseGroup stops deliveries of a group.
func (c *Client) PauseGroup(ctx context.Context, queue, group string) (Group, error) {
	return c.patchGroup(ctx, queue, group, map[string]bool{"paused": true})
}

// ResumeGroup resumes deliveries of a group.
func (c *Client) ResumeGroup(ctx context.Context, queue, group string) (Group, error) {
	return c.patchGroup(ctx, queue, group, map[string]bool{"paused": false})
}

// PaceGroup gives a group limits of its own. With nil the group pacing of the queue holds.
func (c *Client) PaceGroup(ctx context.Context, queue, group string, pacing *Pacing) (Group, error) {
	return c.patchGroup(ctx, queue, group, map[string]*Pacing{"pacing": pacing})
}

// PutSchedule sets the schedule with the name.
func (c *Client) PutSchedule(ctx context.Context, name string, schedule NewSchedule) (Schedule, error) {
	return call[Schedule](ctx, c, request{method: "PUT", path: path("v1", "schedules", name), body: schedule})
}

// Schedules returns all schedules that the token may see, by name.
func (c *Client) Schedules(ctx context.Context) ([]Schedule, error) {
	answer, err := call[struct {
		Schedules []Schedule `json:"schedules"`
	}](ctx, c, request{method: "GET", path: "/v1/schedules"})
	return answer.Schedules, err
}

// Schedule returns a schedule.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	return call[Schedule](ctx, c, request{method: "GET", path: path("v1", "schedules", name)})
}

// PauseSchedule pauses a schedule. Occurrences that fall into a pause are skipped.
func (c *Client) PauseSchedule(ctx context.Context, name string) (Schedule, error) {
	return call[Schedule](ctx, c, request{method: "POST", path: path("v1", "schedules", name, "pause")})
}

// ResumeSchedule resumes a schedule.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (Schedule, error) {
	return call[Schedule](ctx, c, request{method: "POST", path: path("v1", "schedules", name, "resume")})
}

// RemoveSchedule removes a schedule, and returns it as it was.
func (c *Client) RemoveSchedule(ctx context.Context, name string) (Schedule, error) {
	return call[Schedule](ctx, c, request{method: "DELETE", path: path("v1", "schedules", name)})
}

// NextRuns returns the next n occurrences of a schedule.
func (c *Client) NextRuns(ctx context.Context, name string, n int) ([]Timestamp, error) {
	answer, err := call[struct {
		Next []due `json:"next"`
	}](ctx, c, request{
		method: "GET", path: path("v1", "schedules", name, "next"), query: url.Values{"n": {strconv.Itoa(n)}},
	})
	runs := make([]Timestamp, len(answer.Next))
	for i, run := range answer.Next {
		runs[i] = run.Due
	}
	return runs, err
}

// Stats returns counters since the start of the server, and current numbers.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	return call[Stats](ctx, c, request{method: "GET", path: "/v1/stats"})
}

// StatsSince returns the statistics with what happened in a window up to now, of 10 s to 1 h.
func (c *Client) StatsSince(ctx context.Context, window time.Duration) (Stats, error) {
	query := url.Values{"since": {strconv.FormatInt(window.Milliseconds(), 10) + "ms"}}
	return call[Stats](ctx, c, request{method: "GET", path: "/v1/stats", query: query})
}

// Metrics returns the metrics of the server in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	return call[string](ctx, c, request{method: "GET", path: "/metrics"})
}

// Health returns the version of the server, if it is alive.
func (c *Client) Health(ctx context.Context) (Health, error) {
	return call[Health](ctx, c, request{method: "GET", path: "/healthz"})
}

// Ready returns an error if the server is starting or stopping. It does not retry.
func (c *Client) Ready(ctx context.Context) (Health, error) {
	return call[Health](ctx, c, request{method: "GET", path: "/readyz", single: true})
}

// Clock returns the time of the server.
func (c *Client) Clock(ctx context.Context) (Clock, error) {
	return call[Clock](ctx, c, request{method: "GET", path: "/v1/clock"})
}

// Advance advances the clock of a server that was started with --clock manual. It returns when
// everything that is due at the new time is done.
func (c *Client) Advance(ctx context.Context, by time.Duration) (Clock, error) {
	body := struct {
		By millis `json:"by"`
	}{millis(by)}
	return call[Clock](ctx, c, request{method: "POST", path: "/v1/clock/advance", body: body, once: true})
}

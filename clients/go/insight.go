package tickwheel

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

// ErrorGroup is jobs whose last attempt failed with the same error, apart from numbers and ids.
type ErrorGroup struct {
	Error        string    `json:"error"`    // the first line, with # for numbers, ids, addresses and times
	Count        int64     `json:"count"`    // the number of jobs
	Dead         int64     `json:"dead"`     // dead jobs among them
	Retrying     int64     `json:"retrying"` // jobs that will be tried again, or are being tried
	Newest       Timestamp `json:"newest_ms,omitempty"`
	Oldest       Timestamp `json:"oldest_ms,omitempty"`
	Example      string    `json:"example"`       // one of the jobs
	Queue        string    `json:"queue"`         // the queue of that job
	ExampleError string    `json:"example_error"` // the whole error of that job
}

// ErrorGroups are errors, grouped.
type ErrorGroups struct {
	Groups   []ErrorGroup `json:"groups"`   // those with most jobs first
	Others   int64        `json:"others"`   // jobs of groups that are left out
	Complete bool         `json:"complete"` // whether all jobs were looked at; at most 500,000 are
}

// Errors returns why jobs of a queue fail, or of all queues if it is empty, in up to limit groups;
// 0 stands for 100.
func (c *Client) Errors(ctx context.Context, queue string, limit int) (ErrorGroups, error) {
	address, query := "/v1/errors", url.Values{}
	if queue != "" {
		address = path("v1", "queues", queue, "errors")
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return call[ErrorGroups](ctx, c, request{method: "GET", path: address, query: query})
}

// BulkAction is what a change does to each job that matches.
type BulkAction string

// The actions of a change.
const (
	BulkRetry      BulkAction = "retry"      // makes dead jobs ready again, with all their attempts
	BulkRun        BulkAction = "run"        // makes scheduled jobs ready now
	BulkReschedule BulkAction = "reschedule" // gives scheduled and ready jobs another due time
	BulkCancel     BulkAction = "cancel"     // cancels scheduled and ready jobs; with the state Leased those
)

// JobFilter is which jobs of a queue match: those that match every field that is not zero.
type JobFilter struct {
	State      State
	Error      string    // jobs whose last error contains this text, in any case of ASCII letters
	ErrorGroup string    // jobs whose last error belongs to this group: ErrorGroup.Error
	Key        string    // jobs with this key
	KeyPrefix  string    // jobs whose key begins with this
	DueFrom    time.Time // jobs due at this time or later
	DueTo      time.Time // jobs due at this time or earlier
}

// MarshalJSON returns the filter in the form of the API.
func (f JobFilter) MarshalJSON() ([]byte, error) {
	members := map[string]any{}
	for name, value := range map[string]string{
		"state": string(f.State), "error": f.Error, "error_group": f.ErrorGroup, "key": f.Key, "key_prefix": f.KeyPrefix,
	} {
		if value != "" {
			members[name] = value
		}
	}
	for name, value := range map[string]time.Time{"due_from": f.DueFrom, "due_to": f.DueTo} {
		if !value.IsZero() {
			members[name] = TimestampOf(value)
		}
	}
	return json.Marshal(members)
}

// BulkChange changes every job of a queue that matches. Each request changes up to Limit jobs.
type BulkChange struct {
	Action BulkAction
	Filter JobFilter // all jobs that the action can change, if it is empty
	When   *When     // for BulkReschedule: when the jobs are due
	DryRun bool      // counts the jobs and changes nothing
	Limit  int       // at most 1,000, the default
	Cursor string    // BulkResult.Next of the step before
}

// MarshalJSON returns the change in the form of the API.
func (b BulkChange) MarshalJSON() ([]byte, error) {
	var when wireWhen
	if b.When != nil {
		when = b.When.wire()
	}
	return json.Marshal(struct {
		Action BulkAction `json:"action"`
		Filter JobFilter  `json:"filter"`
		wireWhen
		DryRun bool   `json:"dry_run,omitempty"`
		Limit  int    `json:"limit,omitempty"`
		Cursor string `json:"cursor,omitempty"`
	}{b.Action, b.Filter, when, b.DryRun, b.Limit, b.Cursor})
}

// BulkResult is what a change did.
type BulkResult struct {
	Matched int64  `json:"matched"`       // jobs that matched
	Changed int64  `json:"changed"`       // jobs among them that were changed; 0 in a dry run
	Skipped int64  `json:"skipped"`       // jobs among them that could not be changed
	Why     string `json:"why,omitempty"` // why the first of these could not be changed
	Next    string `json:"next,omitempty"`
}

// ChangeMatching changes up to BulkChange.Limit jobs of a queue that match: one step. The next step
// has BulkResult.Next as its cursor; it is empty after the last one.
func (c *Client) ChangeMatching(ctx context.Context, queue string, change BulkChange) (BulkResult, error) {
	return call[BulkResult](ctx, c, request{
		method: "POST", path: path("v1", "queues", queue, "bulk"), body: change, once: !change.DryRun,
	})
}

// ChangeAllMatching changes every job of a queue that matches, step by step, and returns the sums of
// all steps. After an error the jobs of earlier steps stay changed; the sums are those of these steps.
func (c *Client) ChangeAllMatching(ctx context.Context, queue string, change BulkChange) (BulkResult, error) {
	var sums BulkResult
	for {
		step, err := c.ChangeMatching(ctx, queue, change)
		if err != nil {
			return sums, err
		}
		sums.Matched += step.Matched
		sums.Changed += step.Changed
		sums.Skipped += step.Skipped
		if sums.Why == "" {
			sums.Why = step.Why
		}
		if step.Next == "" {
			return sums, nil
		}
		change.Cursor = step.Next
	}
}

// Trouble is one thing that is wrong.
type Trouble struct {
	Code    string `json:"code"`             // store-failing, disk-nearly-full, damaged-rows, jobs-wait or target-held
	Message string `json:"message"`          // one sentence for people
	Queue   string `json:"queue,omitempty"`  // the queue that it concerns
	Target  string `json:"target,omitempty"` // the target that it concerns
}

// Rates are jobs in each second, averaged over the last 10.
type Rates struct {
	Put       float64 `json:"put"`
	Delivered float64 `json:"delivered"`
	Acked     float64 `json:"acked"`
	Failed    float64 `json:"failed"`
	Died      float64 `json:"died"`
}

// Upcoming is how many waiting jobs become due when. The ranges do not overlap.
type Upcoming struct {
	At     Timestamp `json:"at_ms"`  // when the jobs were counted
	Ready  int64     `json:"ready"`  // due already
	Minute int64     `json:"minute"` // due within a minute
	Hour   int64     `json:"hour"`   // due within an hour
	Day    int64     `json:"day"`    // due within a day
	Month  int64     `json:"month"`  // due within 30 days
	Later  int64     `json:"later"`
}

// QueueOverview is a queue at one glance. Pointers are nil for what is not known.
type QueueOverview struct {
	Name              string    `json:"name"`
	Paused            bool      `json:"paused"`
	Target            string    `json:"target,omitempty"` // the target that gets its jobs
	Jobs              Counts    `json:"jobs"`
	MoreReady         bool      `json:"more_ready"` // more jobs are ready than memory holds; those count as scheduled
	Held              int64     `json:"held"`       // ready jobs that a pause or a limit holds back
	Rates             *Rates    `json:"rates,omitempty"`
	OldestReady       Timestamp `json:"oldest_ready_ms,omitempty"` // when the job was due that has been ready for the longest time
	WaitingMs         *int64    `json:"waiting_ms,omitempty"`      // how long that job has waited
	LatenessP50Ms     *int64    `json:"lateness_p50_ms,omitempty"` // in the last minute
	LatenessP99Ms     *int64    `json:"lateness_p99_ms,omitempty"`
	Workers           *int64    `json:"workers,omitempty"` // workers that reserved jobs in the last minute
	Upcoming          *Upcoming `json:"upcoming,omitempty"`
	PacingUtilisation *float64  `json:"pacing_utilisation,omitempty"` // the share of the queue's limits that is used, 0 to 1
}

// OverviewTotals are the numbers of all queues that the token may see.
type OverviewTotals struct {
	Queues        int64     `json:"queues"`
	PausedQueues  int64     `json:"paused_queues"`
	Jobs          Counts    `json:"jobs"`
	Held          int64     `json:"held"`
	Rates         *Rates    `json:"rates,omitempty"`
	LatenessP50Ms *int64    `json:"lateness_p50_ms,omitempty"`
	LatenessP99Ms *int64    `json:"lateness_p99_ms,omitempty"`
	Workers       *int64    `json:"workers,omitempty"`
	Upcoming      *Upcoming `json:"upcoming,omitempty"`
	DiskBytes     *int64    `json:"disk_bytes,omitempty"`
	DiskFreeBytes *int64    `json:"disk_free_bytes,omitempty"`
}

// Overview is everything at one glance.
type Overview struct {
	At            Timestamp       `json:"at_ms"`
	Summary       string          `json:"summary"`          // "all on time", or the worst trouble
	Health        []Trouble       `json:"health"`           // what is wrong, the worst first
	Totals        *OverviewTotals `json:"totals,omitempty"` // nil while the store does not answer
	Queues        []QueueOverview `json:"queues"`           // by name; at most 200
	QueuesLeftOut int64           `json:"queues_left_out"`
}

// Overview returns everything at one glance: health, totals, and the numbers of each queue.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	return call[Overview](ctx, c, request{method: "GET", path: "/v1/overview"})
}

// HistoryWindow is how far back a history goes.
type HistoryWindow string

// The windows of a history. The default is Minutes15.
const (
	Minutes15 HistoryWindow = "15m" // a point for each second
	Hours24   HistoryWindow = "24h" // a point for each minute
)

// History is what happened in the last minutes or hours, in columns: the values at one index belong
// together. A value is nil where the server has no data.
type History struct {
	Window            HistoryWindow `json:"window"`
	StepMs            int64         `json:"step_ms"`         // the time between two points
	Queue             string        `json:"queue,omitempty"` // empty for all queues
	Tracked           bool          `json:"tracked"`         // whether the server keeps a history of this queue
	At                []Timestamp   `json:"at_ms"`           // the end of the time that each point covers
	Put               []*int64      `json:"put"`
	Delivered         []*int64      `json:"delivered"`
	Acked             []*int64      `json:"acked"`
	Failed            []*int64      `json:"failed"`
	Died              []*int64      `json:"died"`
	LatenessP50Ms     []*int64      `json:"lateness_p50_ms"`
	LatenessP99Ms     []*int64      `json:"lateness_p99_ms"`
	LatenessMaxMs     []*int64      `json:"lateness_max_ms"`
	Scheduled         []*int64      `json:"scheduled"`
	Ready             []*int64      `json:"ready"`
	Leased            []*int64      `json:"leased"`
	Dead              []*int64      `json:"dead"`
	PacingUtilisation []*float64    `json:"pacing_utilisation"`
}

// History returns what happened in a window up to now, in a queue, or in all queues if it is empty.
func (c *Client) History(ctx context.Context, window HistoryWindow, queue string) (History, error) {
	query := url.Values{}
	if window != "" {
		query.Set("window", string(window))
	}
	if queue != "" {
		query.Set("queue", queue)
	}
	return call[History](ctx, c, request{method: "GET", path: "/v1/history", query: query})
}

// WheelLevel is one level of the timing wheel. Slot s begins at Start + s * SlotMs. The last three
// fields are columns: the values at one index belong to one slot.
type WheelLevel struct {
	Level    int       `json:"level"` // 0 is the innermost
	Slots    int       `json:"slots"`
	SlotMs   int64     `json:"slot_ms"`  // how many milliseconds a slot spans
	Position int       `json:"position"` // the slot in which the present is
	Start    Timestamp `json:"start_ms"` // when slot 0 begins
	Occupied []int     `json:"occupied"` // the slots that hold something, in ascending order
	Jobs     []int64   `json:"jobs"`     // jobs in each of these slots that become ready
	Leases   []int64   `json:"leases"`   // leases in each of these slots that expire
}

// Wheel is the timing wheel of the queue.
type Wheel struct {
	At        Timestamp    `json:"at_ms"`
	HorizonMs int64        `json:"horizon_ms"` // how far ahead jobs are kept on the wheel
	Levels    []WheelLevel `json:"levels"`     // from the innermost outward
	Ready     int64        `json:"ready"`      // jobs in memory that are due
	Beyond    int64        `json:"beyond"`     // jobs on disk only
}

// Wheel returns the timing wheel: how many jobs and leases each slot holds.
func (c *Client) Wheel(ctx context.Context) (Wheel, error) {
	return call[Wheel](ctx, c, request{method: "GET", path: "/v1/wheel"})
}

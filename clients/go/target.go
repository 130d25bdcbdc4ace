package tickwheel

import (
	"context"
	"encoding/json"
	"time"
)

// TargetState is how deliveries to a target go.
type TargetState string

// The states of a target.
const (
	TargetActive  TargetState = "active"  // as fast as its pacing allows
	TargetSlow    TargetState = "slow"    // after trouble: the rate starts low and doubles each second
	TargetHeld    TargetState = "held"    // nothing until the next probe, then one job
	TargetStopped TargetState = "stopped" // the target answered 410: nothing until it is resumed
	TargetPaused  TargetState = "paused"  // nothing until it is resumed
)

// TargetSettings are the settings of a target: an HTTP endpoint that gets the jobs of queues. In a
// request, a zero field stands for its default (PutTarget) or for no change (PatchTarget).
type TargetSettings struct {
	// URL is http or https. Path and query may contain {id}, {key}, {queue} and {header:NAME}.
	URL         string            `json:"url,omitempty"`
	Method      string            `json:"method,omitempty"`       // defaults to POST
	Headers     map[string]string `json:"headers,omitempty"`      // headers of each request
	Forward     []string          `json:"forward,omitempty"`      // names of job headers that each request carries
	Timeout     time.Duration     `json:"timeout,omitempty"`      // 1 ms to 30 min; defaults to 10 s
	CA          string            `json:"ca,omitempty"`           // certificates in PEM to trust instead of the public ones
	Pacing      *Pacing           `json:"pacing,omitempty"`       // requests in any window, and at once
	Retry       *Retry            `json:"retry,omitempty"`        // where the job names none
	MaxAttempts int               `json:"max_attempts,omitempty"` // where the job names none
}

type plainTargetSettings TargetSettings

type wireTargetSettings struct {
	*plainTargetSettings
	Timeout millis `json:"timeout,omitempty"`
}

// MarshalJSON returns the settings in the form of the API.
func (s TargetSettings) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireTargetSettings{(*plainTargetSettings)(&s), millis(s.Timeout)})
}

// UnmarshalJSON reads the form of the API.
func (s *TargetSettings) UnmarshalJSON(data []byte) error {
	wire := wireTargetSettings{plainTargetSettings: (*plainTargetSettings)(s)}
	err := json.Unmarshal(data, &wire)
	s.Timeout = time.Duration(wire.Timeout)
	return err
}

// TargetCounts are what became of the requests to a target since the server started.
type TargetCounts struct {
	Delivered int64 `json:"delivered"` // requests answered with 2xx
	Failed    int64 `json:"failed"`    // failed attempts
	Held      int64 `json:"held"`      // jobs that were put back without counting an attempt
}

// TargetCause is why a target is not active or a request to it failed, for programs: a code such as
// answered, timeout or unreachable, and the value that belongs to it.
type TargetCause struct {
	Code       string `json:"code"`
	Detail     string `json:"detail,omitempty"`
	Recovering bool   `json:"recovering,omitempty"` // a request has succeeded since: the rate grows again
}

// TargetResponse is a target's response to a job, or why there was none.
type TargetResponse struct {
	At         Timestamp    `json:"at_ms"` // when the request ended
	DurationMs int64        `json:"duration_ms"`
	Verdict    string       `json:"verdict"` // what became of the job: delivered, failed, dead, held or stopped
	Status     int          `json:"status,omitempty"`
	Excerpt    string       `json:"excerpt,omitempty"` // the beginning of the body
	Error      string       `json:"error,omitempty"`   // why there was no response
	Cause      *TargetCause `json:"cause,omitempty"`   // the same for programs
}

// TargetSecret is a signing secret, without the secret itself.
type TargetSecret struct {
	Created Timestamp `json:"created_ms"`
	Expires Timestamp `json:"expires_ms,omitempty"` // when it stops signing, if another has replaced it
}

// Target is a target.
type Target struct {
	Name      string         `json:"name"`
	State     TargetState    `json:"state"`
	Reason    string         `json:"reason,omitempty"`        // why the target is not active
	Cause     *TargetCause   `json:"cause,omitempty"`         // the same for programs
	NextProbe Timestamp      `json:"next_probe_ms,omitempty"` // when a held target is tried again
	Queues    []string       `json:"queues"`                  // the queues whose jobs it gets
	InFlight  int64          `json:"in_flight"`               // requests that are not answered yet
	Counts    TargetCounts   `json:"counts"`
	Settings  TargetSettings `json:"settings"` // values of headers that look like credentials are replaced
	Secrets   []TargetSecret `json:"secrets"`  // the newest first
	// Responses are the last 5 to jobs since the server started, the newest first.
	Responses []TargetResponse `json:"responses,omitempty"`
	// Secret is the new signing secret. Only the answer to the request that made it has it.
	Secret string `json:"secret,omitempty"`
}

// TargetHeader is a header of HTTP.
type TargetHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TargetTrial is one request to a target, and its response.
type TargetTrial struct {
	ID              string         `json:"id"` // the webhook-id; no job has it
	Method          string         `json:"method"`
	URL             string         `json:"url"`
	RequestHeaders  []TargetHeader `json:"request_headers"`
	RequestBody     string         `json:"request_body"`
	Address         string         `json:"address,omitempty"` // the address that was dialled
	Status          int            `json:"status,omitempty"`
	ResponseHeaders []TargetHeader `json:"response_headers,omitempty"`
	ResponseBody    string         `json:"response_body,omitempty"`
	Error           string         `json:"error,omitempty"`
	Cause           *TargetCause   `json:"cause,omitempty"` // the error for programs
	DurationMs      int64          `json:"duration_ms"`
	Verdict         string         `json:"verdict"` // what would become of a job: delivered, failed, dead, held or stopped
}

// Targets returns all targets, by name.
func (c *Client) Targets(ctx context.Context) ([]Target, error) {
	answer, err := call[struct {
		Targets []Target `json:"targets"`
	}](ctx, c, request{method: "GET", path: "/v1/targets"})
	return answer.Targets, err
}

func (c *Client) target(ctx context.Context, r request) (Target, error) {
	return call[Target](ctx, c, r)
}

// Target returns a target.
func (c *Client) Target(ctx context.Context, name string) (Target, error) {
	return c.target(ctx, request{method: "GET", path: path("v1", "targets", name)})
}

// PutTarget adds a target, or replaces its settings as a whole. The answer that adds it has its
// signing secret.
func (c *Client) PutTarget(ctx context.Context, name string, settings TargetSettings) (Target, error) {
	return c.target(ctx, request{method: "PUT", path: path("v1", "targets", name), body: settings})
}

// PatchTarget changes the settings that are given.
func (c *Client) PatchTarget(ctx context.Context, name string, settings TargetSettings) (Target, error) {
	return c.target(ctx, request{method: "PATCH", path: path("v1", "targets", name), body: settings})
}

// RemoveTarget removes a target that no queue names, and returns it as it was.
func (c *Client) RemoveTarget(ctx context.Context, name string) (Target, error) {
	return c.target(ctx, request{method: "DELETE", path: path("v1", "targets", name)})
}

// PauseTarget pauses a target: its jobs stay in their queues.
func (c *Client) PauseTarget(ctx context.Context, name string) (Target, error) {
	return c.target(ctx, request{method: "POST", path: path("v1", "targets", name, "pause")})
}

// ResumeTarget resumes a target that is paused, held or stopped.
func (c *Client) ResumeTarget(ctx context.Context, name string) (Target, error) {
	return c.target(ctx, request{method: "POST", path: path("v1", "targets", name, "resume")})
}

// RotateTarget adds a signing secret, which the answer has. The old ones sign beside it for keepOld,
// 24 hours if it is zero.
func (c *Client) RotateTarget(ctx context.Context, name string, keepOld time.Duration) (Target, error) {
	body := struct {
		KeepOld millis `json:"keep_old,omitempty"`
	}{millis(keepOld)}
	return c.target(ctx, request{method: "POST", path: path("v1", "targets", name, "rotate"), body: body, once: true})
}

// maxTargetTimeout is the longest timeout of a target.
const maxTargetTimeout = 30 * time.Minute

// TestTarget sends one signed request to a target. It counts in the rate of the target, and changes
// neither jobs nor its state.
func (c *Client) TestTarget(ctx context.Context, name string) (TargetTrial, error) {
	return call[TargetTrial](ctx, c, request{
		method: "POST", path: path("v1", "targets", name, "test"), timeout: c.timeout + maxTargetTimeout, once: true,
	})
}

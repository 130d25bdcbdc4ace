package tickwheel

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// The requests of workers. A [Worker] sends them for you.

// ReserveOptions are what a reserve asks for.
type ReserveOptions struct {
	Limit int           // the maximum number of jobs; defaults to 1, at most 1,000
	Lease time.Duration // the duration of the lease; defaults to the queue's
	Wait  time.Duration // how long to wait if no job is ready, at most 60 s; defaults to no wait
	// Worker is the name of the worker, which is shown with its jobs and in their history.
	Worker string
}

type wireReserve struct {
	Limit int    `json:"limit,omitempty"`
	Lease millis `json:"lease,omitempty"`
	Wait  millis `json:"wait,omitempty"`
	// Worker is the name of the worker.
	Worker string `json:"worker,omitempty"`
}

// Reserve leases jobs. It returns an empty list if the wait ended first.
func (c *Client) Reserve(ctx context.Context, queue string, options ReserveOptions) ([]Delivery, error) {
	return c.reserve(ctx, queue, options, false)
}

func (c *Client) reserve(ctx context.Context, queue string, options ReserveOptions, single bool) ([]Delivery, error) {
	answer, err := call[struct {
		Deliveries []Delivery `json:"deliveries"`
	}](ctx, c, request{
		method: "POST", path: path("v1", "queues", queue, "reserve"),
		body:    wireReserve{options.Limit, millis(options.Lease), millis(options.Wait), options.Worker},
		timeout: c.timeout + options.Wait,
		single:  single,
	})
	return answer.Deliveries, err
}

// LeaseItem names a leased job. The fields after Token belong to one request each.
type LeaseItem struct {
	ID    string // the job
	Token string // the lease token of its delivery

	Result any            // AckMany: the result, nil for none
	Error  string         // FailMany: what went wrong
	Delay  *time.Duration // FailMany, ReleaseMany: when the job is ready again
	Dead   bool           // FailMany: do not retry
	Lease  time.Duration  // ExtendMany: the new duration of the lease, from now
}

// wireLease is the body of each request about a leased job, alone or in a batch.
type wireLease struct {
	ID     string          `json:"id,omitempty"`
	Token  string          `json:"token"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Delay  *millis         `json:"delay,omitempty"`
	Dead   bool            `json:"dead,omitempty"`
	Lease  *millis         `json:"lease,omitempty"`
}

func ackWire(id, token string, result any) (wireLease, error) {
	wire := wireLease{ID: id, Token: token}
	if result == nil {
		return wire, nil
	}
	data, err := json.Marshal(result)
	if err != nil {
		return wire, fmt.Errorf("tickwheel: cannot encode the result of job %s as JSON: %w", id, err)
	}
	wire.Result = data
	return wire, nil
}

type state struct {
	State State `json:"state"`
}

func (c *Client) leaseRequest(id, verb string, wire wireLease) request {
	wire.ID = ""
	return request{method: "POST", path: path("v1", "jobs", id, verb), body: wire}
}

// Ack acknowledges a job. The result is kept with the job as JSON; nil is no result.
func (c *Client) Ack(ctx context.Context, id, token string, result any) error {
	wire, err := ackWire(id, token, result)
	if err != nil {
		return err
	}
	_, err = call[state](ctx, c, c.leaseRequest(id, "ack", wire))
	return err
}

// AckMany acknowledges jobs.
func (c *Client) AckMany(ctx context.Context, list []LeaseItem) ([]Result[State], error) {
	wire := make([]wireLease, len(list))
	for i, item := range list {
		var err error
		if wire[i], err = ackWire(item.ID, item.Token, item.Result); err != nil {
			return nil, err
		}
	}
	answers, err := batch[wireLease, state](ctx, c, "/v1/jobs/batch/ack", wire, "")
	return mapResults(answers, stateOf), err
}

func stateOf(answer state) State { return answer.State }

// Failure says how an attempt failed.
type Failure struct {
	Error string         // what went wrong; kept with the job, cut to 4,096 bytes
	Delay *time.Duration // retry after this delay; nil follows the job's retry policy
	Dead  bool           // do not retry
}

func failWire(id, token string, failure Failure) wireLease {
	return wireLease{
		ID: id, Token: token, Error: cut(failure.Error, 4096), Delay: (*millis)(failure.Delay), Dead: failure.Dead,
	}
}

// cut shortens the text to at most size bytes, at the border of a character.
func cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && text[size]&0xC0 == 0x80 {
		size--
	}
	return text[:size]
}

// Fail reports that an attempt failed, and returns the job's new state.
func (c *Client) Fail(ctx context.Context, id, token string, failure Failure) (State, error) {
	answer, err := call[state](ctx, c, c.leaseRequest(id, "fail", failWire(id, token, failure)))
	return answer.State, err
}

// FailMany reports that attempts failed.
func (c *Client) FailMany(ctx context.Context, list []LeaseItem) ([]Result[State], error) {
	wire := make([]wireLease, len(list))
	for i, item := range list {
		wire[i] = failWire(item.ID, item.Token, Failure{item.Error, item.Delay, item.Dead})
	}
	answers, err := batch[wireLease, state](ctx, c, "/v1/jobs/batch/fail", wire, "")
	return mapResults(answers, stateOf), err
}

type until struct {
	Until Timestamp `json:"until_ms"`
}

// Extend sets the duration of a lease, from now, and returns when it expires.
func (c *Client) Extend(ctx context.Context, id, token string, lease time.Duration) (Timestamp, error) {
	answer, err := call[until](ctx, c, c.leaseRequest(id, "extend", wireLease{Token: token, Lease: (*millis)(&lease)}))
	return answer.Until, err
}

// ExtendMany extends leases.
func (c *Client) ExtendMany(ctx context.Context, list []LeaseItem) ([]Result[Timestamp], error) {
	wire := make([]wireLease, len(list))
	for i, item := range list {
		wire[i] = wireLease{ID: item.ID, Token: item.Token, Lease: (*millis)(&item.Lease)}
	}
	answers, err := batch[wireLease, until](ctx, c, "/v1/jobs/batch/extend", wire, "")
	return mapResults(answers, func(answer until) Timestamp { return answer.Until }), err
}

type released struct {
	Released bool `json:"released"`
}

// Release gives a job back without counting an attempt. With a nil delay the job is ready at once,
// in its old position.
func (c *Client) Release(ctx context.Context, id, token string, delay *time.Duration) error {
	_, err := call[released](ctx, c, c.leaseRequest(id, "release", wireLease{Token: token, Delay: (*millis)(delay)}))
	return err
}

// ReleaseMany gives jobs back.
func (c *Client) ReleaseMany(ctx context.Context, list []LeaseItem) ([]Result[bool], error) {
	wire := make([]wireLease, len(list))
	for i, item := range list {
		wire[i] = wireLease{ID: item.ID, Token: item.Token, Delay: (*millis)(item.Delay)}
	}
	answers, err := batch[wireLease, released](ctx, c, "/v1/jobs/batch/release", wire, "")
	return mapResults(answers, func(answer released) bool { return answer.Released }), err
}

// Kick brings a dead job back.
func (c *Client) Kick(ctx context.Context, id string) error {
	_, err := call[state](ctx, c, request{method: "POST", path: path("v1", "jobs", id, "kick")})
	return err
}

// KickMany brings dead jobs back.
func (c *Client) KickMany(ctx context.Context, ids []string) ([]Result[State], error) {
	answers, err := batch[idItem, state](ctx, c, "/v1/jobs/batch/kick", idItems(ids), "")
	return mapResults(answers, stateOf), err
}

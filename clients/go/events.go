package tickwheel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
)

// Event is a change of a job.
type Event struct {
	// Event is what happened: put, replaced, rescheduled, leased, extended, acked, failed, expired,
	// released, dead, cancelled or kicked; or reset if events may be missing before this one. A
	// reset has no job: list the jobs again.
	Event    string    `json:"event"`
	Queue    string    `json:"queue"`
	Job      string    `json:"job"`
	Key      string    `json:"key,omitempty"`   // the key of the job
	Error    string    `json:"error,omitempty"` // of an attempt that failed or whose lease expired: the first 256 bytes
	State    State     `json:"state"`
	At       Timestamp `json:"at_ms"`
	Due      Timestamp `json:"due_ms,omitempty"`   // if the job waits
	Until    Timestamp `json:"until_ms,omitempty"` // if a worker has the job
	Attempts int       `json:"attempts,omitempty"` // if the job is leased or dead
	By       string    `json:"by,omitempty"`       // the job that replaced this one

	// ID is the position in the stream.
	ID string `json:"-"`
}

// TargetEvent is a change of the state of a target.
type TargetEvent struct {
	Target    string       `json:"target"`
	State     TargetState  `json:"state,omitempty"`  // empty if the target was removed
	Reason    string       `json:"reason,omitempty"` // why the target is not active
	Cause     *TargetCause `json:"cause,omitempty"`  // the same for programs
	At        Timestamp    `json:"at_ms"`
	NextProbe Timestamp    `json:"next_probe_ms,omitempty"` // when a held target is tried again
}

// TargetEventStream is an open stream of the states of targets. Close it when you are done.
type TargetEventStream struct{ stream EventStream }

// TargetEvents opens the stream of the states of all targets. It begins with the state of each
// target.
func (c *Client) TargetEvents(ctx context.Context) (*TargetEventStream, error) {
	stream, err := c.follow(ctx, "/v1/target-events", url.Values{})
	if err != nil {
		return nil, err
	}
	return &TargetEventStream{*stream}, nil
}

// Close ends the stream.
func (s *TargetEventStream) Close() { s.stream.Close() }

// Next waits for the next event, as [EventStream.Next].
func (s *TargetEventStream) Next() (TargetEvent, error) {
	var event TargetEvent
	_, err := s.stream.next(&event)
	return event, err
}

// EventStream is an open stream of events. Close it when you are done.
type EventStream struct {
	client *Client
	path   string
	query  url.Values
	ctx    context.Context
	cancel context.CancelFunc
	body   io.ReadCloser
	lines  *bufio.Reader
	lastID string
}

// Events opens the stream of events of a queue, or of all queues if it is empty. It returns when
// the server has accepted the request: every later change is in the stream.
func (c *Client) Events(ctx context.Context, queue string) (*EventStream, error) {
	return c.EventsMatching(ctx, queue, EventFilter{})
}

// EventFilter is which events to follow: those that match every field that is not zero.
type EventFilter struct {
	Events    []string // the names of the events, such as failed and dead
	State     State    // events after which the job is in this state
	Key       string   // events of jobs with this key
	KeyPrefix string   // events of jobs whose key begins with this
	Error     string   // failures whose error contains this text, in any case of ASCII letters
}

// EventsMatching opens the stream of the events that match, as [Client.Events].
func (c *Client) EventsMatching(ctx context.Context, queue string, filter EventFilter) (*EventStream, error) {
	address := "/v1/events"
	if queue != "" {
		address = path("v1", "queues", queue, "events")
	}
	query := url.Values{}
	for name, value := range map[string]string{
		"event": strings.Join(filter.Events, ","), "state": string(filter.State), "key": filter.Key,
		"key_prefix": filter.KeyPrefix, "error": filter.Error,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return c.follow(ctx, address, query)
}

func (c *Client) follow(ctx context.Context, address string, query url.Values) (*EventStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream := &EventStream{client: c, path: address, query: query, ctx: ctx, cancel: cancel}
	if err := stream.connect(); err != nil {
		cancel()
		return nil, err
	}
	return stream, nil
}

// Close ends the stream.
func (s *EventStream) Close() { s.cancel() }

// Next waits for the next event. When the connection breaks, it reconnects and resumes after the
// last event. It returns an error if the context ends, or if the server refuses the stream.
func (s *EventStream) Next() (Event, error) {
	var event Event
	name, err := s.next(&event)
	event.Event, event.ID = name, s.lastID
	return event, err
}

// next reads the data of the next event into target, and returns the name of the event.
func (s *EventStream) next(target any) (string, error) {
	for failures := 0; ; {
		if s.lines != nil {
			name, err := s.read(target)
			if err == nil {
				return name, nil
			}
			s.body.Close()
			s.lines = nil
		}
		if s.ctx.Err() != nil {
			return "", s.ctx.Err()
		}
		err := s.connect()
		if err == nil {
			continue
		}
		var problem *Problem
		if errors.As(err, &problem) && !problem.refusedForNow() {
			return "", err
		}
		if err := sleep(s.ctx, s.client.retry.wait(failures, err)); err != nil {
			return "", err
		}
		failures++
	}
}

func (s *EventStream) connect() error {
	if s.lastID != "" {
		s.query.Set("last_event_id", s.lastID)
	}
	response, err := s.client.open(s.ctx, request{method: "GET", path: s.path, query: s.query}, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != 200 {
		defer response.Body.Close()
		data, _ := io.ReadAll(response.Body)
		return problemOf(response, data)
	}
	s.body, s.lines = response.Body, bufio.NewReader(response.Body)
	return nil
}

// read reads the next event of the open connection into target, and returns its name.
func (s *EventStream) read(target any) (string, error) {
	var name, data string
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		field, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "id":
			s.lastID = value
		case "data":
			data += value
		case "":
			if line[0] == ':' || data == "" { // A comment, or an event without data: a position.
				continue
			}
			return name, json.Unmarshal([]byte(data), target)
		}
	}
}

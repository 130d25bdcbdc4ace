package tickwheel

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// State is where a job is in its life.
type State string

// The states of a job.
const (
	Scheduled State = "scheduled" // it is not due yet
	Ready     State = "ready"     // it is due and waits for a worker
	Leased    State = "leased"    // a worker has it
	Dead      State = "dead"      // its last attempt failed
	Done      State = "done"      // a worker acknowledged it
	Cancelled State = "cancelled" // it was cancelled or replaced
)

// Conflict is what a put does when a live job of the queue has the same key.
type Conflict string

// The ways to resolve a conflict of keys. The default is Replace.
const (
	Replace Conflict = "replace" // cancel that job and put the new one
	Keep    Conflict = "keep"    // keep that job and change nothing
	Reject  Conflict = "reject"  // refuse the put with ErrKeyExists
)

// Outcome is what a put did.
type Outcome string

// The outcomes of a put.
const (
	Created  Outcome = "created"  // a new job
	Replaced Outcome = "replaced" // a new job; the one that had its key is cancelled
	Kept     Outcome = "kept"     // the job that has the key stays
)

// Text is a payload that is stored as text instead of JSON: NewJob{Payload: Text("hello")}.
type Text string

// NewJob is a job to put.
type NewJob struct {
	// Queue is the queue of the job.
	Queue string
	// Payload is the content of the job: a [Text] is stored as text, a []byte as bytes, and every
	// other value as the JSON that encoding/json makes of it.
	Payload any
	// Delay is the time from now until the job is due. At most one of Delay and Due is given;
	// without either the job is due at once.
	Delay time.Duration
	// Due is the time at which the job is due.
	Due time.Time
	// Key is unique among the live jobs of the queue; a put with the same key replaces the job.
	Key string
	// OnConflict is what to do when a live job has the key. Defaults to Replace.
	OnConflict Conflict
	// Priority decides among jobs that are due in the same millisecond: the higher one is first.
	Priority int8
	// Headers are delivered with the job. Their names are in lower case.
	Headers map[string]string
	// MaxAttempts is the maximum number of attempts. Defaults to the queue's.
	MaxAttempts int
	// Retry is the delay before each retry. Defaults to the queue's.
	Retry *Retry
	// Group names the group, whose jobs share the queue's group pacing.
	Group string
	// ID is a UUID of your own. A second put with the same id is refused with ErrIDExists.
	ID string
	// MaxTotalDelay limits by how much puts that replace each other under one key can postpone
	// the job, counted from the first of them.
	MaxTotalDelay time.Duration
	// OnSuccess is a job to put when this one is acknowledged, with the result as its payload.
	OnSuccess *FollowUp
	// OnDeath is a job to put when this one dies, with the same payload.
	OnDeath *FollowUp

	// IdempotencyKey makes repetitions of the put safe for 24 hours, also across restarts of your
	// program. Without it the client generates one that protects its own retries. A put with a key
	// of its own is not batched with others.
	IdempotencyKey string
}

// payload is the content of a job in the form of the API.
type payload struct {
	JSON   json.RawMessage `json:"payload,omitempty"`
	Text   *string         `json:"text,omitempty"`
	Base64 *string         `json:"base64,omitempty"`
}

func payloadOf(value any) (payload, error) {
	switch value := value.(type) {
	case nil:
		return payload{}, nil // The server refuses it as a missing field.
	case Text:
		text := string(value)
		return payload{Text: &text}, nil
	case []byte:
		text := base64.StdEncoding.EncodeToString(value)
		return payload{Base64: &text}, nil
	default:
		data, err := json.Marshal(value)
		if err != nil {
			return payload{}, fmt.Errorf("tickwheel: cannot encode the payload as JSON: %w", err)
		}
		return payload{JSON: data}, nil
	}
}

// MarshalJSON returns the job in the form of the API.
func (j NewJob) MarshalJSON() ([]byte, error) {
	content, err := payloadOf(j.Payload)
	if err != nil {
		return nil, err
	}
	var due *Timestamp
	if !j.Due.IsZero() {
		due = new(Timestamp)
		*due = TimestampOf(j.Due)
	}
	return json.Marshal(struct {
		Queue string `json:"queue,omitempty"`
		payload
		Delay         millis            `json:"delay,omitempty"`
		Due           *Timestamp        `json:"due,omitempty"`
		Key           string            `json:"key,omitempty"`
		OnConflict    Conflict          `json:"on_conflict,omitempty"`
		Priority      int8              `json:"priority,omitempty"`
		Headers       map[string]string `json:"headers,omitempty"`
		MaxAttempts   int               `json:"max_attempts,omitempty"`
		Retry         *Retry            `json:"retry,omitempty"`
		Group         string            `json:"group,omitempty"`
		ID            string            `json:"id,omitempty"`
		MaxTotalDelay millis            `json:"max_total_delay,omitempty"`
		OnSuccess     *FollowUp         `json:"on_success,omitempty"`
		OnDeath       *FollowUp         `json:"on_death,omitempty"`
	}{
		j.Queue, content, millis(j.Delay), due, j.Key, j.OnConflict, j.Priority, j.Headers,
		j.MaxAttempts, j.Retry, j.Group, j.ID, millis(j.MaxTotalDelay), j.OnSuccess, j.OnDeath,
	})
}

// FollowUp is a job that is put when another one ends, in the same commit.
type FollowUp struct {
	Queue string        `json:"queue"`           // the queue that the job goes to
	Delay time.Duration `json:"delay,omitempty"` // the delay from the end of the other job
}

type plainFollowUp FollowUp

type wireFollowUp struct {
	*plainFollowUp
	Delay millis `json:"delay,omitempty"`
}

// MarshalJSON returns the follow-up in the form of the API.
func (f FollowUp) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireFollowUp{(*plainFollowUp)(&f), millis(f.Delay)})
}

// UnmarshalJSON reads the form of the API.
func (f *FollowUp) UnmarshalJSON(data []byte) error {
	wire := wireFollowUp{plainFollowUp: (*plainFollowUp)(f)}
	err := json.Unmarshal(data, &wire)
	f.Delay = time.Duration(wire.Delay)
	return err
}

// PutResult is the answer to a put.
type PutResult struct {
	ID       string    `json:"id"`                 // the new job, or the one that was kept
	Queue    string    `json:"queue"`              // its queue
	Outcome  Outcome   `json:"outcome"`            // what the put did
	Replaced string    `json:"replaced,omitempty"` // the job that was cancelled, if one was replaced
	Due      Timestamp `json:"due_ms,omitempty"`   // when the job is due
}

// Job is a job as the server shows it.
type Job struct {
	ID          string            `json:"id"`
	Queue       string            `json:"queue"`
	State       State             `json:"state"`
	Key         string            `json:"key,omitempty"`
	Group       string            `json:"group,omitempty"`
	Priority    int8              `json:"priority"`
	Headers     map[string]string `json:"headers,omitempty"`
	Payload     json.RawMessage   `json:"payload,omitempty"` // the content, if it is JSON
	Text        *string           `json:"text,omitempty"`    // the content, if it is text
	Base64      []byte            `json:"base64,omitzero"`   // the content, if it is neither
	Due         Timestamp         `json:"due_ms"`
	Created     Timestamp         `json:"created_ms"`
	Attempts    int               `json:"attempts"` // deliveries, without those that were released
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Retry       *Retry            `json:"retry,omitempty"`
	OnSuccess   *FollowUp         `json:"on_success,omitempty"`
	OnDeath     *FollowUp         `json:"on_death,omitempty"`
	Result      json.RawMessage   `json:"result,omitempty"` // the result of the acknowledgement; lists leave it out
	Lease       *Lease            `json:"lease,omitempty"`
	LastError   string            `json:"last_error,omitempty"`
	Finished    Timestamp         `json:"finished_ms,omitempty"`
	History     []Attempt         `json:"history,omitempty"` // the last 20 attempts that have ended; lists and deliveries leave them out
}

// Attempt is an attempt that has ended: one delivery of a job to a worker.
type Attempt struct {
	Number  int       `json:"number"`           // the value of Attempts during the attempt
	Outcome string    `json:"outcome"`          // done, failed, expired, released or cancelled
	Started Timestamp `json:"started_ms"`       // when the job was delivered
	Ended   Timestamp `json:"ended_ms"`         // when the attempt ended
	Worker  string    `json:"worker,omitempty"` // the name that the worker gave
	Error   string    `json:"error,omitempty"`  // what went wrong: the first 512 bytes of it
	Detail  string    `json:"detail,omitempty"` // what is known beside the error, such as an excerpt of a response
}

// Lease is a job's lease.
type Lease struct {
	Until Timestamp `json:"until_ms"`
	// Since is when the job was delivered.
	Since Timestamp `json:"since_ms,omitempty"`
	// Worker is the name of the worker that has the job, if it gave one.
	Worker string `json:"worker,omitempty"`
}

// Content returns the bytes of the job's content: its JSON, its text or its bytes.
func (j *Job) Content() []byte {
	switch {
	case j.Text != nil:
		return []byte(*j.Text)
	case j.Base64 != nil:
		return j.Base64
	default:
		return j.Payload
	}
}

// Decode reads the job's JSON content into the value that target points to.
func (j *Job) Decode(target any) error {
	if err := json.Unmarshal(j.Content(), target); err != nil {
		return fmt.Errorf("tickwheel: cannot decode the content of job %s: %w", j.ID, err)
	}
	return nil
}

// Delivery is a job that is leased to a worker.
type Delivery struct {
	Job   Job       `json:"job"`
	Token string    `json:"token"`    // the lease token, which fences the worker's requests
	Until Timestamp `json:"until_ms"` // when the lease expires
}

// JobPage is a page of a list of jobs.
type JobPage struct {
	Jobs    []Job    `json:"jobs"`
	Next    string   `json:"next,omitempty"`    // the value of ListOptions.Page for the next page; empty on the last one
	Damaged []string `json:"damaged,omitempty"` // jobs that belong on this page and cannot be read
	Gaps    int64    `json:"gaps,omitempty"`    // the number of unreadable entries whose job is unknown
}

// When is a new due time: either a delay from now, or a point in time.
type When struct {
	due   time.Time
	delay time.Duration
}

// In returns the time that is the delay from now.
func In(delay time.Duration) When { return When{delay: delay} }

// At returns the given time.
func At(due time.Time) When { return When{due: due} }

func (w When) wire() wireWhen {
	if w.due.IsZero() {
		delay := millis(w.delay)
		return wireWhen{Delay: &delay}
	}
	due := TimestampOf(w.due)
	return wireWhen{Due: &due}
}

type wireWhen struct {
	Delay *millis    `json:"delay,omitempty"`
	Due   *Timestamp `json:"due,omitempty"`
}

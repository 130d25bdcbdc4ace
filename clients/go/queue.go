package tickwheel

import (
	"encoding/json"
	"time"
)

// Retry is the delay before a failed job is retried: exactly one of its fields is given.
type Retry struct {
	Fixed       time.Duration   // the same delay each time
	Exponential *Exponential    // a delay that doubles each time
	List        []time.Duration // one delay for each retry; the last one repeats
}

// Exponential is a delay that doubles with each attempt.
type Exponential struct {
	First  time.Duration // the delay after the first attempt
	Max    time.Duration // the longest delay, without jitter
	Jitter int           // a random addition of up to this many percent
}

type wireExponential struct {
	First  millis `json:"first"`
	Max    millis `json:"max"`
	Jitter int    `json:"jitter"`
}

type wireRetry struct {
	Fixed       *millis          `json:"fixed,omitempty"`
	Exponential *wireExponential `json:"exponential,omitempty"`
	List        []millis         `json:"list,omitempty"`
}

// MarshalJSON returns the policy in the form of the API.
func (r Retry) MarshalJSON() ([]byte, error) {
	var wire wireRetry
	switch {
	case r.Exponential != nil:
		e := r.Exponential
		wire.Exponential = &wireExponential{millis(e.First), millis(e.Max), e.Jitter}
	case r.List != nil:
		for _, delay := range r.List {
			wire.List = append(wire.List, millis(delay))
		}
	default:
		wire.Fixed = (*millis)(&r.Fixed)
	}
	return json.Marshal(wire)
}

// UnmarshalJSON reads the form of the API.
func (r *Retry) UnmarshalJSON(data []byte) error {
	var wire wireRetry
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*r = Retry{}
	if wire.Fixed != nil {
		r.Fixed = time.Duration(*wire.Fixed)
	}
	if e := wire.Exponential; e != nil {
		r.Exponential = &Exponential{time.Duration(e.First), time.Duration(e.Max), e.Jitter}
	}
	for _, delay := range wire.List {
		r.List = append(r.List, time.Duration(delay))
	}
	return nil
}

// Pacing limits deliveries. Fields that are zero set no limit.
type Pacing struct {
	Starts      int           `json:"starts,omitempty"`      // the maximum number of deliveries in any window
	Window      time.Duration `json:"window,omitempty"`      // the length of the window
	Concurrency int           `json:"concurrency,omitempty"` // the maximum number of leased jobs
}

type plainPacing Pacing

type wirePacing struct {
	*plainPacing
	Window millis `json:"window,omitempty"`
}

// MarshalJSON returns the limits in the form of the API.
func (p Pacing) MarshalJSON() ([]byte, error) {
	return json.Marshal(wirePacing{(*plainPacing)(&p), millis(p.Window)})
}

// UnmarshalJSON reads the form of the API.
func (p *Pacing) UnmarshalJSON(data []byte) error {
	wire := wirePacing{plainPacing: (*plainPacing)(p)}
	err := json.Unmarshal(data, &wire)
	p.Window = time.Duration(wire.Window)
	return err
}

// Keeping is how long finished jobs are kept: up to an age and up to a number.
type Keeping struct {
	Age   time.Duration `json:"age,omitempty"`   // how long after the end; zero sets no bound
	Count *int64        `json:"count,omitempty"` // how many; nil sets no bound, 0 keeps none
}

type plainKeeping Keeping

type wireKeeping struct {
	*plainKeeping
	Age millis `json:"age,omitempty"`
}

// MarshalJSON returns the bounds in the form of the API.
func (k Keeping) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireKeeping{(*plainKeeping)(&k), millis(k.Age)})
}

// UnmarshalJSON reads the form of the API.
func (k *Keeping) UnmarshalJSON(data []byte) error {
	wire := wireKeeping{plainKeeping: (*plainKeeping)(k)}
	err := json.Unmarshal(data, &wire)
	k.Age = time.Duration(wire.Age)
	return err
}

// Retention is how long finished jobs are kept, by their state. In a request, nil stands for the
// default (PutSettings) or for no change (PatchSettings).
type Retention struct {
	Done      *Keeping `json:"done,omitempty"`      // acknowledged jobs; by default none is kept
	Dead      *Keeping `json:"dead,omitempty"`      // jobs whose last attempt failed; by default all are kept
	Cancelled *Keeping `json:"cancelled,omitempty"` // cancelled or replaced jobs; by default none is kept
}

// Order is the order in which the ready jobs of a queue are delivered.
type Order string

// The orders of delivery. The default is ByDue.
const (
	ByDue      Order = "due"      // by due time; priority decides within a millisecond
	ByPriority Order = "priority" // by priority, the highest first, then by due time
)

// QueueSettings are the settings of a queue. In a request, an absent field stands for its default
// (PutSettings) or for no change (PatchSettings).
type QueueSettings struct {
	Lease       time.Duration `json:"lease,omitempty"`        // the duration of a lease, where the worker names none
	MaxAttempts int           `json:"max_attempts,omitempty"` // where the job names none
	Retry       *Retry        `json:"retry,omitempty"`        // the delay before a retry, where the job names none
	Pacing      *Pacing       `json:"pacing,omitempty"`       // the limits of the whole queue
	GroupPacing *Pacing       `json:"group_pacing,omitempty"` // the limits of each group
	Retention   *Retention    `json:"retention,omitempty"`    // how long finished jobs are kept
	Order       Order         `json:"order,omitempty"`        // the order of delivery
	FairGroups  *bool         `json:"fair_groups,omitempty"`  // whether groups are served in turn, one job each
	Target      *string       `json:"target,omitempty"`       // the target that gets the jobs; an empty text removes it
}

type plainSettings QueueSettings

type wireSettings struct {
	*plainSettings
	Lease millis `json:"lease,omitempty"`
}

// MarshalJSON returns the settings in the form of the API.
func (s QueueSettings) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireSettings{(*plainSettings)(&s), millis(s.Lease)})
}

// UnmarshalJSON reads the form of the API.
func (s *QueueSettings) UnmarshalJSON(data []byte) error {
	wire := wireSettings{plainSettings: (*plainSettings)(s)}
	err := json.Unmarshal(data, &wire)
	s.Lease = time.Duration(wire.Lease)
	return err
}

// Counts are the numbers of a queue's jobs, by state.
type Counts struct {
	Scheduled int64 `json:"scheduled"`
	Ready     int64 `json:"ready"`
	Leased    int64 `json:"leased"`
	Dead      int64 `json:"dead"`
	Done      int64 `json:"done"`
	Cancelled int64 `json:"cancelled"`
}

// Queue is a queue with its numbers and settings.
type Queue struct {
	Name      string        `json:"name"`
	Paused    bool          `json:"paused"`
	Jobs      Counts        `json:"jobs"`
	MoreReady bool          `json:"more_ready"` // more jobs are ready than memory holds; those count as scheduled
	Settings  QueueSettings `json:"settings"`

	OldestReady Timestamp     `json:"oldest_ready_ms,omitempty"` // when the job was due that has been ready for the longest time
	Counters    QueueCounters `json:"counters"`
	Lateness    *Percentiles  `json:"lateness,omitempty"` // how long after their due time jobs were delivered
}

// QueueCounters are what has happened in a queue since it was created.
type QueueCounters struct {
	Put       int64 `json:"put"`
	Delivered int64 `json:"delivered"`
	Acked     int64 `json:"acked"`
	Failed    int64 `json:"failed"`
	Expired   int64 `json:"expired"`
	Released  int64 `json:"released"`
	Died      int64 `json:"died"`
	Cancelled int64 `json:"cancelled"`
	Kicked    int64 `json:"kicked"`
}

// Group is a group of a queue: its settings and the number of its live jobs.
type Group struct {
	Name    string  `json:"name"`
	Paused  bool    `json:"paused"`
	Waiting int64   `json:"waiting"`          // jobs that wait for their time or for a worker, held ones included
	Running int64   `json:"running"`          // jobs that workers have
	Held    int64   `json:"held"`             // due jobs that the pause or a limit of the group holds back
	Pacing  *Pacing `json:"pacing,omitempty"` // the group's own limits; nil where those of the queue hold
}

// GroupPage is a page of a list of groups.
type GroupPage struct {
	Groups []Group `json:"groups"`
	Next   string  `json:"next,omitempty"` // the value of GroupOptions.Page for the next page; empty on the last one
}

// GroupOptions narrow a list of groups. Fields that are zero do not narrow it.
type GroupOptions struct {
	Prefix string // groups whose name begins with this
	Limit  int    // groups of a page
	Page   string // GroupPage.Next of the page before
}

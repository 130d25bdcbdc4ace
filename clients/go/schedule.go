package tickwheel

import (
	"encoding/json"
	"time"
)

// Misfire is what happens to occurrences that were missed, for example while the server was down.
type Misfire string

// The misfire policies. The default is MisfireOnce.
const (
	MisfireSkip Misfire = "skip" // they are skipped
	MisfireOnce Misfire = "once" // one job stands for all of them
	MisfireAll  Misfire = "all"  // each one puts its job, up to MisfireLimit
)

// NewSchedule is a schedule to set: either Cron with an optional Timezone, or Every, and the job
// that each occurrence puts.
type NewSchedule struct {
	Queue        string        // the queue of the jobs
	Cron         string        // a cron expression of five or six fields
	Timezone     string        // the time zone of the expression, by its IANA name; defaults to UTC
	Every        time.Duration // the period
	Misfire      Misfire       // what happens to missed occurrences; defaults to MisfireOnce
	MisfireLimit int           // with MisfireAll: how many missed occurrences put a job at most
	Grace        time.Duration // how late an occurrence may be without being missed; defaults to 1 s

	Payload     any               // the content of the jobs, as in NewJob
	Delay       time.Duration     // from an occurrence until its job is due
	Key         string            // the key of the jobs
	OnConflict  Conflict          // what to do when a live job has the key
	Priority    int8              // the priority of the jobs
	Headers     map[string]string // headers that are delivered with the jobs
	MaxAttempts int               // the maximum number of attempts of the jobs
	Retry       *Retry            // the delay before each retry of the jobs
	Group       string            // the group of the jobs
}

// MarshalJSON returns the schedule in the form of the API.
func (s NewSchedule) MarshalJSON() ([]byte, error) {
	content, err := payloadOf(s.Payload)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Queue        string  `json:"queue"`
		Cron         string  `json:"cron,omitempty"`
		Timezone     string  `json:"timezone,omitempty"`
		Every        millis  `json:"every,omitempty"`
		Misfire      Misfire `json:"misfire,omitempty"`
		MisfireLimit int     `json:"misfire_limit,omitempty"`
		Grace        millis  `json:"grace,omitempty"`
		payload
		Delay       millis            `json:"delay,omitempty"`
		Key         string            `json:"key,omitempty"`
		OnConflict  Conflict          `json:"on_conflict,omitempty"`
		Priority    int8              `json:"priority,omitempty"`
		Headers     map[string]string `json:"headers,omitempty"`
		MaxAttempts int               `json:"max_attempts,omitempty"`
		Retry       *Retry            `json:"retry,omitempty"`
		Group       string            `json:"group,omitempty"`
	}{
		s.Queue, s.Cron, s.Timezone, millis(s.Every), s.Misfire, s.MisfireLimit, millis(s.Grace),
		content, millis(s.Delay), s.Key, s.OnConflict, s.Priority, s.Headers, s.MaxAttempts,
		s.Retry, s.Group,
	})
}

// Schedule is a schedule as the server shows it.
type Schedule struct {
	Name         string            `json:"name"`
	Queue        string            `json:"queue"`
	Cron         string            `json:"cron,omitempty"`
	Timezone     string            `json:"timezone,omitempty"`
	Every        time.Duration     `json:"every,omitempty"`
	Misfire      Misfire           `json:"misfire"`
	MisfireLimit int               `json:"misfire_limit,omitempty"`
	Grace        time.Duration     `json:"grace,omitempty"`
	Payload      json.RawMessage   `json:"payload,omitempty"`
	Text         *string           `json:"text,omitempty"`
	Base64       []byte            `json:"base64,omitzero"`
	Delay        time.Duration     `json:"delay,omitempty"`
	Key          string            `json:"key,omitempty"`
	OnConflict   Conflict          `json:"on_conflict,omitempty"`
	Priority     int8              `json:"priority"`
	Headers      map[string]string `json:"headers,omitempty"`
	MaxAttempts  int               `json:"max_attempts,omitempty"`
	Retry        *Retry            `json:"retry,omitempty"`
	Group        string            `json:"group,omitempty"`
	Paused       bool              `json:"paused"`
	Fired        int64             `json:"fired"`                 // the number of jobs that the schedule has put
	Explanation  string            `json:"explanation,omitempty"` // when the jobs are put, in words
	Problem      string            `json:"problem,omitempty"`     // why the last occurrence could not put its job
	Created      Timestamp         `json:"created_ms"`
	Last         Timestamp         `json:"last_ms,omitempty"` // the last occurrence that put a job
	Next         Timestamp         `json:"next_ms,omitempty"` // the next occurrence
}

type plainSchedule Schedule

type wireSchedule struct {
	*plainSchedule
	Every millis `json:"every,omitempty"`
	Grace millis `json:"grace,omitempty"`
	Delay millis `json:"delay,omitempty"`
}

// MarshalJSON returns the schedule in the form of the API.
func (s Schedule) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireSchedule{
		(*plainSchedule)(&s), millis(s.Every), millis(s.Grace), millis(s.Delay),
	})
}

// UnmarshalJSON reads the form of the API.
func (s *Schedule) UnmarshalJSON(data []byte) error {
	wire := wireSchedule{plainSchedule: (*plainSchedule)(s)}
	err := json.Unmarshal(data, &wire)
	s.Every, s.Grace, s.Delay = time.Duration(wire.Every), time.Duration(wire.Grace), time.Duration(wire.Delay)
	return err
}

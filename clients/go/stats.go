package tickwheel

import (
	"encoding/json"
	"time"
)

// Percentiles are percentiles of durations, in microseconds.
type Percentiles struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50_us"`
	P99   int64 `json:"p99_us"`
	P999  int64 `json:"p999_us"`
	Max   int64 `json:"max_us"`
}

// Stats are counters since the start of the server, and current numbers. The pointers are nil for
// a token that is restricted to some queues.
type Stats struct {
	Durability string        `json:"durability"` // sync, interval or none
	Horizon    time.Duration `json:"horizon"`    // how far ahead jobs are kept in memory
	Queues     int64         `json:"queues"`
	Pending    int64         `json:"pending"` // jobs that are scheduled, ready or leased
	Leased     int64         `json:"leased"`
	InMemory   *int64        `json:"in_memory,omitempty"`
	DiskBytes  *int64        `json:"disk_bytes,omitempty"`
	Put        *int64        `json:"put,omitempty"`
	Delivered  *int64        `json:"delivered,omitempty"`
	Acked      *int64        `json:"acked,omitempty"`
	Failed     *int64        `json:"failed,omitempty"`
	Expired    *int64        `json:"expired,omitempty"`
	Released   *int64        `json:"released,omitempty"`
	Died       *int64        `json:"died,omitempty"`
	Cancelled  *int64        `json:"cancelled,omitempty"`
	Kicked     *int64        `json:"kicked,omitempty"`
	Damaged    *int64        `json:"damaged,omitempty"`
	Commits    *int64        `json:"commits,omitempty"`
	Failures   *int64        `json:"failures,omitempty"`
	CommitTime *Percentiles  `json:"commit_time,omitempty"`
	Lateness   *Percentiles  `json:"lateness,omitempty"`
	Recent     *Activity     `json:"recent,omitempty"` // what happened lately, from [Client.StatsSince]
}

// Activity is what happened in a window of time up to now, in all queues.
type Activity struct {
	Since     Timestamp   `json:"since_ms"`  // when the window begins
	WindowMs  int64       `json:"window_ms"` // the length of the window in milliseconds
	Put       int64       `json:"put"`
	Delivered int64       `json:"delivered"`
	Acked     int64       `json:"acked"`
	Failed    int64       `json:"failed"`
	Expired   int64       `json:"expired"`
	Released  int64       `json:"released"`
	Died      int64       `json:"died"`
	Cancelled int64       `json:"cancelled"`
	Kicked    int64       `json:"kicked"`
	Lateness  Percentiles `json:"lateness"`
}

type plainStats Stats

type wireStats struct {
	*plainStats
	Horizon millis `json:"horizon"`
}

// MarshalJSON returns the statistics in the form of the API.
func (s Stats) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireStats{(*plainStats)(&s), millis(s.Horizon)})
}

// UnmarshalJSON reads the form of the API.
func (s *Stats) UnmarshalJSON(data []byte) error {
	wire := wireStats{plainStats: (*plainStats)(s)}
	err := json.Unmarshal(data, &wire)
	s.Horizon = time.Duration(wire.Horizon)
	return err
}

// Health is the health of the server.
type Health struct {
	Status  string `json:"status"` // ok or ready
	Version string `json:"version"`
}

// Clock is the time of the server.
type Clock struct {
	Now    Timestamp `json:"now_ms"`
	Manual bool      `json:"manual"` // whether the clock stands still until a request advances it
}

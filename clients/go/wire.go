package tickwheel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Timestamp is a point in time in milliseconds since 1970; zero stands for an absent time.
type Timestamp int64

// Time returns the same as a time.Time, in the local time zone.
func (t Timestamp) Time() time.Time { return time.UnixMilli(int64(t)) }

// TimestampOf returns the time in milliseconds since 1970.
func TimestampOf(t time.Time) Timestamp { return Timestamp(t.UnixMilli()) }

// millis is a duration as the API writes it: milliseconds, or text such as "1h30m".
type millis time.Duration

func (d millis) MarshalJSON() ([]byte, error) {
	ms := time.Duration(d) / time.Millisecond
	if time.Duration(d)%time.Millisecond > 0 {
		ms++
	}
	return strconv.AppendInt(nil, int64(ms), 10), nil
}

func (d *millis) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	if len(data) > 0 && data[0] != '"' {
		var ms float64
		if err := json.Unmarshal(data, &ms); err != nil {
			return err
		}
		*d = millis(ms * float64(time.Millisecond))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	parsed, err := parseDuration(text)
	*d = millis(parsed)
	return err
}

var units = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute,
	"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// parseDuration reads "1h30m" or "1h 30m", with the units ms, s, m, h, d and w.
func parseDuration(text string) (time.Duration, error) {
	var sum time.Duration
	rest := text
	for rest != "" {
		rest = strings.TrimLeft(rest, " ")
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		letters := len(rest[digits:]) - len(strings.TrimLeft(rest[digits:], "mshdw"))
		number, err := strconv.ParseInt(rest[:digits], 10, 64)
		unit, known := units[rest[digits:digits+letters]]
		if err != nil || !known {
			return 0, fmt.Errorf("tickwheel: %q is not a duration: write milliseconds, or numbers with the units ms, s, m, h, d, w", text)
		}
		sum += time.Duration(number) * unit
		rest = rest[digits+letters:]
	}
	return sum, nil
}

package main

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// How late each task ran, by index. Global, so that a task captures nothing but its index and its
// deadline.
//
// A task writes to its own place and counts itself; so as many counts as places, with no place
// empty, means that each ran once.

const (
	notRun   = math.MinInt64
	blockFor = 100 * time.Millisecond
)

var (
	started  = time.Now()
	lateness []int64
	ran      atomic.Int64
)

// now is the time since the start of the process, by the monotonic clock.
func now() int64 { return int64(time.Since(started)) }

func prepareLateness(tasks int) {
	lateness = make([]int64, tasks)
	for i := range lateness {
		lateness[i] = notRun
	}
}

func record(index, deadline int64) {
	lateness[index] = now() - deadline
	ran.Add(1)
}

// awaitAll waits until every task has run, and makes sure that each ran once.
func awaitAll(lastDeadline int64) error {
	time.Sleep(time.Duration(lastDeadline - now()))
	givenUp := time.Now().Add(time.Minute)
	for ran.Load() < int64(len(lateness)) && time.Now().Before(givenUp) {
		time.Sleep(time.Millisecond)
	}
	missing := 0
	for _, late := range lateness {
		if late == notRun {
			missing++
		}
	}
	if missing > 0 || ran.Load() != int64(len(lateness)) {
		return fmt.Errorf("%d runs of %d tasks, %d never ran", ran.Load(), len(lateness), missing)
	}
	return nil
}

// sortedLateness is in order, without the tasks that are left out.
func sortedLateness(leftOut func(index int) bool) []int64 {
	var sorted []int64
	for index, late := range lateness {
		if !leftOut(index) {
			sorted = append(sorted, late)
		}
	}
	slices.Sort(sorted)
	return sorted
}

// quantile is in milliseconds.
func quantile(sorted []int64, share float64) float64 {
	rank := int(math.Ceil(share * float64(len(sorted))))
	return float64(sorted[max(rank, 1)-1]) / 1e6
}

package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// meter takes processor time and context switches of all threads of this process, those of the
// garbage collector included, and time on the wall.
type meter struct {
	usage syscall.Rusage
	wall  time.Time
}

// reading is what something took.
type reading struct {
	cpuNs    float64
	wallNs   float64
	switches float64
}

func startMeter() meter {
	return meter{usage: usage(), wall: time.Now()}
}

func (m meter) stop() reading {
	wall := time.Since(m.wall)
	after := usage()
	cpu := nanos(after.Utime) + nanos(after.Stime) - nanos(m.usage.Utime) - nanos(m.usage.Stime)
	switches := after.Nvcsw + after.Nivcsw - m.usage.Nvcsw - m.usage.Nivcsw
	return reading{float64(cpu), float64(wall), float64(switches)}
}

func usage() syscall.Rusage {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err)
	}
	return usage
}

func nanos(t syscall.Timeval) int64 { return t.Sec*1_000_000_000 + t.Usec*1_000 }

// liveHeap is what is in use after a collection.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// resident is how much memory the process has.
func resident() float64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		fail(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		fail(err)
	}
	return float64(pages * int64(os.Getpagesize()))
}
